"""The special tokens of a tokenizer: their roles, and the template that puts them before and after a text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tokenizers
from tokenizers import processors

from glassformer.text.model_files import read_table_if_any, token_content

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
    tables = [read_table_if_any(folder / name) for name in ("tokenizer_config.json", "special_tokens_map.json")]
    return {
        role: [content for table in tables for key in keys if (content := token_content(table.get(key))) is not None]
        for role, keys in ROLE_KEYS.items()
    }


def first_of(tokens: Mapping[Role, Sequence[str]]) -> dict[Role, str]:
    """The first token of each role that has any."""
    return {role: some[0] for role, some in tokens.items() if some}


@dataclass(frozen=True)
class TextTemplate:
    """The special tokens before and after a text; `[CLS]` and `[SEP]` of BERT, for instance."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    def apply(self, ids: Sequence[int], max_length: int | None = None) -> list[int]:
        """The ids of a text with its special tokens; a text that is too long is truncated, they are not."""
        if max_length is not None:
            ids = ids[: max(max_length - len(self.before) - len(self.after), 0)]
        return [*self.before, *ids, *self.after]


def template_of(inner: tokenizers.Tokenizer) -> TextTemplate:
    """The template of a tokenizer's post-processor, found by encoding a text."""
    for probe in _probes(inner):
        encoding = inner.encode(probe, add_special_tokens=True)
        text = [position for position, sequence in enumerate(encoding.sequence_ids) if sequence is not None]
        if text:
            return TextTemplate(tuple(encoding.ids[: text[0]]), tuple(encoding.ids[text[-1] + 1 :]))
    return TextTemplate()


def _probes(inner: tokenizers.Tokenizer) -> Iterator[str]:
    """Texts of which one should have a token: letters, then the tokens of the vocabulary."""
    yield from ("a", "1", ".")
    special = {token.content for token in inner.get_added_tokens_decoder().values()}
    yield from (token for token in sorted(inner.get_vocab()) if token not in special)


def set_template(inner: tokenizers.Tokenizer, template: TextTemplate) -> None:
    """Give a tokenizer a post-processor that puts these tokens around each text, in `transformers` too."""
    names = {id: inner.id_to_token(id) for id in (*template.before, *template.after)}
    before, after = ([names[id] for id in ids] for ids in (template.before, template.after))
    single = [*before, "$A", *after]
    second = ["$B:1", *(f"{token}:1" for token in after)]
    inner.post_processor = processors.TemplateProcessing(
        single=single, pair=[*single, *second], special_tokens=[(token, id) for id, token in names.items()]
    )


def _byte_alphabet() -> dict[str, int]:
    """The byte of each character of byte-level tokens: printable bytes are themselves, others begin at 256."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    unseen = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {chr(256 + index): byte for index, byte in enumerate(unseen)}


BYTE_OF = _byte_alphabet()
