"""A question and its context as one input: windows, offsets to the exact characters, the tokens of transformers."""

from pathlib import Path

import pytest
import transformers

from glassformer.errors import TokenizerError
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.text.questions import encode_question
from glassformer.text.tokenizer import Tokenizer, TokenizerKind

CONTEXT = "Zoë  took the\tnaïve café-key 🗝 from 東京 …  and   Müller gave it to Ana."
QUESTION = "Who gave it to Ana?"
KINDS: tuple[TokenizerKind, ...] = ("characters", "words", "bpe", "wordpiece", "unigram")


def reader(kind: TokenizerKind) -> Tokenizer:
    learned = learn_tokenizer([CONTEXT, QUESTION, "abc def ghi"] * 3, kind, 400)
    return learned.for_encoder().with_use(token_types=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("answer", ["Müller", "🗝", "東京", "naïve café-key", "Zoë", "Ana."])
def test_an_answer_is_found_at_its_characters(kind: TokenizerKind, answer: str) -> None:
    (window,) = encode_question(reader(kind), QUESTION, CONTEXT)
    start = CONTEXT.index(answer)
    span = window.positions(start, start + len(answer))
    assert span is not None
    first, last = window.characters(*span)
    assert CONTEXT[first:last].strip() == answer


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_reads_the_same_pair(kind: TokenizerKind, tmp_path: Path) -> None:
    tokenizer = reader(kind)
    tokenizer.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)(QUESTION, CONTEXT, return_offsets_mapping=True)
    (window,) = encode_question(tokenizer, QUESTION, CONTEXT)
    assert window.ids == theirs["input_ids"]
    assert window.token_types == theirs["token_type_ids"]
    size = len(window.offsets)
    assert list(window.offsets) == [tuple(each) for each in theirs["offset_mapping"][window.first :][:size]]


def test_long_contexts_are_read_in_windows_that_overlap() -> None:
    tokenizer = reader("characters")
    context = "abc def ghi " * 20
    windows = encode_question(tokenizer, "abc?", context, 40)
    assert all(len(window.ids) <= 40 for window in windows) and len(windows) > 5
    covered = [offset for window in windows for offset in window.offsets]
    assert {start for start, _ in covered} == set(range(len(context)))
    for start in range(0, len(context) - 10):
        assert any(window.positions(start, start + 10) for window in windows), "an answer is cut in every window"
    assert all(window.ids[: window.first] == windows[0].ids[: windows[0].first] for window in windows)


def test_the_windows_are_those_of_transformers(tmp_path: Path) -> None:
    tokenizer = reader("bpe")
    tokenizer.save(tmp_path)
    context, length = "abc def ghi Ana took it. " * 12, 48
    windows = encode_question(tokenizer, QUESTION, context, length)
    overlap = len(windows[0].offsets) // 2
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)(
        QUESTION, context, truncation="only_second", max_length=length, stride=overlap, return_overflowing_tokens=True
    )
    assert [window.ids for window in windows] == theirs["input_ids"]


def test_token_types_fit_the_model() -> None:
    for types, highest in ((2, 1), (1, 0), (0, 0)):
        (window,) = encode_question(reader("words"), QUESTION, CONTEXT, token_types=types)
        assert max(window.token_types) == highest


def test_what_cannot_be_asked_is_refused() -> None:
    tokenizer = reader("characters")
    for question, context, said in ((" ", "abc", "the question is empty"), ("abc", "\n", "the context is empty")):
        with pytest.raises(TokenizerError, match=said):
            encode_question(tokenizer, question, context)
    with pytest.raises(TokenizerError, match="the question has 23 tokens, wanted fewer than 20, the longest input"):
        encode_question(tokenizer, "abc def ghi abc def?", "abc", 20)
    with pytest.raises(TokenizerError, match="half of a surrogate pair"):
        encode_question(tokenizer, "abc \ud800", "abc")
