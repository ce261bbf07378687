"""The roles of special tokens, and their names in files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from glassformer.text.model_files import read_token_table

Role = Literal["pad", "bos", "eos", "unk", "mask"]

# The names of the roles in tokenizer_config.json, and the usual tokens where no such file names them.
ROLE_KEYS: dict[Role, tuple[str, ...]] = {
    "pad": ("pad_token",),
    "bos": ("bos_token", "cls_token"),
    "eos": ("eos_token", "sep_token"),
    "unk": ("unk_token",),
    "mask": ("mask_token",),
}
USUAL_TOKENS: dict[Role, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "bos": ("<start>", "<s>", "<bos>", "[CLS]", "<|begin_of_text|>", "<|startoftext|>"),
    "eos": ("<end>", "</s>", "<eos>", "[SEP]", "<|end_of_text|>", "<|endoftext|>"),
    "unk": ("<unk>", "[UNK]", "<|unk|>"),
    "mask": ("<mask>", "[MASK]"),
}


def named_roles(folder: Path) -> dict[Role, list[str]]:
    """The tokens that files beside a tokenizer.json name for each role, the first the one that counts."""
    roles: dict[Role, list[str]] = {role: [] for role in ROLE_KEYS}
    for path in (folder / "tokenizer_config.json", folder / "special_tokens_map.json"):
        names = read_token_table(path) if path.exists() else {}
        for role, keys in ROLE_KEYS.items():
            for token in (names.get(key) for key in keys):
                content = token.get("content") if isinstance(token, dict) else token
                roles[role] += [content] if isinstance(content, str) else []
    return roles


def first_of(tokens: Mapping[Role, Sequence[str]]) -> dict[Role, str]:
    """The first token of each role that has any."""
    return {role: some[0] for role, some in tokens.items() if some}
