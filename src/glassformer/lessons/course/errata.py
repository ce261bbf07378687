"""Errata: what the four sources print, and what is right."""

import torch

from glassformer.equations.algebra import linear
from glassformer.equations.attention import weighted_sum
from glassformer.equations.probability import softmax
from glassformer.lessons.page import value_text
from glassformer.lessons.walk import Walk
from glassformer.worked.examples import Example, examples


def walk_errata(walk: Walk) -> None:
    """Every number and claim in print that does not hold, computed again, source by source."""
    known = examples()
    for source in dict.fromkeys(example.source for example in known):
        wrong = [example for example in known if example.source == source and example.verdict != "reproduced"]
        walk.step(
            source,
            "What is wrong in print or badly rounded, beside what comes out; claims in words either hold or do not."
            if wrong
            else "Nothing in print here comes out otherwise.",
            like="A proofreader's slip in the back of the book.",
        )
        walk.table(("where", "what", "in print", "right"), [_entry_of(walk, example) for example in wrong])
        right = sum(example.source == source for example in known) - len(wrong)
        walk.say(f"{right} other worked examples of this source come out as printed, or are not in print.")

    walk.step(
        "How to read it",
        "A corrected number is one that no rounding explains. A rounded one is off in its last digit, mostly because a "
        "rounded number was carried on. Most of the corrected ones have one cause: a step that was said but not done.",
        like="Finding not only the wrong sum but the slip of the pen that made it.",
    )
    h0, weights = walk.given("gpt-h1-love").tensors("h0", "weights")
    mixed = weighted_sum(weights[None], h0)
    walk.show(mixed, (0, 0), (0, 1))
    walk.beside("gpt-h1-love", h1=mixed[0])

    walk.ask("“I love AI”: the second number of the mixture, rightly?", lambda: weighted_sum(weights[None], h0),
             "A tenth of the first row's second number, nine tenths of the second's.", cell=(0, 1))
    row, column = walk.given("q13-hand-calculation").tensors("row", "column")
    walk.ask(f"{value_text(row)} times {value_text(column)}, added up?", lambda: linear(row, column[:, None]), "Term by term.", cell=(0,))
    logits = walk.given("probabilities-after-update").tensor("p").log()
    step = walk.tensor([0.09, -0.01, -0.01, -0.07])
    walk.ask(f"The scores {value_text(logits)} are moved by {value_text(step)}. What share has the first word now?",
             lambda: softmax(torch.add(logits, step)), "Move the scores, then take shares.", cell=(0,))


def _entry_of(walk: Walk, example: Example) -> tuple[str, str, str, str]:
    """A line for one erratum: where, which value, what is printed, what is right."""
    entry = walk.verdict(example.id).farthest
    if entry is None:
        return example.section, example.id, "", ""
    claim = isinstance(entry.value, bool) and not isinstance(entry.printed, bool)
    ours = ("holds" if entry.value else "does not hold") if claim else value_text(entry.value, 6)
    return example.section, f"{example.id}: {entry.name}", value_text(entry.printed, 9), ours
