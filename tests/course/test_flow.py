"""The graph of a computation is drawn as it is: every equation once, every branch where it leaves and comes back."""

import torch
from torch import Tensor

from glassformer.course.flow import DIRECTIONS, flow_lines
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
