"""The list of commands; each is imported only when called, so that help is instant."""

import sys
from collections.abc import Sequence
from itertools import dropwhile
from typing import Annotated, TypeAlias

from cyclopts import App, Parameter

from glassformer import __version__
from glassformer.cli.report import Level, UsageError, run, talking
from glassformer.cli.task_names import TASK_NAMES
from glassformer.suggestions import did_you_mean
from glassformer.views.console import SafeConsole

COMMANDS = {
    "demo": "Train a small translator on the built-in phrase book, translate unseen sentences, show its attention.",
    "train": f"Train a model for a task: {TASK_NAMES}.",
    "config": "Show every setting of a task with its meaning and origin, as TOML; or explain some keys.",
    "evaluate": "Evaluate a model on data: loss, perplexity, bits per byte, BLEU and chrF, accuracy and F1.",
    "generate": "Continue a prompt: greedy decoding, sampling or beam search; or draw it, with --image.",
    "translate": "Translate sentences, or a file or standard input line by line.",
    "chat": "Chat with a model, line by line; replies are printed while they are written.",
    "few-shot": "Answer questions by examples in the prompt, without training.",
    "classify": "Classify texts or pictures: the label of each, and its probability.",
    "fill": 'Predict the masked tokens of texts such as "The [MASK] sat on the mat".',
    "embed": "Print the vector of each text, or write all of them to a NumPy file.",
    "similar": "Find the nearest words or texts, complete analogies, or draw a map of words.",
    "summarize": "Summarize documents, or a file or standard input line by line.",
    "answer": "Answer questions about a text: each answer, its probability, and where in the text it is.",
    "parity": "Compare every intermediate of a model with Hugging Face transformers, and name the first divergence.",
    "plan": "Plan a model: parameters, operations, memory, time and what fits, on a device you have or not.",
    "convert": "Convert a checkpoint to the Hugging Face or the native format.",
    "trace": "Show every equation of one forward pass: its formula, values, cost and, with --backward, gradients.",
    "studio": "Open a page on this machine that shows every number of a model beside the equation that made it.",
    "walk": "Take a lesson step by step, every number computed as you read; or list the lessons.",
    "check": "Recompute every worked example: reproduced, rounded or corrected.",
    "equations": "List all equations, or show everything about one.",
    "glossary": "Define the terms of the field, or one of them, with the lessons and equations that show it.",
    "completion": "Print a script that completes commands and options in a shell.",
    "models": "List the model presets, or show a model as a tree with shapes and parameter counts.",
}
FILES = {
    "translate": "generate",
    "summarize": "generate",
    "equations": "reference",
    "glossary": "reference",
    "models": "reference",
}

HELP_FLAGS, VERSION_FLAGS = ("--help", "-h"), ("--version", "-V")
FLAGS = (*HELP_FLAGS, *VERSION_FLAGS, "--quiet", "-q", "--verbose", "-v", "--debug")  # also allowed before a command
GlobalFlag: TypeAlias = Annotated[bool, Parameter(negative="", show_default=False)]

app = App(
    name="glassformer",
    help="The Transformer with glass walls: every number beside the equation that made it.",
    help_flags=HELP_FLAGS,
    version=__version__,
    version_flags=VERSION_FLAGS,
    console=SafeConsole(),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    print_error=False,  # `run` prints the line
    exit_on_error=False,
)
for _name, _help in COMMANDS.items():
    _file, _function = FILES.get(_name, _name.replace("-", "_")), _name.replace("-", "_")
    app.command(f"glassformer.cli.{_file}:{_function}", name=_name, help=_help)
app.meta.suppress_keyboard_interrupt = False  # not inherited; `run` handles interrupts for both


@app.meta.default
def launch(
    *words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    quiet: Annotated[GlobalFlag, Parameter(alias="-q", help="Print nothing but results, errors and warnings.")] = False,
    verbose: Annotated[GlobalFlag, Parameter(alias="-v", help="Print more about what is done.")] = False,
    debug: Annotated[GlobalFlag, Parameter(help="Show the traceback of an error.")] = False,
) -> int | None:
    """Run the command that the words ask for."""
    del debug  # main reads it, because errors may come before this; here it is declared for the help
    if quiet and verbose:
        raise UsageError("--quiet and --verbose are both given, wanted one of them")
    with talking(Level.QUIET if quiet else Level.VERBOSE if verbose else Level.NORMAL):
        return app(words)


def known(words: Sequence[str]) -> list[str]:
    """The words, if the first one that is not a global flag is a command; `help NAME` becomes `NAME --help`."""
    rest = list(dropwhile(lambda word: word in FLAGS, words))
    if rest[:1] == ["help"]:
        return known([*words[: -len(rest)], *rest[1:], "--help"])
    if not rest or rest[0] in COMMANDS:
        return list(words)
    hint = did_you_mean(rest[0], [*COMMANDS, *FLAGS], f"commands: {', '.join(COMMANDS)}")
    if rest[0].startswith("-") and any(word in COMMANDS for word in rest):
        raise UsageError(f"{rest[0]} comes before the command, where only {', '.join(FLAGS)} may: put it at the end")
    raise UsageError(f'unknown command "{rest[0]}"; {hint}')


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status, which is 2 for a wrong call."""
    given = sys.argv[1:] if words is None else words
    return run(lambda: app.meta(known(given)), debug="--debug" in given)
