"""A trace as the data of one file: the run, the numbers that fit, and the arithmetic worked out ahead."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from torch import Tensor

from glassformer.decoding.predictions import Predictor
from glassformer.equations.softmax import softmax
from glassformer.errors import DecodingError
from glassformer.probes.readout import attention_steps
from glassformer.probes.trace import Trace
from glassformer.views.attention_sheet import AttentionSheet, attention_sheet
from glassformer.views.run_data import RunData, StepData, ValueData, run_data
from glassformer.views.stored_numbers import StoredPart, count_of, fitting, store

NUMBERS = 1_250_000  # float32 numbers in a file, at most; up to half of them are attention weights
POSITIONS, LIKELY = 64, 5  # positions of the text, and most likely tokens at each, that the page begins with


class LikelyToken(msgspec.Struct, frozen=True):
    """A token that may come next."""

    text: str
    probability: float


class Predicted(msgspec.Struct, frozen=True):
    """A token of the text, and what is most likely to come after it."""

    token: str | None
    next: list[LikelyToken]


class FileData(msgspec.Struct, frozen=True):
    """Everything that a page shows, but the numbers: they are in `tensors`, named by step, letter and direction."""

    run: RunData
    left_out: str  # what of the run is not in the file, in words; empty if all is there
    start: dict[str, int]  # the head, layer and token that the trace was narrowed to
    predictions: list[Predicted]
    tensors: list[StoredPart]
    positions: dict[str, dict[str, list[int | None]]]
    cells: Mapping[str, msgspec.Struct]  # what is known of the numbers of each step
    sheet: AttentionSheet


@dataclass
class _Found:
    """The tensors of a trace, each once, and where the page asks for them."""

    tensors: list[Tensor] = field(default_factory=list)
    positions: dict[str, dict[str, list[int | None]]] = field(default_factory=dict)
    _known: dict[int, int] = field(default_factory=dict)

    def add(self, tensor: Tensor | None) -> int | None:
        """The position of a tensor in the list."""
        if tensor is None:
            return None
        if id(tensor) not in self._known:
            self._known[id(tensor)] = len(self.tensors)
            self.tensors.append(tensor)
        return self._known[id(tensor)]


def file_data(trace: Trace, predictor: Predictor, cells: Mapping[str, msgspec.Struct]) -> tuple[FileData, bytes]:
    """The data of a trace, and its numbers as `store` gives them."""
    found = _found(trace)
    attends = {id(weights.outputs[0]) for weights in attention_steps(trace.tape).values()}
    maps = [tensor for tensor in found.tensors if id(tensor) in attends]
    others = [tensor for tensor in found.tensors if id(tensor) not in attends]
    parts = fitting(maps, NUMBERS // 2)
    parts |= fitting(others, NUMBERS - count_of(maps, parts))
    stored, numbers = store(found.tensors, parts)
    run = _as_stored(run_data(trace), found.positions, stored)
    chosen = {name: at for name, at in vars(trace.selection).items() if isinstance(at, int)}
    data = FileData(
        run=run,
        left_out=_left_out(stored),
        start=chosen,
        predictions=_predictions(trace, predictor),
        tensors=stored,
        positions=found.positions,
        cells=cells,
        sheet=attention_sheet(trace),
    )
    return data, numbers


def _found(trace: Trace) -> _Found:
    found = _Found()
    for step in trace.steps:
        values = {"": step.output} | {bound.symbol.name: bound.value for bound in step.symbols}
        found.positions[step.name] = {
            name: [found.add(value), found.add(trace.gradient_of(value))]
            for name, value in values.items()
            if isinstance(value, Tensor)
        }
    return found


def _as_stored(run: RunData, positions: dict[str, dict[str, list[int | None]]], stored: list[StoredPart]) -> RunData:
    """The run with the shapes of what is in the file."""

    def value(step: StepData, each: ValueData) -> ValueData:
        position = positions[step.name].get(each.name)
        return each if position is None else msgspec.structs.replace(each, shape=stored[_first(position)].shape)

    def part(step: StepData) -> StepData:
        position = positions[step.name].get("")
        shape = step.shape if position is None else stored[_first(position)].shape
        return msgspec.structs.replace(step, shape=shape, symbols=[value(step, each) for each in step.symbols])

    return msgspec.structs.replace(run, steps=[part(step) for step in run.steps])


def _first(position: Iterable[int | None]) -> int:
    return next(each for each in position if each is not None)


def _left_out(stored: Sequence[StoredPart]) -> str:
    cut = sum(each.shape != each.whole for each in stored)
    if not cut:
        return ""
    kept, every = (sum(map(math.prod, shapes)) for shapes in zip(*((e.shape, e.whole) for e in stored), strict=True))
    return (
        f"This file holds {kept:,} of {every:,} numbers: of {cut} large tensors the first indices of each axis. "
        "`glassformer studio` shows all."
    )


def _predictions(trace: Trace, predictor: Predictor) -> list[Predicted]:
    """The most likely tokens at each position of the first text, or labels; none where the model has no logits."""
    try:
        logits = predictor.logits[:POSITIONS].float()
    except DecodingError:
        return []
    if not logits.isfinite().all():
        return []
    read = "target" if "target" in trace.tokens else next(iter(trace.tokens), "")
    words = [] if predictor.target == "label" else list(trace.tokens.get(read, ()))
    named = zip(predictor.ids, words, strict=False) if predictor.tokenizer is None else ()  # all there is without one
    known = {str(id): word for id, word in named}
    best = softmax(logits).topk(min(LIKELY, logits.shape[-1]))
    return [
        Predicted(
            token=words[at] if at < len(words) else None,
            next=[
                LikelyToken(known.get(text, text), p) for text, p in zip(map(predictor.text, ids), likely, strict=True)
            ],
        )
        for at, (ids, likely) in enumerate(zip(best.indices.tolist(), best.values.tolist(), strict=True))
    ]
