"""`glassformer trace`: every equation of one run, with its numbers."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from glassformer.cli.output_files import NUMBERS_MARK, PAGE_MARK, TRACE_MARK, require_apart, require_ours
from glassformer.cli.report import PAGE_WIDTH, MaybePath, RunStep, UsageError, did_you_mean, talk, write, write_styled

if TYPE_CHECKING:
    from glassformer.layers.model import Model
    from glassformer.probes.trace import Trace
    from glassformer.text.tokenizer import Tokenizer

FEW = 6  # steps that are shown whole, with their matrices
FLOAT_BYTES = 4
DEPTH = 40  # steps back that lead from any number of a common model to its embeddings


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Part:
    """Which part of the run to show.

    Parameters
    ----------
    layer
        Steps of this layer alone, counted from 0.
    head
        Steps that have heads, and this head alone.
    token
        Steps that have tokens, and this token alone.
    equation
        Steps whose name or equation matches, such as `softmax` or `layers.*.attention.weights`.
    """

    layer: int | None = None
    head: int | None = None
    token: int | None = None
    equation: str = "*"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Output:
    """What to make of the trace.

    Parameters
    ----------
    cell
        Write out the arithmetic of one number: a step's name and where the number stands, such as
        `layers.0.attention.scores 0 2 1` for head, row and column.
    deep
        With --cell, follow the numbers that count most back to the embeddings.
    html
        Write a page that opens in any browser, with nothing but itself.
    json
        Write what ran as JSON, and the numbers as safetensors beside it.
    """

    cell: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None
    deep: Annotated[bool, Parameter(negative="", show_default=False)] = False
    html: MaybePath = None
    json: MaybePath = None


WHOLE, TO_TERMINAL = Part(), Output()


def trace(
    model: str,
    text: str,
    second: str | None = None,
    /,
    *,
    backward: str | None = None,
    part: Part = WHOLE,
    step: RunStep = None,
    output: Output = TO_TERMINAL,
) -> None:
    """Show every equation of one run: its formula, its numbers, its cost and, backward, its gradients.

    Parameters
    ----------
    model
        The folder or file of a model, or a preset's name for random weights.
    text
        What the model reads.
    target_path
        The other sentence: a translation, which is the model's own if left out, or the second of a pair.
    backward
        The loss to go backward from: next, token:ID, token:ID@POSITION, class:N or pair.
    """
    from glassformer.errors import ModelError, TapeError
    from glassformer.probes import trace as traced

    _require_free_outputs(output)
    subject, tokenizer = _model(model, step)
    inputs, words = _inputs(subject, tokenizer, text, second)
    try:
        found = traced(subject, inputs, backward, **vars(part)).labeled(**words)
        if output.cell:
            _write_cell(found, output.cell, output.deep)
    except (ModelError, TapeError) as error:  # a text that is too long; a place, head or loss that is not there
        raise UsageError(str(error)) from None
    if output.html is not None:
        from glassformer.views.html import trace_page

        output.html.write_text(trace_page(found), encoding="utf-8")
        talk(f"wrote {output.html}")
    if output.json is not None:
        from glassformer.views.export import save_trace

        talk(f"wrote {output.json} and {save_trace(found, output.json)}")
    if not (output.cell or output.html or output.json):
        _show_trace(found)


def _require_free_outputs(output: Output) -> None:
    """Refuse to write over a file that is no trace, such as a model's, before anything is computed."""
    from glassformer.views.export import numbers_path

    require_apart(output.html, output.json)
    if output.html is not None:
        require_ours({output.html: PAGE_MARK})
    if output.json is not None:
        if output.json.suffix != ".json":
            raise UsageError(f"--json: {output.json} does not end in .json; the numbers go into a file beside it")
        require_ours({output.json: TRACE_MARK, numbers_path(output.json): NUMBERS_MARK})


def _model(name: str, step: int | None) -> "tuple[Model, Tokenizer | None]":
    from glassformer.models.presets import presets

    if not Path(name).exists():
        if name in presets() and step is None:
            return _with_random_weights(name), None
        near = did_you_mean(name, presets(), "glassformer models")
        raise UsageError(f"there is no folder, file or model {name!r}; {near}")
    from glassformer.checkpoints.load import load

    loaded = load(name, step=step)
    if loaded.tokenizer is None and _takes(loaded.model) & {"ids", "source"}:
        raise UsageError(f"{name}: has no tokenizer, so it cannot read text; trace it from Python, with ids: gf.trace")
    return loaded.model.eval(), loaded.tokenizer


def _with_random_weights(name: str) -> "Model":
    import torch

    from glassformer.models.build import build
    from glassformer.probes.trace import free_memory

    needed, free = build(name, device="meta").parameter_count() * FLOAT_BYTES, free_memory(torch.device("cpu"))
    if free is not None and needed > free:
        raise UsageError(
            f"{name} has {needed / 1e9:.0f} GB of weights and {free / 1e9:.0f} GB are free; take a smaller one"
        )
    talk(f"{name} has random weights here, and reads bytes for want of a tokenizer")
    return build(name).eval()


def _inputs(
    model: "Model", tokenizer: "Tokenizer | None", text: str, second: str | None
) -> "tuple[dict[str, object], dict[str, list[str]]]":
    """What the model takes, and the words for its tokens."""
    import torch

    takes = _takes(model)
    if "source" in takes:
        target = _target(model, tokenizer, text, second)
        rows = {"source": _encode(model, tokenizer, [text]), "target": [target]}
    elif "ids" in takes:
        rows = {"ids": _encode(model, tokenizer, [text] if second is None else [text, second])}
    else:
        raise UsageError(f"{type(model).__name__} does not read text; trace it from Python, with gf.trace")
    words = {name: _token_words(tokenizer, lines[0]) for name, lines in rows.items()}
    longest = {name: max(map(len, lines)) for name, lines in rows.items()}
    inputs: dict[str, object] = {
        name: torch.tensor([[*line, *[0] * (longest[name] - len(line))] for line in lines])
        for name, lines in rows.items()
    }
    if second is not None and "ids" in rows:
        inputs["attention_mask"] = torch.tensor(
            [[i < len(line) for i in range(longest["ids"])] for line in rows["ids"]]
        )
    return inputs, words


def _takes(model: "Model") -> set[str]:
    """The names of what a model's forward takes."""
    import inspect

    return set(inspect.signature(model.forward).parameters)


def _target(model: "Model", tokenizer: "Tokenizer | None", text: str, second: str | None) -> list[int]:
    """What a translator writes: a start, then the translation given, or else its own."""
    from glassformer.decoding.generate import generate

    if tokenizer is None:
        return [0, *_encode(model, None, [text if second is None else second])[0]]
    if second is not None:
        return [tokenizer.decoder_start, *tokenizer.encode_targets([second])[0]]
    (written,) = generate(model, tokenizer, text)
    return [tokenizer.decoder_start, *(written.ids[:-1] if written.finish_reason == "stop" else written.ids)]


def _encode(model: "Model", tokenizer: "Tokenizer | None", texts: "Sequence[str]") -> list[list[int]]:
    """The ids of texts as the model reads them when it is asked; a preset without a tokenizer reads bytes."""
    from glassformer.decoding.generate import encode_prompts

    if tokenizer is not None:
        rows = encode_prompts(model, tokenizer, texts)
    else:
        vocab = int(model.config.vocab)  # pyright: ignore - every reader of text has one
        rows = [[byte % vocab for byte in text.encode()] for text in texts]
    if not all(rows):
        raise UsageError("the text is empty, wanted at least one token")
    return rows


def _token_words(tokenizer: "Tokenizer | None", ids: Sequence[int]) -> list[str]:
    return [chr(id) if 32 < id < 127 else str(id) for id in ids] if tokenizer is None else [*map(tokenizer.token, ids)]


def _write_cell(found: "Trace", words: Sequence[str], deep: bool) -> None:
    name, *places = words
    try:
        index = [int(place) for place in places]
    except ValueError:
        raise UsageError(f"--cell takes a name and whole numbers, not {' '.join(places)}") from None
    write(str(found.explain(name, *index, depth=DEPTH if deep else 0, width=1 if deep else 0)))


def _show_trace(found: "Trace") -> None:
    from glassformer.views.terminal import render, step_view, steps_table

    colour = sys.stdout.isatty()
    width = PAGE_WIDTH
    if colour:
        import shutil

        width = shutil.get_terminal_size().columns
    views = [step_view(step) for step in found.steps] if len(found.steps) <= FEW else [steps_table(found)]
    for view in views:
        write_styled(render(view, width, colour))
    for line in _closing(found):
        write(line)


def _closing(found: "Trace") -> list[str]:
    from glassformer.views.terminal import agreement_text

    lines = [] if found.loss is None else [f"loss {float(found.loss):.4g}"]
    return [*lines, *([] if found.difference is None else [agreement_text(found)])]
