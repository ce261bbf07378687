"""Read the three files of a Marian model: a SentencePiece model for each side, and one vocabulary for both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models

from glassformer.errors import TokenizerError
from glassformer.text.model_files import read_bytes, read_token_table
from glassformer.text.read_sentencepiece import SPACE, build_sentencepiece, layout_of, read_sentencepiece
from glassformer.text.read_vocabulary import read_ids
from glassformer.text.tokenizer_families import (
    TOKENIZER_FAMILIES,
    Vocabulary,
    complete,
    flag,
    read_settings,
    special_names,
)

TOKENIZER_CONFIG = "tokenizer_config.json"
MARIAN_FILES = ("source.spm", "target.spm", "vocab.json")


@dataclass(frozen=True)
class MarianSides:
    """How a Marian tokenizer reads text: the models that cut sources and targets into pieces, and the id of each piece.

    `files` are to be written again as they are, and `config` is what tokenizer_config.json said.
    """

    source: tokenizers.Tokenizer
    target: tokenizers.Tokenizer
    ids: Mapping[str, int]
    unk: int
    files: Mapping[str, bytes]
    config: Mapping[str, object]

    def encode(self, texts: Sequence[str], are_targets: bool) -> list[list[int]]:
        """The ids of texts; a language code such as >>fra<< at the beginning of one is a token."""
        parts = [_language(text) for text in texts]
        side = self.target if are_targets else self.source
        found = side.encode_batch([rest for _, rest in parts], add_special_tokens=False)
        return [self.ids_of([*code, *encoding.tokens]) for (code, _), encoding in zip(parts, found, strict=True)]

    def ids_of(self, tokens: Sequence[str]) -> list[int]:
        """The ids of pieces; one that the vocabulary lacks is unknown."""
        return [self.ids.get(token, self.unk) for token in tokens]


def _language(text: str) -> tuple[list[str], str]:
    code, mark, rest = text.partition("<<")
    return ([code + mark], rest) if mark and code.startswith(">>") else ([], text)


def is_marian(folder: Path) -> bool:
    """Whether a folder holds the files of a Marian tokenizer."""
    return all((folder / name).exists() for name in MARIAN_FILES)


def read_marian(folder: Path) -> tuple[Vocabulary, MarianSides]:
    """The vocabulary of a Marian tokenizer, and the models that cut sources and targets into its pieces."""
    settings = read_settings(folder)
    if flag(settings, "separate_vocabs", False):
        raise TokenizerError(f"{folder}: has a vocabulary for each side (separate_vocabs), wanted one for both")
    path = folder / "vocab.json"
    ids, names = read_ids(path), special_names(TOKENIZER_FAMILIES["marian"], settings)
    for name in names.values():
        if name not in ids:
            raise TokenizerError(f"{path}: has no {name!r}")
    inner = tokenizers.Tokenizer(models.WordLevel(ids, names["unk_token"]))
    ends = decoders.Replace(Regex("^ +| +$"), "")
    inner.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.Fuse(), ends])
    source, target = (_read_side(folder / name) for name in MARIAN_FILES[:2])
    files = {name: read_bytes(folder / name) for name in MARIAN_FILES}
    config = read_token_table(folder / TOKENIZER_CONFIG) if (folder / TOKENIZER_CONFIG).exists() else {}
    sides = MarianSides(source, target, ids, ids[names["unk_token"]], files, config)
    return complete(inner, TOKENIZER_FAMILIES["marian"], settings, path), sides


def _read_side(path: Path) -> tokenizers.Tokenizer:
    model = read_sentencepiece(path, read_bytes(path))
    return build_sentencepiece(model, layout_of(model))
