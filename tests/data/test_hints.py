"""Data that can be trained on and probably should not be gets one sentence for each reason."""

from glassformer.data.files import Document, LabeledText
from glassformer.data.hints import label_hints, pair_hints, text_hints, unknown_hints

PAIRS = [(f"one {n}", f"uno {n}") for n in range(30)]


def labeled(*rows: tuple[str, str]) -> list[LabeledText]:
    return [LabeledText(label, text, "a.tsv:1") for label, text in rows]


GOOD = labeled(*((("low", "high")[n % 2], f"the number {n} of many") for n in range(40)))


def test_good_data_is_left_alone() -> None:
    assert list(label_hints(GOOD, labeled(("low", "another text")))) == []
    assert list(pair_hints(PAIRS, [("two", "dos")])) == []
    lines = "\n".join(f"this is line {n} of a longer text" for n in range(100))
    assert list(text_hints(iter([Document(lines, "a.txt")]), 5000)) == []


def test_swapped_labels_and_one_class() -> None:
    swapped = labeled(*((text.text, text.label) for text in GOOD))
    (hint, *_) = label_hints(swapped, [])
    assert hint.startswith("label and text look swapped: there are 40 different labels and 2 different texts")
    assert list(label_hints(labeled(*(("good", f"the number {n}") for n in range(30))), [])) == [
        "there is one class, 'good': a classifier has nothing to tell apart"
    ]


def test_few_copied_and_leaked_examples() -> None:
    few = list(label_hints(GOOD[:4], GOOD[:1]))
    assert few == [
        "only 4 training texts: the model will memorize them and learn little else",
        "1 of 1 validation texts are in the training data too: the validation loss will look better than it is",
    ]
    assert list(pair_hints([*PAIRS, *PAIRS], [])) == ["30 of 60 training pairs are duplicates of others"]


def test_a_header_that_is_read_as_a_pair() -> None:
    (hint,) = pair_hints([("English", "German"), *PAIRS], [])
    assert (
        hint == "the row 'English', 'German' looks like a header and is read as a pair; say data.fields=English,German"
    )
    (hint,) = pair_hints(PAIRS, [("Target", "Source")])
    assert hint.startswith("the columns look swapped: the row 'Target', 'Source' names the target first")
    (hint,) = pair_hints([*PAIRS, *((f"x {n}", f"x {n}") for n in range(30))], [])
    assert hint == "30 of 60 pairs have the same text on both sides"


def test_short_and_repeating_text() -> None:
    text = "the quick brown fox jumps over\n" * 9
    assert list(text_hints(iter([Document(text, "a.txt")]), 40)) == [
        "only 40 tokens: the model will memorize them and learn little else",
        "8 of the first 9 long lines are duplicates of others",
    ]


def test_many_unknown_tokens() -> None:
    assert list(unknown_hints(10, 1000, "<unk>")) == []
    (hint,) = unknown_hints(320, 1000, "<unk>")
    assert hint.startswith("320 of 1,000 tokens (32 %) are unknown and read as <unk>: loss, perplexity and bits per")
