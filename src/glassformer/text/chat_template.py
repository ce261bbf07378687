"""Chat templates: the text of a conversation as a model reads it, by the Jinja template that comes with its tokenizer.

A template is a program in a file that someone else wrote. It runs in a process of its own (`text.render_chat`), with
limits on time, memory and output.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from glassformer.errors import TokenizerError
from glassformer.text import render_chat
from glassformer.text.tokenizer import Tokenizer

Messages = Sequence[Mapping[str, str]]

# Each message begins with BOS and its role and ends with EOS, as in ChatML, whose tokens have other names.
DEFAULT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ bos_token + message['role'] + '\\n' + message['content'] + eos_token }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ bos_token + 'assistant\\n' }}{% endif %}"
)
SECONDS, SECONDS_PER_TEXT = 5.0, 0.01  # that a template may take
MOST_CHARACTERS = 2_000_000  # of one conversation


def default_template(tokenizer: Tokenizer) -> str:
    """The template for models trained here; the tokenizer needs BOS and EOS."""
    for role in ("bos", "eos"):
        tokenizer.required(role)
    return DEFAULT_TEMPLATE


def render(tokenizer: Tokenizer, conversations: Sequence[tuple[Messages, bool]]) -> list[str]:
    """The text of each conversation, by the tokenizer's template; with true, up to where the reply begins."""
    template = tokenizer.use.chat_template
    if template is None:
        remedy = "train it on conversations (the task chat), or put chat_template into its tokenizer_config.json"
        raise TokenizerError(f"the model has no chat template, so it cannot chat: {remedy}")
    if template == DEFAULT_TEMPLATE:
        bos, eos = tokenizer.roles["bos"], tokenizer.roles["eos"]
        return [_default_text(messages, begins, bos, eos) for messages, begins in conversations]
    roles = {f"{role}_token": token for role, token in tokenizer.roles.items()}
    jobs = [
        {"messages": [dict(message) for message in messages], "add_generation_prompt": begins, **roles}
        for messages, begins in conversations
    ]
    return _rendered(template, jobs)


def _default_text(messages: Messages, begins: bool, bos: str, eos: str) -> str:
    """What the default template writes, a hundred times as fast; a test compares the two."""
    text = "".join(f"{bos}{message['role']}\n{message['content']}{eos}" for message in messages)
    return f"{text}{bos}assistant\n" if begins else text


def _rendered(template: str, jobs: Sequence[Mapping[str, object]]) -> list[str]:
    """The texts of a template that is not trusted, from a process of its own."""
    asked = json.dumps({"template": template, "jobs": jobs, "most": MOST_CHARACTERS})
    command = [sys.executable, "-I", str(Path(render_chat.__file__))]
    seconds = SECONDS + SECONDS_PER_TEXT * len(jobs)
    try:
        done = subprocess.run(
            command, input=asked, capture_output=True, text=True, encoding="utf-8", timeout=seconds, check=False
        )
        found: dict[str, object] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise TokenizerError(f"the chat template is not finished after {seconds:.0f} seconds: it may loop") from None
    except ValueError:
        raise TokenizerError("the chat template ends its process, so it needs too much memory or time") from None
    if "error" in found:
        raise TokenizerError(f"the chat template {found['error']}")
    return [str(text) for text in found["texts"]]  # pyright: ignore[reportGeneralTypeIssues] - a list
