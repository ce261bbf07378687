"""In-context learning: a small GPT trained on a family of tasks solves others by the examples in its prompt.

A task gives each of eight things one of 16 names. A prompt shows examples of one task and asks for the name of a thing.
Nothing about a task is in the weights; one in ten tasks is never trained on, and only those are measured. The thing may
not be among the examples: who looks up the name where it is, and else guesses, has the accuracy printed as `ceiling`.
Training stays long on a plateau, where a model names any of the names in the prompt, and a seed may never leave it.

    python benchmarks/in_context.py --out runs/in-context          # three seeds, some minutes each on a GPU
    glassformer few-shot runs/in-context/seed-0 --examples runs/in-context/examples.tsv "star" "moon"
"""

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import glassformer as gf
from glassformer.decoding.few_shot import Example, few_shot_prompt
from glassformer.equation import no_checks
from glassformer.equations.losses import cross_entropy
from glassformer.layers.causal_lm import CausalLM
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.text.tokenizer import Tokenizer

THINGS = ["star", "moon", "ring", "cube", "leaf", "coin", "bell", "rope"]
NAMES = ["ba", "be", "bo", "bu", "ka", "ke", "ko", "ku", "ma", "me", "mo", "mu", "ta", "te", "to", "tu"]
SHOTS = 8
SHOWN = (0, 1, 2, 4, 8)
HELD_OUT = 10  # one task in so many is never trained on


@dataclass(frozen=True)
class Layout:
    """A prompt with all its examples as token ids, and the positions of what changes: values and names."""

    ids: Tensor
    things: Tensor  # positions
    names: Tensor  # positions
    thing_ids: Tensor
    name_ids: Tensor

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Layout":
        """The layout of a prompt as `few_shot_prompt` writes it, with the answer behind it."""
        text = few_shot_prompt([Example(THINGS[0], NAMES[0])] * SHOTS, THINGS[0]) + f" {NAMES[0]}"
        ids = torch.tensor(tokenizer.encode(text))
        things, names = (torch.tensor([tokenizer.encode(word)[0] for word in words]) for words in (THINGS, NAMES))
        found = ((ids == each[0]).nonzero().flatten() for each in (things, names))
        return cls(ids, *found, things, names)

    def prompts(self, count: int, unseen: bool, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Token ids of prompts, each with a task of its own, and the number of the thing in each example."""
        mapping = torch.rand(count, len(NAMES), generator=generator).argsort(1)[:, : len(THINGS)]
        code = (mapping * len(NAMES) ** torch.arange(len(THINGS))).sum(1)
        mapping = mapping[(code % HELD_OUT == 0) == unseen]
        shown = torch.randint(len(THINGS), (len(mapping), SHOTS + 1), generator=generator)
        ids = self.ids.repeat(len(mapping), 1)
        ids[:, self.things] = self.thing_ids[shown]
        ids[:, self.names] = self.name_ids[mapping.gather(1, shown)]
        return ids, shown


def train(seed: int, steps: int, batch: int, device: str) -> tuple[CausalLM, Tokenizer, Layout]:
    """A GPT trained on tasks that are drawn anew in each step, with the loss on all answers."""
    texts = ["Question: Answer:\n\n", " ".join([*THINGS, *NAMES]), "\nAnswer: ba\n\nQuestion: star"]
    tokenizer = learn_tokenizer(texts, "words", 200)
    layout = Layout.of(tokenizer)
    config = GPTConfig(vocab=tokenizer.vocab_size, context=160, dim=128, layers=3, heads=4)
    model = build(config, seed).to(device)
    assert isinstance(model, CausalLM)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.1, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=steps, pct_start=0.1)
    generator = torch.Generator().manual_seed(seed)
    ends = layout.names[:-1]  # an answer is followed by a blank line, which ends it
    learned = torch.cat([layout.names, ends + 1, ends + 2])
    for step in range(1, steps + 1):
        ids, _ = layout.prompts(batch, unseen=False, generator=generator)
        ids = ids.to(device)
        with no_checks():
            logits = model(ids[:, :-1])[:, learned - 1]
            loss = cross_entropy(logits, ids[:, learned])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 500 == 0:
            print(f"seed {seed} step {step} of {steps}: loss {loss.item():.3f}", flush=True)
    return model.eval(), tokenizer, layout


@torch.no_grad()
def accuracy_by_shots(model: CausalLM, layout: Layout, device: str) -> dict[int, float]:
    """The accuracy on tasks never trained on, by the number of examples before the question."""
    names = layout.names
    ids, _ = layout.prompts(20_000, unseen=True, generator=torch.Generator().manual_seed(10**6))
    right = torch.zeros(SHOTS + 1)
    for part in ids.to(device).split(256):
        right += (model(part[:, :-1])[:, names - 1].argmax(-1) == part[:, names]).sum(0).cpu()
    return {shots: round(float(right[shots]) / len(ids), 4) for shots in SHOWN}


def main() -> None:
    """Train and measure each seed, and keep the models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=16_000)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    lines = [f"{thing}\t{name}" for thing, name in zip(THINGS, NAMES[::2], strict=True)]
    (given.out / "examples.tsv").write_text("question\tanswer\n" + "\n".join(lines) + "\n", encoding="utf-8")
    results = []
    for seed in range(given.seeds):
        began = time.monotonic()
        model, tokenizer, layout = train(seed, given.steps, given.batch, given.device)
        found = accuracy_by_shots(model, layout, given.device)
        results.append({"seed": seed, "shots": found, "seconds": round(time.monotonic() - began)})
        gf.save(model, given.out / f"seed-{seed}", tokenizer)
        print(json.dumps(results[-1]), flush=True)
    for shots in SHOWN:
        values = torch.tensor([each["shots"][shots] for each in results])
        missed = (1 - 1 / len(THINGS)) ** shots  # how often the thing is not among the examples
        ceiling = 1 - missed + missed / len(NAMES)  # a guess among the names that are left is a little better
        spread = f"from {values.min():.1%} to {values.max():.1%}"
        print(f"{shots} shots: {values.mean():.1%} ({spread}), ceiling {ceiling:.1%}")
    (given.out / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
