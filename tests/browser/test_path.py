"""The Path view in a real browser: from a logit back to an embedding by clicks, and back again."""

import random

import pytest

from tests.browser.conftest import OpenPage, small_model
from tests.browser.test_step import TEXT, address, until

CLICKS = 40  # at most from a logit to an embedding or a weight
ROOT = ".body[data-read]"


def shown(page: object, key: str) -> None:
    page.wait_for_selector(f'.body[data-read="{key}"]')


@pytest.mark.parametrize("name", ["gpt", "llama-grouped", "seq2seq"])
def test_clicks_on_the_heaviest_operand_reach_an_embedding_and_back_undoes_each(studio: OpenPage, name: str) -> None:
    model, second = small_model(name), TEXT if name == "seq2seq" else None
    found = model.trace(TEXT, second)
    output, chance = found[found.source_of(found.output)], random.Random(name)
    index = tuple(chance.randrange(size) for size in output.shape)
    page = studio(model, address("path", output.name, index, text=TEXT, second=second))
    page.wait_for_selector(ROOT)
    keys = [page.locator(ROOT).get_attribute("data-read")]
    while page.locator("a.node[data-heaviest]").count():
        page.locator("a.node[data-heaviest]").click()
        page.wait_for_selector(f'.body[data-read]:not([data-read="{keys[-1]}"])')
        keys.append(page.locator(ROOT).get_attribute("data-read"))
        assert len(keys) <= CLICKS + 1
    assert "embedding" in keys[-1] or "positions" in keys[-1], keys[-1]
    assert any(".weight" in each for each in page.locator(".node.leaf title").all_text_contents())
    assert len(keys) > 5
    for key in reversed(keys[:-1]):
        page.go_back()
        shown(page, key)


def test_a_node_is_unfolded_and_left_by_keyboard(studio: OpenPage) -> None:
    page = studio(small_model("gpt"), address("path", "layers.0.attention.weights", (0, 0, 2, 1), text=TEXT))
    page.wait_for_selector(ROOT)
    before = page.locator(".node").count()
    page.locator('.toggle[aria-expanded="false"]').first.focus()
    page.keyboard.press("Enter")
    until(page, f"document.querySelectorAll('.node').length > {before}")
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true", "the focus stays"
    page.keyboard.press("Enter")
    until(page, f"document.querySelectorAll('.node').length === {before}")
    page.locator('a.node[data-id="0"]').focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.id") == "0.0"
    page.keyboard.press("Enter")
    until(page, "!location.hash.includes('layers.0.attention.weights')")


def test_edges_are_as_wide_as_their_shares(studio: OpenPage) -> None:
    page = studio(small_model("gpt"), address("path", "unembed", (0, 2, 7), text=TEXT))
    page.wait_for_selector(ROOT)
    pairs = page.evaluate(
        """() => [...document.querySelectorAll('.path-tree g > path.edge')].map(edge => [
          Number(edge.getAttribute('stroke-width')), edge.nextSibling.textContent,
          edge.classList.contains('lowers')])"""
    )
    assert len(pairs) > 6
    for width, text, lowers in pairs:
        share = float(text.removesuffix(" %").replace("−", "-").replace("+", "")) / 100
        assert width == pytest.approx(max(1.5, 18 * abs(share)), abs=0.1)
        assert lowers == (share < 0)


def test_type_of_the_projector_stays_in_its_boxes(studio: OpenPage) -> None:
    page = studio(small_model("gpt"), "#/path?text=I%20love%20AI&projector=1", viewport={"width": 1280, "height": 800})
    page.wait_for_selector(".path-tree .node")
    out = """[...document.querySelectorAll('.path-tree .node')].filter((node) => {
      const box = node.querySelector('rect').getBoundingClientRect();
      return [...node.querySelectorAll('text')].some((text) => {
        const { left, right, top, bottom } = text.getBoundingClientRect();
        return left < box.left || right > box.right || top < box.top - 1 || bottom > box.bottom + 1;
      });
    }).length"""
    assert page.evaluate(out) == 0
    before = page.locator(".path-tree .node rect").first.bounding_box()["width"]
    page.keyboard.press("p")
    page.wait_for_function("() => !document.documentElement.classList.contains('projector')")
    page.wait_for_timeout(100)
    assert page.evaluate(out) == 0
    assert page.locator(".path-tree .node rect").first.bounding_box()["width"] < before
