"""ROUGE beside rouge-score, and exact match and F1 as SQuAD's script has them."""

import random

import pytest

from glassformer.training.text_scores import (
    answer_f1,
    answer_scores,
    answer_words,
    commonest_answer,
    first_sentence,
    rouge_l,
    rouge_n,
    rouge_words,
    summary_scores,
)

# candidate, reference, then ROUGE-1, ROUGE-2 and ROUGE-L as rouge-score 0.1.2 gives them, F1 without stemming
KNOWN = [
    ("police killed the gunman", "police kill the gunman", 0.75, 1 / 3, 0.75),
    ("the gunman kill police", "police kill the gunman", 1.0, 1 / 3, 0.5),
    ("the cat sat on the mat", "the cat the cat", 0.6, 0.25, 0.6),
    ("", "a b", 0.0, 0.0, 0.0),
    ("one", "one", 1.0, 0.0, 1.0),
]


@pytest.mark.parametrize(("text", "reference", "one", "two", "longest"), KNOWN)
def test_rouge_of_known_examples(text: str, reference: str, one: float, two: float, longest: float) -> None:
    words, right = rouge_words(text), rouge_words(reference)
    assert rouge_n(words, right, 1) == pytest.approx(one)
    assert rouge_n(words, right, 2) == pytest.approx(two)
    assert rouge_l(words, right) == pytest.approx(longest)


def test_rouge_equals_rouge_score() -> None:
    scorer = pytest.importorskip("rouge_score.rouge_scorer", reason="compares with rouge-score")
    theirs = scorer.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False)
    draw = random.Random(0)
    for _ in range(200):
        text, reference = (" ".join(draw.choices("a b c, d. E f-g".split(), k=draw.randint(0, 9))) for _ in range(2))
        wanted = theirs.score(reference, text)
        found = summary_scores("model", [text], [reference])
        for name in ("rouge1", "rouge2", "rougeL"):
            assert getattr(found, name) == pytest.approx(100 * wanted[name].fmeasure), (text, reference, name)


def test_summaries_are_averaged() -> None:
    found = summary_scores("model", ["a b", "c"], ["a b", "d"])
    assert (found.rouge1, found.rougeL, found.exact) == (50, 50, 0.5)


@pytest.mark.parametrize(
    ("answer", "reference", "same", "f1"),
    [
        ("The Denver Broncos!", "denver broncos", True, 1.0),
        ("Broncos", "Denver Broncos", False, 2 / 3),
        ("an apple a day", "apple day", True, 1.0),
        ("Santa Clara, California", "Santa Clara's stadium", False, 1 / 3),  # the apostrophe is dropped: claras
        ("the", "a", True, 1.0),  # nothing is left of either
        ("the", "Rome", False, 0.0),
        ("to be to be", "to be", False, 2 / 3),
    ],
)
def test_answers_are_compared_as_in_squad(answer: str, reference: str, same: bool, f1: float) -> None:
    assert (answer_words(answer) == answer_words(reference)) == same
    assert answer_f1(answer, reference) == pytest.approx(f1)


def test_the_best_reference_counts() -> None:
    found = answer_scores("model", ["Broncos", "Rome"], [("Denver Broncos", "the Broncos"), ("Paris",)])
    assert (found.exact, found.f1) == (0.5, 0.5)


def test_the_commonest_answer_and_the_first_sentence() -> None:
    assert commonest_answer([("The Rome",), ("Paris",), ("rome",)]) == "rome"
    assert first_sentence("  It rained. It poured.") == "It rained."
    assert first_sentence('He said "no!" Then he left.') == 'He said "no!'
    assert first_sentence("no end") == "no end"
