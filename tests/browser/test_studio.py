"""The frame of Studio in a real browser: views, the address, errors in words, and nothing from outside."""

import pytest

from glassformer.interface import LoadedModel
from glassformer.models.registry import build
from glassformer.planning.plan import plan
from tests.browser.conftest import OpenPage, small_model
from tests.models.zoo import ZOO


def test_a_text_is_run_and_a_step_is_shown_at_its_address(studio: OpenPage) -> None:
    model = small_model("gpt")
    page = studio(model, "#/step/layers.0.attention.weights/0,0,2,1?text=I%20love%20AI")
    page.wait_for_function("() => document.querySelector('main').textContent.includes('=')")
    assert page.title() == "Step · Glassformer Studio"


def test_results_of_an_older_text_are_gray_and_said_to_be_old(studio: OpenPage) -> None:
    page = studio(small_model("gpt"), "#/run?text=I%20love%20AI", refused=True)
    page.wait_for_selector(".bars [data-probability]")
    page.get_by_label("Text", exact=True).fill("I love AI " * 100)
    page.get_by_role("button", name="Run").click()
    page.wait_for_selector("main.stale")
    said = page.locator("#trouble").text_content()
    assert "gray" in said and "“I love AI”" in said
    assert page.evaluate("getComputedStyle(document.querySelector('.run-columns')).opacity") == "0.4"
    assert page.evaluate("getComputedStyle(document.querySelector('.run-form')).opacity") == "1"
    page.get_by_label("Text", exact=True).fill("I love AI")
    page.get_by_role("button", name="Run").click()
    page.wait_for_selector("main:not(.stale)")
    assert page.locator("#trouble").is_hidden()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("#/foo?text=I", "no view “foo”"),
        ("#/step/layers.0.attention.weights/0,x?text=I", "the index “0,x”"),
        ("#/step/%E0%A4%A?text=I", "cut in the middle of a letter"),
        ("#/run?text=I&token=two", "token is “two”"),
        ("#/run?text=I&changes=[{", "changes cannot be read"),
        ("#/step/layers.9.x?text=I", "no step layers.9.x"),
        ("#/step/layers.0.attention.weights/0,7,0,0?text=I", "[0, 7, 0, 0] is shown at [0, 1, 0, 0]"),
    ],
)
def test_what_of_an_address_says_nothing_is_said_in_one_line(studio: OpenPage, address: str, words: str) -> None:
    page = studio(small_model("gpt"), address)
    page.wait_for_function("() => !document.getElementById('trouble').hidden")
    said = page.locator("#trouble").text_content()
    assert said.startswith("In the address: ") and words in said and said.endswith(".")
    page.get_by_role("link", name="Map", exact=True).click()
    page.wait_for_function("() => document.getElementById('trouble').hidden")


def test_a_whole_address_has_no_complaint(studio: OpenPage) -> None:
    page = studio(small_model("gpt"), "#/step/layers.0.attention.weights/0,1,1,0?text=I%20love&token=0&head=1&layer=0")
    page.wait_for_selector(".step-reading[data-read]")
    assert page.locator("#trouble").is_hidden()


def test_a_lesson_leads_back_to_where_studio_was_left(studio: OpenPage) -> None:
    page = studio(small_model("gpt"), "#/step/layers.0.attention.weights/0,1,1,0?text=I")
    page.wait_for_selector(".step-reading[data-read]")
    before = page.url
    page.locator(".facts").get_by_role("link", name="Lesson").click()
    page.wait_for_url("**/lessons/**")
    page.get_by_role("link", name="All lessons").first.click()
    page.get_by_role("link", name="Back to Studio").click()
    page.wait_for_selector(".step-reading[data-read]")
    assert page.url == before
    page.get_by_role("link", name="Lessons").click()
    page.get_by_role("link", name="Back to Studio").wait_for()


@pytest.mark.parametrize("name", ["mlp-xor", "skip-gram"])
def test_a_model_that_reads_no_text_says_what_there_is(studio: OpenPage, name: str) -> None:
    config = ZOO["skip-gram"] if name == "skip-gram" else name
    page = studio(LoadedModel(build(config).eval()))
    if name == "skip-gram":
        page.get_by_text("reads neither a text nor a picture").wait_for()
        assert page.locator("#home-text").is_hidden() and page.locator(".home-tour").is_hidden()
        page.get_by_role("link", name="Run").click()
        page.get_by_text("reads neither a text nor a picture").wait_for()
        assert page.locator("#run-text").is_hidden()
    else:
        page.get_by_text("0.5 1.0 → ").wait_for()
        page.get_by_role("link", name="Step", exact=True).click()
        page.wait_for_selector(".step-reading[data-read]")


def test_a_plan_follows_its_sliders_and_explains_each_number(studio: OpenPage) -> None:
    page = studio(small_model("gpt"), "#/plan?plan=base%3Dgpt2,length%3D256,device%3Dh100")
    page.get_by_text("124 million parameters").wait_for()
    assert plan("gpt2", device="h100", length=256).parameters.total == 124_439_808
    assert all(text for text in page.locator(".plan-groups td.faint").all_text_contents())
    assert "It fits." in page.locator(".plan-words").text_content()
    slider = page.get_by_label("Layers")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => location.hash.includes('layers%3D16')")
    page.get_by_text("153 million parameters").wait_for()
    page.get_by_label("Begin with").select_option("the open model")
    page.wait_for_function("() => document.querySelector('#plan-layers').getAttribute('aria-valuetext') === '2'")
    assert "million" not in page.locator(".plan-words").text_content()
