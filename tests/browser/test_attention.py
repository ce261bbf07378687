"""The Attention view: every head small, one large, ribbons as widths_by_weight as the weights between its tokens."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from glassformer.interface import LoadedModel
from glassformer.models.registry import build
from glassformer.probes.interventions import head_attribution
from glassformer.probes.trace import trace
from glassformer.studio.run_inputs import run_inputs
from tests.browser.conftest import OpenPage, small_model
from tests.models.zoo import ZOO

SOURCE, TARGET = "The cat sat", "I love AI"
CROSS = "decoder.layers.1.cross_attention.weights"
RIBBONS = """() => [...document.querySelectorAll('.ribbon')].map((path) =>
    [path.dataset.row, path.dataset.column, path.dataset.weight, path.getAttribute('stroke-width')].map(Number))"""


@cache
def translator() -> LoadedModel:
    """A small translator whose weights are far from uniform."""
    torch.manual_seed(0)
    found = small_model("seq2seq")
    with torch.no_grad():
        for parameter in found.model.parameters():
            parameter.mul_(3)
    return found


def opened(studio: OpenPage, state: str = f"/{CROSS}", more: str = "", **options: object) -> object:
    page = studio(translator(), f"#/attention{state}?text={SOURCE}&second={TARGET}{more}", **options)
    page.wait_for_selector(".ribbon", state="attached")
    return page


def test_ribbons_are_the_cross_attention_weights_and_each_row_sums_to_one(studio: OpenPage) -> None:
    page = opened(studio, more="&head=1")
    weights = translator().trace(SOURCE, TARGET)[CROSS].value[0, 1]
    drawn = torch.zeros_like(weights, dtype=torch.float64)
    widths = {}
    for row, column, weight, width in page.evaluate(RIBBONS):
        drawn[row, column] = weight
        widths[weight] = width
    assert torch.allclose(drawn, weights.double(), rtol=0, atol=1e-6)
    assert torch.allclose(drawn.sum(-1), torch.ones(len(drawn), dtype=torch.float64), rtol=0, atol=1e-6)
    assert int((weights > 0).sum()) == len(page.query_selector_all(".ribbon"))
    widths_by_weight = sorted(widths.items())
    assert [width for _, width in widths_by_weight] == sorted(
        width for _, width in widths_by_weight
    ) and widths_by_weight[-1][1] > 4 * widths_by_weight[0][1]


def test_tokens_stand_on_both_sides_and_the_threshold_hides_faint_ribbons(studio: OpenPage) -> None:
    page = opened(studio)
    tokens = translator().inputs(SOURCE, TARGET).tokens
    shown = {side: page.locator(f".ribbon-tokens.{side} .token").all_text_contents() for side in ("rows", "columns")}
    assert shown["rows"] == [word.replace(" ", "␣") for word in tokens["target"]]
    assert shown["columns"] == [word.replace(" ", "␣") for word in tokens["source"]]
    page.get_by_label("Weights from").fill("0.3")
    weights = translator().trace(SOURCE, TARGET)[CROSS].value[0, 0]
    assert len(page.query_selector_all(".ribbon")) == int((weights >= 0.3).sum()) > 0


def test_pointing_at_a_token_shows_only_its_ribbons_and_moves_nothing(studio: OpenPage) -> None:
    page = opened(studio)
    boxes = (
        "() => [...document.querySelectorAll('main *')].map((e) => JSON.stringify(e.getBoundingClientRect())).join()"
    )
    page.mouse.move(0, 0)
    page.wait_for_timeout(600)  # the table for screen readers is written when nothing moves
    before = page.evaluate(boxes)
    page.locator(".ribbon-tokens.rows .token").nth(2).hover()
    seen = page.locator(".ribbon:visible")
    assert {each.get_attribute("data-row") for each in seen.all()} == {"2"}
    said = page.locator(".ribbon-said").text_content()
    assert "(query 2) attends to" in said and said.endswith("together 1")
    page.locator(".ribbon-tokens.columns .token").nth(1).hover()
    assert {each.get_attribute("data-column") for each in seen.all()} == {"1"}
    assert page.evaluate(boxes) == before
    page.locator(".ribbon-tokens.rows .token").nth(0).focus()
    page.keyboard.press("ArrowDown")
    assert {each.get_attribute("data-row") for each in seen.all()} == {"1"}, "by keyboard too"
    page.keyboard.press("Enter")
    assert "token=1" in page.url
    page.locator("h1").click()
    assert {each.get_attribute("data-row") for each in seen.all()} == {"1"}, "a pinned token stays"


def test_choosing_a_head_sets_the_selection_by_mouse_and_by_keyboard(studio: OpenPage) -> None:
    page = opened(studio)
    page.get_by_role("button", name="decoder layer 0, causal self-attention, head 1").click()
    page.wait_for_function("document.querySelector('.attention-title').textContent.includes('layer 0')")
    assert "/attention/decoder.layers.0.attention.weights?" in page.url
    assert "head=1" in page.url and "layer=0" in page.url
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('.attention-title').textContent.includes('layer 1')")
    assert "/attention/decoder.layers.1.attention.weights?" in page.url and "head=1" in page.url
    page.go_back()
    page.wait_for_function("document.querySelector('.attention-title').textContent.includes('layer 0')")
    assert (
        page.locator(".thumbnail[aria-pressed=true]").get_attribute("aria-label").startswith("decoder layer 0, causal")
    )


def test_heads_are_sorted_by_attribution(studio: OpenPage) -> None:
    page = opened(studio, more="&backward=next")
    page.get_by_label("attribution", exact=True).check()
    shown = [each.get_attribute("aria-label") for each in page.locator(".thumbnail").all()]
    rises = head_attribution(translator().trace(SOURCE, TARGET, "next"))
    name, rise = max(rises.items(), key=lambda pair: float(pair[1].abs().max()))
    stack, _, layer, module, _ = name.split(".")
    assert shown[0].startswith(f"{stack} layer {layer}, ") and f"head {int(rise.abs().argmax())}" in shown[0]
    assert ("cross" in module) == ("cross-attention" in shown[0])
    assert len(shown) == sum(len(rise) for rise in rises.values()) == 12


def test_a_cell_of_the_map_marks_its_ribbon_and_is_the_selection(studio: OpenPage) -> None:
    page = opened(studio, f"/{CROSS}/0,1,2,3")
    page.wait_for_selector(".ribbon.active")
    marked = page.locator(".ribbon:visible")
    assert [(each.get_attribute("data-row"), each.get_attribute("data-column")) for each in marked.all()] == [
        ("2", "3")
    ]
    assert page.evaluate("document.querySelector('glass-matrix').pinned.join()") == "2,3"


def test_a_model_without_attention_says_so(studio: OpenPage) -> None:
    tokenizer = small_model("gpt").tokenizer
    model = LoadedModel(build(replace(ZOO["rnn"], vocab=tokenizer.vocab_size)).eval(), tokenizer)
    page = studio(model, "#/attention?text=I love AI")
    page.wait_for_selector("text=No step of this run has attention weights.")
    assert page.locator(".attention-body").is_hidden()


def test_144_heads_at_256_tokens_do_not_stutter(studio: OpenPage) -> None:
    torch.manual_seed(0)
    small = small_model("gpt")
    config = replace(ZOO["gpt"], vocab=small.model.config.vocab, context=256, layers=12, heads=12, dim=48)
    page = studio(LoadedModel(build(config).eval(), small.tokenizer), "#/attention?text=" + "x" * 256)
    page.wait_for_selector(".thumbnail[aria-pressed=true]")
    assert page.locator(".thumbnail").count() == 144
    took = page.evaluate("""async () => {
        const frames = [];
        const some = [...document.querySelectorAll('.thumbnail')].slice(3, 100).filter((_, at) => at % 12 === 0);
        for (const button of some) {
            const begun = performance.now();
            button.click();
            await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)));
            frames.push(performance.now() - begun);
        }
        return frames.sort((a, b) => a - b);
    }""")
    assert took[len(took) // 2] < 250, took
    slid = page.evaluate("""async () => {
        const slider = document.querySelector('.threshold input');
        const frames = [];
        for (let at = 0; at < 20; at++) {
            const begun = performance.now();
            slider.value = at / 100;
            slider.dispatchEvent(new Event('input'));
            await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)));
            frames.push(performance.now() - begun);
        }
        return frames.sort((a, b) => a - b);
    }""")
    assert slid[len(slid) // 2] < 250, slid


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_thumbnails_show_the_maps(studio: OpenPage, scheme: str) -> None:
    page = opened(studio, color_scheme=scheme)
    # In a causal map the corner above the diagonal has the ground's color, and the first weight, which is 1, has not.
    found = page.evaluate("""() => {
        const button = document.querySelector('[aria-label^="decoder layer 0, causal self-attention, head 0"]');
        const canvas = document.querySelector('.thumbnails canvas');
        const [left, top] = [button.offsetLeft, button.offsetTop];
        const at = (x, y) => [...canvas.getContext('2d').getImageData(left + x, top + y, 1, 1).data].slice(0, 3);
        const ground = getComputedStyle(canvas).getPropertyValue('--ground').trim();
        const color = [1, 3, 5].map((i) => Number.parseInt(ground.slice(i, i + 2), 16));
        return [at(1, 1), at(button.offsetWidth - 2, 1), color];
    }""")
    assert found[1] == found[2] != found[0]


def test_attention_is_drawn_over_the_patches_of_a_picture(studio: OpenPage, tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    config = replace(ZOO["vit"], image_size=8, channels=1, classes=10, image_mean=(0.5,), image_std=(0.5,))
    model = LoadedModel(build(config).eval())
    page = studio(model, "#/attention?text=3")
    page.wait_for_selector(".picture-attention:not([hidden])")
    names = page.locator("#picture-query option").all_text_contents()
    assert names == ["class token", *(f"patch {row}, {column}" for row in range(4) for column in range(4))]
    box = page.locator(".picture-both canvas").first.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.1)
    page.wait_for_function("() => document.getElementById('picture-query').value === '3'")
    found = page.evaluate("document.querySelector('.picture-said').textContent")
    assert found.startswith("patch 0, 2 attends most to ")
    inputs = run_inputs(model, "3", None, None)
    weights = trace(inputs.model, inputs.values)["layers.0.attention.weights"].output[0, 0, 3]
    assert f"to {names[int(weights.argmax())]} " in found
    assert "token=3" in page.url
    page.get_by_role("link", name="Run").click()
    file = tmp_path / "mine.png"
    image.new("RGB", (30, 20), (250, 10, 10)).save(file)
    page.locator("#run-file").set_input_files(file)
    page.wait_for_selector(".run-pictures button[data-at^=sent-][aria-pressed=true]")
    assert "text=sent-" in page.url
    page.get_by_role("link", name="Attention").click()
    page.wait_for_selector(".picture-attention:not([hidden])")
