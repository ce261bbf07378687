"""Rules that blow a text up are refused with the file; those of public tokenizers are not."""

import base64
import json
from pathlib import Path

import pytest
import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors

from glassformer.errors import TokenizerError
from glassformer.text.growth import check_growth
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.text.read_sentencepiece import read_sentencepiece
from glassformer.text.tokenizer import Tokenizer

Parts = dict[str, object]
EIGHTEEN = normalizers.Replace(Regex("."), "\ufdfa")  # one character, which NFKC makes 18
DOUBLE = processors.TemplateProcessing("$A $A", "$A $B")
BOMBS: dict[str, tuple[Parts, str]] = {
    "doubling": (
        {"normalizer": normalizers.Sequence([normalizers.Replace("a", "aa")] * 40)},
        "stage 5 of its normalizer",
    ),
    "doubling by a pattern": (
        {"normalizer": normalizers.Sequence([normalizers.Replace(Regex("[a-z]"), "xx")] * 40)},
        "makes a text 32 times as long",
    ),
    "nested": (
        {"normalizer": normalizers.Sequence([normalizers.Sequence([normalizers.Replace("é", "éé")] * 9)])},
        "stage 5",
    ),
    "a million at once": ({"normalizer": normalizers.Replace("a", "b" * 1_000_000)}, "1,000,000 times as long"),
    "a million before": ({"normalizer": normalizers.Prepend("b" * 1_000_000)}, "1,000,000 times as long"),
    "letters that grow": ({"normalizer": normalizers.Sequence([EIGHTEEN, normalizers.NFKC()] * 3)}, "stage 4"),
    "bytes of bytes": (
        {"pre_tokenizer": pre_tokenizers.Sequence([pre_tokenizers.ByteLevel()] * 40)},
        "its pre_tokenizer",
    ),
    "in the decoder": ({"decoder": decoders.Sequence([decoders.Replace("a", "aa")] * 40)}, "stage 5 of its decoder"),
    "many stages": ({"normalizer": normalizers.Sequence([normalizers.NFC()] * 51)}, "has 51 stages, wanted at most 50"),
    "the text twice": ({"post_processor": DOUBLE}, "has the text 2 times"),
    "many tokens": (
        {"post_processor": processors.TemplateProcessing(" ".join(["a"] * 60) + " $A", "$A $B", [("a", 0)])},
        "60",
    ),
}


def tokenizer(parts: Parts) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.WordLevel({"a": 0}, "a"))
    for name, part in parts.items():
        setattr(inner, name, part)
    return inner


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_before_it_goes_off(name: str, tmp_path: Path) -> None:
    parts, message = BOMBS[name]
    tokenizer(parts).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(TokenizerError, match=message) as caught:
        Tokenizer.load(tmp_path)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 300


def test_a_table_of_characters_can_be_a_bomb_too(tmp_path: Path) -> None:
    table = (4).to_bytes(4, "little") + bytes(4) + b"x" * 100 + b"\0"
    text = json.dumps({"normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}})
    with pytest.raises(TokenizerError, match="stage 1 of its normalizer makes a text 100 times as long"):
        check_growth(text, "tokenizer.json")
    spec = b"\x12" + bytes([len(table)]) + table
    model = b"\x0a\x05\x0a\x01a\x18\x02\x1a" + bytes([len(spec)]) + spec
    with pytest.raises(TokenizerError, match="puts in 100 characters for one, wanted at most 20"):
        read_sentencepiece(tmp_path / "x.model", model)


def test_words_that_take_long_are_refused() -> None:
    with pytest.raises(TokenizerError, match="up to 1000000 letters"):
        check_growth(json.dumps({"model": {"max_input_chars_per_word": 1_000_000}}), "tokenizer.json")


IN_USE: dict[str, Parts] = {
    "albert": {
        "normalizer": normalizers.Sequence(
            [normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
        ),
        "decoder": decoders.Metaspace(),
    },
    "bert": {"normalizer": normalizers.BertNormalizer(), "decoder": decoders.WordPiece()},
    "llama": {
        "normalizer": normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        "decoder": decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        ),
        "post_processor": processors.Sequence(
            [processors.ByteLevel(), processors.TemplateProcessing("a $A a", "$A $B", [("a", 0)])]
        ),
    },
    "bytes": {
        "normalizer": normalizers.Sequence([normalizers.NFKC(), normalizers.ByteLevel()]),
        "pre_tokenizer": pre_tokenizers.Sequence([pre_tokenizers.Digits(), pre_tokenizers.ByteLevel()]),
        "decoder": decoders.ByteLevel(),
    },
}


@pytest.mark.parametrize("name", IN_USE)
def test_rules_in_use_pass(name: str) -> None:
    check_growth(tokenizer(IN_USE[name]).to_str(), "tokenizer.json")


def test_learnt_tokenizers_pass(tmp_path: Path) -> None:
    for kind in ("characters", "words", "bpe", "wordpiece", "unigram"):
        learn_tokenizer(["the cat sat on the mat"], kind, 300).save(tmp_path / kind)
        assert Tokenizer.load(tmp_path / kind)
