"""What is held out is held out for good, has no copy among what is learned from, and leaves every class something."""

import hashlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.files import LabeledText
from glassformer.data.splitting import split, split_labeled, split_tokens
from glassformer.errors import DataError

SHARES = st.floats(0.01, 0.99)


@given(count=st.integers(2, 60), share=st.floats(0.01, 0.99), seed=st.integers(0, 2**40))
def test_a_split_keeps_everything_once_and_in_order(count: int, share: float, seed: int) -> None:
    rest, held = split(range(count), share, seed)
    assert sorted(rest + held) == list(range(count))
    assert rest == sorted(rest)
    assert held == sorted(held)
    assert rest
    assert held
    assert abs(len(held) - share * count) <= 1
    assert split(range(count), share, seed) == (rest, held)
    first, last = split_tokens(np.arange(count, dtype=np.uint16), share)
    assert [*first, *last] == list(range(count))
    assert len(last) == len(held)


def test_a_split_depends_on_its_seed_alone() -> None:
    held = [tuple(split(range(1000), 0.1, seed)[1]) for seed in range(20)]
    assert len(set(held)) == 20
    digest = hashlib.sha256(repr(held).encode()).hexdigest()
    assert digest.startswith("73854c9a"), "what was held out once must never be learned from"


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_share_is_between_nothing_and_everything(share: float) -> None:
    with pytest.raises(DataError, match="fraction is .*, wanted between 0 and 1"):
        split([1, 2, 3], share, 0)
    with pytest.raises(DataError, match="1 items cannot be split"):
        split([1], 0.5, 0)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=60).filter(lambda items: len(set(items)) > 1), SHARES)
def test_copies_stay_on_one_side(items: list[int], share: float) -> None:
    rest, held = split(items, share, 0)
    assert Counter(rest) + Counter(held) == Counter(items)
    assert rest and held and not set(rest) & set(held)
    largest = max(Counter(items).values())
    assert abs(len(held) - share * len(items)) <= largest, "as near to the share as the copies allow"


def labeled(*labels: str) -> list[LabeledText]:
    return [LabeledText(label, f"text {index}", f"file:{index}") for index, label in enumerate(labels)]


@given(st.lists(st.sampled_from("aaaabbc"), min_size=4, max_size=80).filter(lambda x: len(set(x)) < len(x)), SHARES)
def test_each_class_gives_its_share_and_is_never_lost(labels: list[str], share: float) -> None:
    texts = labeled(*labels)
    rest, held = split_labeled(texts, share, 3)
    assert sorted([*rest, *held], key=texts.index) == texts and rest and held
    all_of, held_of = Counter(labels), Counter(text.label for text in held)
    assert {text.label for text in rest} == set(labels)
    part = len(held) / len(labels)
    for label, count in all_of.items():
        assert min(part * count, count - 1) - 2 < held_of[label] < part * count + 2


def test_a_rare_class_is_kept_for_learning() -> None:
    for seed in range(50):
        rest, held = split_labeled(labeled(*"a" * 40, "rare"), 0.5, seed)
        assert "rare" in {text.label for text in rest} and len(held) == 20


def test_a_text_with_two_labels_stays_on_one_side() -> None:
    texts = [LabeledText(label, text, "") for text in "stuvwxyz" for label in "ab"]
    for seed in range(20):
        rest, held = split_labeled(texts, 0.25, seed)
        assert len(held) == 4 and not {text.text for text in rest} & {text.text for text in held}


def test_classes_of_one_text_leave_nothing_to_hold_out() -> None:
    with pytest.raises(DataError, match="add more, name data.validation, or label and text are swapped"):
        split_labeled(labeled("a", "b", "c"), 0.3, 0)


DOCUMENTS = st.lists(st.lists(st.integers(1, 3), max_size=4), min_size=2, max_size=30)


@given(DOCUMENTS, SHARES)
def test_documents_that_are_held_out_are_not_learned_from(documents: list[list[int]], share: float) -> None:
    whole = [[*document, 0] for document in documents]
    tokens = np.array([id for document in whole for id in document], dtype=np.uint16)
    plain = split_tokens(tokens, share)
    rest, held = split_tokens(tokens, share, 0)
    assert held.tolist() == plain[1].tolist(), "what is held out depends on nothing else"
    cut, at, wanted = len(plain[0]), 0, list[int]()
    stops = np.cumsum([len(document) for document in whole])
    beyond = [document for document, stop in zip(whole, stops, strict=True) if stop > cut]
    for document, stop in zip(whole, stops, strict=True):
        if stop > cut or document not in beyond:
            wanted += document[: max(cut - at, 0)]
        at = int(stop)
    assert rest.tolist() == wanted
