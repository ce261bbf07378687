"""Diagrams: every equation of a graph once, with its branches; every shape of a column on its arrow."""

import torch
from torch import Tensor

from glassformer.course.blueprint import Column
from glassformer.course.diagrams import DIRECTIONS, flow_column, flow_lines
from glassformer.course.page import Drawing
from glassformer.course.walk import Walk
from glassformer.equations.algebra import add, multiply, residual, scale
from glassformer.equations.softmax import softmax
from glassformer.recording import Tape
from tests.course.runs import page_text, run


def lines_of(tape: Tape, of: Tensor) -> list[str]:
    return [line.rstrip() for line in flow_lines(tape.steps, of)]


def test_a_chain_is_one_line() -> None:
    with Tape() as tape:
        of = softmax(scale(torch.ones(2), 2.0))
    assert lines_of(tape, of) == ["forward:   input → scale → softmax", "gradients: input ← scale ← softmax"]


def test_branches_leave_and_come_back() -> None:
    with Tape() as tape:
        x = scale(torch.ones(2), 2.0)
        h = softmax(x)
        k = multiply(x, x)
        unused = scale(k, 3.0)
        of = residual(x, add(h, k))
    assert unused is not of
    assert lines_of(tape, of) == [
        "●      scale",
        "├─●    softmax",
        "├─│─●  multiply",
        "│ ●─╯  add",
        "●─╯    residual",
        "",
        DIRECTIONS,
    ]


def test_a_training_step_is_drawn_whole_within_the_page() -> None:
    page = next(page for page in run("training-step").pages if "●" in page_text(page))
    drawn = [line.strip() for line in page_text(page).splitlines() if "●" in line]
    names = [line.split()[-1] for line in drawn]
    assert names.count("residual") == 2 and names.count("split_heads") == 3 and names[-1] == "cross_entropy"
    assert max(map(len, drawn)) < 80


def test_a_column_has_a_box_for_each_station_and_a_shape_on_each_arrow() -> None:
    lines = flow_column(Column("ids", (("1×3", "embedding"), ("1×3×4", "a block")), ("1×3×10", "logits")))
    assert len({len(line) for line in lines}) == 1
    text = "\n".join(lines)
    order = [text.index(part) for part in ("ids", "1×3", "embedding", "1×3×4", "a block", "1×3×10", "logits")]
    assert order == sorted(order)
    assert text.count("┌") == text.count("└") == 2
    middle = len(lines[0]) // 2
    assert all(
        line[middle] in "│┴┬" for line in lines if "│ " in line[middle : middle + 2] or "┴" in line or "┬" in line
    )


def test_a_diagram_is_added_to_the_page() -> None:
    walk = Walk()
    walk.begin("a step")
    walk.diagram(["a", "b"])
    walk.close()
    assert walk.pages[-1].parts == [Drawing(("a", "b"))]
