"""Text to ids and back: one `tokenizers.Tokenizer` underneath, so that tokenizer.json always says everything."""

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

from glassformer import durable
from glassformer.errors import GlassformerError, TokenizerError
from glassformer.text.corpus import TextPart, batches_by_characters, portions
from glassformer.text.growth import check_growth
from glassformer.text.model_files import PLAIN_USE, ModelUse, read_use, read_whole, use_fields
from glassformer.text.patterns import check_patterns
from glassformer.text.read_vocabulary import (
    MARIAN_FILES,
    VOCABULARY_FILES,
    MarianSides,
    is_marian,
    read_marian,
    read_vocabulary,
    vocabulary_files,
)
from glassformer.text.special_tokens import (
    BYTE_OF,
    ROLE_KEYS,
    USUAL_TOKENS,
    Role,
    TextTemplate,
    first_of,
    named_roles,
    set_template,
    template_of,
)

TokenizerKind = Literal["characters", "words", "plain_words", "bpe", "wordpiece", "unigram"]  # can be trained
MOST_CHARACTERS = 10_000_000  # of one text; the library takes up to 340 bytes for each
MOST_IDS = 10_000_000
OLDER_FILES = (*MARIAN_FILES, *VOCABULARY_FILES)


class Tokenizer:
    """Text to ids and back; the name of a special token in a text is text like any other.

    `pad`, `bos`, `eos`, `unk` and `mask` are ids, or None where the tokenizer has no such token.
    """

    def __init__(
        self,
        inner: tokenizers.Tokenizer,
        roles: Mapping[Role, str],
        use: ModelUse = PLAIN_USE,
        sides: MarianSides | None = None,
    ) -> None:
        # A file may ask for truncation and padding, which are done by batches here.
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
        self._sides = sides
        ids = set(inner.get_vocab().values())
        self.vocab_size = max(ids, default=-1) + 1
        if not 0 < self.vocab_size <= MOST_IDS:
            raise TokenizerError(f"the largest id is {self.vocab_size - 1}, wanted one from 0 to {MOST_IDS - 1}")
        self._unused = frozenset(range(self.vocab_size)) - ids if len(ids) < self.vocab_size else frozenset[int]()
        self.pad, self.bos, self.eos, self.unk, self.mask = (self._id(role) for role in get_args(Role))

    def _id(self, role: Role) -> int | None:
        return self._inner.token_to_id(self.roles[role]) if role in self.roles else None

    def required(self, role: Role) -> int:
        """The id of a special token that the caller needs."""
        found = self._id(role)
        if found is None:
            raise TokenizerError(f"the tokenizer has no {role} token, which this needs")
        return found

    def __repr__(self) -> str:
        return f"<Tokenizer {type(self._inner.model).__name__}: {self.vocab_size} tokens>"

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
        whole: list[object] = [self._inner.to_str(), {role: self.roles[role] for role in sorted(self.roles)}]
        whole += [] if self._sides is None else [self._sides.source.to_str(), self._sides.target.to_str()]
        return hashlib.sha256(json.dumps(whole).encode()).hexdigest()

    def unused_ids(self, rows: int) -> list[int]:
        """The ids below a number of vocabulary rows that are not tokens: gaps, and rows beyond the last token."""
        return [*sorted(id for id in self._unused if id < rows), *range(self.vocab_size, rows)]

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without any added at its ends."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of several texts."""
        return self._encode(texts, are_targets=False)

    def _encode(self, texts: Sequence[str], are_targets: bool) -> list[list[int]]:
        for number, text in enumerate(texts):
            name = "text" if len(texts) == 1 else f"text {number}"
            if len(text) > MOST_CHARACTERS:
                most = f"wanted at most {MOST_CHARACTERS:,}: give it in parts"
                raise TokenizerError(f"{name}: has {len(text):,} characters, {most}")
            require_unicode(text, name)
        rows: list[list[int]] = []
        with guarded("encoding"):
            for batch in batches_by_characters(texts):
                if self._sides is not None:
                    rows += self._sides.encode(batch, are_targets)
                else:
                    found = self._inner.encode_batch_fast(list(batch), add_special_tokens=False)
                    rows += [encoding.ids for encoding in found]
        return rows

    def count_unknown(self, ids: Iterable[int]) -> int:
        """The number of unknown tokens among these ids."""
        return 0 if self.unk is None else sum(id == self.unk for id in ids)

    @cached_property
    def template(self) -> TextTemplate:
        """The special tokens that the file puts before and after a text."""
        with guarded("encoding"):
            return template_of(self._inner)

    def encode_inputs(self, texts: Sequence[str], max_length: int | None = None) -> list[list[int]]:
        """The ids of texts as an encoder reads them: with the special tokens around them, truncated if asked."""
        return [self.template.apply(row, max_length) for row in self.encode_batch(texts)]

    def encode_masked(self, text: str) -> list[int]:
        """The ids of a text as an encoder reads it, with the mask token where the text spells it."""
        mask = self.required("mask")
        *parts, last = text.split(self.roles["mask"])
        rows = self.encode_batch([*parts, last])
        if parts and self._inner.token_to_id(" ") is None:
            # A space belongs to the token after it, which may be the mask; some tokenizers put one before each part.
            parts = [*(part.rstrip() for part in parts), last]
            both = self.encode_batch([*parts, *(part.lstrip() for part in parts)])
            rows = [min(pair, key=len) for pair in zip(both[: len(parts)], both[len(parts) :], strict=True)]
        first, *rest = rows
        return self.template.apply([*first, *(id for row in rest for id in (mask, *row))])

    def encode_prompts(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of prompts, to be continued: with the special tokens before a text and none after it.

        Training separates documents by EOS, so an empty prompt begins with it where the template adds nothing.
        """
        rows = [[*self.template.before, *row] for row in self.encode_batch(texts)]
        begin = [id for id in (self.eos, self.bos) if id is not None][:1]
        for number, row in enumerate(rows):
            if not row and not begin:
                raise TokenizerError(
                    f"prompt {number} is empty, and the tokenizer has no EOS or BOS token to begin with"
                )
        return [row or begin for row in rows]

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids that a decoder should write for each text, up to EOS, which is left out."""
        return [[*self.template.before, *row] for row in self._encode(texts, are_targets=True)]

    def encode_stream(self, texts: Iterable[str]) -> Iterator[list[int]]:
        """The ids of a whole corpus in portions, each text as a model reads it, followed by EOS."""
        opening, closing = self._borders
        for batch in portions(texts):
            ids: list[int] = []
            for part, row in zip(batch, self._encode_parts(batch), strict=True):
                ids += [*opening, *row] if part.is_first else row
                ids += closing if part.is_last else []
            yield ids

    @property
    def _borders(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The special tokens before and after each document of a corpus."""
        closing = self.template.after
        if self.eos is not None and self.eos not in closing[-1:]:
            closing = (*closing, self.eos)
        return self.template.before, closing

    def _encode_parts(self, parts: Sequence[TextPart]) -> list[list[int]]:
        firsts = iter(self.encode_batch([part.text for part in parts if part.is_first]))
        return [next(firsts) if part.is_first else self._located(part)[0] for part in parts]

    def _located(self, part: TextPart) -> tuple[list[int], list[int]]:
        """The ids of a part, and the character of the part at which each of them ends.

        A part is encoded behind its context, since many tokenizers put a space before whatever they encode.
        """
        require_unicode(part.context + part.text, "text")
        reader = self._inner if self._sides is None else self._sides.source
        for context in (part.context, ""):
            with guarded("encoding"):
                found = reader.encode(context + part.text, add_special_tokens=False)
            spans, cut = found.offsets, len(context)
            if not any(start < cut < end for start, end in spans):  # else the cut went through a token
                break
        ids = found.ids if self._sides is None else self._sides.ids_of(found.tokens)
        skip = sum(start < cut for start, _ in spans)
        return ids[skip:], [end - cut for _, end in spans[skip:]]

    def text_bytes(self, texts: Iterable[str], lengths: Sequence[int], first: int) -> int:
        """The number of UTF-8 bytes of a corpus after its first tokens.

        `lengths` are the numbers of tokens in the portions that `encode_stream` gave for the same texts.
        """
        total = 0
        for length, batch in zip(lengths, portions(texts), strict=True):
            if first <= 0:
                total += sum(len(part.text.encode()) for part in batch)
            elif first < length:
                total += self._bytes_behind(batch, first)
            first -= length
        return total

    def _bytes_behind(self, parts: Sequence[TextPart], first: int) -> int:
        total = 0
        opening, closing = self._borders
        for part in parts:
            ids, ends = self._located(part)
            known = first - (len(opening) if part.is_first else 0)
            seen = 0 if known <= 0 else [*ends, len(part.text)][min(known, len(ids) + 1) - 1]
            total += len(part.text[seen:].encode())
            first = known - len(ids) - (len(closing) if part.is_last else 0)
        return total

    @property
    def decoder_start(self) -> int:
        """The id that a decoder's input begins with: the model's, else BOS, else padding."""
        known = [id for id in (self.use.decoder_start, self.bos, self.pad) if id is not None and id < self.vocab_size]
        if not known:
            raise TokenizerError("the tokenizer has no BOS or padding token for a decoder's input to begin with")
        return known[0]

    @property
    def ends(self) -> frozenset[int]:
        """The ids that end a generated text."""
        known = frozenset(id for id in self.use.ends if id < self.vocab_size)
        return known or frozenset(() if self.eos is None else (self.eos,))

    def with_use(self, **changes: int | str | tuple[int, ...] | None) -> "Tokenizer":
        """The same tokenizer with other settings of its model."""
        return Tokenizer(self._inner, self.roles, replace(self.use, **changes), self._sides)

    def with_template(self, template: TextTemplate) -> "Tokenizer":
        """The same tokenizer with other special tokens around each text."""
        inner = tokenizers.Tokenizer.from_str(self._inner.to_str())
        set_template(inner, template)
        return Tokenizer(inner, self.roles, self.use, self._sides)

    def for_encoder(self) -> "Tokenizer":
        """The tokenizer of an encoder: where the file has no template, BOS and EOS around each text."""
        if self.template != TextTemplate():
            return self
        return self.with_template(TextTemplate((self.required("bos"),), () if self.eos is None else (self.eos,)))

    def for_decoder(self) -> "Tokenizer":
        """The tokenizer of a language model: prompts are to be continued, so no special tokens follow them."""
        return self.with_template(TextTemplate(self.template.before)) if self.template.after else self

    @cached_property
    def marked(self) -> tokenizers.Tokenizer:
        """The library's tokenizer, to which the name of a special token is that token: for the text of a template."""
        return tokenizers.Tokenizer.from_str(self._inner.to_str())

    def with_end(self) -> "Tokenizer":
        """The tokenizer of a decoder that classifies: EOS after each text, where it has read all of it."""
        if self.template.after or self.eos is None:
            return self
        return self.with_template(TextTemplate(self.template.before, (self.eos,)))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids; special tokens are dropped."""
        wanted = [int(id) for id in ids]
        for position, id in enumerate(wanted):
            if not 0 <= id < self.vocab_size or id in self._unused:
                raise TokenizerError(
                    f"id {id} at position {position} is not a token, wanted 0 to {self.vocab_size - 1}"
                )
        with guarded("decoding"):
            return self._inner.decode(wanted, skip_special_tokens=True)

    def token(self, id: int) -> str:
        """The text of one token; bytes that are not text by themselves are written as \\x escapes."""
        token = self._inner.id_to_token(id) if 0 <= id < self.vocab_size else None
        if token is None:
            raise TokenizerError(f"id {id} is not a token, wanted 0 to {self.vocab_size - 1}")
        if id in self.specials or not isinstance(self._inner.decoder, decoders.ByteLevel):
            return token
        if any(character not in BYTE_OF for character in token):
            return token
        return bytes(BYTE_OF[character] for character in token).decode("utf-8", "backslashreplace")

    def save(self, folder: Path | str) -> None:
        """Write tokenizer.json, and beside it the files that tell Hugging Face which special token is which.

        The files of a Marian tokenizer are written as they were read.
        """
        names = {ROLE_KEYS[role][0]: token for role, token in self.roles.items()}
        kind = "PreTrainedTokenizerFast" if self._sides is None else "MarianTokenizer"
        config = {"tokenizer_class": kind, "clean_up_tokenization_spaces": False, **names}
        # The name of a special token in a text is text, there as here; but a chat template writes them by name.
        config["split_special_tokens"] = self.use.chat_template is None
        config = config if self._sides is None else {**self._sides.config, **config}
        config |= use_fields(replace(self.use, ends=()) if self.use.ends == (self.eos,) else self.use)
        files = {
            "tokenizer.json": self._inner.to_str(pretty=True),
            "tokenizer_config.json": json.dumps(config, indent=2, ensure_ascii=False),
            "special_tokens_map.json": json.dumps(names, indent=2, ensure_ascii=False),
        }
        written = {name: f"{text}\n".encode() for name, text in files.items()}
        if self._sides is not None:
            del written["tokenizer.json"]
            written |= self._sides.files
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for name, data in written.items():
                durable.replace(Path(folder) / name, data)
        except OSError as error:
            raise TokenizerError(f"{folder}: cannot be written: {error.strerror}") from error

    @classmethod
    def load(cls, path: Path | str) -> "Tokenizer":
        """Read a tokenizer.json, or the one in a folder; files beside it say which special token is which.

        A folder without one may have the files of older tokenizers: SentencePiece models, vocab.txt and the like.
        """
        file = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
        if file.name in OLDER_FILES or (Path(path).is_dir() and not file.exists()):
            return cls._load_older(file.parent)
        text = read_whole(file)
        check_patterns(text, str(file))
        with guarded(f"{file}: reading"):
            check_growth(text, str(file))
            inner = tokenizers.Tokenizer.from_str(text)
        named = named_roles(file.parent) if file.name == "tokenizer.json" else {}
        vocab = inner.get_vocab()
        known: dict[Role, list[str]] = {
            role: [token for token in (*named.get(role, ()), *usual) if token in vocab]
            for role, usual in USUAL_TOKENS.items()
        }
        return cls(inner, first_of(known), read_use(file.parent) if file.name == "tokenizer.json" else PLAIN_USE)

    @classmethod
    def _load_older(cls, folder: Path) -> "Tokenizer":
        with guarded(f"{folder}: reading"):
            found, sides = read_marian(folder) if is_marian(folder) else (read_vocabulary(folder), None)
        names = found.names
        roles = first_of({role: [names[key] for key in keys if key in names] for role, keys in ROLE_KEYS.items()})
        return cls(found.inner, roles, read_use(folder), sides)


def has_tokenizer(folder: Path) -> bool:
    """Whether a folder holds files of a tokenizer, also of a kind that cannot be read."""
    return (folder / "tokenizer.json").exists() or bool(vocabulary_files(folder))


@contextmanager
def guarded(doing: str) -> Iterator[None]:
    """Turn whatever the library raises into a `TokenizerError`, its panics too, which are not an `Exception`."""
    try:
        yield
    except GlassformerError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise TokenizerError(f"{doing} failed: {error}") from error


def require_unicode(text: str, name: str) -> None:
    """Raise a `TokenizerError` if a text holds half of a surrogate pair, which is not a character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"U+{ord(text[error.start]):04X}"
        raise TokenizerError(
            f"{name}: character {error.start} is {half}, half of a surrogate pair, which UTF-8 cannot hold"
        ) from None
