"""Pronoun resolution: accuracy on pairs of nouns never seen together, and the head that looks for the antecedent.

    python benchmarks/pronouns.py --out runs/pronouns --picture docs/pronouns.svg     # three seeds

Chance is one half: a model that knows the two nouns of a sentence must still choose. The bag of words reads the same
words without their order, in a linear classifier over the nouns.
"""

import argparse
import html
import json
import time
from pathlib import Path

import torch
from torch import Tensor

from glassformer.course.pronoun_model import PronounModel, train_pronoun_model
from glassformer.data.pronouns import PronounSentence, minimal_pairs
from glassformer.probes.readout import attention_maps


def bag_of_words(found: PronounModel, updates: int = 600) -> float:
    """Accuracy of a linear classifier that counts words; it chooses among the two nouns of each held-out sentence."""

    def counts(sentences: list[PronounSentence]) -> Tensor:
        return torch.nn.functional.one_hot(found.ids(sentences), len(found.words)).sum(1).float()

    inputs, layer = counts(found.train), torch.nn.Linear(len(found.words), len(found.words))
    targets = torch.tensor([found.words.index(each.answer) for each in found.train])
    optimizer = torch.optim.Adam(layer.parameters(), 0.03)
    for _ in range(updates):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(layer(inputs), targets).backward()
        optimizer.step()
    logits = layer(counts(found.held_out)).detach()
    nouns = [(found.words.index(each.answer), found.words.index(each.words[each.other])) for each in found.held_out]
    return sum(bool(row[right] > row[wrong]) for row, (right, wrong) in zip(logits, nouns, strict=True)) / len(nouns)


def picture(found: PronounModel, module: str, head: int) -> str:
    """An SVG of two sentences that differ in one word: how much one head looks from the pronoun to each word."""
    pairs = list(minimal_pairs(found.held_out))
    pair = next((pair for pair in pairs if "cross" in pair[0].words), pairs[0])
    ids = found.ids(pair)
    weights = attention_maps(found.model, {"ids": ids, "attention_mask": ids != 0})[module][:, head]
    rows = []
    for line, sentence in enumerate(pair):
        x, y = 10.0, 40 + 70 * line
        for at, word in enumerate(sentence.words):
            width, share = 9.0 * len(word) + 8, float(weights[line, sentence.pronoun, at])
            style = ' font-weight="bold"' if at == sentence.pronoun else ""
            rows.append(
                f'<rect x="{x:.0f}" y="{y - 18}" width="{width:.0f}" height="26" fill="#d2691e"'
                f' fill-opacity="{share:.2f}"/>'
                f'<text x="{x + 4:.0f}" y="{y}"{style}>{html.escape(word)}</text>'
                f'<text x="{x + 4:.0f}" y="{y + 24}" font-size="10">{share:.2f}</text>'
            )
            x += width + 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 150" font-family="monospace" font-size="15">'
        f"<title>Attention weights from the pronoun, {module}, head {head}</title>{''.join(rows)}</svg>\n"
    )


def main() -> None:
    """Train and measure each seed; draw the best head of the first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=3000)
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    results = []
    for seed in range(given.seeds):
        began = time.monotonic()
        found = train_pronoun_model(given.updates, seed=seed)
        heads = found.heads(found.held_out)
        results.append({
            "seed": seed, "accuracy": found.accuracy(found.held_out), "training accuracy": found.accuracy(found.train),
            "bag of words": bag_of_words(found), "sentences": len(found.held_out),
            "heads": [vars(each) for each in heads], "seconds": round(time.monotonic() - began),
        })  # fmt: skip
        print(json.dumps({**results[-1], "heads": results[-1]["heads"][:2]}), flush=True)
        if seed == 0 and given.picture is not None:
            given.picture.write_text(picture(found, heads[0].module, heads[0].head), encoding="utf-8")
    (given.out / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
