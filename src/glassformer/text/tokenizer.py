"""Text to ids and back: one `tokenizers.Tokenizer` underneath, so that tokenizer.json is always the whole truth."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import tokenizers
from tokenizers import decoders

from glassformer.errors import GlassformerError, TokenizerError
from glassformer.text.model_files import (
    PLAIN_USE,
    ModelUse,
    read_token_table,
    read_use,
    read_whole,
    use_fields,
    write_whole,
)
from glassformer.text.patterns import check_patterns
from glassformer.text.template import TextTemplate, set_template, template_of

Role = Literal["pad", "start", "end", "unknown", "mask"]

MOST_CHARACTERS = 10_000_000  # in one call; the library takes up to 340 bytes for each
PORTION = 500_000  # characters encoded at a time when a whole corpus is
MOST_IDS = 10_000_000

# What the roles are called in tokenizer_config.json, and which tokens have them where no such file says so.
_ROLE_KEYS: dict[Role, tuple[str, ...]] = {
    "pad": ("pad_token",),
    "start": ("bos_token", "cls_token"),
    "end": ("eos_token", "sep_token"),
    "unknown": ("unk_token",),
    "mask": ("mask_token",),
}
_USUAL_TOKENS: dict[Role, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "start": ("<start>", "<s>", "<bos>", "[CLS]", "<|begin_of_text|>", "<|startoftext|>"),
    "end": ("<end>", "</s>", "<eos>", "[SEP]", "<|end_of_text|>", "<|endoftext|>"),
    "unknown": ("<unk>", "[UNK]", "<|unk|>"),
    "mask": ("<mask>", "[MASK]"),
}


class Tokenizer:
    """Text to ids and back; the name of a special token in a text is text like any other.

    `pad`, `start`, `end`, `unknown` and `mask` are ids, or None where the tokenizer has no such token.
    """

    def __init__(self, inner: tokenizers.Tokenizer, roles: Mapping[Role, str], use: ModelUse = PLAIN_USE) -> None:
        # A file may ask for cutting and padding, which here are the business of batches.
        inner.no_truncation()
        inner.no_padding()
        missing = [token for token in roles.values() if inner.token_to_id(token) is None]
        if missing:
            raise TokenizerError(f"the special token {missing[0]!r} is not in the vocabulary")
        inner.add_special_tokens(sorted(set(roles.values())))
        inner.encode_special_tokens = True
        self._inner = inner
        self.roles = dict(roles)
        self.use = use
        ids = set(inner.get_vocab().values())
        self.vocab = max(ids, default=-1) + 1
        if not 0 < self.vocab <= MOST_IDS:
            raise TokenizerError(f"the largest id is {self.vocab - 1}, wanted one from 0 to {MOST_IDS - 1}")
        self._unused = frozenset(range(self.vocab)) - ids if len(ids) < self.vocab else frozenset[int]()
        self.pad, self.start, self.end, self.unknown, self.mask = (self._id(role) for role in get_args(Role))

    def _id(self, role: Role) -> int | None:
        return self._inner.token_to_id(self.roles[role]) if role in self.roles else None

    def required(self, role: Role) -> int:
        """The id of a special token that the caller cannot do without."""
        found = self._id(role)
        if found is None:
            raise TokenizerError(f"the tokenizer has no {role} token, which this needs")
        return found

    def __repr__(self) -> str:
        return f"<Tokenizer {type(self._inner.model).__name__}: {self.vocab} tokens>"

    @cached_property
    def specials(self) -> frozenset[int]:
        """The ids of all special tokens."""
        return frozenset(id for id, token in self._inner.get_added_tokens_decoder().items() if token.special)

    @property
    def fingerprint(self) -> str:
        """A hash that two tokenizers share if they turn every text into the same ids."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        whole = [self._inner.to_str(), {role: self.roles[role] for role in sorted(self.roles)}]
        return hashlib.sha256(json.dumps(whole).encode()).hexdigest()

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without any added at its ends."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of several texts."""
        characters = sum(map(len, texts))
        if characters > MOST_CHARACTERS:
            raise TokenizerError(
                f"{characters:,} characters at once, wanted at most {MOST_CHARACTERS:,}: give the text in parts"
            )
        for number, text in enumerate(texts):
            require_unicode(text, "text" if len(texts) == 1 else f"text {number}")
        with guarded("encoding"):
            return [encoding.ids for encoding in self._inner.encode_batch_fast(list(texts), add_special_tokens=False)]

    @cached_property
    def template(self) -> TextTemplate:
        """The special tokens that the file puts around a text."""
        with guarded("encoding"):
            return template_of(self._inner)

    def encode_inputs(self, texts: Sequence[str], max_length: int | None = None) -> list[list[int]]:
        """The ids of texts as an encoder reads them: with the special tokens around them, truncated if asked."""
        return [self.template.apply(row, max_length) for row in self.encode_batch(texts)]

    def encode_prompts(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of prompts, to be continued: with what stands before a text and nothing after it.

        Training separates documents by the end token, so an empty prompt begins with that where nothing else does.
        """
        rows = [[*self.template.before, *row] for row in self.encode_batch(texts)]
        begin = [id for id in (self.end, self.start) if id is not None][:1]
        for number, row in enumerate(rows):
            if not row and not begin:
                raise TokenizerError(
                    f"prompt {number} is empty, and the tokenizer has no end or start token to begin with"
                )
        return [row or begin for row in rows]

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids that a decoder should write for each text, up to the end token, which is left out."""
        return [[*self.template.before, *row] for row in self.encode_batch(texts)]

    def encode_stream(self, texts: Iterable[str]) -> Iterator[list[int]]:
        """The ids of a whole corpus in portions, each text as a model reads it and closed by the end token."""
        opening, closing = self.template.before, self.template.after
        if self.end is not None and self.end not in closing[-1:]:
            closing = (*closing, self.end)
        for batch in _portions(texts):
            ids: list[int] = []
            for (is_first, is_last), part in zip(
                (ends for _, *ends in batch), self.encode_batch([text for text, *_ in batch]), strict=True
            ):
                ids += [*opening, *part] if is_first else part
                ids += closing if is_last else []
            yield ids

    @property
    def decoder_start(self) -> int:
        """The id that a decoder's input begins with: the model's own, or the start token, or the padding token."""
        known = [id for id in (self.use.decoder_start, self.start, self.pad) if id is not None and id < self.vocab]
        if not known:
            raise TokenizerError("the tokenizer has no start or padding token for a decoder's input to begin with")
        return known[0]

    @property
    def ends(self) -> frozenset[int]:
        """The ids that end a generated text."""
        known = frozenset(id for id in self.use.ends if id < self.vocab)
        return known or frozenset(() if self.end is None else (self.end,))

    def with_use(self, **changes: int | tuple[int, ...] | None) -> "Tokenizer":
        """The same tokenizer for a model that uses it otherwise."""
        return Tokenizer(self._inner, self.roles, replace(self.use, **changes))

    def with_template(self, template: TextTemplate) -> "Tokenizer":
        """The same tokenizer with other special tokens around each text."""
        inner = tokenizers.Tokenizer.from_str(self._inner.to_str())
        set_template(inner, template)
        return Tokenizer(inner, self.roles, self.use)

    def for_encoder(self) -> "Tokenizer":
        """The tokenizer of an encoder: where the file puts nothing around a text, the start and the end token."""
        if self.template != TextTemplate():
            return self
        return self.with_template(TextTemplate((self.required("start"),), () if self.end is None else (self.end,)))

    def for_decoder(self) -> "Tokenizer":
        """The tokenizer of a language model: prompts are to be continued, so nothing stands after them."""
        return self.with_template(TextTemplate(self.template.before)) if self.template.after else self

    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids; special tokens are dropped."""
        wanted = [int(id) for id in ids]
        for position, id in enumerate(wanted):
            if not 0 <= id < self.vocab or id in self._unused:
                raise TokenizerError(f"id {id} at position {position} is no token, wanted 0 to {self.vocab - 1}")
        with guarded("decoding"):
            return self._inner.decode(wanted, skip_special_tokens=True)

    def token(self, id: int) -> str:
        """One token as one would show it: its text, with bytes that are no text alone written as \\x escapes."""
        token = self._inner.id_to_token(id) if 0 <= id < self.vocab else None
        if token is None:
            raise TokenizerError(f"id {id} is no token, wanted 0 to {self.vocab - 1}")
        if id in self.specials or not isinstance(self._inner.decoder, decoders.ByteLevel):
            return token
        if any(character not in _BYTES for character in token):
            return token
        return bytes(_BYTES[character] for character in token).decode("utf-8", "backslashreplace")

    def text_bytes(self, ids: Iterable[int]) -> int:
        """How many bytes of UTF-8 text these ids stand for; special tokens stand for none, and part texts."""
        if isinstance(self._inner.decoder, decoders.ByteLevel):
            lengths = self._token_bytes
            return sum(lengths[int(id)] for id in ids)
        parts: list[list[int]] = [[]]
        for id in ids:
            if id in self.specials:
                parts.append([])
            else:
                parts[-1].append(id)
        return sum(len(self.decode(part).encode()) for part in parts if part)

    @cached_property
    def _token_bytes(self) -> list[int]:
        """The bytes of each token of a byte-level vocabulary; a character may be spread over several tokens."""
        tokens = ["" if id in self.specials else self._inner.id_to_token(id) or "" for id in range(self.vocab)]
        return [len(token) if set(token) <= _BYTES.keys() else len(token.encode()) for token in tokens]

    def save(self, folder: Path | str) -> None:
        """Write tokenizer.json, and beside it what Hugging Face needs to know which special token is which."""
        names = {_ROLE_KEYS[role][0]: token for role, token in self.roles.items()}
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **names}
        config |= use_fields(replace(self.use, ends=()) if self.use.ends == (self.end,) else self.use)
        files = {
            "tokenizer.json": self._inner.to_str(pretty=True),
            "tokenizer_config.json": json.dumps(config, indent=2, ensure_ascii=False),
            "special_tokens_map.json": json.dumps(names, indent=2, ensure_ascii=False),
        }
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                write_whole(Path(folder) / name, text + "\n")
        except OSError as error:
            raise TokenizerError(f"{folder}: cannot be written: {error.strerror}") from error

    @classmethod
    def load(cls, path: Path | str) -> "Tokenizer":
        """Read a tokenizer.json, or the one in a folder; files beside it say which special token is which."""
        file = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
        text = read_whole(file)
        check_patterns(text, str(file))
        with guarded(f"{file}: reading"):
            inner = tokenizers.Tokenizer.from_str(text)
        named = _named_roles(file.parent) if file.name == "tokenizer.json" else {}
        roles: dict[Role, str] = {}
        for role in _ROLE_KEYS:
            known = [
                token for token in (*named.get(role, ()), *_USUAL_TOKENS[role]) if inner.token_to_id(token) is not None
            ]
            if known:
                roles[role] = known[0]
        return cls(inner, roles, read_use(file.parent) if file.name == "tokenizer.json" else PLAIN_USE)


@contextmanager
def guarded(doing: str) -> Iterator[None]:
    """Make whatever the library raises a `TokenizerError`, its panics too, which are not an `Exception`."""
    try:
        yield
    except GlassformerError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise TokenizerError(f"{doing} failed: {error}") from error


def require_unicode(text: str, name: str) -> None:
    """Raise a `TokenizerError` if a text holds half of a surrogate pair, which is no character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"U+{ord(text[error.start]):04X}"
        raise TokenizerError(
            f"{name}: character {error.start} is {half}, half of a surrogate pair, which UTF-8 cannot hold"
        ) from None


def pieces(text: str) -> Iterator[str]:
    """A text in pieces of at most a portion, cut in front of line breaks, where tokens seldom reach across."""
    start = 0
    while len(text) - start > PORTION:
        border = text.rfind("\n", start + 1, start + PORTION)
        end = border if border > 0 else start + PORTION
        yield text[start:end]
        start = end
    yield text[start:]


def _portions(texts: Iterable[str]) -> Iterator[list[tuple[str, bool, bool]]]:
    """Pieces of texts, each with whether its text begins and whether it ends there, in lists of about a portion."""
    batch: list[tuple[str, bool, bool]] = []
    characters = 0
    for text in texts:
        left = len(text)
        for piece in pieces(text):
            begins = left == len(text)
            left -= len(piece)
            batch.append((piece, begins, left == 0))
            characters += len(piece)
            if characters >= PORTION:
                yield batch
                batch, characters = [], 0
    if batch:
        yield batch


def _named_roles(folder: Path) -> dict[Role, list[str]]:
    """The tokens that files beside a tokenizer.json name for each role, the first the one that counts."""
    roles: dict[Role, list[str]] = {role: [] for role in _ROLE_KEYS}
    for path in (folder / "tokenizer_config.json", folder / "special_tokens_map.json"):
        names = read_token_table(path) if path.exists() else {}
        for role, keys in _ROLE_KEYS.items():
            for token in (names.get(key) for key in keys):
                content = token.get("content") if isinstance(token, dict) else token
                roles[role] += [content] if isinstance(content, str) else []
    return roles


def _byte_alphabet() -> dict[str, int]:
    """The byte behind each character of byte-level tokens: itself where it can be seen, else one from 256 up."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    unseen = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {chr(256 + place): byte for place, byte in enumerate(unseen)}


_BYTES = _byte_alphabet()
