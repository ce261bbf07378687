"""SentencePiece models that are trained here, in the sizes and with the options of well-known families."""

import json
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Protocol

import pytest

from glassformer.data.phrase_book import split_phrase_book
from glassformer.text.read_sentencepiece import build_sentencepiece, layout_of, read_sentencepiece
from glassformer.text.tokenizer import Tokenizer

ENGLISH, SPANISH = zip(*split_phrase_book(400, 10, 0)[0], strict=True)
OPTIONS: dict[str, dict[str, object]] = {
    "unigram": {"vocab_size": 200},
    "bpe": {"vocab_size": 200, "model_type": "bpe"},
    "llama": {
        "vocab_size": 460,
        "model_type": "bpe",
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "allow_whitespace_only_pieces": True,
    },
    "bytes": {"vocab_size": 460, "byte_fallback": True},
    "t5": {"vocab_size": 200, "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
    "albert": {
        "vocab_size": 200,
        "user_defined_symbols": ["(", ")", "-", "."],
        "control_symbols": ["[CLS]", "[SEP]", "[MASK]"],
        "pad_id": 0,
        "unk_id": 1,
        "bos_id": -1,
        "eos_id": -1,
    },
    "spanish": {"vocab_size": 200},
}


class Processor(Protocol):
    """What is used of `sentencepiece.SentencePieceProcessor`."""

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: list[int]) -> str: ...

    def id_to_piece(self, id: int) -> str: ...


@cache
def trained(name: str) -> bytes:
    """The file of a model."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="needs the sentencepiece package")
    file = BytesIO()
    sentences = SPANISH if name == "spanish" else ENGLISH
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=file, minloglevel=2, num_threads=1, **OPTIONS[name]
    )
    return file.getvalue()


@cache
def processor(name: str) -> Processor:
    """What SentencePiece itself makes of the file."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="needs the sentencepiece package")
    return sentencepiece.SentencePieceProcessor(model_proto=trained(name))


@cache
def converted(name: str) -> Tokenizer:
    """What we make of it."""
    model = read_sentencepiece(Path(name), trained(name))
    return Tokenizer(build_sentencepiece(model, layout_of(model)), {})


def write_marian(folder: Path) -> Path:
    """The files of a Marian tokenizer as published: one vocabulary, without the pieces that were never used."""
    pieces = [processor(name).id_to_piece(id) for name in ("unigram", "spanish") for id in range(3, 200) if id % 13]
    tokens = ["</s>", "<unk>", *dict.fromkeys(pieces), ">>esp<<", "<pad>"]
    (folder / "source.spm").write_bytes(trained("unigram"))
    (folder / "target.spm").write_bytes(trained("spanish"))
    (folder / "vocab.json").write_text(json.dumps({token: id for id, token in enumerate(tokens)}))
    return folder
