"""Read the three files of a Marian model: a SentencePiece model for each side, and one vocabulary for both."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, decoders

from glassformer.errors import TokenizerError
from glassformer.text.model_files import read_bytes
from glassformer.text.read_sentencepiece import Layout, build_sentencepiece, read_sentencepiece, written
from glassformer.text.read_vocabulary import read_ids
from glassformer.text.tokenizer_families import (
    FAMILIES,
    SETTINGS_FILES,
    Settings,
    complete,
    flag,
    read_settings,
    special_names,
)

MARIAN_FILES = ("source.spm", "target.spm", "vocab.json")
OTHER_SIDE = "\ufdd0"  # before a token that only the other side's text can turn into; no character, so in no text


@dataclass(frozen=True)
class MarianSides:
    """What a Marian tokenizer has beyond others: a second model for targets, and files to be kept as they are.

    Ids from `rows` on stand for pieces that the vocabulary lacks: they are read as unknown.
    """

    target: tokenizers.Tokenizer
    rows: int
    files: Mapping[str, bytes]


def is_marian(folder: Path) -> bool:
    """Whether a folder holds the files of a Marian tokenizer."""
    return all((folder / name).exists() for name in MARIAN_FILES)


def read_marian(folder: Path) -> tuple[tokenizers.Tokenizer, Mapping[str, str], MarianSides]:
    """The tokenizer of sources, its special tokens under the names of tokenizer_config.json, and the rest."""
    settings = read_settings(folder)
    if flag(settings, "separate_vocabs", False):
        raise TokenizerError(f"{folder}: has a vocabulary for each side, wanted one for both (separate_vocabs is true)")
    vocab = read_ids(folder / "vocab.json")
    if sorted(vocab.values()) != [*range(len(vocab))]:
        raise TokenizerError(f"{folder / 'vocab.json'}: leaves ids out or gives one twice")
    source, target = (_read_side(folder / name, vocab, settings) for name in MARIAN_FILES[:2])
    kept = (*MARIAN_FILES, *SETTINGS_FILES)
    files = {name: read_bytes(folder / name) for name in kept if (folder / name).exists()}
    return source, special_names(FAMILIES["marian"], settings), MarianSides(target, len(vocab), files)


def _read_side(path: Path, vocab: Mapping[str, int], settings: Settings) -> tokenizers.Tokenizer:
    """One side's pieces under the ids of the vocabulary."""
    model = read_sentencepiece(path, read_bytes(path))
    names = special_names(FAMILIES["marian"], settings)
    missing = [name for name in names.values() if name not in vocab]
    if missing:
        raise TokenizerError(f"{path.with_name('vocab.json')}: has no {missing[0]!r}")
    own, special = written(model), set(names.values())
    scores = {piece.text: piece.score for piece in model.pieces if piece.text in own}
    least = min(scores.values(), default=0.0)
    languages = [token for token in vocab if token.startswith(">>") and token.endswith("<<")]
    shown = own | special | set(languages)
    entries = [
        (token if token in shown else OTHER_SIDE + token, scores.get(token, 0.0 if token in special else least))
        for token in sorted(vocab, key=vocab.__getitem__)
    ]
    entries += [(text, score) for text, score in scores.items() if text not in vocab]
    inner = build_sentencepiece(model, Layout(entries, names["unk_token"], frozenset(special)))
    inner.decoder = decoders.Sequence([decoders.Replace(OTHER_SIDE, ""), inner.decoder])
    inner.add_tokens([AddedToken(token, normalized=False) for token in languages])
    return complete(inner, FAMILIES["marian"], settings, path).inner
