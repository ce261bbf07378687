"""What special tokens are for, and what files call them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from glassformer.text.model_files import read_token_table

Role = Literal["pad", "start", "end", "unknown", "mask"]

# What the roles are called in tokenizer_config.json, and which tokens have them where no such file says so.
ROLE_KEYS: dict[Role, tuple[str, ...]] = {
    "pad": ("pad_token",),
    "start": ("bos_token", "cls_token"),
    "end": ("eos_token", "sep_token"),
    "unknown": ("unk_token",),
    "mask": ("mask_token",),
}
USUAL_TOKENS: dict[Role, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "start": ("<start>", "<s>", "<bos>", "[CLS]", "<|begin_of_text|>", "<|startoftext|>"),
    "end": ("<end>", "</s>", "<eos>", "[SEP]", "<|end_of_text|>", "<|endoftext|>"),
    "unknown": ("<unk>", "[UNK]", "<|unk|>"),
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
