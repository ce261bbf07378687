"""`glassformer chat`: a conversation with a model, line by line."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, TypeAlias

from glassformer.cli.generation_flags import GREEDY, GenerationFlags, generation_flags
from glassformer.cli.named_model import AS_STORED, LoadOptions, ModelName, load_named
from glassformer.cli.report import Json, complain, talk, write, write_json_line
from glassformer.cli.text_arguments import standard_input
from glassformer.data.files import lines_of
from glassformer.errors import FAILED, GlassformerError

if TYPE_CHECKING:
    from glassformer.interface import LoadedModel

COMMANDS = {
    "/reset": "begin a new conversation",
    "/undo": "take back the last message and its reply",
    "/help": "list these commands",
    "/quit": "end, as the end of the input does",
}
ChatFlags: TypeAlias = Annotated[
    GenerationFlags, generation_flags("prefill_chunk|batch_tokens|n|num_beams|length_penalty")
]
Messages: TypeAlias = list[dict[str, str]]


def chat(
    model: ModelName,
    /,
    *,
    system: str | None = None,
    config: ChatFlags = GREEDY,
    options: LoadOptions = AS_STORED,
    json: Json = False,
) -> int | None:
    """Chat with a model, line by line; replies are printed while they are written.

    Each line of standard input is a message. The lines /reset, /undo, /help and /quit are commands. Once the
    conversation is longer than the model's context, its oldest turns are left out.

    Parameters
    ----------
    system
        System message, which the conversation begins with.
    """
    loaded = load_named(model, options)
    loaded.required_tokenizer()
    first: Messages = [] if system is None else [{"role": "system", "content": system}]
    loaded.stream_chat([*first, {"role": "user", "content": "Hi"}], config)  # raises before a line is read
    if sys.stdin.isatty():
        talk("type a message and press Enter; /help lists the commands")
    messages, failed, told = list(first), False, False
    for line in _lines():
        if line.startswith("/"):
            if line == "/quit":
                break
            _obey(line, messages, first)
            continue
        try:
            messages.append({"role": "user", "content": line})
            dropped, text = _reply(loaded, messages, config, json)
            messages.append({"role": "assistant", "content": text})
        except GlassformerError as error:  # the conversation goes on without this message
            messages.pop()
            complain(f"error: {error}")
            failed = True
            continue
        if dropped and not told:
            talk("the conversation is longer than the model's context: from now on its oldest turns are left out")
            told = True
    return FAILED if failed and not sys.stdin.isatty() else None


def _lines() -> Iterator[str]:
    """The lines of standard input that are not blank; a terminal shows a prompt."""
    shown = sys.stdin.isatty() and sys.stderr.isatty()
    lines = lines_of(standard_input(), "standard input")
    while True:
        if shown:
            sys.stderr.write("> ")
            sys.stderr.flush()
        _, line = next(lines, ("", None))
        if line is None:
            return
        if line.strip():
            yield line.strip()


def _obey(command: str, messages: Messages, first: Messages) -> None:
    """Change the conversation as a command says, or say what the commands are."""
    if command == "/reset":
        messages[:] = first
        talk("a new conversation")
    elif command == "/undo" and len(messages) > len(first):
        del messages[-2:]
        talk("the last message and its reply are taken back")
    elif command == "/undo":
        talk("there is nothing to take back")
    else:
        if command != "/help":
            talk(f"there is no command {command}")
        for name, what in COMMANDS.items():
            talk(f"{name}: {what}")


def _reply(loaded: "LoadedModel", messages: Messages, config: GenerationFlags, json: bool) -> tuple[int, str]:
    """Print the reply while it is written, or all of it as JSON; the number of messages left out, and the reply."""
    dropped, chunks = loaded.stream_chat(messages, config)
    text, reason = "", None
    for chunk in chunks:
        new = chunk.text if text else chunk.text.lstrip()
        text, reason = text + new, chunk.finish_reason
        if not json:
            sys.stdout.write(new)
            sys.stdout.flush()
    if json:
        found = {"message": messages[-1]["content"], "reply": text, "finish_reason": reason, "dropped": dropped}
        write_json_line(found)
        sys.stdout.flush()
    else:
        write()
    return dropped, text if text.strip() else "…"
