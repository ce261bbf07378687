"""Read SentencePiece models (.model, .spm) without the sentencepiece package, as tokenizers that cut text the same way.

Only unusual sequences of accents, which the library's table of characters cannot tell apart, may come out otherwise.
"""

import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from glassformer.errors import TokenizerError
from glassformer.text.growth import MOST_GROWTH, longest_entry

SPACE = "▁"  # what SentencePiece writes for a space
MOST_PIECE_LENGTH = 1000  # characters; SentencePiece makes pieces of at most 16, unless told otherwise
_UNICODE_MAPS = ("nfkc", "nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf")
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5  # wire types of protocol buffers


class PieceType(IntEnum):
    """The type of a piece; only normal and user-defined pieces stand for literal text."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class VocabularyPiece:
    """One entry of the vocabulary; `score` is a log-probability, or minus the rank of a merge."""

    text: str
    score: float
    type: PieceType


@dataclass(frozen=True)
class SentencePieceModel:
    """What the file says: the pieces by id, the algorithm, and how text is normalized before it."""

    pieces: Sequence[VocabularyPiece]
    is_bpe: bool
    byte_fallback: bool
    unk_id: int
    map_name: str
    charsmap: bytes
    dummy_prefix: bool
    collapse_spaces: bool


@dataclass(frozen=True)
class Layout:
    """The vocabulary as a model has it: tokens and scores by id, and the tokens that no text can turn into."""

    scores: Sequence[tuple[str, float]]
    unk: str
    special: frozenset[str]


def read_sentencepiece(path: Path, data: bytes) -> SentencePieceModel:
    """Parse the protocol buffer of a SentencePiece model."""
    try:
        fields = list(_fields(data))
        pieces = [_piece(value) for number, value in fields if number == 1]
        trainer, normalizer = (_message(fields, number) for number in (2, 3))
        algorithm = trainer.get(3, 1)
        if algorithm not in (1, 2):
            raise ValueError(f"its algorithm is number {algorithm!r}, wanted 1 (unigram) or 2 (BPE)")
        model = SentencePieceModel(
            pieces,
            is_bpe=algorithm == 2,
            byte_fallback=bool(trainer.get(35, 0)),
            unk_id=[piece.type for piece in pieces].index(PieceType.UNKNOWN),
            map_name=_raw(normalizer.get(1, b"")).decode(),
            charsmap=_raw(normalizer.get(2, b"")),
            dummy_prefix=bool(normalizer.get(3, 1)),
            collapse_spaces=bool(normalizer.get(4, 1)),
        )
    except (ValueError, IndexError, struct.error) as error:
        raise TokenizerError(f"{path}: is not a SentencePiece model: {error}") from None
    if longest_entry(model.charsmap) > MOST_GROWTH:
        longest = f"{longest_entry(model.charsmap):,} characters for one"
        raise TokenizerError(f"{path}: its table of characters puts in {longest}, wanted at most {MOST_GROWTH}")
    if trainer.get(24) or not normalizer.get(5, 1):
        raise TokenizerError(f"{path}: marks spaces in a way that is not supported; wanted {SPACE} before words")
    return model


def _piece(data: int | bytes) -> VocabularyPiece:
    fields = dict(_fields(_raw(data)))
    (score,) = struct.unpack("<f", _raw(fields.get(2, bytes(4))))
    if not math.isfinite(score):
        raise ValueError(f"the score of a piece is {score}")
    text = _raw(fields.get(1, b"")).decode()
    if not 0 < len(text) <= MOST_PIECE_LENGTH:
        raise ValueError(f"a piece has {len(text):,} characters, wanted 1 to {MOST_PIECE_LENGTH:,}")
    return VocabularyPiece(text, score, PieceType(fields.get(3, 1)))


def _message(fields: Sequence[tuple[int, int | bytes]], number: int) -> dict[int, int | bytes]:
    return {key: value for field, data in fields if field == number for key, value in _fields(_raw(data))}


def _raw(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number stands where bytes are wanted")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: numbers as they are, anything longer as its bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
        else:
            if wire == _DELIMITED:
                size, at = _varint(data, at)
            elif wire in (_FIXED64, _FIXED32):
                size = 8 if wire == _FIXED64 else 4
            else:
                raise ValueError(f"byte {at} begins a field of the type {wire}")
            value, at = data[at : at + size], at + size
            if at > len(data):
                raise ValueError("it is cut off")
        yield key >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise ValueError(f"byte {at} goes on with a number that is too long")


def layout_of(model: SentencePieceModel) -> Layout:
    """The vocabulary in the order of the file."""
    special = {piece.text for piece in model.pieces if piece.type in (PieceType.UNKNOWN, PieceType.CONTROL)}
    scores = [(piece.text, piece.score) for piece in model.pieces]
    return Layout(scores, model.pieces[model.unk_id].text, frozenset(special))


def written_pieces(model: SentencePieceModel) -> set[str]:
    """The pieces that stand for literal text."""
    return {piece.text for piece in model.pieces if piece.type in (PieceType.NORMAL, PieceType.USER_DEFINED)}


def build_sentencepiece(
    model: SentencePieceModel, layout: Layout, before: Sequence[normalizers.Normalizer] = ()
) -> tokenizers.Tokenizer:
    """A tokenizer that cuts text as SentencePiece does; `before` are normalizers of a family, put in front."""
    if model.is_bpe:
        inner = tokenizers.Tokenizer(_bpe(model, layout))
        # The library has no word for pieces that are never cut, except tokens that are found first.
        own = [piece.text for piece in model.pieces if piece.type == PieceType.USER_DEFINED]
        inner.add_tokens([tokenizers.AddedToken(text, normalized=False) for text in own])
    else:
        inner = tokenizers.Tokenizer(_unigram(model, layout))
    inner.add_special_tokens(sorted(layout.special))
    inner.normalizer = normalizers.Sequence([*before, *_normalizers(model)])
    inner.pre_tokenizer = pre_tokenizers.Sequence(list(_splits(model, layout)))
    fallback = [decoders.ByteFallback()] if model.byte_fallback else []
    strip = [decoders.Strip(" ", 1, 0)] if model.dummy_prefix else []
    inner.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), *fallback, decoders.Fuse(), *strip])
    return inner


def _splits(model: SentencePieceModel, layout: Layout) -> Iterator[pre_tokenizers.PreTokenizer]:
    if not model.is_bpe:
        # Unigram would find the name of a special token in a text; cut in two, the name is text like any other.
        hidden = layout.special.union(piece.text for piece in model.pieces if piece.type == PieceType.BYTE)
        cuts = (f"{re.escape(text[0])}(?={re.escape(text[1:])})" for text in sorted(hidden) if len(text) > 1)
        yield pre_tokenizers.Split(Regex("|".join(cuts)), "merged_with_previous")
    if not any(SPACE in text[1:] for text in written_pieces(model)):  # then no piece reaches into the next word
        yield pre_tokenizers.Split(SPACE, "merged_with_next")


def _bpe(model: SentencePieceModel, layout: Layout) -> models.BPE:
    vocab = {text: number for number, (text, _) in enumerate(layout.scores)}
    normal = {piece.text for piece in model.pieces if piece.type == PieceType.NORMAL}
    merges = merges_by_score({text: score for text, score in layout.scores if text in normal})
    return models.BPE(vocab, merges, unk_token=layout.unk, fuse_unk=True, byte_fallback=model.byte_fallback)


def merges_by_score(scores: Mapping[str, float]) -> list[tuple[str, str]]:
    """Every way to join two pieces into a third, the one of the highest score first, as SentencePiece joins them.

    Of joins with the same score SentencePiece takes the leftmost, so a run of spaces grows from its left end. Here
    that follows from putting joins with a longer left part first.
    """
    joins = [
        (score, cut, text)
        for text, score in scores.items()
        for cut in range(1, len(text))
        if text[:cut] in scores and text[cut:] in scores
    ]
    joins.sort(key=lambda join: (-join[0], -join[1]))
    return [(text[:cut], text[cut:]) for _, cut, text in joins]


def _unigram(model: SentencePieceModel, layout: Layout) -> models.Unigram:
    normal = [piece.score for piece in model.pieces if piece.type == PieceType.NORMAL] or [0.0]
    own = {piece.text for piece in model.pieces if piece.type == PieceType.USER_DEFINED}
    least, most = min(normal), max(normal)

    def score(text: str, given: float) -> float:
        # SentencePiece prefers its user-defined pieces by this much.
        return max(len(text.encode()) * most - 0.1, least) if text in own else given

    unk = [text for text, _ in layout.scores].index(layout.unk)
    scored = [(text, score(text, given)) for text, given in layout.scores]
    return models.Unigram(scored, unk, byte_fallback=model.byte_fallback)


def _normalizers(model: SentencePieceModel) -> Iterator[normalizers.Normalizer]:
    if model.charsmap:
        if model.map_name in _UNICODE_MAPS:
            # The library looks up a letter with its accents by the shortest entry, SentencePiece by the longest.
            yield normalizers.NFC()
        yield normalizers.Precompiled(model.charsmap)
    if model.collapse_spaces:
        yield normalizers.Replace(Regex(" {2,}"), " ")
        yield normalizers.Replace(Regex(f"^[ {SPACE}]+|[ {SPACE}]+$"), "")
    if model.dummy_prefix:
        yield normalizers.Prepend(SPACE)
    yield normalizers.Replace(" ", SPACE)
