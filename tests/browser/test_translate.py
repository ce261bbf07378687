"""Translate in a real browser: ribbons are cross-attention weights, and the tree ends with what `translate` writes."""

from functools import cache

import pytest
import torch

from glassformer.interface import LoadedModel
from glassformer.studio.sessions import Request, Sessions
from tests.browser.conftest import OpenPage, small_model
from tests.decoding.tiny_generators import words, writer

TEXT = "six seven eight nine ten one"
ADDRESS = "#/translate?text=six%20seven%20eight%20nine%20ten%20one"
READ = """() => [...document.querySelectorAll(".align-board .ribbon")].map((path) =>
  [path.dataset.row, path.dataset.column, path.dataset.weight].map(Number))"""

WIDTHS = """() => [...document.querySelectorAll(".align-board .ribbon")].map((path) =>
  [path.dataset.weight, path.getAttribute("stroke-width")].map(Number))"""


@cache
def translator(name: str = "seq2seq") -> LoadedModel:
    """A translator over ten words, whose translations end."""
    return LoadedModel(writer(name, context=12), words())


def drawn(page: object) -> torch.Tensor:
    """The weights of all ribbons, from the page."""
    page.wait_for_selector(".align-board .ribbon", state="attached")
    page.locator("#translate-least").evaluate("e => { e.value = 0; e.dispatchEvent(new Event('input')); }")
    found = page.evaluate(READ)
    rows, columns = (int(max(each[axis] for each in found)) + 1 for axis in (0, 1))
    weights = torch.zeros(rows, columns, dtype=torch.float64)
    for row, column, weight in found:
        weights[int(row), int(column)] = weight
    return weights


def true_weights(step: str, head: int | None) -> torch.Tensor:
    sessions = Sessions()
    sessions.add_model("model", translator())
    weights = sessions.start(Request(TEXT)).trace[step].value[0].double()
    return weights.mean(0) if head is None else weights[head]


@pytest.mark.parametrize(("choice", "layer", "head"), [("", 1, None), ("&layer=0&head=1", 0, 1)])
def test_ribbons_are_the_cross_attention_weights_and_each_row_sums_to_one(
    studio: OpenPage, choice: str, layer: int, head: int | None
) -> None:
    page = studio(translator(), ADDRESS + choice)
    found = drawn(page)
    torch.testing.assert_close(
        found, true_weights(f"decoder.layers.{layer}.cross_attention.weights", head), rtol=0, atol=1e-6
    )
    assert (found.sum(1) - 1).abs().max() < 1e-6
    widths = page.evaluate(WIDTHS)
    assert all(width == pytest.approx(max(0.75, 14 * weight)) for weight, width in widths), "as wide as its weight"


def test_the_layer_and_the_head_are_chosen_and_stay_in_the_address(studio: OpenPage) -> None:
    page = studio(translator(), ADDRESS)
    before = drawn(page)
    page.get_by_label("Head").select_option("0")
    page.get_by_label("Layer").select_option("0")
    page.wait_for_function("() => location.hash.includes('head=0') && location.hash.includes('layer=0')")
    page.wait_for_timeout(500)
    after = drawn(page)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, true_weights("decoder.layers.0.cross_attention.weights", 0), rtol=0, atol=1e-6)


def test_the_target_is_walked_word_by_word_with_keys(studio: OpenPage) -> None:
    page = studio(translator(), ADDRESS)
    weights = drawn(page)
    chips, said = page.locator(".align-tokens.target .align-token"), page.locator(".align-said")
    chips.first.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => location.hash.includes('token=1')")
    page.wait_for_selector(".align-token[aria-pressed=true]")
    assert chips.nth(1).get_attribute("aria-pressed") == "true"
    assert page.locator(".align-tokens.target .later").count() == chips.count() - 2, "the rest is not written yet"
    active = page.evaluate("() => [...document.querySelectorAll('.ribbon.active')].map(p => p.dataset.row)")
    assert set(active) == {"1"}
    most = page.locator(".align-tokens.source .most")
    assert int(most.get_attribute("data-at")) == int(weights[1].argmax())
    assert most.text_content() in said.text_content() and "together 1" in said.text_content()
    page.wait_for_selector(".translate-bars .bar-row:has-text('written')")
    assert page.locator(".translate-written").text_content().endswith(chips.first.text_content())
    written = page.locator(".translate-bars .bar-row:has-text('written') .bar-text").text_content()
    assert written == chips.nth(1).text_content(), "what it expected most is what it wrote"
    page.keyboard.press("End")
    page.wait_for_function(f"() => location.hash.includes('token={chips.count() - 1}')")
    page.keyboard.press("Escape")
    page.wait_for_function("() => !location.hash.includes('token=')")
    assert page.locator(".ribbon.active").count() == 0


def test_the_tree_of_the_beam_ends_with_what_translate_writes(studio: OpenPage) -> None:
    page = studio(translator(), f"{ADDRESS}&beam=3,0.6")
    page.wait_for_selector(".beam-node")
    wanted = translator().translate(TEXT, num_beams=3, length_penalty=0.6, max_new_tokens=40)
    assert page.locator(".beam-lead strong").text_content() == wanted
    nodes = page.evaluate("() => [...document.querySelectorAll('.beam-node.winner')].map(n => Number(n.dataset.token))")
    assert words().decode(nodes) == wanted
    gray = page.locator(".beam-node.pruned")
    assert gray.count() > 3 and all(text.startswith("× ") for text in gray.locator(".beam-token").all_text_contents())
    assert gray.first.evaluate("e => getComputedStyle(e).borderStyle") == "dashed", "marked otherwise than by color"
    assert page.locator(".beam-node.winner.finished .beam-token").text_content().startswith("★")
    assert page.locator(".beam-texts tbody tr").first.text_content().startswith(f"★{wanted}")

    page.locator(".beam-node").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.classList.contains('winner')")
    assert "Part of the winning text." in page.locator(".beam-said").text_content()
    page.get_by_label("Width of the beam").fill("1")
    page.get_by_label("Width of the beam").press("Enter")
    page.get_by_label("Width of the beam").blur()
    page.wait_for_function("() => location.hash.includes('beam=1')")
    page.wait_for_function("() => document.querySelector('.beam-lead').textContent.includes('kept 1')")
    assert page.locator(".beam-lead strong").text_content() == translator().translate(TEXT, max_new_tokens=40)


def test_a_finished_text_of_the_beam_can_be_looked_at(studio: OpenPage) -> None:
    page = studio(translator(), f"{ADDRESS}&beam=3,0.6")
    page.wait_for_selector(".beam-texts tbody button")
    tokens = page.evaluate(
        "() => [...document.querySelectorAll('.beam-node.winner')].map(n => Number(n.dataset.token))"
    )
    page.locator(".beam-texts tbody button").first.click()
    page.wait_for_function("() => location.hash.includes('written=')")
    page.wait_for_function(
        "count => document.querySelectorAll('.align-tokens.target .align-token').length === count", arg=len(tokens)
    )
    assert page.url.partition("written=")[2].partition("&")[0].split("%2C") == [str(id) for id in tokens[:-1]]
    shown = page.locator(".align-tokens.target .align-token").all_text_contents()
    assert shown[:-1] == [words().token(id).replace(" ", "␣") for id in tokens[:-1]]


@pytest.mark.parametrize(
    ("name", "said"), [("gpt", "has no encoder"), ("lstm", "has no encoder"), ("bert", "does not write text")]
)
def test_other_models_are_told_in_words(studio: OpenPage, name: str, said: str) -> None:
    model = small_model("encoder-masked") if name == "bert" else LoadedModel(writer(name), words())
    page = studio(model, "#/translate?text=one%20two")
    page.wait_for_selector(".translate-note:not([hidden])")
    assert said in page.locator(".translate-note").text_content()
    if name != "bert":
        page.wait_for_selector(".beam-node.winner")
        assert page.locator(".align").is_hidden()


def test_nothing_moves_while_one_points(studio: OpenPage) -> None:
    page = studio(translator(), f"{ADDRESS}&token=1")
    drawn(page)
    page.wait_for_selector(".beam-node")
    page.wait_for_timeout(300)
    height = page.evaluate("document.documentElement.scrollHeight")
    for at in range(5):
        page.locator(".align-tokens.source .align-token").nth(at).hover()
        assert page.evaluate("document.documentElement.scrollHeight") == height
    for at in range(4):
        page.locator(".beam-node").nth(at).hover()
        assert page.evaluate("document.documentElement.scrollHeight") == height
