"""Conversations from files, and the built-in ones."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from glassformer.data.conversations import checked_messages, read_conversations
from glassformer.data.dialogues import dialogues
from glassformer.errors import DataError, PathError

USER, REPLY = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}
BAD = {
    '{"messages": []}': "1: the conversation is empty, wanted at least one message",
    '{"messages": [{"role": "bot", "content": "Hi"}]}': "1 has the role 'bot', wanted system, user or assistant",
    '{"messages": [{"role": "user", "content": "Hi"}]}': "the conversation has no reply",
    json.dumps({"messages": [USER, REPLY, REPLY]}): "message 3 is a second reply in a row",
    json.dumps({"messages": [USER, USER, REPLY]}): "message 2 is a second message of the user in a row",
    json.dumps({"messages": [USER, REPLY, {"role": "system", "content": "x"}]}): "only for the first message",
    '{"messages": [{"role": "system", "content": "x"}]}': "has only a system message",
    '{"messages": [{"role": "user"}]}': "message 1 is .*wanted a role and a content",
    '{"messages": [{"role": "user", "content": ["x"]}]}': "has the content .*, wanted text",
    '{"messages": [{"role": ["user"], "content": "x"}]}': "has the role",
    '{"messages": [{"role": "user", "content": "  "}]}': "has an empty content",
    '{"messages": [{"role": "user", "content": "\\ud800"}]}': "half of a surrogate pair",
    '{"messages": "Hi"}': "wanted a list of messages",
    '{"text": "Hi"}': "has no field 'messages', only 'text'",
    "[1]": "has no field 'messages'",
    "{": "is not JSON",
    "": "is empty",
}


@pytest.mark.parametrize("line", BAD, ids=range(len(BAD)))
def test_bad_conversations_are_named_with_their_line(line: str, tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(DataError, match=BAD[line]) as raised:
        list(read_conversations(file))
    assert str(file) in str(raised.value)


def test_good_conversations_are_read(tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text("\n".join(json.dumps({"messages": each}) for each in ([USER, REPLY], [USER, REPLY, USER])) + "\n\n")
    one, two = read_conversations(file)
    assert one.messages == (USER, REPLY) and one.source == f"{file}:1"
    assert two.last_reply == "Hello" and two.before_last_reply == (USER,)
    with pytest.raises(PathError, match="is .txt, wanted .jsonl"):
        list(read_conversations(tmp_path / "talk.txt"))


def test_the_built_in_dialogues_need_more_than_the_last_message() -> None:
    found = list(dialogues(3000))
    assert found == list(dialogues(3000)) and found != list(dialogues(3000, seed=1))
    assert len({json.dumps(each.messages) for each in found}) == 3000
    replies: dict[str, list[str]] = defaultdict(list)
    for each in found:
        checked_messages(each.messages, each.source)
        replies[each.before_last_reply[-1]["content"]].append(each.last_reply)
    best = sum(max(map(given.count, set(given))) for given in replies.values())
    assert best / len(found) < 0.35  # what a table from last message to reply gets right on its own data
