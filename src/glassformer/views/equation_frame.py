"""Equations and tapes in a notebook: formulas whose letters can be pointed at, and the numbers of each step.

Once this module is imported, Jupyter shows them at the end of a cell.
"""

import html

import msgspec
from torch import Tensor

from glassformer.equation import AnyEquation, Equation
from glassformer.recording import Tape
from glassformer.views.bundle import NOTEBOOK_METHOD, document, frame
from glassformer.views.run_data import EquationData, equation_data
from glassformer.views.stored_numbers import StoredPart, fitting, store

NUMBERS = 40_000  # of a tape, at most
STEPS_SHOWN = 200
EQUATION_HEIGHT, ROW_HEIGHT, TAPE_HEIGHT = 230, 32, 560  # pixels


class TapeStep(msgspec.Struct, frozen=True):
    """A step of a tape: where it stands, its equation, and the position of its output among the tensors."""

    path: str
    equation: str
    output: int | None


class TapeData(msgspec.Struct, frozen=True):
    """A tape without its numbers."""

    equations: dict[str, EquationData]
    steps: list[TapeStep]
    more: int
    tensors: list[StoredPart]


def equation_frame(equation: AnyEquation) -> str:
    """An equation: its formula, its letters and its gradient rule."""
    data = equation_data(equation)
    page = document(equation.name, "", "show_equation.js", {"run": msgspec.json.encode([equation.name, data])})
    height = EQUATION_HEIGHT + ROW_HEIGHT * len(data.symbols) + (0 if data.rule_latex is None else EQUATION_HEIGHT // 2)
    return frame(page, equation.name, height)


def tape_frame(tape: Tape) -> str:
    """A tape: its steps, and of the chosen one the formula and the output."""
    shown = tape.steps[:STEPS_SHOWN]
    outputs = [step.outputs[0] for step in shown if step.kept]
    tensors = {id(value): value for value in outputs if isinstance(value, Tensor) and not value.is_meta}
    stored, numbers = store(list(tensors.values()), fitting(list(tensors.values()), NUMBERS))
    positions = {key: position for position, key in enumerate(tensors)}
    steps = [
        TapeStep(step.path, step.equation.name, positions.get(id(step.outputs[0])) if step.kept else None)
        for step in shown
    ]
    equations = {step.equation.name: equation_data(step.equation) for step in shown}
    data = TapeData(equations, steps, len(tape.steps) - len(shown), stored)
    body = f"<p>{html.escape(repr(tape))}</p>"
    page = document("tape", body, "show_tape.js", {"run": msgspec.json.encode(data), "numbers": numbers})
    return frame(page, "tape", TAPE_HEIGHT)


setattr(Equation, NOTEBOOK_METHOD, equation_frame)
setattr(Tape, NOTEBOOK_METHOD, tape_frame)
