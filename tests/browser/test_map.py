"""The Map view in a real browser: boxes that lead to their steps, heads with their values, layers that unfold."""

from dataclasses import replace

import pytest

from glassformer.interface import LoadedModel
from glassformer.models.registry import build
from glassformer.probes.interventions import head_attribution
from tests.browser.conftest import OpenPage, small_model
from tests.models.zoo import ZOO

pytest.importorskip("playwright", reason="playwright is not installed")
TEXT = "The cat sat"


def test_a_box_leads_to_its_step_by_mouse_and_by_keyboard(studio: OpenPage) -> None:
    page = studio(small_model("gpt"), f"#/map?text={TEXT}")
    box = page.locator("[data-box='layers.1.attention']")
    box.wait_for()
    assert page.locator(".map-box").count() == 2 + 2 * 2 + 2
    box.hover()
    assert "layers.1.attention" in page.locator(".map-panel").text_content()
    assert "parameters" in page.locator(".map-panel").text_content()
    box.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.startsWith('#/step/layers.1.attention.outputs')")
    page.go_back()
    page.locator("[data-box='layers.0.feed_forward_norm']").click()
    page.wait_for_function("() => location.hash.startsWith('#/step/layers.0.feed_forward_norm')")


def test_backward_asks_for_a_loss_and_colors_heads_by_their_attribution(studio: OpenPage) -> None:
    loaded = small_model("gpt")
    page = studio(loaded, f"#/map?text={TEXT}")
    page.wait_for_selector(".map-head.norm")
    page.get_by_role("button", name="Backward").click()
    page.wait_for_selector("svg.map.backward")
    assert "backward=next" in page.url and "direction=backward" in page.url
    for name, rises in head_attribution(loaded.trace(TEXT, backward="next")).items():
        group = page.locator(f"[aria-label='Heads of {name.removesuffix('.outputs')}'] a")
        shown = [float(value) for value in group.evaluate_all("heads => heads.map(head => head.dataset.value)")]
        assert shown == pytest.approx(rises.tolist(), rel=1e-4, abs=1e-7)
        kinds = group.evaluate_all("heads => heads.map(head => head.classList.contains('up'))")
        assert kinds == [value >= 0 for value in shown]
    first = page.locator("[aria-label='Heads of layers.0.attention'] a").first
    first.focus()
    page.keyboard.press("ArrowRight")
    assert "head 1" in page.locator(".map-panel").text_content()
    assert "loss without it" in page.locator(".map-panel").text_content()
    page.get_by_role("button", name="Backward").click()
    page.wait_for_selector("svg.map:not(.backward)")


def test_layers_unfold_to_their_equations_and_fold_again(studio: OpenPage) -> None:
    page = studio(small_model("gpt"), f"#/map?text={TEXT}")
    fold = page.get_by_role("button", name="Unfold layers.0")
    fold.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".map-step")
    names = page.locator(".map-step").evaluate_all("steps => steps.map(step => step.getAttribute('aria-label'))")
    assert any(name.startswith("layers.0.attention.queries, split_heads") for name in names)
    assert not any(name.startswith("layers.1.") for name in names)
    assert page.evaluate("document.activeElement.dataset.fold") == "layers.0"
    page.get_by_role("button", name="Unfold all layers").click()
    page.wait_for_function("() => document.querySelectorAll('.map-step').length === 34")
    page.get_by_role("button", name="Fold all layers").click()
    page.wait_for_function("() => document.querySelectorAll('.map-step').length === 0")


def test_an_encoder_and_a_decoder_stand_side_by_side(studio: OpenPage) -> None:
    page = studio(small_model("seq2seq"), f"#/map?text={TEXT}", viewport={"width": 1280, "height": 900})
    page.wait_for_selector(".map-line.cross")
    assert page.locator(".map-line.cross").count() == page.locator(".map-box.cross_attention").count() == 2
    encoder = page.locator("[data-box='encoder.layers.0.attention']").bounding_box()
    decoder = page.locator("[data-box='decoder.layers.0.attention']").bounding_box()
    assert encoder["x"] + encoder["width"] < decoder["x"] and abs(encoder["y"] - decoder["y"]) < 5


def test_the_stream_is_as_wide_as_its_norm(studio: OpenPage) -> None:
    page = studio(small_model("gpt"), f"#/map?text={TEXT}")
    page.wait_for_selector(".map-stream")
    width = page.locator(".map-stream").evaluate("path => path.getBBox().width")
    assert width == pytest.approx(30, abs=0.5), "the widest"
    assert "norm" in page.locator(".map-stream title").text_content()


def test_twelve_layers_fit_on_a_screen_and_nothing_is_cut_off_on_a_phone(studio: OpenPage) -> None:
    small = small_model("gpt")
    config = replace(ZOO["gpt"], layers=12, heads=4, vocab=small.required_tokenizer().vocab_size, context=64)
    loaded = LoadedModel(build(config).eval(), small.tokenizer)
    page = studio(loaded, f"#/map?text={TEXT}", viewport={"width": 1280, "height": 900})
    page.wait_for_selector("svg.map")
    box = page.locator("svg.map").bounding_box()
    assert page.locator(".map-fold").count() == 12 and box["y"] + box["height"] <= 900
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
