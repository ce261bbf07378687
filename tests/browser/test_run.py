"""The Run view in a real browser: the ids that `generate` reads, its predictions, its settings, its warnings."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from glassformer.interface import LoadedModel
from glassformer.models.registry import build
from tests.browser.conftest import WORDS, OpenPage, small_model
from tests.decoding.tiny_generators import with_template
from tests.models.zoo import ZOO

pytest.importorskip("playwright", reason="playwright is not installed")
TEXT = "The cat sat"
BARS = ".bar-row[data-id]"


def shown_ids(page: object, name: str) -> list[int]:
    texts = page.locator(f".chips[data-input={name}] .chip-id").all_text_contents()
    return [int(text) for text in texts]


def bars(page: object) -> list[tuple[int, float]]:
    found = page.locator(BARS).evaluate_all("rows => rows.map(row => [row.dataset.id, row.dataset.probability])")
    return [(int(id), float(p)) for id, p in found]


def settled(page: object, words: int) -> None:
    """Wait until so many tokens are there, and the prediction after the last of them."""
    page.wait_for_function(f"() => document.querySelectorAll('.chips:last-of-type button').length === {words}")
    page.wait_for_selector(f"button[data-at='{words - 1}'][aria-pressed=true]")
    page.wait_for_selector(".lens-body td[aria-selected=true]")


def far_from_even(name: str) -> LoadedModel:
    """A model whose predictions are not all alike."""
    loaded = small_model(name)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in loaded.model.parameters():
            parameter.add_(0.4 * torch.randn(parameter.shape, generator=generator))
    return loaded


@pytest.mark.parametrize(
    ("name", "template"), [("gpt", ""), ("gpt", "<start> $A"), ("seq2seq", ""), ("seq2seq", "<start> $A <end>")]
)
def test_the_ids_shown_are_those_that_generate_and_translate_read(
    studio: OpenPage, tmp_path: Path, name: str, template: str
) -> None:
    loaded = small_model(name)
    tokenizer = loaded.required_tokenizer()
    tokenizer = with_template(tokenizer, template, tmp_path) if template else tokenizer
    loaded = LoadedModel(loaded.model, tokenizer)
    page = studio(loaded, f"#/run?text={TEXT}")
    page.wait_for_selector(BARS)
    if name == "gpt":
        assert shown_ids(page, "ids") == tokenizer.encode_prompts([TEXT])[0]
        return
    assert shown_ids(page, "source") == tokenizer.encode_inputs([TEXT])[0]
    (written,) = loaded.generate([TEXT])
    ids = written.ids[:-1] if written.finish_reason == "stop" else written.ids
    assert shown_ids(page, "target") == [tokenizer.decoder_start, *ids]


@pytest.mark.parametrize("name", ["gpt", "llama", "seq2seq"])
def test_the_first_of_eight_is_what_greedy_decoding_writes_and_so_on(studio: OpenPage, name: str) -> None:
    loaded = far_from_even(name)
    wanted = loaded.generate(TEXT, max_new_tokens=3, min_new_tokens=3).ids
    page = studio(loaded, f"#/run?text={TEXT}" + ("&written=," if name == "seq2seq" else ""))
    count = 1 if name == "seq2seq" else len(loaded.required_tokenizer().encode_prompts([TEXT])[0])
    for step, id in enumerate(wanted[:2]):
        settled(page, count + step)
        assert len(bars(page)) == 8 and bars(page)[0][0] == id
        page.get_by_role("button", name="Write the most likely token").click()
    settled(page, count + 2)
    assert shown_ids(page, "target" if name == "seq2seq" else "ids")[-2:] == wanted[:2]
    page.get_by_role("button", name="Take back").click()
    settled(page, count + 1)
    page.go_back()
    settled(page, count + 2)


def test_a_draw_is_the_one_that_generate_makes_with_the_same_seed(studio: OpenPage) -> None:
    loaded = far_from_even("gpt")
    settings = {"temperature": 1.5, "top_k": 20, "seed": 4}
    wanted = loaded.generate(TEXT, max_new_tokens=2, **settings).ids
    page = studio(loaded, f"#/run?text={TEXT}&sampling=1.5,20,,,4")
    count = len(loaded.required_tokenizer().encode_prompts([TEXT])[0])
    for step in range(2):
        settled(page, count + step)
        page.get_by_role("button", name="Draw one").click()
    settled(page, count + 2)
    assert shown_ids(page, "ids")[-2:] == wanted


def test_the_sliders_give_the_softmax_of_what_they_leave(studio: OpenPage) -> None:
    loaded = far_from_even("gpt")
    page = studio(loaded, f"#/run?text={TEXT}")
    page.wait_for_selector(BARS)
    slider = page.get_by_role("slider", name="Temperature")
    slider.focus()
    for _ in range(10):
        slider.press("ArrowLeft")
    page.wait_for_function(
        "() => document.querySelector('#slider-temperature').getAttribute('aria-valuetext') === '0.50'"
    )
    page.wait_for_function(
        "() => document.querySelector('[data-setting=temperature] .setting-said').textContent.includes('/ 0.5')"
    )
    run = loaded.trace(TEXT)
    exact = torch.softmax(run.output[0, -1].double() / 0.5, -1)
    assert all(abs(p - float(exact[id])) <= 1e-6 for id, p in bars(page))
    kept = page.get_by_role("slider", name="Top-k")
    kept.focus()
    for key in ("Home", "ArrowRight", "ArrowRight"):
        kept.press(key)
    page.wait_for_function("() => document.querySelectorAll('.bar-row.cut').length === 5")
    assert "Keeps 3 of" in page.locator("[data-setting=top_k] .setting-said").text_content()
    assert sum(p for _, p in bars(page)) == pytest.approx(1, abs=1e-6) and "sampling=0.5%2C3" in page.url
    slider.focus()
    slider.press("Home")
    page.wait_for_function("() => document.querySelector('#slider-top_k').disabled")
    page.wait_for_function("() => document.querySelector('.bar-row').dataset.probability === '1'")
    assert "largest logit" in page.locator("[data-setting=softmax] .setting-said").text_content()


def test_one_bad_weight_raises_a_banner_that_leads_to_the_first_bad_step(studio: OpenPage) -> None:
    loaded = small_model("gpt")
    with torch.no_grad():
        loaded.model.stack.blocks[1].feed_forward.up.weight[0, 0] = torch.nan
    page = studio(loaded, f"#/run?text={TEXT}")
    banner = page.locator(".run-bad")
    banner.wait_for()
    assert banner.get_by_role("link").text_content() == "layers.1.feed_forward.up"
    assert "NaN" in banner.text_content()
    page.wait_for_function("() => document.querySelector('.bars-lead').textContent.includes('no prediction')")
    banner.get_by_role("link").click()
    assert page.title().startswith("Step") and "/step/layers.1.feed_forward.up" in page.url


def test_without_a_tokenizer_the_page_warns_and_takes_ids(studio: OpenPage) -> None:
    page = studio(LoadedModel(build(ZOO["gpt"]).eval()), "#/run")
    page.wait_for_selector(BARS)
    assert "no tokenizer" in page.locator(".run-warning").text_content() and page.locator(".run-warning").is_visible()
    page.get_by_label("Token ids").fill("5 6 7 8")
    page.get_by_role("button", name="Run").click()
    settled(page, 4)
    assert shown_ids(page, "ids") == [5, 6, 7, 8]


def test_the_lens_is_depth_by_token_and_selects(studio: OpenPage) -> None:
    loaded = far_from_even("gpt")
    page = studio(loaded, f"#/run?text={TEXT}")
    count = len(loaded.required_tokenizer().encode_prompts([TEXT])[0])
    settled(page, count)
    assert page.locator(".lens-body td").count() == 3 * count
    last = page.locator(f".lens-body td[data-depth='2'][data-at='{count - 1}']")
    assert last.locator(".lens-text").text_content() == page.locator(".bar-text").first.text_content()
    page.locator(".lens-body td[data-depth='1'][data-at='0']").click()
    page.wait_for_selector("button[data-at='0'][aria-pressed=true]")
    assert "token=0" in page.url and "layer=0" in page.url
    assert "follows" in page.locator(".bars-note").text_content()
    assert page.get_by_role("button", name="Draw one").is_disabled()
    page.locator(".lens-body td[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("button[data-at='1'][aria-pressed=true]")


def test_nothing_moves_while_one_points(studio: OpenPage) -> None:
    page = studio(far_from_even("gpt"), f"#/run?text={TEXT}", viewport={"width": 1200, "height": 900})
    page.wait_for_selector(".lens-body td[aria-selected=true]")
    parts = "[...document.querySelectorAll('main section, .bar-row, .setting, td')]"
    where = (
        f"{parts}.map(each => each.getBoundingClientRect()).map(r => [r.x, r.y + scrollY, r.width, r.height].join())"
    )
    for target in (".lens-body td", ".setting [data-symbol]", ".bar-track", ".chip"):
        for element in page.locator(target).all()[:5]:
            element.scroll_into_view_if_needed()
            page.mouse.move(0, 0)
            before = page.evaluate(where)
            element.hover()
            assert page.evaluate(where) == before, target


def test_a_picture_is_chosen_from_the_built_in_ones(studio: OpenPage) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    config = replace(ZOO["vit"], image_size=8, channels=1, classes=10, image_mean=(0.5,), image_std=(0.5,))
    page = studio(LoadedModel(build(config).eval(), labels=[f"digit {n}" for n in range(10)]), "#/run")
    page.wait_for_selector(BARS, timeout=60_000)
    assert page.locator(".run-pictures button").count() == 10 and len(bars(page)) == 8
    page.get_by_role("button", name="Picture 3").click()
    page.wait_for_selector(".run-pictures button[data-at='3'][aria-pressed=true]")
    assert "digit" in page.locator(".bar-text").first.text_content() and "text=3" in page.url


def test_a_model_that_predicts_nothing_says_so(studio: OpenPage) -> None:
    page = studio(small_model("encoder-pooled"), f"#/run?text={WORDS[0]}")
    page.wait_for_function("() => document.querySelector('.bars-lead').textContent.includes('no logits')")
