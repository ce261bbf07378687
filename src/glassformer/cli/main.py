"""The list of commands; each is loaded only when it is called, so that help comes at once."""

import difflib
import sys
from collections.abc import Sequence
from itertools import dropwhile
from typing import Annotated

from cyclopts import App, Parameter

from glassformer import __version__
from glassformer.cli.report import UsageError, run
from glassformer.views.console import SafeConsole

COMMANDS = {
    "demo": "Train a small translator on the built-in phrase book, translate unseen sentences, show its attention.",
    "train": "Train a translator, a language model, an encoder or a classifier, and keep it in a folder.",
    "config": "Show every setting of a task and where its value comes from, as a TOML file to keep or to change.",
    "evaluate": "Measure a model on data: loss, perplexity, bits per byte, BLEU and chrF, accuracy and F1.",
    "generate": "Write on from a prompt: the likeliest text, drawn ones, or the best of a beam.",
    "translate": "Translate a sentence, or a file or standard input line by line.",
    "parity": "Compare every intermediate of a model with Hugging Face transformers, and name the first divergence.",
    "convert": "Write a checkpoint again, for Hugging Face or in our own layout.",
    "trace": "Show every equation of one run: its formula, its numbers, its cost and, backward, its gradients.",
    "walk": "Take a lesson step by step, every number computed while you read; or list the lessons.",
    "check": "Recompute every worked example: reproduced, rounded or corrected.",
    "equations": "Show the quick reference, or everything about one equation.",
    "glossary": "Explain the field's words, or one of them, and name the lessons and equations that show it.",
    "models": "List the named models, or show one as a tree with shapes and parameter counts.",
}

HELP_FLAGS, VERSION_FLAGS = ("--help", "-h"), ("--version", "-V")
FLAGS = (*HELP_FLAGS, *VERSION_FLAGS, "--debug")  # that stand before a command too

app = App(
    name="glassformer",
    help="The Transformer with glass walls: every number beside the equation that made it.",
    help_flags=HELP_FLAGS,
    version=__version__,
    version_flags=VERSION_FLAGS,
    console=SafeConsole(),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    print_error=False,  # `run` writes the line
    exit_on_error=False,
)
for _name, _help in COMMANDS.items():
    app.command(f"glassformer.cli.{_name}:{_name}", name=_name, help=_help)
app.meta.suppress_keyboard_interrupt = False  # not handed down; `run` answers for both


@app.meta.default
def launch(
    *words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    debug: Annotated[bool, Parameter(negative="", show_default=False, help="Show the traceback of an error.")] = False,
) -> int | None:
    """Run the command that the words ask for."""
    del debug  # read by main, which sees errors from before this; it stands here to be listed and left out of the words
    return app(words)


def known(words: Sequence[str]) -> list[str]:
    """The words, if the first that is not a flag of every command is a command; `help NAME` is `NAME --help`."""
    rest = list(dropwhile(lambda word: word in FLAGS, words))
    if rest[:1] == ["help"]:
        return known([*words[: -len(rest)], *rest[1:], "--help"])
    if not rest or rest[0] in COMMANDS:
        return list(words)
    near = difflib.get_close_matches(rest[0], [*COMMANDS, *FLAGS], n=1)
    hint = f' Did you mean "{near[0]}"?' if near else ""
    raise UsageError(f'Unknown command "{rest[0]}".{hint} Commands: {", ".join(COMMANDS)}')


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and give the exit status; words it cannot make sense of end it with status 2."""
    given = sys.argv[1:] if words is None else words
    return run(lambda: app.meta(known(given)), debug="--debug" in given)
