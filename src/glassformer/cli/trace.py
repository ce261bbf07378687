"""`glassformer trace`: every equation of one forward pass, with its values."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from glassformer.cli.named_model import LoadOptions, ModelName, load_named, preset_called, random_model
from glassformer.cli.output_files import NUMBERS_MARK, PAGE_MARK, TRACE_MARK, require_free
from glassformer.cli.report import Flag, MaybePath, RunStep, UsageError, page_width, talk, write, write_styled

if TYPE_CHECKING:
    from glassformer.interface import LoadedModel
    from glassformer.probes.trace import Trace

FEW = 6  # steps that are shown in full, with their matrices
DEPTH = 40  # steps back that lead from any number of a common model to its embeddings


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Part:
    """Which steps to show.

    Parameters
    ----------
    layer
        Only steps of this layer, counted from 0.
    head
        Only steps with attention heads, and only this head.
    token
        Only steps with tokens, and only this position.
    equation
        Only steps whose name or equation matches, such as `softmax` or `layers.*.attention.weights`.
    """

    layer: int | None = None
    head: int | None = None
    token: int | None = None
    equation: str = "*"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Output:
    """Where the trace goes.

    Parameters
    ----------
    cell
        Write out the arithmetic of one number: the name of a step and an index, such as
        `layers.0.attention.scores 0 2 1` for head, query and key.
    deep
        With --cell, follow the largest contributions back to the embeddings.
    html
        Write a self-contained HTML page.
    json
        Write the steps as JSON, and their values as safetensors beside it.
    """

    cell: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None
    deep: Flag = False
    html: MaybePath = None
    json: MaybePath = None


EVERYTHING, TO_TERMINAL = Part(), Output()


def trace(
    model: ModelName,
    text: str,
    second: str | None = None,
    /,
    *,
    backward: str | None = None,
    part: Part = EVERYTHING,
    step: RunStep = None,
    output: Output = TO_TERMINAL,
) -> None:
    """Show every equation of one forward pass: its formula, values, cost and, with --backward, gradients.

    Parameters
    ----------
    text
        Input text, or an image file for a model that reads pictures.
    second
        Target text of a translator, its own translation if left out; or the second text of a pair.
    backward
        Loss to backpropagate from: next, token:ID, token:ID@POSITION, class:N or pair.
    """
    if output.json is not None and output.json.suffix != ".json":
        raise UsageError(f"--json: {output.json} does not end in .json; the values go into a file beside it")
    name, *index = output.cell or ("",)
    if not all(word.removeprefix("-").isdecimal() for word in index):
        raise UsageError(f"--cell takes a step name and integers, not {' '.join(index)}")
    from glassformer.errors import ModelError, TapeError
    from glassformer.views.export import numbers_path, save_trace

    numbers = None if output.json is None else numbers_path(output.json)
    require_free([(output.html, PAGE_MARK), (output.json, TRACE_MARK), (numbers, NUMBERS_MARK)])
    try:
        found, loaded = _trace(model, step, (text, second), backward, part)
        if output.cell:
            depth, width = (DEPTH, 1) if output.deep else (0, 0)
            write(str(found.explain(name, *map(int, index), depth=depth, width=width)))
    except (ModelError, TapeError) as error:  # a text that is too long; a layer, head, token or loss that is not there
        raise UsageError(str(error)) from None
    if output.html is not None:
        from glassformer.views.html import trace_page

        page = trace_page(found, tokenizer=loaded.tokenizer, labels=loaded.labels)
        output.html.write_text(page, encoding="utf-8")
        talk(f"wrote {output.html}")
    if output.json is not None:
        talk(f"wrote {output.json} and {save_trace(found, output.json)}")
    if not (output.cell or output.html or output.json):
        _show_trace(found)


def _trace(
    name: str, step: int | None, texts: tuple[str, str | None], backward: str | None, part: Part
) -> "tuple[Trace, LoadedModel]":
    """Trace the model of a folder or file, or a preset with random weights; the trace and the model."""
    from glassformer.interface import LoadedModel

    config = preset_called(name, step)
    if config is None:
        named = load_named(name, LoadOptions(step=step, device="cpu"))
        return named.trace(*texts, backward, **vars(part)), named
    loaded = LoadedModel(random_model(name, config))
    if "image_size" in vars(config) and "vocab" not in vars(config):
        talk(f"{name} is a preset: it has random weights")
        return loaded.trace(*texts, backward, **vars(part)), loaded
    talk(f"{name} is a preset: it has random weights, and reads bytes because it has no tokenizer")
    return _trace_bytes(loaded, texts, backward, part), loaded


def _trace_bytes(loaded: "LoadedModel", texts: tuple[str, str | None], backward: str | None, part: Part) -> "Trace":
    """Trace a model without a tokenizer on the bytes of a text; a translator without a target gets the text again."""
    from glassformer.layers.encoder_decoder import EncoderDecoder

    vocab = vars(loaded.model.config).get("vocab", 256)
    text, second = texts
    second = text if second is None and isinstance(loaded.model, EncoderDecoder) else second
    rows = [None if each is None else [byte % vocab for byte in each.encode()] for each in (text, second)]
    found = loaded.trace(rows[0] or [], rows[1], backward, **vars(part))
    names = {name: [chr(int(id)) if 32 < int(id) < 127 else id for id in ids] for name, ids in found.tokens.items()}
    return found.labeled(**names)


def _show_trace(found: "Trace") -> None:
    from glassformer.views.terminal import agreement_text, render, step_view, steps_table

    views = [step_view(step) for step in found.steps] if len(found.steps) <= FEW else [steps_table(found)]
    for view in views:
        write_styled(render(view, page_width(), sys.stdout.isatty()))
    if found.loss is not None:
        write(f"loss {float(found.loss):.4g}")
    if found.difference is not None:
        write(agreement_text(found))
