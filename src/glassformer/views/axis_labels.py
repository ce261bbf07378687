"""Which input's tokens stand on each axis of each tensor of a run, followed from the inputs through the equations."""

from collections.abc import Mapping

from torch import Tensor

from glassformer.equation import tensors_in
from glassformer.probes.narrowing import AxisKey, axis_keys
from glassformer.probes.trace import Trace
from glassformer.steps import Step


class AxisLabels:
    """The name of the input whose tokens stand on an axis, for every tensor; None where no tokens do.

    An axis of an output has the tokens of the axis of an input that the equation names alike: `queries` of the
    queries, `keys` of the keys. A part of an equation, such as a mask, also knows the axes of the whole.
    """

    def __init__(self, trace: Trace) -> None:
        self._lengths = {name: len(words) for name, words in trace.tokens.items()}
        self._found: dict[int, list[str | None]] = {}
        for name in trace.tokens:
            if isinstance(tensor := trace.inputs.get(name), Tensor) and tensor.dim() == 2:
                self._found[id(tensor)] = self._fitting(tensor, [None, name])
        for step in trace.tape.steps:
            self._follow(step, {})

    def of(self, value: object) -> list[str | None]:
        """For each axis of a tensor the name of an input, or None."""
        if not isinstance(value, Tensor):
            return []
        return self._found.get(id(value), [None] * value.dim())

    def _follow(self, step: Step, around: Mapping[AxisKey, str]) -> None:
        known = dict(around)
        kinds = {p.name: p.shapes for p in step.equation.parameters if p.is_tensor}
        for symbol, shapes in kinds.items():
            for tensor in tensors_in(step.inputs.get(symbol)):
                for key, label in zip(axis_keys(shapes, tensor), self.of(tensor), strict=True):
                    if label is not None and key[0]:
                        known.setdefault(key, label)
        for child in step.children:
            self._follow(child, known)
        for result, output in zip(step.equation.results, step.outputs, strict=False):
            if result.is_tensor and isinstance(output, Tensor) and id(output) not in self._found:
                labels = [known.get(key) for key in axis_keys(result.shapes, output)]
                self._found[id(output)] = self._fitting(output, labels if any(labels) else self._same(step, output))

    def _same(self, step: Step, output: Tensor) -> list[str | None]:
        """The labels of an input with as many axes, for an equation that only cuts some of them shorter."""
        alike = [self.of(t) for t in step.input_tensors if t.dim() == output.dim()]
        return next((labels for labels in alike if any(labels)), [None] * output.dim())

    def _fitting(self, tensor: Tensor, labels: list[str | None]) -> list[str | None]:
        return [
            label if label is not None and self._lengths[label] == size else None
            for label, size in zip(labels, tensor.shape, strict=True)
        ]
