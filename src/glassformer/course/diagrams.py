"""Diagrams in text: the graph of the equations behind a number, and a column of boxes joined by arrows."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from glassformer.course.blueprint import Column
from glassformer.steps import Step

CHAIN_WIDTH = 76  # characters that a chain may take; a longer one is drawn downward
BOX_WIDTH = 25  # characters of a box; odd, so that it has a middle
DIRECTIONS = "forward: down the lines, gradients: back up the same lines"


@dataclass
class _Node:
    """One equation of the graph, the nodes it reads, and how many later nodes still read it."""

    name: str
    reads: list[int]
    readers: int = 0


@dataclass
class _Lanes:
    """The vertical lines between nodes: each carries the result of a node that a later node reads."""

    carried: list[int | None] = field(default_factory=list)

    def of(self, node: int) -> int:
        return self.carried.index(node)

    def free(self) -> int:
        if None not in self.carried:
            self.carried.append(None)
        return self.carried.index(None)


def flow_lines(steps: Sequence[Step], of: Tensor) -> list[str]:
    """The graph of the equations behind a number: a line for each, which reads from the lines above."""
    nodes = _graph(steps, of)
    names = [node.name for node in nodes]
    chain = all(node.reads == ([index - 1] if index else []) for index, node in enumerate(nodes))
    forward, backward = " → ".join(["input", *names]), " ← ".join(["input", *names])
    if chain and len(forward) <= CHAIN_WIDTH:
        return [f"forward:   {forward}", f"gradients: {backward}"]
    rows, lanes = [], _Lanes()
    for index, node in enumerate(nodes):
        rows.append((_drawn_row(index, node, nodes, lanes), node.name))
    width = max(len(drawn) for drawn, _ in rows)
    return [*(f"{drawn:<{width}}  {name}" for drawn, name in rows), "", DIRECTIONS]


def _graph(steps: Sequence[Step], of: Tensor) -> list[_Node]:
    """The nodes that a number depends on, in the order they ran."""
    needed: list[Step] = []
    wanted = {id(of)}
    for step in reversed(steps):
        if any(id(output) in wanted for output in step.output_tensors):
            needed.insert(0, step)
            wanted |= {id(tensor) for tensor in step.input_tensors}
    made: dict[int, int] = {}
    nodes: list[_Node] = []
    for index, step in enumerate(needed):
        reads = sorted({made[id(tensor)] for tensor in step.input_tensors if id(tensor) in made})
        for source in reads:
            nodes[source].readers += 1
        nodes.append(_Node(step.equation.name, reads))
        made |= {id(output): index for output in step.output_tensors}
    return nodes


def _drawn_row(index: int, node: _Node, nodes: Sequence[_Node], lanes: _Lanes) -> str:
    """Draw one node with the lines that end in it and those that pass it, and update the lanes."""
    sources = {lanes.of(source): source for source in node.reads}
    for source in node.reads:
        nodes[source].readers -= 1
    ending = [lane for lane, source in sources.items() if not nodes[source].readers]
    own = min(ending) if ending else lanes.free()
    low, high = min([own, *sources]), max([own, *sources])
    drawn = "".join(
        _mark(lane, own, lane in sources, lane in ending, (low, high), lanes.carried[lane] is not None)
        + ("─" if low <= lane < high else " ")
        for lane in range(len(lanes.carried))
    )
    for lane in ending:
        lanes.carried[lane] = None
    lanes.carried[own] = index if node.readers else None
    return drawn.rstrip()


def _mark(lane: int, own: int, read: bool, ends: bool, reach: tuple[int, int], carried: bool) -> str:
    """The character of one lane on the line of a node."""
    low, high = reach
    if lane == own:
        return "●"
    if read and ends:
        return "╯" if lane == high else "╰" if lane == low else "┴"
    if read:
        return "┤" if lane == high else "├" if lane == low else "┼"
    if carried:
        return "│"
    return "─" if low < lane < high else " "


def flow_column(column: Column) -> list[str]:
    """Boxes below each other, with the shape of the tensor on each arrow; all lines have the same width."""
    half = (BOX_WIDTH - 1) // 2
    edge = "─" * (half - 1)
    lines = [column.first.center(BOX_WIDTH)]
    for shape, name in column.boxes:
        lines += [_arrow(shape), f"┌{edge}┴{edge}┐", f"│{name.center(BOX_WIDTH - 2)}│", f"└{edge}┬{edge}┘"]
    shape, name = column.last
    return [*lines, _arrow(shape), name.center(BOX_WIDTH)]


def _arrow(shape: str) -> str:
    return f"{'│'.rjust((BOX_WIDTH + 1) // 2)} {shape}".ljust(BOX_WIDTH)
