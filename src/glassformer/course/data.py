"""A lesson as plain data: its text and what it computed."""

from functools import singledispatch

from torch import Tensor

from glassformer.course.page import (
    Beside,
    Chart,
    Choice,
    Claim,
    Drawing,
    Grid,
    Operand,
    Page,
    PagePart,
    Prose,
    Slope,
    Work,
)
from glassformer.course.registry import CourseLesson
from glassformer.course.walk import Walk


def lesson_data(lesson: CourseLesson, walk: Walk) -> dict[str, object]:
    """The content of a lesson; exercises without their answers."""
    return {
        "name": lesson.name,
        "title": lesson.title,
        "chapter": lesson.chapter,
        "about": lesson.about,
        "steps": [_page_data_of(page) for page in walk.pages],
        "exercises": [
            {"question": each.question, "given": [_operand(one) for one in each.given], "hint": each.hint}
            for each in walk.exercises
        ],
    }


def _page_data_of(page: Page) -> dict[str, object]:
    return {
        "title": page.title,
        "text": page.text,
        "like": page.like,
        "parts": [_part_data(part) for part in page.parts],
    }


@singledispatch
def _part_data(part: PagePart) -> dict[str, object]:
    raise TypeError(f"nothing writes a {type(part).__name__}")


@_part_data.register
def _prose_data(part: Prose) -> dict[str, object]:
    return {"kind": "prose", "text": part.text}


@_part_data.register
def _claim_data(part: Claim) -> dict[str, object]:
    return {"kind": "claim", "text": part.text, "holds": part.holds}


@_part_data.register
def _drawing_data(part: Drawing) -> dict[str, object]:
    return {"kind": "drawing", "lines": part.lines}


@_part_data.register
def _choice_data(part: Choice) -> dict[str, object]:
    chosen = [[_part_data(each) for each in parts] for parts in part.parts]
    return {"kind": "choice", "setting": part.setting, "values": part.values, "start": part.start, "parts": chosen}


@_part_data.register
def _grid_data(part: Grid) -> dict[str, object]:
    return {"kind": "table", "columns": part.columns, "rows": part.rows}


@_part_data.register
def _chart_data(part: Chart) -> dict[str, object]:
    curves = [{"name": curve.name, "points": list(curve.points)} for curve in part.curves]
    return {"kind": "chart", "title": part.title, "across": part.across, "curves": curves}


@_part_data.register
def _work_data(part: Work) -> dict[str, object]:
    return {
        "kind": "equation",
        "equation": part.equation.name,
        "latex": part.equation.latex,
        "inputs": [_operand(operand) for operand in part.inputs],
        "output": _operand(part.output),
        "cells": part.cells,
    }


@_part_data.register
def _slope_data(part: Slope) -> dict[str, object]:
    rules = {rule.name: rule.gradient.latex for rule in part.rules if rule.gradient is not None}
    return {"kind": "gradient", "name": part.name, "rules": rules, "value": _plain(part.value)}


@_part_data.register
def _beside_data(part: Beside) -> dict[str, object]:
    rows = [
        {
            "value": row.name,
            "right": row.right,
            "printed": [{"text": each.text, "wrong": each.wrong} for each in row.printed],
        }
        for row in part.rows
    ]
    about = {"example": part.example, "where": part.where, "standing": part.standing}
    return {"kind": "print", **about, "rows": rows, "how": part.how}


def _operand(operand: Operand) -> dict[str, object]:
    return {"name": operand.name, "meaning": operand.meaning, "value": _plain(operand.value)}


def _plain(value: object) -> object:
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)
