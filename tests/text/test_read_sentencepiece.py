"""SentencePiece models give the pieces that SentencePiece gives; damaged ones are refused."""

import gzip
import random
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import TokenizerError
from glassformer.text.read_sentencepiece import (
    build_sentencepiece,
    layout_of,
    merges_by_score,
    read_sentencepiece,
)
from glassformer.text.tokenizer import Tokenizer
from tests.text.sentencepiece_files import OPTIONS, converted, processor, trained

DATA = Path(__file__).parents[2] / "../shared/data"
WORDS = ["the", "I", "would", "like", "café", "naïve", "tiếng", "Việt", "ﬁne", "\uff57\uff49\uff44\uff45", "語", "🙂"]
SIGNS = [" ", "  ", "   ", "\n", "\t", "\u00a0", "\u3000", ".", ",", "-", "(", ")", "▁", "", "9,5"]
PARTS = st.builds(str.__add__, st.sampled_from(SIGNS), st.sampled_from(WORDS))
TEXTS = st.builds("".join, st.lists(PARTS | st.sampled_from(SIGNS), max_size=12))


@pytest.mark.parametrize("name", OPTIONS)
@given(text=TEXTS, form=st.sampled_from(["NFC", "NFD"]))
def test_pieces_are_those_of_sentencepiece(name: str, text: str, form: str) -> None:
    text = unicodedata.normalize(form, text)
    theirs = processor(name).encode(text)
    assert converted(name).encode(text) == theirs
    if not converted(name).specials.intersection(theirs):  # for unknown pieces SentencePiece writes a sign
        assert converted(name).decode(theirs) == processor(name).decode(theirs)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_name_of_a_special_token_in_a_text_is_text(name: str) -> None:
    ours = converted(name)
    found = ours.encode("a <unk> b</s> <s> [CLS]x <0x41> <pad>")
    assert not ours.specials.intersection(found) - set(processor(name).encode("\u2603")), "but for the unknown one"


def test_a_saved_tokenizer_is_the_same(tmp_path: Path) -> None:
    for name in OPTIONS:
        converted(name).save(tmp_path / name)
        again = Tokenizer.load(tmp_path / name)
        assert again.encode("I  would (like) café.") == converted(name).encode("I  would (like) café.")


def test_joins_go_by_score_and_runs_grow_from_the_left() -> None:
    scores = {"a": -9.0, "b": -9.0, "ab": -2.0, "ba": -1.0, "aa": -3.0, "aaa": -3.0, "aba": 5.0}
    joins = merges_by_score(scores)
    assert joins == [("ab", "a"), ("a", "ba"), ("b", "a"), ("a", "b"), ("aa", "a"), ("a", "a"), ("a", "aa")]


def bad_models() -> dict[str, tuple[bytes, str]]:
    piece = b"\x0a\x03\x0a\x01a"
    return {
        "empty": (b"", "is not a SentencePiece model"),
        "text": (b"IQ== 0\nIg== 1\n", "is not a SentencePiece model"),
        "cut off": (piece[:-1], "it is cut off"),
        "no unknown": (piece, "is not a SentencePiece model"),
        "endless number": (b"\xff" * 20, "too long"),
        "infinite score": (b"\x0a\x0a\x0a\x01a\x15\x00\x00\x80\x7f\x18\x02", "score of a piece is inf"),
        "long piece": (b"\x0a\xec\x07\x0a\xe9\x07" + b"a" * 1001, "a piece has 1,001 characters"),
        "words": (b"\x0a\x05\x0a\x01a\x18\x02\x12\x02\x18\x03", "its algorithm is number 3"),
        "suffixes": (b"\x0a\x05\x0a\x01a\x18\x02\x12\x03\xc0\x01\x01", "marks spaces in a way"),
    }


@pytest.mark.parametrize("name", bad_models())
def test_a_bad_model_is_one_line_that_names_it(name: str) -> None:
    data, message = bad_models()[name]
    with pytest.raises(TokenizerError, match=message) as caught:
        read_sentencepiece(Path("x.model"), data)
    assert str(caught.value).startswith("x.model: ")
    assert len(str(caught.value).splitlines()) == 1


def test_damaged_models_give_our_error_or_a_tokenizer(tmp_path: Path) -> None:
    drawn, outcomes = random.Random(0), set()
    for _ in range(150):
        data = bytearray(trained("unigram" if drawn.random() < 0.5 else "llama"))
        for _ in range(drawn.randint(1, 3)):
            at = drawn.randrange(len(data)) if drawn.random() < 0.5 else drawn.randrange(300)
            data[at : at + drawn.randint(0, 3)] = drawn.randbytes(drawn.randint(0, 3))
        (tmp_path / "tokenizer.model").write_bytes(data)
        try:
            Tokenizer.load(tmp_path).encode("the quick 👩‍🔬")
            outcomes.add("works")
        except TokenizerError:
            outcomes.add("refused")
    assert outcomes == {"works", "refused"}


def test_llama_2_cuts_real_text_as_sentencepiece_does() -> None:
    path = DATA / "tokenizers/llama2-tokenizer.model"
    if not path.exists():
        pytest.skip("needs the Llama 2 tokenizer")
    sentencepiece = pytest.importorskip("sentencepiece", reason="needs the sentencepiece package")
    model = read_sentencepiece(path, path.read_bytes())
    ours = Tokenizer(build_sentencepiece(model, layout_of(model)), {})
    theirs = sentencepiece.SentencePieceProcessor(str(path))
    lines = gzip.decompress((DATA / "wikitext-2/valid.txt.gz").read_bytes()).decode().split("\n")[:200]
    lines += Path(__file__).read_text().split("\n\n")  # with runs of spaces
    assert ours.encode_batch(lines) == [theirs.encode(line) for line in lines]
