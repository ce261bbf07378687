"""The Step view in a real browser: its numbers are the tape's, its arithmetic adds up, pointing marks what counts."""

import math
import random
import re
from dataclasses import replace
from urllib.parse import quote

import pytest
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.interface import LoadedModel
from glassformer.models.registry import build
from glassformer.probes.trace import Trace
from glassformer.text.learn_tokenizer import learn_tokenizer
from tests.browser.conftest import WORDS, OpenPage, small_model
from tests.models.zoo import ZOO
from tests.probes.intervals import Interval, work_out

TEXT, SECOND = "I love AI", "you are welcome"
CASES = {"gpt": None, "llama-grouped": None, "encoder": None, "seq2seq": SECOND}
PICKS = 50
SCORES = "layers.1.attention.scores"
# Goes to each address and reads what the view says once it has the number of that address.
READ = """async (picks) => {
  const read = [];
  for (const [address, key] of picks) {
    location.hash = address;
    const end = performance.now() + 5000;
    while (document.querySelector('.step-reading')?.dataset.read !== key) {
      if (performance.now() > end) throw new Error(`no number at ${address}`);
      await new Promise(requestAnimationFrame);
    }
    const { value } = document.querySelector('.step-reading').dataset;
    read.push([value, document.querySelector('.reading-text').textContent]);
  }
  return read;
}"""


def picked(found: Trace, count: int, seed: str, backward: bool = False) -> list[tuple[str, tuple[int, ...], float]]:
    """Random numbers of random steps: name, index and value."""
    chance = random.Random(seed)
    steps = [s for s in found.steps if isinstance(s.output, Tensor) and s.output.is_floating_point()]
    steps = [s for s in steps if s.gradient is not None] if backward else steps
    picks = []
    for _ in range(count):
        step = chance.choice(steps)
        index = tuple(chance.randrange(size) for size in step.shape)
        value = step.gradient if backward else step.output.detach()
        picks.append((step.name, index, float(value[index])))
    return picks


def address(view: str, step: str, index: tuple[int, ...], **query: str | None) -> str:
    rest = "&".join(f"{name}={quote(text)}" for name, text in query.items() if text)
    return f"#/{view}/{step}/{','.join(map(str, index))}?{rest}"


def adds_up(text: str, value: float) -> bool:
    """Whether written arithmetic can stand for a number."""
    written, _, _ = re.sub(r" \(from [a-z][^)]*\)", "", text).rpartition(" = ")
    if not written:
        return True
    reach, room = work_out(written), 1e-6 * max(1.0, abs(value)) if math.isfinite(value) else 0.0
    return value in Interval(reach.low - room, reach.high + room)


@pytest.mark.parametrize("name", CASES)
def test_each_number_is_that_of_the_tape_and_its_arithmetic_gives_it(studio: OpenPage, name: str) -> None:
    model, second = small_model(name), CASES[name]
    picks = picked(model.trace(TEXT, second), PICKS, name)
    page = studio(model, address("step", picks[0][0], picks[0][1], text=TEXT, second=second))
    asked = [
        (address("step", step, index, text=TEXT, second=second), f"{step}/{','.join(map(str, index))}/forward")
        for step, index, _ in picks
    ]
    for (step, index, value), (shown, text) in zip(picks, page.evaluate(READ, asked), strict=True):
        assert shown == number(value), f"{step}{index} is {value}"
        assert adds_up(text, value), f"{step}{index}: {text}"


def test_each_gradient_is_the_sum_of_what_its_readers_sent(studio: OpenPage) -> None:
    model = small_model("gpt")
    picks = picked(model.trace(TEXT, None, "next"), 20, "backward", backward=True)
    query = {"text": TEXT, "backward": "next", "direction": "backward"}
    page = studio(model, address("step", picks[0][0], picks[0][1], **query))
    asked = [
        (address("step", step, index, **query), f"{step}/{','.join(map(str, index))}/backward")
        for step, index, _ in picks
    ]
    several = 0
    for (step, index, value), (shown, text) in zip(picks, page.evaluate(READ, asked), strict=True):
        assert shown == number(value), f"{step}{index} is {value}"
        assert adds_up(text, value), f"{step}{index}: {text}"
        several += text.count("(from ") > 1
    assert several > 2
    assert page.locator(".step-head math").text_content()
    assert page.get_by_role("button", name="Backward").get_attribute("aria-pressed") == "true"


def until(page: object, condition: str) -> None:
    """Wait until an expression holds in the page, whose policy forbids the evaluation that Playwright would poll."""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(20)
    raise AssertionError(condition)


def marks(page: object, symbol: str) -> dict[str, list[int]]:
    """What is marked in the matrix of a letter, without what is empty."""
    return page.evaluate(
        """symbol => {
          const { marks } = document.querySelector(`.letter-figure[data-symbol="${symbol}"] glass-matrix`);
          return Object.fromEntries(Object.entries(marks).filter(([, marked]) => marked.length));
        }""",
        symbol,
    )


def lit(page: object) -> list[str]:
    return page.evaluate("[...document.querySelectorAll('.letter-figure[data-lit]')].map(each => each.dataset.symbol)")


def test_pointing_at_a_score_marks_its_row_of_queries_and_column_of_keys(studio: OpenPage) -> None:
    page = studio(small_model("gpt"), address("step", SCORES, (0, 0, 2, 1), text=TEXT))
    page.wait_for_selector(".step-reading[data-read]")
    assert (marks(page, "q"), marks(page, "k")) == ({"rows": [2]}, {"columns": [1]})
    scroller = page.locator('.letter-figure[data-symbol="s"] .matrix-scroll')
    scroller.hover(position={"x": 60, "y": 60})
    until(page, "document.querySelector('.letter-figure[data-symbol=s] glass-matrix').cursor !== null")
    row, column = page.evaluate("document.querySelector('.letter-figure[data-symbol=s] glass-matrix').cursor")
    assert (marks(page, "q"), marks(page, "k")) == ({"rows": [row]}, {"columns": [column]})
    page.mouse.move(2, 2)
    scroller.focus()
    page.keyboard.press("Home")
    for key in ("ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    row, column = page.evaluate("document.querySelector('.letter-figure[data-symbol=s] glass-matrix').cursor")
    assert (marks(page, "q"), marks(page, "k")) == ({"rows": [row]}, {"columns": [column]})
    page.keyboard.press("Enter")
    page.wait_for_selector(f".step-reading[data-read='{SCORES}/0,0,{row},{column}/forward']")
    page.go_back()
    page.wait_for_selector(f".step-reading[data-read='{SCORES}/0,0,2,1/forward']")


def test_pointing_at_a_letter_lights_its_matrix_its_row_and_its_numbers(studio: OpenPage) -> None:
    page = studio(small_model("gpt"), address("step", SCORES, (0, 0, 2, 1), text=TEXT))
    page.wait_for_selector(".step-reading[data-read]")
    page.locator('.step-head [data-symbol="q"]').first.hover()
    assert lit(page) == ["q"]
    assert page.locator('.step-letters tr[data-symbol="q"][data-lit]').count() == 1
    numbers = page.locator(".reading-text .operand[data-lit]")
    assert numbers.count() == page.locator('.reading-text .operand[data-symbol="q"]').count() == 4
    page.mouse.move(2, 2)
    assert lit(page) == []
    page.locator(".step-head .formula-body").focus()
    page.keyboard.press("Home")
    assert lit(page) == ["s"]
    page.keyboard.press("ArrowRight")
    assert lit(page) == ["q"]
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.closest('.letter-figure').dataset.symbol") == "q"
    page.locator('.reading-text .operand[data-symbol="k"]').first.focus()
    assert lit(page) == ["k"]
    assert page.locator('.step-head [data-symbol="k"][data-lit]').count() == 1


def test_an_operand_leads_to_its_own_number(studio: OpenPage) -> None:
    model = small_model("gpt")
    page = studio(model, address("step", SCORES, (0, 0, 2, 1), text=TEXT))
    page.wait_for_selector(".step-reading[data-read]")
    link = page.locator('.reading-text .operand[data-symbol="k"]').nth(1)
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".step-reading[data-read='layers.1.attention.keys/0,0,1,1/forward']")
    found = model.trace(TEXT)["layers.1.attention.keys"].output[0, 0, 1, 1]
    assert page.locator(".step-reading").get_attribute("data-value") == number(found.detach())


def test_another_head_is_chosen_and_a_run_goes_backward(studio: OpenPage) -> None:
    page = studio(small_model("gpt"), address("step", SCORES, (0, 0, 2, 1), text=TEXT))
    page.wait_for_selector(".step-reading[data-read]")
    page.get_by_label("head", exact=True).fill("1")
    page.keyboard.press("Enter")
    page.wait_for_selector(f".step-reading[data-read='{SCORES}/0,1,2,1/forward']")
    page.get_by_role("button", name="Go backward from the loss").click()
    page.wait_for_selector(f".step-reading[data-read='{SCORES}/0,1,2,1/backward']")
    assert "(from layers.1.attention.apply_mask)" in page.locator(".reading-text").text_content()
    page.get_by_role("button", name="next step").click()
    until(page, "location.hash.includes('causal_mask')")


def many_tokens() -> LoadedModel:
    """A model with heads of 16 numbers that reads a token for each letter or two."""
    tokenizer = learn_tokenizer(WORDS, "bpe", 300)
    config = replace(ZOO["gpt"], vocab=tokenizer.vocab_size, context=64, dim=64, heads=4)
    return LoadedModel(build(config).eval(), tokenizer)


LONG = "The cat sat on the mat and then it ran"
BOXES = """() => Object.fromEntries([...document.querySelectorAll('.letter-figure .matrix-scroll, .step-reading')]
  .map(each => {
  const { top, bottom, left, right } = each.getBoundingClientRect();
  const hidden = each.scrollWidth > each.clientWidth + 1 || each.scrollHeight > each.clientHeight + 1;
  return [each.closest('.letter-figure')?.dataset.symbol ?? 'reading', { top, bottom, left, right, hidden }];
}))"""


def test_operands_product_and_arithmetic_are_above_the_fold(studio: OpenPage) -> None:
    model = many_tokens()
    assert 16 <= len(model.required_tokenizer().encode(LONG)) <= 32
    page = studio(model, address("step", SCORES, (0, 0, 2, 1), text=LONG), viewport={"width": 1280, "height": 800})
    page.wait_for_selector(".step-reading[data-read]")
    boxes = page.evaluate(BOXES)
    assert set(boxes) == {"q", "k", "s", "reading"}
    for name, box in boxes.items():
        assert box["top"] >= 0 and box["bottom"] <= 800 and not box["hidden"], name
    assert max(boxes[name]["bottom"] for name in "qks") <= boxes["reading"]["top"]


MIDDLES = """([symbol, way]) => {
  const matrix = document.querySelector(`.letter-figure[data-symbol=${symbol}] glass-matrix`);
  const box = matrix.querySelector('canvas').getBoundingClientRect();
  const { x, y, cell, columns, rows } = matrix.drawn;
  const [from, to, size, count] = way === 'x' ? [box.left, x, cell.width, columns] : [box.top, y, cell.height, rows];
  return Array.from({ length: count }, (_, at) => from + to(at) + size / 2);
}"""


@pytest.mark.parametrize("width", [900, 1280, 1600])
def test_the_columns_of_a_product_stand_under_each_other(studio: OpenPage, width: int) -> None:
    page = studio(
        many_tokens(), address("step", SCORES, (0, 0, 2, 1), text=LONG), viewport={"width": width, "height": 800}
    )
    page.wait_for_selector(".step-reading[data-read]")
    page.wait_for_timeout(200)
    assert page.evaluate(MIDDLES, ["k", "x"]) == page.evaluate(MIDDLES, ["s", "x"])
    assert page.evaluate(MIDDLES, ["q", "y"]) == page.evaluate(MIDDLES, ["s", "y"])
    for _ in range(4):
        page.locator('.letter-figure[data-symbol="s"]').get_by_role("button", name="larger cells").click()
    page.locator('.letter-figure[data-symbol="s"] .matrix-scroll').evaluate(
        "each => { each.scrollLeft = 9999; each.scrollTop = 50; }"
    )
    page.wait_for_timeout(200)
    assert page.evaluate(MIDDLES, ["k", "x"]) == page.evaluate(MIDDLES, ["s", "x"])
    assert page.evaluate(MIDDLES, ["q", "y"]) == page.evaluate(MIDDLES, ["s", "y"])


def test_a_long_sum_is_shown_whole_when_asked_for(studio: OpenPage) -> None:
    page = studio(
        many_tokens(), address("step", SCORES, (0, 0, 2, 1), text=LONG), viewport={"width": 390, "height": 800}
    )
    page.wait_for_selector(".step-reading[data-read]")
    cut = "(({ scrollHeight, clientHeight }) => scrollHeight - clientHeight)(document.querySelector('.reading-text'))"
    assert page.evaluate(cut) > 1
    page.get_by_role("button", name="Whole sum").click()
    assert page.evaluate(cut) <= 1
    page.get_by_role("button", name="Less").click()
    assert page.evaluate(cut) > 1
