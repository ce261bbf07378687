"""The renderings of lessons: pages that need nothing, notebooks that run, data for machines."""

import json
import re
from html.parser import HTMLParser

import msgspec
import pytest
from rich.cells import cell_len

from glassformer.charts import Curve
from glassformer.course.contents import ROUTES, contents_page, lesson_page
from glassformer.course.data import lesson_data
from glassformer.course.drawing import TEXT_WIDTH, chart_lines
from glassformer.course.notebook import Sheet, lesson_notebook
from glassformer.course.page import Chart, Claim, Prose, Work
from glassformer.course.terminal import page_view
from glassformer.course.walk import Walk
from glassformer.course.worked.examples import examples
from glassformer.views.terminal import render
from tests.course.runs import NAMES, lesson, page_text, run

pytest.importorskip("math_core", reason="formulas in a page need it")

EMPTY = {"meta", "link", "br", "hr", "img", "input", "path", "circle", "line", "rect"}


class Reading(HTMLParser):
    """Checks that what is opened is closed, and collects text and references."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in EMPTY:
            self.open.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action", "data")]

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_whole_and_asks_for_nothing(name: str) -> None:
    walk, page = run(name), lesson_page(lesson(name), run(name), links=True)
    reading = Reading()
    reading.feed(page)
    assert reading.open == []
    assert all(re.fullmatch(r"data:,|[a-z-]+\.html", reference) for reference in reading.references)
    assert not re.search(r"https?://(?!www\.w3\.org/)|@import|url\(", page)
    for each in walk.pages:
        assert each.title in reading.text and each.text in reading.text and each.like in reading.text
        for part in each.parts:
            if isinstance(part, Work):
                assert all(cell in reading.text for cell in part.cells)
    assert all(exercise.question in reading.text and exercise.working in reading.text for exercise in walk.exercises)


def test_the_contents_lead_to_every_lesson_in_order() -> None:
    routes, listed = (re.findall(r'href="([^"#]+\.html)"', part) for part in contents_page().split("All lessons</h2>"))
    assert listed == [f"{name}.html" for name in NAMES]
    assert routes == [f"{name}.html" for _, names in ROUTES.values() for name in names]
    assert set(routes) <= set(listed)


def is_a_cell(cell: object) -> bool:
    """Whether this is a cell of notebook format 4.5."""
    assert isinstance(cell, dict)
    common = {"cell_type", "metadata", "source", "id"}
    wanted = common | ({"outputs", "execution_count"} if cell["cell_type"] == "code" else set())
    lines = cell["source"]
    return (
        cell["cell_type"] in ("code", "markdown")
        and set(cell) == wanted
        and re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell["id"]) is not None
        and all(isinstance(line, str) and line.endswith("\n") for line in lines[:-1])
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_valid_and_its_cells_reproduce_the_steps(name: str) -> None:
    walk = run(name)
    book = json.loads(msgspec.json.encode(lesson_notebook(lesson(name), walk)))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5) and book["metadata"]["kernelspec"]["name"] == "python3"
    assert all(map(is_a_cell, book["cells"])) and len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    space: dict[str, object] = {}
    shown: list[Sheet] = []
    codes = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    for code in codes[: len(walk.pages) + 1]:
        *most, last = code.rsplit("\n", 1)
        exec("\n".join(most), space)
        if last.startswith("Sheet("):
            sheet = eval(last, space)
            assert isinstance(sheet, Sheet) and "<iframe" in sheet._repr_html_()
            shown.append(sheet)
        else:
            exec(last, space)
    assert len(shown) == len(walk.pages)
    for sheet, page in zip(shown, walk.pages, strict=True):
        kept = [part for part in page.parts if not isinstance(part, Prose)]
        sheet.page.text, sheet.page.like = page.text, page.like
        assert page_text(sheet.page) == page_text(type(page)(page.title, page.text, page.like, kept))
    assert sum("judge" in code for code in codes) == len(walk.exercises)


BOX = re.compile(r"[─\u2800-\u28ff]+")


def tokens(text: str) -> set[str]:
    return set(BOX.sub(" ", text).split())


@pytest.mark.parametrize("name", NAMES)
def test_a_narrow_terminal_splits_no_number(name: str) -> None:
    for number, page in enumerate(run(name).pages, 1):
        broad, narrow = (render(page_view(page, number, 9), width, False) for width in (600, 80))
        assert max(map(cell_len, narrow.splitlines())) <= 80
        new = tokens(narrow) - tokens(broad)
        assert {token for token in new if not token.endswith(":")} == set()  # where rows are lists, columns end so


@pytest.mark.parametrize("name", NAMES)
def test_what_is_shown_keeps_to_the_display_rule(name: str) -> None:
    shown = "\n".join(page_text(page) for page in run(name).pages)
    shown += "\n".join(exercise.working for exercise in run(name).exercises)
    assert re.findall(r"\S*\de\+?0\d\S*|\S*\de-(?:0|1[5-9])\d*\b\S*|(?<![\d.])[−-]0(?![.\d])", shown) == []
    assert "\\" not in shown and not re.search(r"[\^_]\{", shown)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "errata"])
def test_no_internal_name_of_an_example_is_shown(name: str) -> None:
    ids = [example.id for example in examples() if "-" in example.id]
    shown = "\n".join(page_text(page) for page in run(name).pages)
    assert ids and [id for id in ids if re.search(rf"(?<![\w-]){id}(?![\w-])", shown)] == []


def test_curves_of_a_chart_share_one_scale() -> None:
    low = Curve("low", "one", [(0.0, 0.0), (10.0, 1.0)])
    high = Curve("high", "two", [(5.0, 9.0), (10.0, 10.0)])
    lines = chart_lines(Chart("two", (low, high), "x"))
    drawn = [line for line in lines if re.search(r"[\u2800-\u28ff]", line)]
    filled = [bool(re.search(r"[\u2801-\u28ff]", line)) for line in drawn]
    assert lines[:3] == ["two, over x", "scale: 0 to 10", "low: 0 to 1"]
    assert filled == [False, False, False, False, True, True, False, False, False, False]
    assert len(drawn[5]) - len(drawn[5].lstrip()) > TEXT_WIDTH / 2  # over its own part of the axis
    logarithmic = chart_lines(Chart("one", (Curve("c", "one", [(0.0, 1.0), (1.0, 10.0), (2.0, 100.0)]),), "x", True))
    assert logarithmic[1] == "scale: 1 to 100, logarithmic"


def test_another_number_in_a_notebook_is_reported_not_raised() -> None:
    book = json.loads(msgspec.json.encode(lesson_notebook(lesson("slope"), run("slope"))))
    codes = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    own, number = "given.tensor('x')", "walk.tensor(5.0)"
    assert any(own in code for code in codes)
    space: dict[str, object] = {}
    for code in codes[: len(run("slope").pages) + 1]:
        exec(code.replace(own, number), space)
    walk = space["walk"]
    assert isinstance(walk, Walk)
    broken = [part for page in walk.pages for part in page.parts if isinstance(part, Claim) and not part.holds]
    assert broken and "it is 10" in broken[-1].text


@pytest.mark.parametrize("name", NAMES)
def test_the_data_of_a_lesson_is_json(name: str) -> None:
    data = json.loads(msgspec.json.encode(lesson_data(lesson(name), run(name))))
    assert data["name"] == name and len(data["steps"]) == len(run(name).pages)
    assert all("answer" not in exercise for exercise in data["exercises"])
    kinds = {part["kind"] for step in data["steps"] for part in step["parts"]}
    assert kinds <= {"prose", "claim", "drawing", "table", "chart", "equation", "gradient", "print", "choice"}
