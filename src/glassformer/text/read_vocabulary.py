"""Tokenizers from vocabulary files: vocab.txt, merges.txt, SentencePiece models, and Marian's pair of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from glassformer.errors import TokenizerError
from glassformer.text.model_files import read_bytes, read_table_if_any, read_token_table, read_whole
from glassformer.text.read_sentencepiece import SPACE, Layout, build_sentencepiece, layout_of, read_sentencepiece
from glassformer.text.tokenizer_families import (
    CONVERT,
    TOKENIZER_FAMILIES,
    FileSettings,
    Vocabulary,
    choose_family,
    complete,
    flag,
    read_settings,
    special_names,
)

SENTENCEPIECE_FILES = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model")
BPE_FILES = ("vocab.json", "merges.txt")
WORDPIECE_FILE = "vocab.txt"
VOCABULARY_FILES = (*SENTENCEPIECE_FILES, *BPE_FILES, WORDPIECE_FILE)
UNREAD_FILES = ("*.tiktoken", "tekken.json", "*.spm", "spm.model", "bpe.codes")  # these hold tokenizers too
MOST_SENTINELS = 10_000  # T5 has 100
_QWEN2_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_CLIP_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
_WORD_END = "</w>"  # at the end of a word in CLIP's vocabulary


def vocabulary_files(folder: Path) -> list[str]:
    """The files of a folder that hold a tokenizer or a part of one, of every kind but tokenizer.json."""
    found = [name for name in VOCABULARY_FILES if (folder / name).exists()]
    return found + sorted({path.name for pattern in UNREAD_FILES for path in folder.glob(pattern)})


def read_vocabulary(folder: Path) -> Vocabulary:
    """The tokenizer of a folder without a tokenizer.json, with the ids that `transformers` gives."""
    settings = read_settings(folder)
    for name in SENTENCEPIECE_FILES:
        if (folder / name).exists():
            return _read_pieces(folder / name, settings)
    if all((folder / name).exists() for name in BPE_FILES):
        return _read_byte_level(folder, settings)
    if (folder / WORDPIECE_FILE).exists():
        return _read_wordpiece(folder / WORDPIECE_FILE, settings)
    if found := vocabulary_files(folder):
        raise TokenizerError(f"{folder}: no tokenizer can be read from {', '.join(found)}; {CONVERT}")
    raise TokenizerError(f"{folder / 'tokenizer.json'}: no such file")


def _read_wordpiece(path: Path, settings: FileSettings) -> Vocabulary:
    """BERT's list of word pieces, one on each line."""
    choose_family(settings, ("bert",), "bert", path)
    names = special_names(TOKENIZER_FAMILIES["bert"], settings)
    vocab = {line.rstrip(): number for number, line in enumerate(_lines(path))}
    inner = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=names["unk_token"]))
    accents = settings.get("strip_accents")
    inner.normalizer = normalizers.BertNormalizer(
        handle_chinese_chars=flag(settings, "tokenize_chinese_chars", True),
        strip_accents=accents if isinstance(accents, bool) else None,
        lowercase=flag(settings, "do_lower_case", True),
    )
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    return complete(inner, TOKENIZER_FAMILIES["bert"], settings, path)


def _lines(path: Path) -> list[str]:
    lines = read_whole(path).split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _read_byte_level(folder: Path, settings: FileSettings) -> Vocabulary:
    """Byte-level BPE: the ids of GPT-2, RoBERTa, Qwen2 or CLIP, and its merges, one on each line."""
    path, merges = folder / "vocab.json", list(_merges(folder / "merges.txt"))
    vocab = read_ids(path)
    likely = "roberta" if {"<s>", "</s>"} <= vocab.keys() else "gpt2"
    likely = "clip" if any(token.endswith(_WORD_END) for token in vocab) else likely
    family = choose_family(settings, ("gpt2", "roberta", "qwen2", "clip"), likely, path)
    if family == "clip":
        return complete(_clip_tokenizer(vocab, merges, settings), TOKENIZER_FAMILIES[family], settings, path)
    inner = tokenizers.Tokenizer(models.BPE(vocab, merges))
    prefix = flag(settings, "add_prefix_space", False)
    if family == "qwen2":
        inner.normalizer = normalizers.NFC()
        words = pre_tokenizers.Split(Regex(_QWEN2_WORDS), "isolated")
        inner.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(prefix, use_regex=False)])
    else:
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(prefix)
    inner.decoder = decoders.ByteLevel()
    return complete(inner, TOKENIZER_FAMILIES[family], settings, path)


def _clip_tokenizer(
    vocab: dict[str, int], merges: list[tuple[str, str]], settings: FileSettings
) -> tokenizers.Tokenizer:
    """CLIP's BPE: lower case, words without the space before them, and a mark at the end of each."""
    unk = special_names(TOKENIZER_FAMILIES["clip"], settings).get("unk_token")
    inner = tokenizers.Tokenizer(models.BPE(vocab, merges, end_of_word_suffix=_WORD_END, unk_token=unk))
    spaces = normalizers.Replace(Regex(r"\s+"), " ")
    inner.normalizer = normalizers.Sequence([normalizers.NFC(), spaces, normalizers.Lowercase()])
    words = pre_tokenizers.Split(Regex(_CLIP_WORDS), "removed", invert=True)
    inner.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(False)])
    ends = decoders.Replace(_WORD_END, " ")
    inner.decoder = decoders.Sequence([decoders.ByteLevel(), ends, decoders.Strip(" ", 1, 1)])
    return inner


def _merges(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(_lines(path), start=1):
        parts = line.rstrip("\r").split(" ")
        if line.startswith("#version"):
            continue
        if len(parts) != 2:
            raise TokenizerError(f"{path}:{number}: has {len(parts)} parts, wanted the two that are merged")
        yield parts[0], parts[1]


def read_ids(path: Path) -> dict[str, int]:
    """The id of each token of a vocab.json."""
    table = read_token_table(path)
    ids = {token: id for token, id in table.items() if type(id) is int and 0 <= id < 2**31}
    if len(ids) < len(table):
        raise TokenizerError(f"{path}: gives {next(t for t in table if t not in ids)!r} something that is not an id")
    return ids


def _read_pieces(path: Path, settings: FileSettings) -> Vocabulary:
    """A SentencePiece model, laid out as the family has it."""
    model = read_sentencepiece(path, read_bytes(path))
    layout = layout_of(model)
    likely = "xlm-roberta" if path.name == "sentencepiece.bpe.model" else "t5"
    likely = "llama" if model.is_bpe else likely
    likely = "albert" if "[CLS]" in layout.special else likely
    family = choose_family(settings, ("llama", "t5", "albert", "xlm-roberta"), likely, path)
    if family == "t5":
        layout = _with_sentinels(layout, settings)
    if family == "xlm-roberta":
        layout = _renumbered(layout, special_names(TOKENIZER_FAMILIES[family], settings))
    inner = build_sentencepiece(model, layout, list(_normalized_first(family, settings)))
    return complete(inner, TOKENIZER_FAMILIES[family], settings, path)


def _with_sentinels(layout: Layout, settings: FileSettings) -> Layout:
    """T5's tokens for hidden spans come after those of the file, the last one first."""
    count = settings.get("extra_ids")
    count = count if type(count) is int and 0 <= count <= MOST_SENTINELS else 100
    names = [f"<extra_id_{number}>" for number in reversed(range(count))]
    scores = [*layout.scores, *((name, 0.0) for name in names)]
    return replace(layout, scores=scores, special=layout.special | set(names))


def _renumbered(layout: Layout, names: Mapping[str, str]) -> Layout:
    """XLM-RoBERTa has four special tokens where the file has three, and the mask at the end."""
    first = [names[key] for key in ("bos_token", "pad_token", "eos_token", "unk_token")]
    scores = [*((name, 0.0) for name in first), *layout.scores[3:], (names["mask_token"], 0.0)]
    return Layout(scores, names["unk_token"], layout.special | {*first, names["mask_token"]})


def _normalized_first(family: str, settings: FileSettings) -> Iterator[normalizers.Normalizer]:
    if family != "albert":
        return
    yield normalizers.Replace("``", '"')
    yield normalizers.Replace("''", '"')
    if not flag(settings, "keep_accents", False):
        yield normalizers.NFKD()
        yield normalizers.StripAccents()
    if flag(settings, "do_lower_case", True):
        yield normalizers.Lowercase()


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
    config = read_table_if_any(folder / "tokenizer_config.json")
    sides = MarianSides(source, target, ids, ids[names["unk_token"]], files, config)
    return complete(inner, TOKENIZER_FAMILIES["marian"], settings, path), sides


def _read_side(path: Path) -> tokenizers.Tokenizer:
    model = read_sentencepiece(path, read_bytes(path))
    return build_sentencepiece(model, layout_of(model))
