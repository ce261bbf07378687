"""Wherever a corpus is cut to be encoded, its tokens and its bytes are those of the whole."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.text import corpus
from glassformer.text.corpus import batches_by_characters, pieces
from glassformer.text.learn_tokenizer import TokenizerKind, learn_tokenizer
from glassformer.text.tokenizer import Tokenizer
from tests.text.sentencepiece_files import converted

CORPUS = ["the cat sat on the mat", "añb€", "a naïve café, señor", "the dog  sat too\n\nand  again\n"]
KINDS: list[TokenizerKind] = ["characters", "words", "bpe", "wordpiece", "unigram"]
TOKENIZERS: dict[str, Tokenizer] = {kind: learn_tokenizer(CORPUS, kind, 300 if kind == "bpe" else 60) for kind in KINDS}
WORDS = ["the", "cat", "añb€", "zebra", "x", "naïve", "語", "🙂"]
PARTS = st.builds(str.__add__, st.sampled_from(WORDS), st.sampled_from([" ", "  ", "\n", "\n\n", ", ", "\t "]))
TEXTS = st.lists(st.builds("".join, st.lists(PARTS, min_size=1, max_size=30)), min_size=1, max_size=3)


def tokenizer_of(kind: str) -> Tokenizer:
    return converted("llama") if kind == "llama" else TOKENIZERS[kind]


def streamed(tokenizer: Tokenizer, texts: Sequence[str]) -> list[int]:
    return [id for part in tokenizer.encode_stream(texts) for id in part]


def test_texts_are_cut_in_front_of_white_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "PORTION", 10)
    assert list(pieces("one\ntwo\nthree\nfour")) == ["one\ntwo", "\nthree", "\nfour"]
    assert list(pieces("one two \n\nthree four")) == ["one two", " \n\nthree", " four"], "and not within it"
    assert list(pieces("x" * 25)) == ["x" * 10, "x" * 10, "x" * 5]
    assert list(pieces("\n" + "x" * 12)) == ["\n" + "x" * 9, "xxx"]
    assert list(pieces("")) == [""]


@pytest.mark.parametrize("kind", [*KINDS, "llama"])
@given(texts=TEXTS)
def test_no_token_is_won_or_lost_where_a_text_is_cut(kind: str, texts: list[str]) -> None:
    tokenizer = tokenizer_of(kind)
    whole = streamed(tokenizer, texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "PORTION", 30)
        assert streamed(tokenizer, texts) == whole


@pytest.mark.parametrize("kind", [*KINDS, "llama"])
@given(texts=TEXTS, portion=st.sampled_from([20, 1000]))
def test_bytes_are_those_of_the_text_whatever_the_vocabulary_lacks(kind: str, texts: list[str], portion: int) -> None:
    tokenizer = tokenizer_of(kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "PORTION", portion)
        lengths = [len(part) for part in tokenizer.encode_stream(texts)]
        firsts = [0, *range(1, sum(lengths), 7), sum(lengths)]
        behind = [tokenizer.text_bytes(texts, lengths, first) for first in firsts]
    assert behind[0] == sum(len(text.encode()) for text in texts)
    assert behind[-1] == 0
    assert behind == sorted(behind, reverse=True)


def test_bytes_behind_a_token_are_those_of_the_text_that_follows_it() -> None:
    words = TOKENIZERS["words"]
    texts = ["the zebra sat", "añb€ cat"]
    lengths = [len(part) for part in words.encode_stream(texts)]
    behind = [words.text_bytes(texts, lengths, first) for first in range(sum(lengths) + 1)]
    assert [words.token(id) for id in streamed(words, texts)][1] == "<unk>"
    assert behind == [13 + 11, 10 + 11, 4 + 11, 11, 11, 7, 4, 0, 0], "an unknown word has bytes too, an end token none"


def test_texts_of_any_number_and_length_are_encoded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["the cat " * length for length in (1, 50, 0, 3, 3, 3)]
    whole = TOKENIZERS["bpe"].encode_batch(texts)
    monkeypatch.setattr(corpus, "PORTION", 30)
    assert [list(map(len, batch)) for batch in batches_by_characters(texts)] == [[8], [400], [0, 24], [24], [24]]
    assert TOKENIZERS["bpe"].encode_batch(texts) == whole
    assert TOKENIZERS["bpe"].encode_batch([]) == []
