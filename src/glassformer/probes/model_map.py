"""The model as its tape shows it: stacks of layers, their sublayers, what each reads, and how large the stream is."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from torch import Tensor
from torch.nn import Parameter

from glassformer.equations.algebra import residual
from glassformer.equations.attention import attention, dropout_attention, weighted_sum
from glassformer.equations.block_attention import block_attention
from glassformer.equations.losses import cross_entropy
from glassformer.equations.window_attention import window_attention
from glassformer.probes.interventions import head_attribution, layer_attribution
from glassformer.probes.trace import Trace
from glassformer.steps import Step

Kind: TypeAlias = Literal["attention", "cross_attention", "feed_forward", "norm", "residual", "embedding", "other"]
ATTENTIONS = (attention, dropout_attention, weighted_sum, window_attention, block_attention)
_LAYER = re.compile(r"(?:(.*)\.)?layers\.(\d+)\.([^.]+)")


@dataclass(frozen=True)
class HeadSize:
    """One attention head: the mean norm of its outputs, and the rise of the loss, to first order, without it."""

    norm: float
    attribution: float | None


@dataclass(frozen=True)
class Reads:
    """A tensor that a box reads from another."""

    box: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Box:
    """Steps that belong together, such as an attention sublayer: what they cost, read and give.

    `step` is the name of the one that stands for all, and `output` of the last. `norm` is the mean norm of a vector of
    the output, `gradient` the norm of the loss's gradient with respect to it, and `attribution` the rise of the loss
    if the sublayer added nothing.
    """

    name: str
    title: str
    kind: Kind
    step: str
    output: str
    steps: tuple[str, ...]
    shape: tuple[int, ...]
    norm: float | None
    gradient: float | None
    attribution: float | None
    parameters: int
    operations: int
    bytes: int
    heads: tuple[HeadSize, ...] = ()
    reads: tuple[Reads, ...] = ()
    on_stream: bool = False


@dataclass(frozen=True)
class MapLayer:
    """One layer: its sublayers in the order of the run."""

    name: str
    index: int
    boxes: tuple[Box, ...]


@dataclass(frozen=True)
class MapStack:
    """A stack of layers, what comes before it, and what comes after it."""

    name: str
    before: tuple[Box, ...]
    layers: tuple[MapLayer, ...]
    after: tuple[Box, ...]


@dataclass(frozen=True)
class ModelMap:
    """A model drawn from one run; a model without layers is one stack with boxes before it."""

    stacks: tuple[MapStack, ...]
    parameters: int
    operations: int
    backward: bool


@dataclass
class _Group:
    """Steps of one box, and where it stands: its stack by number, its layer, or after the layers."""

    name: str
    title: str
    stack: int
    layer: int | None
    after: bool = False
    steps: list[Step] = field(default_factory=list)


def model_map(trace: Trace) -> ModelMap:
    """The boxes of a run, by stack and layer; with gradients if the trace went backward."""
    found = _Boxes(trace)
    boxes = {name: found.box(group) for name, group in found.groups.items()}
    parameters = sum(parameter.numel() for parameter in trace.model.parameters())
    operations = sum(box.operations for box in boxes.values())
    stacks = tuple(_stack(number, found, boxes) for number in range(max(len(found.stacks), 1)))
    return ModelMap(stacks, parameters, operations, trace.gradients is not None)


def _stack(number: int, found: "_Boxes", boxes: Mapping[str, Box]) -> MapStack:
    own = [(group, boxes[name]) for name, group in found.groups.items() if group.stack == number]
    layers: dict[int, list[Box]] = {}
    for group, box in own:
        if group.layer is not None:
            layers.setdefault(group.layer, []).append(box)
    name = found.stacks[number] if number < len(found.stacks) else ""
    return MapStack(
        name=name,
        before=tuple(box for group, box in own if group.layer is None and not group.after),
        layers=tuple(MapLayer(f"{name}.layers.{i}".lstrip("."), i, tuple(layers[i])) for i in sorted(layers)),
        after=tuple(box for group, box in own if group.layer is None and group.after),
    )


class _Boxes:
    """The steps of a trace in groups, and what connects them."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        kept = [step for step in trace.tape.steps if step.kept]
        layered = [_LAYER.match(trace.names[step.path]) for step in kept]
        self.stacks = list(dict.fromkeys(found[1] or "" for found in layered if found))  # in the order of the run
        self.groups: dict[str, _Group] = {}
        self.makers: dict[int, str] = {}  # the box that made a tensor, by id
        for step in kept:
            group = self._group(step)
            group.steps.append(step)
            self.makers.update({id(tensor): group.name for tensor in step.output_tensors})
        self.stream = self._stream(kept)
        self.sublayers = layer_attribution(trace) if trace.gradients is not None else {}
        self.heads = head_attribution(trace) if trace.gradients is not None else {}

    def _group(self, step: Step) -> _Group:
        name = self.trace.names[step.path]
        if inside := _LAYER.match(name):
            title, number = inside[3].replace("_", " "), self.stacks.index(inside[1] or "")
            return self.groups.setdefault(inside[0], _Group(inside[0], title, number, int(inside[2])))
        first, *rest = [word for word in name.split(".") if not word.isdecimal()]
        in_stack = bool(rest) and first in ("stack", *self.stacks)
        short = f"{first}.{rest[0]}" if in_stack else first
        number, after = self._section(step)
        if first in self.stacks:
            number = self.stacks.index(first)
        key, copies = short, 1
        while key in self.groups and (self.groups[key].stack, self.groups[key].after) != (number, after):
            copies += 1
            key = f"{short}.{copies}"
        title = (rest[0] if in_stack else first).replace("_", " ")
        return self.groups.setdefault(key, _Group(key, title, number, None, after))

    def _section(self, step: Step) -> tuple[int, bool]:
        """The stack that a step outside all layers belongs to, and whether it comes after its layers."""
        begun = len({group.stack for group in self.groups.values() if group.layer is not None})
        reads = [self.groups[name] for t in step.input_tensors if (name := self.makers.get(id(t)))]
        if any(group.layer is not None or group.after for group in reads):
            return begun - 1, True
        if reads:
            return reads[-1].stack, False
        last = max(len(self.stacks) - 1, 0)
        return min(begun, last), begun > last

    def _stream(self, kept: Sequence[Step]) -> set[str]:
        """The boxes that the residual stream goes through: each residual, what it adds to, and norms between them."""
        added = [step for step in kept if step.equation is residual]
        sums = {self.makers[id(step.output)] for step in added}
        found = sums | {name for step in added if (name := self.makers.get(id(step.inputs["h"])))}
        norms = {g.name: g for g in self.groups.values() if g.layer is not None and _is_norm(g)}
        post_norm = {group.stack for name, group in norms.items() if name in found}
        last = {n for n, g in norms.items() if g.stack in post_norm and {r.box for r in self._reads(g)} & sums}
        return found | last

    def box(self, group: _Group) -> Box:
        """One group with its numbers."""
        trace, last = self.trace, group.steps[-1]
        main = next((step for step in group.steps if step.equation in ATTENTIONS), last)
        output = last.outputs[0] if isinstance(last.outputs[0], Tensor) else None
        gradient = None if output is None else trace.gradient_of(output)
        costs = [step.equation.cost(**step.inputs) for step in group.steps]
        weights = {id(w): w for step in group.steps for w in step.input_tensors if isinstance(w, Parameter)}
        attribution = self.sublayers.get(trace.names[last.path])
        return Box(
            name=group.name,
            title=group.title,
            kind=self._kind(group, main),
            step=trace.names[main.path],
            output=trace.names[last.path],
            steps=tuple(trace.names[step.path] for step in group.steps),
            shape=() if output is None else tuple(output.shape),
            norm=None if output is None else _mean_norm(output),
            gradient=None if gradient is None else float(gradient.norm()),
            attribution=None if attribution is None else float(attribution),
            parameters=sum(weight.numel() for weight in weights.values()),
            operations=sum(cost.flops for cost in costs),
            bytes=sum(cost.bytes for cost in costs),
            heads=self._heads(main) if main.equation in ATTENTIONS else (),
            reads=self._reads(group),
            on_stream=group.name in self.stream,
        )

    def _heads(self, step: Step) -> tuple[HeadSize, ...]:
        if step.output.dim() != 4:
            return ()
        norms = step.output.detach().float().norm(dim=-1).mean((0, 2)).tolist()
        rises = self.heads.get(self.trace.names[step.path])
        attributions = [None] * len(norms) if rises is None else rises.tolist()
        return tuple(HeadSize(norm, rise) for norm, rise in zip(norms, attributions, strict=True))

    def _reads(self, group: _Group) -> tuple[Reads, ...]:
        found: dict[str, Reads] = {}
        for step in group.steps:
            for tensor in step.input_tensors:
                source = self.makers.get(id(tensor))
                if source is not None and source != group.name:
                    found.setdefault(source, Reads(source, tuple(tensor.shape)))
        return tuple(found.values())

    def _kind(self, group: _Group, main: Step) -> Kind:
        if main.equation in ATTENTIONS:
            others = (self.groups[read.box] for read in self._reads(group))
            return "cross_attention" if any(other.stack != group.stack for other in others) else "attention"
        if _is_norm(group):
            return "norm"
        if all(step.equation is residual for step in group.steps):
            return "residual"
        if group.layer is not None:
            return "feed_forward" if "feed_forward" in group.name else "other"
        return "other" if group.after or any(s.equation is cross_entropy for s in group.steps) else "embedding"


def _is_norm(group: _Group) -> bool:
    return all(step.equation.name.endswith("_norm") for step in group.steps)


def _mean_norm(value: Tensor) -> float | None:
    """The mean norm of the vectors along the last axis, in single precision or finer."""
    if not value.is_floating_point() or not value.dim():
        return None
    return float(value.detach().float().norm(dim=-1).mean())
