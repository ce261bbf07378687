"""The matrix element in a real browser: its colors, its cells by pointer, finger and keys, and large matrices."""

import math
import random
import struct
from collections.abc import Iterator
from itertools import pairwise

import pytest

from glassformer.arithmetic import number
from tests.browser.bare import bare_page

BODY = "<glass-matrix></glass-matrix>"
WORDS = '["<bos>", "The", " cat", " sat", " on", " the", " mat", "\\n"]'
# NaN, both infinities and zero in the first row, large and small numbers of both signs in the others
SPECIAL = """
const apart = [NaN, -Infinity, Infinity, 0, 2, -2, 0.1, -0.1];
const matrix = document.querySelector("glass-matrix");
matrix.data = {
  title: "scores", shape: [8, 8], load: window.numbers((i, j) => (i === 0 ? apart[j] : Math.sin(i * 3 + j * 7))),
  rowLabels: WORDS, columnLabels: WORDS, rowName: "query", columnName: "key",
  scale: null, counts: { nan: 1, infinite: 2 },
};
""".replace("WORDS", WORDS)
LARGE = """
const matrix = document.querySelector("glass-matrix");
matrix.data = {
  title: "large", shape: [%d, %d],
  load: window.numbers((i, j) => (j > i ? -Infinity : Math.sin(i / 30) * Math.cos(j / 20))),
  rowLabels: null, columnLabels: null, rowName: "query", columnName: "key", scale: { min: -1, max: 1 }, counts: null,
};
"""
MATRIX = "document.querySelector('glass-matrix')"
SAID = "glass-matrix output"


@pytest.fixture(params=["light", "dark"])
def special(chromium: object, request: pytest.FixtureRequest) -> Iterator[object]:
    page = bare_page(chromium, BODY, SPECIAL, viewport={"width": 420, "height": 700}, color_scheme=request.param)
    yield page
    assert page.faults == []
    page.close()


@pytest.fixture
def page(chromium: object) -> Iterator[object]:
    opened = bare_page(chromium, BODY, SPECIAL)
    yield opened
    assert opened.faults == []
    opened.close()


def large(chromium: object, rows: int, columns: int) -> object:
    return bare_page(chromium, BODY, LARGE % (rows, columns))


class Cells:
    """Where the cells of a matrix stand, and which colors are in them."""

    def __init__(self, page: object) -> None:
        self.page, self.grid = page, page.evaluate(f"window.grid({MATRIX})")

    def middle(self, row: int, column: int) -> dict[str, float]:
        return {"x": self.grid["x"][str(column)], "y": self.grid["y"][str(row)]}

    def colors(self, row: int, column: int, around: float = -5) -> dict[str, int]:
        """How often each color stands in a cell and so many pixels around it."""
        half = max(0, min(self.grid["width"], self.grid["height"]) / 2 + around)
        self.page.evaluate("window.settled()")
        script = f"([at, half]) => window.colors({MATRIX}, at, half)"
        return self.page.evaluate(script, [self.middle(row, column), half])


def luminance(color: str) -> float:
    channels = [int(each) / 255 for each in color.split(",")]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_numbers_are_written_as_the_library_writes_them(page: object) -> None:
    draw = random.Random(0)
    drawn = [draw.choice((-1, 1)) * 10 ** draw.uniform(-24, 12) for _ in range(400)]
    singles = [struct.unpack("f", struct.pack("f", value))[0] for value in drawn]
    ties = [2.0**-7, 3 * 2.0**-7, 1234.5, 1235.5, 0.5, 10000, 99999, 1e7, 12345678.0, 0.0001, 0.00001, -0.0, 9999.6]
    values = [*singles, *ties, math.inf, -math.inf]
    script = "(values) => import('glassformer/dom.js').then((dom) => values.map((value) => dom.numberText(value)))"
    assert page.evaluate(script, values) == [number(value) for value in values]
    assert page.evaluate(script, [math.nan, "NaN", "-Infinity"]) == ["NaN", "NaN", "−∞"]


def test_spaces_of_tokens_are_visible(page: object) -> None:
    script = "(tokens) => import('glassformer/dom.js').then((dom) => tokens.map(dom.tokenText))"
    assert page.evaluate(script, [" a b", "\n", "\t", "\x00", "日"]) == ["␣a␣b", "↵", "⇥", "␀", "日"]


def test_what_is_not_finite_differs_from_zero_and_from_each_other(special: object) -> None:
    cells = Cells(special)
    seen = [cells.colors(0, column) for column in range(4)]
    assert len({max(each, key=each.__getitem__) for each in seen}) == 4, "four grounds"
    assert [len(each) > 1 for each in seen] == [True, True, True, False], "patterns on all but zero"
    for _ in range(12):
        special.get_by_label("smaller cells").click(force=True)
    cells = Cells(special)
    small = [next(iter(cells.colors(0, column))) for column in range(4)]
    assert len(set(small)) == 4, "without room for a pattern the colors differ still"


def test_legend_has_the_ends_of_its_scale_and_counts_what_is_on_none(special: object) -> None:
    legend = special.locator(".matrix-legend")
    assert legend.inner_text().split() == ["−2", "2", "NaN", "1", "−∞", "1", "∞", "1", "own", "scale"]
    assert legend.locator(".matrix-bar.diverging").count() == 1
    special.evaluate(f"{MATRIX}.data = {{...{MATRIX}.data, load: window.numbers(() => 3), counts: null}}")
    special.evaluate("window.settled()")
    assert legend.locator(".matrix-bar.rise").count() == 1
    assert legend.inner_text().split() == ["0", "3", "own", "scale"]
    special.evaluate(f"{MATRIX}.data = {{...{MATRIX}.data, scale: {{min: -5, max: 1}}}}")
    assert legend.inner_text().split() == ["−5", "5", "shared", "scale"]


def test_cursor_is_seen_on_every_color(special: object) -> None:
    cells = Cells(special)
    paper, *tones = special.evaluate("""['--paper', '--light', '--dark'].map((name) => {
      const hex = getComputedStyle(document.body).getPropertyValue(name).trim();
      return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)).join();
    })""")
    for column in range(8):
        special.evaluate(f"{MATRIX}.cursor = null")
        inside = cells.colors(0, column)
        special.evaluate(f"{MATRIX}.cursor = [0, {column}]")
        drawn = cells.colors(0, column, 3)
        assert all(drawn[tone] > 80 for tone in tones), "a light line and its dark edges"
        assert all(max(contrast(ground, tone) for tone in tones) >= 3 for ground in (*inside, paper))


def test_a_pointer_reads_cells_and_a_click_keeps_one(page: object) -> None:
    at = Cells(page).middle(3, 1)
    page.mouse.move(at["x"], at["y"])
    value = math.sin(3 * 3 + 7)
    assert number(value) in page.locator(SAID).inner_text() and "[3, 1]" in page.locator(SAID).inner_text()
    assert "␣sat · The" in page.locator(SAID).inner_text()
    page.mouse.down()
    page.mouse.up()
    page.mouse.move(5, 5)
    told = page.evaluate("window.told")
    assert [name for name, _ in told] == ["cell-hover", "cell-pin", "cell-leave"]
    assert (
        told[1][1]["row"] == 3 and told[1][1]["column"] == 1 and told[1][1]["value"] == pytest.approx(value, abs=1e-6)
    )
    assert page.evaluate(f"[{MATRIX}.pinned, {MATRIX}.cursor]") == [[3, 1], None]
    assert "[3, 1]" in page.locator(SAID).inner_text(), "the cell that is kept stays in the read-out"


def test_a_tap_reads_the_cell_tapped(chromium: object) -> None:
    page = bare_page(chromium, BODY, SPECIAL, viewport={"width": 390, "height": 700}, has_touch=True, is_mobile=True)
    at = Cells(page).middle(5, 6)
    page.touchscreen.tap(at["x"], at["y"])
    page.wait_for_function("() => window.told.length > 0")
    told = page.evaluate("window.told")
    assert [name for name, _ in told] == ["cell-pin"]
    assert (told[0][1]["row"], told[0][1]["column"]) == (5, 6)
    assert "[5, 6]" in page.locator(SAID).inner_text() and page.faults == []
    page.close()


def test_keys_lead_to_every_corner_and_enter_keeps(page: object) -> None:
    page.keyboard.press("Tab")  # smaller cells
    page.keyboard.press("Tab")  # larger cells, which have their number now
    page.keyboard.press("Tab")
    at = lambda: page.evaluate(f"{MATRIX}.cursor")  # noqa: E731 - read again after each key
    assert at() == [0, 0]
    for key, wanted in [
        ("ArrowRight", [0, 1]), ("ArrowDown", [1, 1]), ("End", [1, 7]), ("ArrowRight", [1, 7]), ("Home", [1, 0]),
        ("Control+End", [7, 7]), ("ArrowUp", [6, 7]), ("ArrowLeft", [6, 6]), ("PageUp", [0, 6]), ("PageDown", [6, 6]),
        ("Control+Home", [0, 0]), ("ArrowUp", [0, 0]),
    ]:  # fmt: skip
        page.keyboard.press(key)
        if key not in ("PageUp", "PageDown"):
            assert at() == wanted, key
        else:
            assert abs(at()[0] - wanted[0]) <= 1, key
    page.keyboard.press("Enter")
    assert page.evaluate("window.told.at(-1)[0]") == "cell-pin" and page.evaluate(f"{MATRIX}.pinned") == [0, 0]
    assert page.locator(SAID).inner_text().startswith("NaN")
    page.keyboard.press("Shift+Tab")
    assert at() is None and page.evaluate("window.told.at(-1)[0]") == "cell-leave"


def test_screen_readers_get_the_window_in_view_as_a_table(page: object) -> None:
    page.wait_for_selector("glass-matrix table", state="attached")
    assert page.locator("glass-matrix caption").text_content() == "scores: rows 0 to 7 of 8, columns 0 to 7 of 8"
    assert page.locator("glass-matrix thead th").all_text_contents()[2] == "␣cat"
    first = page.locator("glass-matrix tbody tr").first.locator("td").all_text_contents()
    assert first == ["NaN", "−∞", "∞", "0", "2", "−2", "0.1", "−0.1"]


def test_nothing_outside_the_read_out_moves_on_a_hundred_hovers(page: object) -> None:
    boxes = """() => [...document.querySelectorAll('body *')].filter((each) => !each.closest('output'))
      .map((each) => { const box = each.getBoundingClientRect(); return [box.x, box.y, box.width, box.height]; })
      .concat([[scrollX, scrollY, document.documentElement.scrollHeight, 0]])"""
    box = page.locator("glass-matrix canvas").bounding_box()
    page.wait_for_timeout(400)  # the table for screen readers is written
    before = page.evaluate(boxes)
    draw = random.Random(1)
    for _ in range(100):
        page.mouse.move(box["x"] + draw.uniform(0, box["width"]), box["y"] + draw.uniform(0, box["height"]))
    page.mouse.move(5, 5)
    assert len(page.evaluate("window.told")) > 50
    assert page.evaluate(boxes) == before
    assert page.evaluate("window.shifts") == 0


def test_marks_and_a_cursor_from_outside_change_their_cells_alone(page: object) -> None:
    cells = Cells(page)
    page.evaluate("window.settled()")
    picture = f"{MATRIX}.querySelector('canvas').toDataURL()"
    before, plain = [cells.colors(row, 3) for row in range(8)], page.evaluate(picture)
    page.evaluate(f"{MATRIX}.marks = {{rows: [2], columns: [3], cells: [[5, 5]]}}")
    page.evaluate("window.settled()")
    marked = page.evaluate(picture)
    assert marked != plain
    assert [cells.colors(row, 3) for row in range(8)] == before, "frames surround numbers and do not cover them"
    page.evaluate(f"{MATRIX}.marks = {{}}; {MATRIX}.cursor = [2, 2]")
    page.evaluate("window.settled()")
    assert page.evaluate(picture) not in (plain, marked)
    assert page.evaluate("window.told") == [], "what was set from outside is not told back"
    page.evaluate(f"{MATRIX}.cursor = null")
    page.evaluate("window.settled()")
    assert page.evaluate(picture) == plain


def test_dark_mode_and_paper_change_the_colors(page: object) -> None:
    cells = Cells(page)
    light = cells.colors(0, 3)
    page.emulate_media(color_scheme="dark")
    dark = cells.colors(0, 3)
    page.emulate_media(color_scheme="dark", media="print")
    assert dark != light and Cells(page).colors(0, 3) == light


def test_panning_2048_by_2048_keeps_thirty_frames_a_second(chromium: object) -> None:
    page = large(chromium, 2048, 2048)
    frames = page.evaluate("""async () => {
      const scroller = document.querySelector(".matrix-scroll");
      const times = [];
      for (let step = 0; step < 90; step++) {
        scroller.scrollTop += 150; scroller.scrollLeft += 110;
        times.push(await new Promise(requestAnimationFrame));
      }
      return times;
    }""")
    spans = sorted(after - before for before, after in pairwise(frames))
    assert 1000 * (len(frames) - 1) / (frames[-1] - frames[0]) >= 30
    assert spans[len(spans) // 2] < 34
    asked = page.evaluate("window.asked")
    assert len({tuple(each) for each in asked}) == len(asked) < 150, "what is in view, each window once"
    assert all(top + height <= 2048 and left + width <= 2048 for top, left, height, width in asked)
    page.evaluate(f"{MATRIX}.pinned = [2047, 3]")
    page.evaluate("window.settled()")
    assert page.locator(SAID).inner_text().startswith(number(math.sin(2047 / 30) * math.cos(3 / 20)))
    for _ in range(12):
        page.get_by_label("smaller cells").click(force=True)
    page.evaluate("window.settled()")
    assert page.evaluate("window.asked.length") < 300 and page.faults == []
    page.close()


def test_every_one_of_512_rows_is_reached_by_keys(chromium: object) -> None:
    page = large(chromium, 512, 512)
    page.locator(".matrix-scroll").focus()
    page.evaluate("""async () => {
      const scroller = document.querySelector(".matrix-scroll");
      const press = (key, more) => scroller.dispatchEvent(new KeyboardEvent("keydown", { key, ...more }));
      window.told.length = 0;
      press("Home", { ctrlKey: true });
      for (let row = 0; row < 511; row++) press("ArrowDown");
      await window.settled();
    }""")
    rows = [detail["row"] for name, detail in page.evaluate("window.told") if name == "cell-hover"]
    assert set(range(1, 512)) <= set(rows)
    left = page.locator(".matrix-scroll").evaluate("(each) => each.scrollTop + each.clientHeight - each.scrollHeight")
    assert abs(left) < 5, "the last row is in view"
    assert "[511, 0]" in page.locator(SAID).inner_text()
    page.close()


def test_a_drag_and_a_wheel_pan_and_pin_nothing(chromium: object) -> None:
    page = large(chromium, 512, 512)
    box = page.locator(".matrix-scroll").bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 300)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 150, steps=5)
    page.mouse.up()
    at = page.locator(".matrix-scroll").evaluate("(each) => [each.scrollLeft, each.scrollTop]")
    assert at == [100, 150] and page.evaluate(f"{MATRIX}.pinned") is None
    page.mouse.wheel(0, 200)
    page.wait_for_function("() => document.querySelector('.matrix-scroll').scrollTop > 300")
    page.close()


def test_numbers_that_do_not_come_are_asked_for_again(chromium: object) -> None:
    script = """
    let times = 0;
    document.querySelector("glass-matrix").data = { title: "m", shape: [2, 2], scale: null, counts: null,
      load: async () => {
        if (times++ === 0) throw new Error("the server is gone");
        return new Float32Array([1, 2, 3, 4]);
      } };
    """
    page = bare_page(chromium, BODY, script)
    assert page.locator(SAID).inner_text() == "These numbers did not come: the server is gone"
    page.wait_for_function("() => !document.querySelector('glass-matrix output').textContent.includes('gone')")
    assert page.locator(".matrix-legend").inner_text().split() == ["0", "4", "own", "scale"] and page.faults == []
    page.close()


def test_axe_finds_nothing(special: object) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    special.wait_for_timeout(400)
    found = axe.Axe().run(special).response["violations"]
    assert [each["id"] for each in found] == []
