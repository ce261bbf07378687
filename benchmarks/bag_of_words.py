"""Encoders against linear models of word counts, on the source text of Python's standard library.

Three tasks: which package a snippet comes from, which way the indentation goes after it, and which
token was hidden. Run `python benchmarks/bag_of_words.py FOLDER [TASK ...]`; minutes on two cores.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from glassformer.data.batches import IGNORE, Batches
from glassformer.data.python_source import stdlib_text
from glassformer.models.encoder import EncoderConfig
from glassformer.training.config import from_settings
from glassformer.training.recipe import Recipe
from glassformer.training.run import prepare
from glassformer.training.running_text import TextData
from glassformer.training.settings import Settings, TokenizerSettings
from glassformer.training.tasks.classify import ClassifySettings, LabeledData
from glassformer.training.tasks.masked import MaskedSettings

LINES = 5  # of a snippet
STRIDE = 9  # so that a snippet and its neighbor share nothing
DECAYS = (0.0, 1e-6, 1e-5, 1e-4)
ROWS, STEPS = 512, 300  # of the linear models
MODEL = EncoderConfig(dim=128, layers=2, heads=4, ffn_dim=512, context=128, dropout=0.1)
RECIPE = Recipe(
    steps=1200,
    learning_rate=1e-3,
    warmup_steps=100,
    weight_decay=0.01,
    log_every=100,
    evaluate_every=200,
    save_every=400,
)


def turns(text: str) -> Iterator[tuple[str, str]]:
    """Snippets, and whether the next line is indented more, less or the same."""
    lines = [line.expandtabs() for line in text.split("\n") if line.strip()]
    for at in range(0, len(lines) - LINES, STRIDE):
        snippet, following = lines[at : at + LINES], lines[at + LINES]
        step = _indent(following) - _indent(snippet[-1])
        yield "in" if step > 0 else "out" if step < 0 else "level", "\n".join(snippet)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def write_turns(path: Path) -> None:
    """The indentation task as a file."""
    rows = ({"label": label, "text": snippet} for document in stdlib_text() for label, snippet in turns(document.text))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def bags(batches: Batches, vocab: int, key: str) -> tuple[Tensor, Tensor]:
    """Normalized token counts of each text, and the targets; for masked tokens one row each."""
    counts, targets = [], []
    for batch in batches.once():
        right = batch[key]
        here = torch.zeros(len(batch["ids"]), vocab)
        here.scatter_add_(1, batch["ids"], torch.ones_like(batch["ids"], dtype=torch.float))
        if right.dim() == 2:  # the first hidden token of each window
            first = (right != IGNORE).float().argmax(1, keepdim=True)
            right = right.gather(1, first).squeeze(1)
        counts.append(here)
        targets.append(right)
    rows = torch.cat(counts).log1p()
    return functional.normalize(rows), torch.cat(targets)


def linear(train: tuple[Tensor, Tensor], held: tuple[Tensor, Tensor], classes: int) -> float:
    """The best held-out accuracy of a linear model of word counts, over several strengths of weight decay."""
    (x, y), best = train, 0.0
    rarity = torch.log(len(x) / (1 + (x > 0).sum(0))).clamp_min(0)
    x, held_x = functional.normalize(x * rarity), functional.normalize(held[0] * rarity)
    for decay in DECAYS:
        weight = torch.zeros(x.shape[1], classes, requires_grad=True)
        optimizer = torch.optim.Adam([weight], lr=0.1)
        for step in range(STEPS):
            rows = torch.randint(len(x), (ROWS,), generator=torch.Generator().manual_seed(step))
            loss = functional.cross_entropy(x[rows] @ weight, y[rows]) + decay * weight.square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 50 == 49:
                right = (held_x @ weight.detach()).argmax(1) == held[1]
                best = max(best, float(right.float().mean()))
    return best


def compare(name: str, settings: Settings, folder: Path) -> None:
    """Train both on one task and print their accuracy."""
    run = prepare(from_settings(settings), folder / name, print)
    made, vocab = run.data, run.tokenizer.vocab_size
    key = run.objective.targets
    classes = len(run.labels) if run.labels else vocab
    counted = linear(bags(made.batches, vocab, key), bags(made.validation, vocab, key), classes)
    print(f"{name}: linear model of word counts {counted:.4f}", flush=True)
    for log in run.train():
        if log.validation is not None:
            print(f"{name}: step {log.step}, loss {log.loss:.3f}, validation {log.validation:.3f}", flush=True)
    print(f"{name}: encoder {run.evaluate()}", flush=True)


def main() -> None:
    """The tasks named, or all three."""
    folder, wanted = Path(sys.argv[1]), sys.argv[2:] or ["turns", "packages", "masked"]
    folder.mkdir(parents=True, exist_ok=True)
    write_turns(folder / "turns.jsonl")
    tokenizer = TokenizerSettings(vocab_size=4000)
    packages = ClassifySettings(tokenizer=tokenizer, model=replace(MODEL, head="classifier"), recipe=RECIPE)
    data = LabeledData(path=str(folder / "turns.jsonl"))
    masked = MaskedSettings(
        data=TextData(max_length=64),
        tokenizer=replace(tokenizer, vocab_size=2000),
        model=replace(MODEL, head="masked"),
        recipe=RECIPE,
    )
    tasks = {"turns": replace(packages, data=data), "packages": packages, "masked": masked}
    for name in wanted:
        compare(name, tasks[name], folder)


if __name__ == "__main__":
    main()
