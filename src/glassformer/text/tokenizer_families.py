"""Tokenizer families of `transformers`: their special tokens and templates, and the files that override them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, processors

from glassformer.errors import TokenizerError
from glassformer.text.model_files import read_table_if_any, token_content

FileSettings = Mapping[str, object]

SETTINGS_FILES = ("tokenizer_config.json", "special_tokens_map.json")
SPECIAL_KEYS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
CONVERT = "wanted tokenizer.json: save one with transformers, AutoTokenizer.from_pretrained(...).save_pretrained(...)"


@dataclass(frozen=True)
class TokenizerFamily:
    """The special tokens of a family under the names of tokenizer_config.json, and which of them surround a text.

    Where it is `flexible`, add_bos_token and add_eos_token in tokenizer_config.json decide about that.
    """

    names: Mapping[str, str]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    flexible: bool = False


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer read from files, and its special tokens under the names of tokenizer_config.json."""

    inner: tokenizers.Tokenizer
    names: Mapping[str, str]


def _named(*tokens: str | None) -> Mapping[str, str]:
    return {key: token for key, token in zip(SPECIAL_KEYS, tokens, strict=True) if token is not None}


_CLS, _SEP, _BOS, _EOS = ("cls_token",), ("sep_token",), ("bos_token",), ("eos_token",)
_END = "<|endoftext|>"
_ROBERTA_TOKENS = TokenizerFamily(_named("<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"), _CLS, _SEP)
_T5_TOKENS = TokenizerFamily(_named(None, "</s>", "<unk>", None, "<pad>", None, None), (), _EOS)
TOKENIZER_FAMILIES: Mapping[str, TokenizerFamily] = {
    "bert": TokenizerFamily(_named(None, None, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"), _CLS, _SEP),
    "albert": TokenizerFamily(_named("[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"), _CLS, _SEP),
    "roberta": _ROBERTA_TOKENS,
    "xlm-roberta": _ROBERTA_TOKENS,
    "gpt2": TokenizerFamily(_named(_END, _END, _END, None, None, None, None), flexible=True),
    "qwen2": TokenizerFamily(_named(None, _END, _END, None, _END, None, None), flexible=True),
    "llama": TokenizerFamily(_named("<s>", "</s>", "<unk>", None, None, None, None), _BOS, flexible=True),
    "t5": _T5_TOKENS,
    "clip": TokenizerFamily(_named("<|startoftext|>", _END, _END, None, _END, None, None), _BOS, _EOS),
    "marian": _T5_TOKENS,
}
_CLASSES = {  # by the name of the class without "Tokenizer"
    "Bert": "bert", "DistilBert": "bert", "Albert": "albert", "Roberta": "roberta", "Bart": "roberta",
    "XLMRoberta": "xlm-roberta", "GPT2": "gpt2", "Qwen2": "qwen2", "Llama": "llama", "T5": "t5", "MT5": "t5",
    "Marian": "marian", "CLIP": "clip",
}  # fmt: skip
_ANY_CLASS = ("PreTrainedTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend", "PythonBackend")
_MODEL_TYPES = {"distilbert": "bert", "bart": "roberta", "mistral": "llama", "mt5": "t5"}


def read_settings(folder: Path) -> FileSettings:
    """The tokenizer settings in the files of a model; the first file that has a key decides."""
    settings: dict[str, object] = {}
    for name in SETTINGS_FILES:
        settings = read_table_if_any(folder / name) | settings
    config = read_table_if_any(folder / "config.json")
    if not settings.get("tokenizer_class"):
        settings["tokenizer_class"] = config.get("tokenizer_class")
    if "added_tokens_decoder" not in settings:
        added = read_table_if_any(folder / "added_tokens.json")
        settings["added_tokens_decoder"] = {str(id): {"content": token} for token, id in added.items()}
    return settings | {"model_type": config.get("model_type")}


def choose_family(settings: FileSettings, able: Sequence[str], likely: str, path: Path) -> str:
    """The tokenizer family of a file: by its class or its model type, else the likely one."""
    named = settings.get("tokenizer_class")
    if isinstance(named, str) and named not in _ANY_CLASS:
        family = _CLASSES.get(named.removesuffix("Fast").removesuffix("Tokenizer"))
        if family is None or family not in able:
            raise TokenizerError(f"{path}: belongs to a {named}, which is not read from this file; {CONVERT}")
        return family
    model = str(settings.get("model_type"))
    model = _MODEL_TYPES.get(model, model)
    return model if model in able else likely


def flag(settings: FileSettings, name: str, default: bool) -> bool:
    """A setting that is true or false."""
    value = settings.get(name)
    return value if isinstance(value, bool) else default


def special_names(family: TokenizerFamily, settings: FileSettings) -> dict[str, str]:
    """The special tokens: those of the family, unless the files name others."""
    named = ((key, token_content(settings.get(key, family.names.get(key)))) for key in SPECIAL_KEYS)
    return {key: content for key, content in named if content is not None}


def complete(inner: tokenizers.Tokenizer, family: TokenizerFamily, settings: FileSettings, path: Path) -> Vocabulary:
    """Add the tokens that files add to the vocabulary, and put the special tokens of the family around each text."""
    for id, token in _added_tokens(settings, path):
        inner.add_tokens([token])
        found = inner.token_to_id(token.content)
        if found != id:
            raise TokenizerError(f"{path}: the files add {token.content!r} as token {id}, but here it is token {found}")
    names = special_names(family, settings)
    more = settings.get("additional_special_tokens")
    listed = [token_content(token) for token in more] if isinstance(more, list) else []
    special = [*dict.fromkeys([*names.values(), *filter(None, listed)])]
    inner.add_special_tokens(special)
    for token in special:
        id = inner.token_to_id(token)
        if inner.model.id_to_token(id) not in (token, None):
            raise TokenizerError(f"{path}: leaves ids out: {id} is both {inner.model.id_to_token(id)!r} and {token!r}")
    before, after = family.before, family.after
    if family.flexible:
        before = _BOS if flag(settings, "add_bos_token", bool(before)) else ()
        after = _EOS if flag(settings, "add_eos_token", False) else ()
    single = [*(names[key] for key in before if key in names), "$A", *(names[key] for key in after if key in names)]
    ids = [(token, inner.token_to_id(token)) for token in dict.fromkeys(single) if token != "$A"]
    inner.post_processor = processors.TemplateProcessing(single=single, pair=[*single, "$B"], special_tokens=ids)
    return Vocabulary(inner, names)


def _added_tokens(settings: FileSettings, path: Path) -> list[tuple[int, AddedToken]]:
    """The tokens that files add to the vocabulary, by their ids."""
    table = settings.get("added_tokens_decoder")
    found: list[tuple[int, AddedToken]] = []
    for id, fields in table.items() if isinstance(table, dict) else ():
        content = token_content(fields)
        if not id.isdecimal() or content is None or not isinstance(fields, dict):
            raise TokenizerError(f"{path}: the files add a token that has no id or no name: {id!r}")
        flags = {key: flag(fields, key, False) for key in ("special", "lstrip", "rstrip", "single_word", "normalized")}
        found.append((int(id), AddedToken(content, **flags)))
    return sorted(found, key=lambda item: item[0])
