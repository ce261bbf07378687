"""Conversations from files: on each line of a .jsonl file `messages`, as Hugging Face and OpenAI write them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from glassformer.data.files import paths_in, read_lines
from glassformer.errors import DataError, PathError

SYSTEM, USER, ASSISTANT = ROLES = ("system", "user", "assistant")
ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.xz")
Message = dict[str, str]  # its `role` and its `content`


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages of a conversation, and their source."""

    messages: tuple[Message, ...]
    source: str

    @property
    def last_reply(self) -> str:
        """The text of the last reply."""
        return next(message["content"] for message in reversed(self.messages) if message["role"] == ASSISTANT)

    @property
    def before_last_reply(self) -> tuple[Message, ...]:
        """The messages that the last reply answers."""
        last = max(at for at, message in enumerate(self.messages) if message["role"] == ASSISTANT)
        return self.messages[:last]


def read_conversations(path: Path | str) -> Iterator[Conversation]:
    """Conversations of a .jsonl file: an object on each line, with a list of `messages` that have `role` and `content`.

    Each has at least one reply, which is a message of the role assistant.
    """
    for file in paths_in(path):
        if not file.name.lower().endswith(ENDINGS):
            raise PathError(
                f"{file}: is {file.suffix or 'without an ending'}, wanted .jsonl with messages on each line"
            )
        empty = True
        for source, line in read_lines(file):
            if line.strip():
                yield _conversation(line, source)
                empty = False
        if empty:
            raise DataError(f"{file}: is empty")


def _conversation(line: str, source: str) -> Conversation:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{source}: is not JSON: {error}") from None
    if not isinstance(row, dict) or "messages" not in row:
        names = f", only {', '.join(map(repr, row)) or 'none'}" if isinstance(row, dict) else ""
        raise DataError(f"{source}: has no field 'messages'{names}")
    messages = checked_messages(row["messages"], source)
    if not any(message["role"] == ASSISTANT for message in messages):
        raise DataError(f"{source}: the conversation has no reply, wanted a message of the role {ASSISTANT}")
    return Conversation(messages, source)


def checked_messages(messages: object, where: str) -> tuple[Message, ...]:
    """The messages of a conversation, if they are such: roles that exist, and user and assistant in turn."""
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise DataError(f"{where}: messages are {_brief(messages)}, wanted a list of messages")
    if not messages:
        raise DataError(f"{where}: the conversation is empty, wanted at least one message")
    found = tuple(_checked(message, f"{where}: message {number}") for number, message in enumerate(messages, start=1))
    for number, (before, message) in enumerate(pairwise(found), start=2):
        if message["role"] == SYSTEM:
            raise DataError(f"{where}: message {number} has the role {SYSTEM}, wanted it only for the first message")
        if message["role"] == before["role"]:
            what = (
                "a second reply in a row" if message["role"] == ASSISTANT else "a second message of the user in a row"
            )
            raise DataError(f"{where}: message {number} is {what}, wanted user and assistant in turn: join the two")
    if found[-1]["role"] == SYSTEM:
        raise DataError(f"{where}: the conversation has only a {SYSTEM} message, wanted one of the user")
    return found


def _checked(message: object, where: str) -> Message:
    if not isinstance(message, Mapping) or not {"role", "content"} <= message.keys():
        raise DataError(f"{where} is {_brief(message)}, wanted a role and a content")
    role, content = message["role"], message["content"]
    if role not in ROLES:
        raise DataError(f"{where} has the role {_brief(role)}, wanted {SYSTEM}, {USER} or {ASSISTANT}")
    if not isinstance(content, str):
        raise DataError(f"{where} has the content {_brief(content)}, wanted text")
    if not content.strip():
        raise DataError(f"{where} has an empty content, wanted text")
    try:
        content.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where} has half of a surrogate pair at character {error.start}") from None
    return {"role": str(role), "content": content.replace("\r\n", "\n")}


def _brief(value: object) -> str:
    return repr(value)[:60]
