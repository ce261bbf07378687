"""Every kind of tokenizer learns the same from the same text, gives the text back, and says what it lacks."""

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

from glassformer.errors import DataError, TokenizerError
from glassformer.text.learn_tokenizer import SPECIALS, TokenizerKind, learn_tokenizer
from glassformer.text.tokenizer import Tokenizer

KINDS: tuple[TokenizerKind, ...] = get_args(TokenizerKind)
EVERY = pytest.mark.parametrize("kind", KINDS)
LOSSLESS: tuple[TokenizerKind, ...] = ("characters", "words", "bpe", "unigram")


def corpus() -> list[str]:
    """Sentences of made-up words, some frequent, many rare: what ties are made of."""
    drawn = random.Random(3)
    words = ["".join(drawn.choices("aeiounrstl", k=drawn.randint(1, 9))) for _ in range(400)]
    weights = [1 / rank for rank in range(1, 401)]
    return [
        " ".join(drawn.choices(words, weights, k=12)).capitalize() + drawn.choice([".", "!", " (x).\n"])
        for _ in range(300)
    ]


@cache
def taught(kind: TokenizerKind) -> Tokenizer:
    return learn_tokenizer(corpus(), kind, 350)


PRINTS = "; ".join(
    [
        "from tests.text.test_learn_tokenizer import KINDS, corpus",
        "from glassformer.text.learn_tokenizer import learn_tokenizer",
        "print(*(learn_tokenizer(corpus(), kind, 350).fingerprint for kind in KINDS))",
    ]
)


def test_the_same_texts_give_the_same_tokenizer() -> None:
    # Other programs have other hash seeds, on which an order could depend.
    runs = [
        subprocess.run([sys.executable, "-c", PRINTS], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(3)
    ]
    assert runs[0] == [learn_tokenizer(corpus(), kind, 350).fingerprint for kind in KINDS]
    assert runs[0] == runs[1] == runs[2]
    assert len(set(runs[0])) == len(KINDS)


@EVERY
def test_special_tokens_come_first(kind: TokenizerKind) -> None:
    made = learn_tokenizer(corpus(), kind, 350)
    assert (made.pad, made.bos, made.eos, made.unk, made.mask) == (0, 1, 2, 3, 4)
    assert [made.token(id) for id in range(5)] == list(SPECIALS.values())
    assert made.specials == frozenset(range(5))
    named = learn_tokenizer(corpus(), kind, 350, specials={"unk": "[UNK]", "eos": "<|endoftext|>"})
    assert (named.unk, named.eos, named.pad) == (0, 1, None)


@EVERY
def test_the_vocabulary_is_as_large_as_asked(kind: TokenizerKind) -> None:
    made = learn_tokenizer(corpus(), kind, 350)
    letters = len(set("".join(corpus())))
    if kind == "plain_words":
        assert made.vocab_size == 5 + len({word for text in corpus() for word in re.findall("[a-z0-9]+", text.lower())})
    elif kind == "unigram":
        assert 5 + letters < made.vocab_size <= 350, "a small text has few pieces that repeat"
    else:
        assert made.vocab_size == (5 + letters if kind == "characters" else 350)


@pytest.mark.parametrize("kind", LOSSLESS)
def test_what_was_learnt_comes_back(kind: TokenizerKind) -> None:
    made = learn_tokenizer(corpus(), kind, 2000)
    for text in corpus():
        assert made.decode(made.encode(text)) == text


@pytest.mark.parametrize("kind", ["characters", "bpe", "unigram"])
@given(text=st.text("aeiou nrstlx().!\n", max_size=60))
def test_any_text_of_known_characters_comes_back(kind: TokenizerKind, text: str) -> None:
    made = taught(kind)
    assert made.decode(made.encode(text)) == text
    assert made.unk not in made.encode(text)


@EVERY
def test_no_text_turns_into_a_special_token(kind: TokenizerKind) -> None:
    texts = ["a <pad> b <mask> <unk><pad>", "<start>x<end> pad mask < >", *corpus()]
    made = learn_tokenizer(texts * 5, kind, 2000)
    found = {id for text in texts for id in made.encode(text)}
    assert not found & {made.pad, made.bos, made.eos, made.mask}
    if kind not in ("wordpiece", "plain_words"):
        assert made.decode(made.encode(texts[0])) == texts[0]


def test_a_word_is_one_token_wherever_it_stands() -> None:
    made = learn_tokenizer(["you are welcome", "are you welcome"], "words", 50)
    assert [made.token(id) for id in made.encode("welcome you")] == [" welcome", " you"]
    assert made.encode("stranger") == [made.unk]


def test_plain_words_have_no_capitals_and_no_signs() -> None:
    made = learn_tokenizer(["The _king_, and\n“the queen”!", "don't"], "plain_words", 50)
    found = made.encode("(THE)\tking-s queen...\nand?")
    assert [made.token(id) for id in found] == ["the", "king", "<unk>", "queen", "and"]
    assert made.decode(found) == "the king queen and"
    with pytest.raises(TokenizerError, match="nothing but white space"):
        learn_tokenizer(["?! --"], "plain_words", 50)


def test_wordpiece_cuts_words_into_pieces() -> None:
    made = learn_tokenizer(["low lower lowest new newer newest " * 5], "wordpiece", 40)
    assert [made.token(id) for id in made.encode("lower newest")] == ["lower", "newest"]
    assert all(made.token(id).startswith("##") for id in made.encode("slow")[1:])
    assert made.decode(made.encode("newer, lower")) == "newer lower", "a comma was never seen"


def test_lowercase_is_for_wordpiece() -> None:
    made = learn_tokenizer(["Der Bär der bär"] * 3, "wordpiece", 60, lowercase=True)
    assert made.encode("DER BÄR") == made.encode("der bär")
    assert made.encode("bar") != made.encode("bär"), "accents stay"
    cased = learn_tokenizer(["Der Bär der bär"] * 3, "wordpiece", 60)
    assert cased.encode("Der") != cased.encode("der")
    with pytest.raises(TokenizerError, match="lowercase is for wordpiece, and kind is bpe"):
        learn_tokenizer(["a"], "bpe", 300, lowercase=True)


@EVERY
@pytest.mark.parametrize("texts", [[], [""], ["", ""]], ids=["none", "empty", "all empty"])
def test_no_text_is_an_error(kind: TokenizerKind, texts: list[str]) -> None:
    with pytest.raises(TokenizerError, match="no text to learn from"):
        learn_tokenizer(texts, kind, 300)


def test_white_space_alone_is_an_error_where_it_is_dropped() -> None:
    with pytest.raises(TokenizerError, match="nothing but white space"):
        learn_tokenizer([" \n"], "wordpiece", 300)
    assert learn_tokenizer([" \n"], "unigram", 300).decode([]) == ""


@pytest.mark.parametrize(
    ("kind", "least"),
    [("characters", 5 + 5), ("words", 5 + 1), ("bpe", 5 + 256), ("wordpiece", 5 + 7), ("unigram", 10)],
)
def test_a_vocabulary_too_small_is_an_error_that_says_how_large(kind: TokenizerKind, least: int) -> None:
    texts = [
        "abc bca!"
    ] * 3  # five characters; for WordPiece a, b, c at the beginning and inside of words, and the sign
    for vocab in (0, 5, least - 1):
        with pytest.raises(
            TokenizerError, match=f"vocab_size is {vocab}, wanted at least {least}: 5 special tokens and"
        ):
            learn_tokenizer(texts, kind, vocab)
    assert learn_tokenizer(texts, kind, least).vocab_size == least


def test_an_unknown_kind_is_an_error() -> None:
    kind = cast(TokenizerKind, "sentences")
    with pytest.raises((TokenizerError, TypeCheckError), match="kind is 'sentences', wanted one of|sentences"):
        learn_tokenizer(["a"], kind, 300)


def test_bad_special_tokens_are_an_error() -> None:
    with pytest.raises(TokenizerError, match="special token is 'pad', wanted a word in brackets"):
        learn_tokenizer(["a"], "bpe", 300, specials={"pad": "pad"})
    with pytest.raises(TokenizerError, match="wanted each one once"):
        learn_tokenizer(["a"], "bpe", 300, specials={"pad": "<x>", "eos": "<x>"})
    with pytest.raises(TokenizerError, match="no unk token, which words needs"):
        learn_tokenizer(["a"], "words", 300, specials={"pad": "<pad>"})
    assert learn_tokenizer(["a"], "bpe", 300, specials={}).vocab_size == 256


@EVERY
def test_what_is_wrong_with_a_text_is_said(kind: TokenizerKind) -> None:
    def failing() -> Iterator[str]:
        yield "some text"
        raise DataError("corpus.txt:7: byte 3 is not UTF-8")

    with pytest.raises(TokenizerError, match=r"text 1: character 1 is U\+D800"):
        learn_tokenizer(["fine", "x\ud800"], kind, 300)
    with pytest.raises(DataError, match=r"corpus\.txt:7"):
        learn_tokenizer(failing(), kind, 300)
    with pytest.raises(TokenizerError, match="one string, wanted several"):
        learn_tokenizer("text", kind, 300)


@EVERY
def test_odd_texts_are_learnt_from(kind: TokenizerKind) -> None:
    texts = ["\x00", "a" * 20_000, "\u0301", "👩‍🔬", "\u05e9\u05dc", "x " * 2000]
    made = learn_tokenizer(texts, kind, 400)
    assert made.vocab_size <= 400
    if kind in LOSSLESS:
        assert made.decode(made.encode("\x00 👩‍🔬")) == "\x00 👩‍🔬" or kind == "words"
