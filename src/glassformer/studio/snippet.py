"""A selection of Studio as a Python script that computes it again."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.layers.regressor import Regressor
from glassformer.studio.pictures import SENT
from glassformer.studio.run_inputs import READS_PICTURES

if TYPE_CHECKING:
    from glassformer.studio.sessions import KeptRun


PLACE = "your-picture.png"


@dataclass(frozen=True)
class Selected:
    """What is selected in a run: a step, a letter of its equation, an index, and forward or backward."""

    step: str = ""
    symbol: str = ""
    index: tuple[int, ...] = ()
    direction: str = "forward"


def snippet(kept: "KeptRun", selected: Selected) -> str:
    """Python that runs the model on the same input with the same changes, and prints what is selected."""
    lines = [*_imports(kept), "", *_model(kept), *_run(kept), *_shown(kept, selected)]
    return "\n".join(lines) + "\n"


def _model(kept: "KeptRun") -> list[str]:
    """The lines that open the model."""
    if kept.built_in:
        return ["first = FirstModel().start()  # trained once, and kept", "first.wait()", "model = first.loaded()"]
    path = Path(kept.loaded.name)
    if path.exists():
        return [f"model = gf.load({str(path.resolve())!r})"]
    said = "this model is not in a file: name the folder you saved it to"
    return [f"model = gf.load({kept.loaded.name!r})  # {said}"]


def _reads_text(kept: "KeptRun") -> bool:
    plain = kept.request.written is None and kept.loaded.tokenizer is not None
    return plain and not isinstance(kept.trace.model, (*READS_PICTURES, Regressor))


def _sent(kept: "KeptRun") -> bool:
    """Whether the run reads a picture that the page sent, which is in no file of the server."""
    return isinstance(kept.trace.model, READS_PICTURES) and kept.request.text.startswith(SENT)


def _imports(kept: "KeptRun") -> list[str]:
    kinds = sorted({type(change).__name__ for change in kept.request.changes})
    names = [*kinds, "apply_changes"] if kinds or not _reads_text(kept) else []
    probes = [f"from glassformer.probes import {', '.join(names)}"] if names else []
    reader = [] if _reads_text(kept) else ["from glassformer.studio.run_inputs import run_inputs"]
    image = ["from glassformer.data.images import read_image"] if _sent(kept) else []
    first = ["from glassformer.studio.first_model import FirstModel"] if kept.built_in else []
    load = [] if kept.built_in else ["import glassformer as gf"]
    return [*load, *image, *probes, *first, *reader]


def _run(kept: "KeptRun") -> list[str]:
    asked = kept.request
    texts = [repr(each) for each in (asked.text, asked.second) if each is not None]
    backward = [] if asked.backward is None else [f"backward={asked.backward!r}"]
    if not asked.changes and _reads_text(kept):
        return [f"run = model.trace({', '.join([*texts, *backward])})"]
    inputs = f"model.inputs({', '.join(texts)})"
    if not _reads_text(kept):
        text, more = (PLACE, ", read_image") if _sent(kept) else (asked.text, "")
        inputs = f"run_inputs(model, {text!r}, {asked.second!r}, {asked.written!r}{more})"
    changes = [f"    {change!r}," for change in asked.changes]
    listed = ["changes = [", *changes, "]"] if changes else ["changes = []"]
    return [*listed, f"run = apply_changes({', '.join(['model', inputs, 'changes', *backward])})"]


def _shown(kept: "KeptRun", selected: Selected) -> list[str]:
    """The lines that print the selection, the number last."""
    if not selected.step:
        return ["print(run)"]
    step = kept.trace[selected.step]  # raises if there is no such step
    name, index = step.name, ", ".join(map(str, selected.index))
    value = f"run[{name!r}].output"
    if selected.symbol:
        value = f"next(each for each in run[{name!r}].symbols if each.symbol.name == {selected.symbol!r}).value"
    lines = [f"value = {value}" if selected.direction == "forward" else f"value = run.gradient_of({value})"]
    if not selected.index:
        return [*lines, "print(value)"]
    if selected.direction == "forward" and not selected.symbol:
        lines.append(f"print(run.cell({name!r}, {index}))")
    return [*lines, f"print(float(value[{index}]))"]
