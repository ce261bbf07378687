"""Conversations as token ids, and which of them belong to replies."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from glassformer.errors import TokenizerError
from glassformer.text.chat_template import Messages, render
from glassformer.text.tokenizer import Tokenizer, guarded, require_unicode

REPLY = "assistant"  # the role whose messages a model writes
PROTECTED = "\ue001"  # for private use; breaks up the name of a special token in a message, and is taken out again
Span = tuple[int, int]  # characters of a text, from and up to
_PROBE: Messages = ({"role": "user", "content": "a"}, {"role": REPLY, "content": "b"})


@dataclass(frozen=True)
class ChatTokens:
    """The ids of a conversation, and for each whether it belongs to a reply, the end token of which does."""

    ids: list[int]
    is_reply: list[bool]


def encode_chat_prompts(tokenizer: Tokenizer, conversations: Sequence[Messages]) -> list[list[int]]:
    """The ids of conversations up to where the next reply begins."""
    names = special_names(tokenizer)
    safe = [_protected(names, messages) for messages in conversations]
    return [_encoded(tokenizer, names, text, []).ids for text in render(tokenizer, [(each, True) for each in safe])]


def encode_chats(tokenizer: Tokenizer, conversations: Sequence[Messages]) -> list[list[ChatTokens]]:
    """The ids of whole conversations: one row each, or one for each reply if the template rewrites earlier turns."""
    names = special_names(tokenizer)
    safe = [_protected(names, messages) for messages in conversations]
    replies = [[at for at, message in enumerate(messages) if message["role"] == REPLY] for messages in safe]
    jobs = [
        job
        for messages, found in zip(safe, replies, strict=True)
        for at in found
        for job in ((messages[:at], True), (messages[: at + 1], False))
    ]
    texts = iter(render(tokenizer, jobs))
    return [_rows(tokenizer, names, [(next(texts), next(texts)) for _ in found]) for found in replies]


def _rows(tokenizer: Tokenizer, names: Sequence[str], turns: Sequence[tuple[str, str]]) -> list[ChatTokens]:
    """The rows of a conversation, given for each reply the text before it and the text with it."""
    ends = [_end_of_reply(names, whole) for _, whole in turns]
    for prompt, whole in turns:
        if not whole.startswith(prompt):
            why = "does not begin with the prompt for it, so its tokens cannot be told apart"
            raise TokenizerError(f"the chat template writes a conversation whose reply {why}")
    spans = [(len(prompt), end) for (prompt, _), end in zip(turns, ends, strict=True)]
    last = turns[-1][1]
    if all(last.startswith(whole[:end]) for (_, whole), end in zip(turns, ends, strict=True)):
        return [_encoded(tokenizer, names, last[: ends[-1]], spans)]
    return [
        _encoded(tokenizer, names, whole[:end], [span])
        for (_, whole), end, span in zip(turns, ends, spans, strict=True)
    ]


def _end_of_reply(names: Sequence[str], whole: str) -> int:
    """Where a reply ends: after its end token, without the white space that some templates write behind it."""
    bare = whole.rstrip()
    return len(bare) if bare.endswith(tuple(names)) else len(whole)


def reply_ends(tokenizer: Tokenizer) -> tuple[int, ...]:
    """The special token that ends a reply in the template, if there is one."""
    (rows,) = encode_chats(tokenizer, [_PROBE])
    last = rows[-1].ids[-1]
    return (last,) if last in tokenizer.specials else ()


def special_names(tokenizer: Tokenizer) -> list[str]:
    """The names of the special tokens, longer ones first."""
    names = [tokenizer.token(id) for id in tokenizer.specials]
    return sorted(names, key=lambda name: (-len(name), name))


def _protected(names: Sequence[str], messages: Messages) -> list[dict[str, str]]:
    """The messages with the names of special tokens broken up: in a message they are text."""
    pattern = re.compile("|".join(map(re.escape, names)) or "(?!)")

    def safe(message: Mapping[str, str]) -> dict[str, str]:
        require_unicode(message["content"], "a message")
        broken = pattern.sub(lambda found: found[0][0] + PROTECTED + found[0][1:], message["content"])
        return {**message, "content": broken}

    return [safe(message) for message in messages]


def _encoded(tokenizer: Tokenizer, names: Sequence[str], text: str, replies: Sequence[Span]) -> ChatTokens:
    """The ids of a rendered text, as `transformers` has them, and which begin within a reply."""
    if PROTECTED in text:
        return _encoded_in_parts(tokenizer, names, text, replies)
    with guarded("encoding"):
        found = tokenizer.marked.encode(text, add_special_tokens=False)
    starts = [start for start, _ in found.offsets] if replies else []
    return ChatTokens(found.ids, [_within(start, replies) for start in starts])


def _encoded_in_parts(tokenizer: Tokenizer, names: Sequence[str], text: str, replies: Sequence[Span]) -> ChatTokens:
    """The same where a message holds the name of a special token: each part between special tokens by itself."""
    ids, is_reply = list[int](), list[bool]()
    for start, end in _cuts(text, names, replies):
        part = text[start:end]
        known = tokenizer.marked.token_to_id(part) if part in names else None
        new = tokenizer.encode(part.replace(PROTECTED, "")) if known is None else [known]
        ids += new
        is_reply += [_within(start, replies)] * len(new)
    return ChatTokens(ids, is_reply)


def _cuts(text: str, names: Sequence[str], replies: Sequence[Span]) -> Iterator[Span]:
    """The parts of a text: its special tokens, and what is between them, cut where a reply begins or ends."""
    special = [found.span() for found in re.finditer("|".join(map(re.escape, names)), text)]
    edges = {0, len(text), *(edge for span in (*special, *replies) for edge in span)}
    return pairwise(sorted(edges))


def _within(position: int, spans: Sequence[Span]) -> bool:
    return any(start <= position < end for start, end in spans)
