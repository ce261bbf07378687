"""The formula element in a real browser: every formula of the catalog, its letters by pointer and keys, no HTML."""

import json
import random
from collections.abc import Iterator

import pytest

from glassformer.equation import catalog
from glassformer.equations import attention, clip_gradient
from glassformer.views.mathml import gradient_symbols, marked_mathml
from tests.browser.bare import bare_page

BODY = "<glass-formula></glass-formula><p>below</p>"
FORMULA = "document.querySelector('glass-formula')"
SAID = "glass-formula output"
HOSTILE = (
    '<math onclick="window.hurt = 1"><mi href="javascript:1" onfocus="window.hurt = 1" data-symbol="q">Q</mi>'
    '<mtext><img xmlns="http://www.w3.org/1999/xhtml" src="x" onerror="window.hurt = 1"/></mtext>'
    '<script xmlns="http://www.w3.org/1999/xhtml">window.hurt = 1</script><annotation-xml>T</annotation-xml>'
    '<mi style="background: url(/stolen); padding-left: 1em">K</mi></math>'
)


def data_of(equation: object) -> dict[str, object]:
    symbols = [vars(symbol) for symbol in equation.symbols]
    return {"mathml": marked_mathml(equation.latex, equation.symbols), "symbols": symbols}


@pytest.fixture
def page(chromium: object) -> Iterator[object]:
    opened = bare_page(chromium, BODY, f"{FORMULA}.data = {json.dumps(data_of(attention))};")
    yield opened
    assert opened.faults == []
    opened.close()


def letter(page: object, name: str) -> object:
    return page.locator(f'.formula-body [data-symbol="{name}"]').first


def test_every_formula_and_every_rule_is_set(page: object) -> None:
    formulas = {name: data_of(each)["mathml"] for name, each in catalog().items()}
    rules = {
        f"{name}, backward": marked_mathml(each.gradient.latex, gradient_symbols(each.symbols))
        for name, each in catalog().items()
        if each.gradient
    }
    script = """(formulas) => Object.entries(formulas).filter(([, mathml]) => {
      const formula = document.querySelector("glass-formula");
      formula.data = { mathml, symbols: [] };
      const letters = (mathml.match(/data-symbol/g) ?? []).length;
      const box = formula.querySelector(".formula-body").getBoundingClientRect();
      const kept = formula.querySelectorAll("[data-symbol]").length;
      return !formula.querySelector("math") || kept !== letters || box.height < 20;
    }).map(([name]) => name)"""
    assert page.evaluate(script, formulas | rules) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_pointing_at_a_letter_tells_and_reads_out_what_it_stands_for(page: object) -> None:
    letter(page, "q").hover()
    assert page.locator(SAID).text_content().split() == ["Q", "q", "queries"]
    assert page.evaluate("[...document.querySelectorAll('[data-lit]')].map((each) => each.textContent)") == ["Q"]
    letter(page, "v").click()
    page.mouse.move(5, 5)
    assert page.evaluate("window.told.map(([name, { symbol }]) => [name, symbol])") == [
        ["symbol-hover", "q"], ["symbol-hover", "v"], ["symbol-pin", "v"], ["symbol-hover", None],
    ]  # fmt: skip


def test_letters_are_reached_by_keys(page: object) -> None:
    page.keyboard.press("Tab")
    assert page.locator(SAID).text_content().split()[:2] == ["O", "o"]
    seen = []
    for _ in range(5):
        page.keyboard.press("ArrowRight")
        seen.append(page.locator("[data-at]").get_attribute("data-symbol"))
    assert seen == ["q", "k", "bias", "mask", "v"]
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    assert page.evaluate("window.told.at(-1)") == ["symbol-pin", {"symbol": "o"}]
    assert page.evaluate("window.told.filter(([, { symbol }]) => symbol === null).length") == 0
    page.keyboard.press("End")
    assert page.locator(SAID).text_content().split() == ["V", "v", "values"]
    page.keyboard.press("Tab")
    assert page.evaluate("window.told.at(-1)") == ["symbol-hover", {"symbol": None}]


def test_a_letter_is_marked_from_outside(page: object) -> None:
    page.evaluate(f"{FORMULA}.marked = 'k'")
    assert letter(page, "k").get_attribute("data-lit") == "" and "keys" in page.locator(SAID).text_content()
    page.evaluate(f"{FORMULA}.marked = 'softcap'")
    assert page.locator("[data-lit]").count() == 0
    assert page.locator(SAID).text_content() == "softcap soft cap of the scores (not in the formula)"
    page.evaluate(f"{FORMULA}.marked = null")
    assert page.locator(SAID).text_content().startswith("Point at a letter")
    assert page.evaluate("window.told") == []


def test_a_letter_in_several_parts_is_one_stop_and_lit_as_a_whole(page: object) -> None:
    page.evaluate(f"(data) => {{ {FORMULA}.data = data; }}", data_of(clip_gradient))
    page.evaluate(f"{FORMULA}.marked = 'norm'")
    assert page.locator("[data-lit]").all_text_contents() == ["‖", "g", "‖"]
    page.keyboard.press("Tab")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    assert page.locator("[data-at]").text_content() == "ϵ", "‖g‖ is one stop"
    page.keyboard.press("Tab")
    assert page.locator(SAID).text_content().startswith("‖g‖")


def test_nothing_moves_when_letters_are_pointed_at(page: object) -> None:
    boxes = """() => [...document.querySelectorAll('body *')].filter((each) => !each.closest('output'))
      .map((each) => { const box = each.getBoundingClientRect(); return [box.x, box.y, box.width, box.height]; })"""
    before, draw = page.evaluate(boxes), random.Random(0)
    page.evaluate("window.shifts = 0")  # what stands below moved when the formula came
    box = page.locator(".formula-body math").bounding_box()
    for _ in range(100):
        page.mouse.move(box["x"] + draw.uniform(0, box["width"]), box["y"] + draw.uniform(0, box["height"]))
    assert len(page.evaluate("window.told")) > 20
    assert page.evaluate(boxes) == before and page.evaluate("window.shifts") == 0


def test_nothing_but_mathematics_comes_in(page: object) -> None:
    page.evaluate(f"(mathml) => {{ {FORMULA}.data = {{ mathml, symbols: [] }}; }}", HOSTILE)
    page.evaluate("window.settled()")
    letter(page, "q").click()
    found = page.evaluate("[...document.querySelectorAll('.formula-body *')].map((each) => each.localName)")
    assert found == ["math", "mi", "mtext", "mi"]
    kept = page.evaluate(
        "[...document.querySelectorAll('.formula-body *')].flatMap((each) => each.getAttributeNames())"
    )
    assert set(kept) == {"data-symbol", "data-lit", "style"}
    assert page.evaluate("document.querySelectorAll('.formula-body mi')[1].style.cssText") == "padding-left: 1em;"
    assert page.evaluate("window.hurt") is None
    page.evaluate(f"{FORMULA}.data = {{ mathml: '<b>no formula', symbols: [] }}")
    assert page.locator(".formula-body").inner_text() == "<b>no formula"
    assert all("Content Security Policy" in fault for fault in page.faults)
    page.faults.clear()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(chromium: object, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    script = f"{FORMULA}.data = {json.dumps(data_of(attention))}; {FORMULA}.marked = 'q';"
    page = bare_page(chromium, BODY, script, color_scheme=scheme)
    assert [each["id"] for each in axe.Axe().run(page).response["violations"]] == [] and page.faults == []
    page.close()
