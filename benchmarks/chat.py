"""Chat on the built-in dialogues: exact replies of three seeds beside what needs no memory of the conversation.

    python benchmarks/chat.py --out runs/chat-seeds      # three seeds

`commonest` always gives the commonest last reply. `last message` gives the reply that most often follows the same last
message in training, the best that can be done without reading the turns before it. `bag of words` knows in addition the
set of all words of the conversation, and not which turn they come from: a linear classifier over whole replies.
"""

import argparse
import json
import time
from collections import Counter, defaultdict
from pathlib import Path

import torch

from glassformer.data.conversations import Conversation
from glassformer.training.config import resolve
from glassformer.training.registry import TASKS
from glassformer.training.run import train_task
from glassformer.training.tasks.chat import split_conversations


def by_last_message(train: list[Conversation], held_out: list[Conversation]) -> float:
    """How often the reply that most often follows the same last message is right."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for each in train:
        seen[each.before_last_reply[-1]["content"]][each.last_reply] += 1
    best = {message: counted.most_common(1)[0][0] for message, counted in seen.items()}
    right = [best.get(each.before_last_reply[-1]["content"]) == each.last_reply for each in held_out]
    return sum(right) / len(right)


def by_bag_of_words(train: list[Conversation], held_out: list[Conversation], updates: int = 300) -> float:
    """How often a linear classifier over all replies, which reads the words of the whole conversation, is right."""
    words_of = lambda each: {word for message in each.before_last_reply for word in message["content"].split()}  # noqa: E731
    words = {word: at for at, word in enumerate(sorted(set().union(*map(words_of, train))))}
    replies = {reply: at for at, reply in enumerate(sorted({each.last_reply for each in train}))}

    def counts(some: list[Conversation]) -> torch.Tensor:
        rows = torch.zeros(len(some), len(words))
        for row, each in zip(rows, some, strict=True):
            row[[words[word] for word in words_of(each) if word in words]] = 1
        return rows

    layer, inputs = torch.nn.Linear(len(words), len(replies)), counts(train)
    targets = torch.tensor([replies[each.last_reply] for each in train])
    optimizer = torch.optim.Adam(layer.parameters(), 0.05)
    for _ in range(updates):
        rows = torch.randint(len(train), (512,), generator=torch.Generator().manual_seed(_))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(layer(inputs[rows]), targets[rows]).backward()
        optimizer.step()
    guesses = layer(counts(held_out)).argmax(1).tolist()
    known = list(replies)
    return sum(known[guess] == each.last_reply for guess, each in zip(guesses, held_out, strict=True)) / len(held_out)


def main() -> None:
    """Train each seed, and print its metrics beside the baselines on the same conversations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3000)
    given = parser.parse_args()
    results = []
    for seed in range(given.seeds):
        began = time.monotonic()
        settings = {
            "recipe.seed": seed, "recipe.steps": given.steps, "recipe.evaluate_every": max(given.steps // 5, 1),
            "recipe.save_every": max(given.steps // 5, 1), "run.compile": "no",
        }  # fmt: skip
        run = train_task("chat", settings, out=given.out / f"seed-{seed}", size="tiny")
        metrics = run.evaluate()
        resolved = resolve("chat", words=[f"recipe.seed={seed}"])
        everything = list(TASKS["chat"].read(resolved.settings, "path"))
        train, held_out = split_conversations(everything, resolved.settings.data.validation_fraction, seed)
        found = {
            "seed": seed, **vars(metrics), "last_message": by_last_message(train, held_out),
            "bag_of_words": by_bag_of_words(train, held_out), "seconds": round(time.monotonic() - began),
        }  # fmt: skip
        results.append(found)
        print(json.dumps(found), flush=True)
    for name in ("exact", "commonest", "last_message", "bag_of_words", "loss"):
        values = [each[name] for each in results]
        print(f"{name}: mean {sum(values) / len(values):.4f}, from {min(values):.4f} to {max(values):.4f}")
    (given.out / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
