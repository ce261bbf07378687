"""The picture of a run: whole XML, every point where the axis says, nothing that is no number."""

import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.charts import DOTS, labeled_points, sparkline, training_curves
from glassformer.training.step import Log

SVG = "{http://www.w3.org/2000/svg}"
RUN = [
    {"step": step, "loss": 4 * step**-0.3, "learning_rate": 1e-3 * min(1, step / 300),
     "grad_norm": 1 + math.sin(step) ** 2, "tokens": 64 * step,
     "validation": 4.2 * step**-0.29 if step % 500 == 0 else None}
    for step in range(50, 5001, 50)
]  # fmt: skip


def texts(root: ET.Element, kind: str) -> list[ET.Element]:
    return [text for text in root.iter(f"{SVG}text") if text.get("class") == kind]


def number(element: ET.Element, key: str) -> float:
    return float(element.attrib[key])


def value(text: ET.Element) -> float:
    return float((text.text or "").replace(",", ""))


def paths(root: ET.Element) -> dict[str, list[tuple[float, float]]]:
    found = {}
    for path in root.iter(f"{SVG}path"):
        if "data-name" in path.attrib:
            pairs = re.findall(r"[ML] (\S+) (\S+)", path.attrib["d"])
            found[path.attrib["data-name"]] = [(float(x), float(y)) for x, y in pairs]
    return found


def read_off(root: ET.Element, name: str, logarithmic: bool) -> list[tuple[float, float]]:
    """Steps and values of a curve, as a person with a ruler would read them off by the ticks."""
    drawn = paths(root)[name]
    steps = texts(root, "step")
    x = [(number(t, "x"), math.log10(value(t)) if logarithmic else value(t)) for t in (steps[0], steps[-1])]
    titles = {t.text: number(t, "y") for t in texts(root, "title")}
    top = titles["loss" if name in ("training", "validation") else name]
    below = min([y for y in titles.values() if y > top], default=math.inf)
    ticks = [t for t in texts(root, "value") if top < number(t, "y") < below]
    y = [(number(t, "y") - 4, value(t)) for t in (ticks[0], ticks[-1])]  # letters stand a little under their line

    def along(position: float, ends: list[tuple[float, float]]) -> float:
        (a, first), (b, last) = ends
        return first + (position - a) / (b - a) * (last - first)

    return [(10 ** along(px, x) if logarithmic else along(px, x), along(py, y)) for px, py in drawn]


def test_the_curves_are_those_of_a_training_log() -> None:
    records = [vars(Log(step, 2.0 / step, 1e-3, 0.5, 64, 2.5 / step)) for step in (1, 2, 3)]
    assert set(paths(ET.fromstring(training_curves(records)))) == {
        "training", "validation", "learning rate", "gradient norm",
    }  # fmt: skip


@pytest.mark.parametrize("logarithmic", [False, True])
def test_points_lie_where_the_axes_say(logarithmic: bool) -> None:
    root = ET.fromstring(training_curves(RUN, logarithmic))
    for name, key in {
        "training": "loss",
        "validation": "validation",
        "learning rate": "learning_rate",
        "gradient norm": "grad_norm",
    }.items():
        wanted = [(record["step"], record[key]) for record in RUN if record[key] is not None]
        found = read_off(root, name, logarithmic)
        span = max(y for _, y in wanted) - min(y for _, y in wanted)
        assert len(found) == len(wanted)
        for (x, y), (step, height) in zip(found, wanted, strict=True):
            assert x == pytest.approx(step, rel=1e-3, abs=1)
            assert y == pytest.approx(height, abs=2e-3 * span)


def test_ticks_are_round_and_inside() -> None:
    root = ET.fromstring(training_curves(RUN))
    assert [t.text for t in texts(root, "step")] == ["1,000", "2,000", "3,000", "4,000", "5,000"]
    assert len(texts(root, "value")) >= 9
    height = number(root, "height")
    for text in root.iter(f"{SVG}text"):
        assert 0 <= number(text, "x") <= 720 and 0 <= number(text, "y") <= height
    assert [t.text for t in texts(root, "legend")] == ["validation", "training"]
    assert "loss 0.3107 at step 5000" in (root.findtext(f"{SVG}title") or "")


def test_it_needs_nothing_from_outside_and_knows_the_dark() -> None:
    picture = training_curves(RUN)
    assert "prefers-color-scheme: dark" in picture
    assert re.findall(r"https?://[^\"]+", picture) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"<(script|image|use|foreignObject)|url\(|@import", picture)


def test_a_run_without_steps_says_so() -> None:
    root = ET.fromstring(training_curves([]))
    assert "nothing was recorded yet" in "".join(root.itertext()) and not paths(root)
    root = ET.fromstring(training_curves([{"step": 1, "loss": math.nan, "validation": None}]))
    assert not paths(root)


@pytest.mark.parametrize("logarithmic", [False, True])
def test_one_step_is_a_dot(logarithmic: bool) -> None:
    root = ET.fromstring(training_curves(RUN[:1], logarithmic))
    assert not paths(root)
    dots = list(root.iter(f"{SVG}circle"))
    assert len(dots) == 3 and all(0 < number(dot, "cx") < 720 for dot in dots)


def test_a_note_stands_at_its_step_and_cannot_break_the_picture() -> None:
    records = [dict(record) for record in RUN]
    records[19]["note"] = 'the loss <is> "diverging" & \x00 worse'
    root = ET.fromstring(training_curves(records))
    (line,) = [line for line in root.iter(f"{SVG}line") if line.get("class") == "note"]
    steps = {t.text: number(t, "x") for t in texts(root, "step")}
    assert number(line, "x1") == pytest.approx(steps["1,000"])
    assert line.findtext(f"{SVG}title") == 'step 1000: the loss <is> "diverging" &   worse'


NUMBER = st.none() | st.floats(-1e30, 1e30) | st.sampled_from([math.nan, math.inf, -math.inf, 0.0])
RECORD = st.fixed_dictionaries(
    {"step": st.integers(0, 10**7), "loss": NUMBER, "learning_rate": NUMBER, "grad_norm": NUMBER, "validation": NUMBER}
)


@given(st.lists(RECORD, max_size=6), st.booleans())
def test_whatever_was_recorded_the_picture_is_whole(records: list[dict[str, float]], logarithmic: bool) -> None:
    root = ET.fromstring(training_curves(sorted(records, key=lambda record: record["step"]), logarithmic))
    for element in root.iter():
        for key in ("x", "y", "x1", "y1", "x2", "y2", "cx", "cy"):
            assert math.isfinite(float(element.get(key, "0")))
        assert not re.search(r"nan|inf", element.get("d", ""))
    for points in paths(root).values():
        assert all(72 <= x <= 692.01 for x, _ in points)


def columns(lines: list[str]) -> list[list[int]]:
    """The dots of each column, counted from below."""
    height = 4 * len(lines)
    found: list[list[int]] = [[] for _ in range(2 * len(lines[0]))]
    for row, line in enumerate(lines):
        for index, character in enumerate(line):
            for dot in range(4):
                for side in range(2):
                    if (ord(character) - 0x2800) & DOTS[dot][side]:
                        found[2 * index + side].append(height - 1 - 4 * row - dot)
    return found


def test_a_sparkline_goes_from_the_highest_to_the_lowest() -> None:
    lines = sparkline([100 - value for value in range(100)], 20, 5)
    assert len(lines) == 5 and {len(line) for line in lines} == {20}
    dots = columns(lines)
    assert max(dots[0]) == 19 and min(dots[-1]) == 0
    assert all(max(a) >= max(b) for a, b in pairwise(dots))


def test_the_dots_are_those_of_braille() -> None:
    assert sparkline([0, 3], 1, 1) == ["⡸"]  # dot 7 on the left; dots 6, 5 and 4 lead up on the right


def test_a_sparkline_keeps_to_bounds_that_are_given() -> None:
    assert sparkline([5.0, 5.0], 1, 2, (0.0, 10.0)) == ["⣀", "\u2800"]
    assert sparkline([50.0, -50.0], 1, 1, (0.0, 10.0)) == sparkline([10.0, 0.0], 1, 1)


@given(
    st.lists(st.floats(-1e6, 1e6) | st.sampled_from([math.nan, math.inf]), max_size=50),
    st.integers(1, 12),
    st.integers(1, 4),
)
def test_a_sparkline_has_no_holes(values: list[float], width: int, height: int) -> None:
    lines = sparkline(values, width, height)
    if not any(map(math.isfinite, values)):
        assert lines == []
        return
    dots = columns(lines)
    assert all(dots)
    for before, after in pairwise(dots):
        nearest = min(abs(a - b) for a in before for b in after)
        assert nearest <= 1


def test_step_zero_has_no_place_on_a_logarithmic_axis() -> None:
    records = [{"step": step, "loss": 3.0 - step / 100} for step in (0, 1, 10, 100)]
    drawn = paths(ET.fromstring(training_curves(records, logarithmic=True)))["training"]
    assert len(drawn) == 3
    assert len(paths(ET.fromstring(training_curves(records)))["training"]) == 4


def test_labeled_points_keep_their_proportions_and_their_names_apart() -> None:
    points = {"left": (-2.0, 0.0), "right": (2.0, 0.0), "above": (0.0, 1.0), "a<b": (-2.0, 0.0)}
    picture = ET.fromstring(labeled_points(points, "some words"))
    dots = [(float(dot.get("cx", 0)), float(dot.get("cy", 0))) for dot in picture.iter(f"{SVG}circle")]
    xs, ys = {x for x, _ in dots}, {y for _, y in dots}
    assert (max(xs) - min(xs)) / (max(ys) - min(ys)) == pytest.approx(4 / 1)
    labels = {text.text: float(text.get("y", 0)) for text in picture.iter(f"{SVG}text") if text.get("class") == "label"}
    assert labels.keys() == points.keys() and abs(labels["left"] - labels["a<b"]) >= 12
