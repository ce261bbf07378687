"""The first ten minutes in a real browser: home, the tour by keyboard alone, projector mode, the first start."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from glassformer.interface import LoadedModel
from glassformer.studio import first_model
from glassformer.studio.app import studio_app
from glassformer.studio.first_model import NAME, FirstModel
from glassformer.studio.guard import Access
from glassformer.studio.serving import listen, served
from glassformer.studio.sessions import Sessions
from glassformer.training import built_in_translator
from tests.browser.conftest import OpenPage, small_model
from tests.decoding.tiny_generators import words, writer

VIEWS = ["run", "attention", "step", "run", "step", "learn"]  # of the six stops
POINTED = "() => document.querySelector('#tour')?.dataset.pointing === 'yes'"


def translator() -> LoadedModel:
    return LoadedModel(copy.deepcopy(writer("seq2seq", context=12)).requires_grad_(True), words())


def stop_of(page: object) -> str:
    return page.locator(".tour-count").text_content()


@pytest.mark.parametrize("name", ["translator", "gpt"])
def test_the_whole_tour_by_keyboard_alone(studio: OpenPage, name: str) -> None:
    page = studio(translator() if name == "translator" else small_model("gpt"))
    page.wait_for_selector(".home-bars .bar-row")
    page.keyboard.press("Tab")
    for _ in range(40):
        if page.evaluate("() => document.activeElement.classList.contains('large')"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    for number, view in enumerate(VIEWS, start=1):
        page.wait_for_function(f"() => document.querySelector('.tour-count').textContent === '{number}/6'")
        page.wait_for_function(POINTED)
        assert page.url.split("#/")[1].startswith(view)
        target, panel = page.locator("main .tour-target"), page.locator("#tour")
        assert target.count() == 1, "one real element of the view"
        one, other = target.bounding_box(), panel.bounding_box()
        assert one["x"] + one["width"] <= other["x"] + 8, "beside it, not over it"
        assert len(panel.locator("p").nth(1).text_content().split(". ")) in (2, 3, 4)
        page.keyboard.press("ArrowRight")
    page.wait_for_selector("#tour", state="hidden")
    assert page.locator(".tour-target").count() == 0
    assert "direction" not in page.url and "backward=next" in page.url


def test_back_leaving_and_a_reload(studio: OpenPage) -> None:
    page = studio(translator(), "#/?text=one%20two")
    page.wait_for_selector(".home-bars .bar-row")
    page.locator("button.large").press("Enter")
    page.wait_for_function(POINTED)
    page.keyboard.press("ArrowLeft")
    assert stop_of(page) == "1/6", "there is nothing before the first"
    page.keyboard.press("ArrowRight")
    page.wait_for_function(POINTED)
    assert stop_of(page) == "2/6"
    page.reload()
    page.wait_for_selector("#tour:not([hidden])")
    assert stop_of(page) == "2/6" and page.evaluate("() => localStorage.length") == 0
    page.wait_for_function(POINTED)
    page.keyboard.press("Escape")
    page.wait_for_selector("#tour", state="hidden")
    assert page.evaluate("() => sessionStorage.getItem('glassformer-tour')") is None
    page.reload()
    page.wait_for_selector("body[data-ready=yes]")
    assert page.locator("#tour").is_hidden(), "skipped is skipped"


def test_keys_of_a_field_stay_in_the_field(studio: OpenPage) -> None:
    page = studio(translator(), "#/?text=one%20two")
    page.wait_for_selector(".home-bars .bar-row")
    page.locator("button.large").click()
    page.wait_for_function(POINTED)
    page.locator("#run-text").focus()
    for key in ("ArrowRight", "p", "Escape"):
        page.keyboard.press(key)
    assert stop_of(page) == "1/6" and "projector" not in page.url


def test_the_tour_hides_nothing_on_a_narrow_screen(studio: OpenPage) -> None:
    page = studio(translator(), "#/?text=one%20two", viewport={"width": 390, "height": 800})
    page.wait_for_selector(".home-bars .bar-row")
    page.locator("button.large").click()
    page.wait_for_function(POINTED)
    page.wait_for_timeout(400)
    target, panel = page.locator(".tour-target").bounding_box(), page.locator("#tour").bounding_box()
    header = page.locator("header").bounding_box()
    assert header["y"] + header["height"] <= target["y"] <= panel["y"] - 80, "it is in view above the panel"
    page.evaluate("() => scrollTo(0, document.documentElement.scrollHeight)")
    last = page.locator("main .body > :last-child").bounding_box()
    assert last["y"] + last["height"] <= page.locator("#tour").bounding_box()["y"], "the end can be scrolled free"


def test_home_shows_a_prediction_at_once(studio: OpenPage) -> None:
    page = studio(small_model("gpt"))
    page.wait_for_selector(".home-bars .bar-row")
    assert page.locator(".home-bars .bar-row").count() == 5
    assert page.locator("main .sentence").text_content().count(".") == 1, "one sentence"
    page.get_by_label("Your text").fill("you are")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('.home-result').textContent.startsWith('you are')")
    assert "text=you+are" in page.url


def test_projector_mode_goes_through_the_views_by_a_presenters_keys(studio: OpenPage) -> None:
    page = studio(translator(), "#/?text=one%20two")
    size = page.evaluate("() => parseFloat(getComputedStyle(document.querySelector('main p')).fontSize)")
    page.keyboard.press("p")
    page.wait_for_function("() => location.hash.includes('projector=1')")
    assert page.evaluate("() => parseFloat(getComputedStyle(document.querySelector('main p')).fontSize)") == 1.5 * size
    assert page.locator("#views").is_hidden()
    for key, view in (("PageDown", "run"), ("ArrowRight", "map"), ("PageUp", "run"), ("PageUp", "")):
        page.keyboard.press(key)
        page.wait_for_function(f"() => location.hash.startsWith('#/{view}')")
    page.keyboard.press("PageUp")
    assert page.locator(".projector-line b").text_content() == "Home", "there is nothing before the first"
    page.reload()
    page.wait_for_selector("body[data-ready=yes]")
    assert page.locator(".projector-line").is_visible()
    page.keyboard.press("P")
    page.wait_for_function("() => !location.hash.includes('projector')")
    assert page.locator("#views").is_visible()


@pytest.mark.parametrize("screen", [{}, {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark"}])
def test_axe_finds_nothing_on_the_tour_and_the_projector(studio: OpenPage, screen: dict[str, object]) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    page = studio(translator(), "#/translate?text=one%20two&token=1&projector=1", **screen)
    page.wait_for_selector(".beam-node")
    page.wait_for_selector(".align-board .ribbon", state="attached")
    shown = [axe.Axe().run(page).response["violations"]]
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    page.goto(page.url.split("#")[0] + "#/?text=one%20two")
    page.locator("button.large").click()
    page.wait_for_function(POINTED)
    shown.append(axe.Axe().run(page).response["violations"])
    assert [(each["id"], each["nodes"][0]["html"]) for found in shown for each in found] == []
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


@contextmanager
def first_start(chromium: object, model: FirstModel) -> Iterator[object]:
    sessions, listening = Sessions(), listen(0)
    sessions.first = model
    sessions.add_model(NAME, model.loaded)
    access = Access(listening.getsockname()[1])
    with served(studio_app(sessions, access), listening):
        page = chromium.new_page()
        page.goto(access.address)
        yield page
        page.close()


def test_the_first_start_shows_progress_then_a_translation(
    chromium: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
    monkeypatch.setattr(first_model, "LOG_EVERY", 2)
    monkeypatch.setattr(first_model, "SAMPLE_EVERY", 10)
    for name, size in {"TRAINING": 1000, "HELD_OUT": 1, "VOCABULARY": 300, "TOKENS_PER_BATCH": 64}.items():
        monkeypatch.setattr(built_in_translator, name, size)
    model = FirstModel(80)
    with first_start(chromium, model) as page:
        page.wait_for_selector(".first-training:not([hidden])")
        assert page.locator("button.large").is_disabled()
        model.start()
        page.wait_for_function("() => /Step \\d+ of 80, loss/.test(document.querySelector('.first-words').textContent)")
        page.wait_for_selector(".first-samples li")
        assert page.locator(".home-prediction").is_hidden()
        page.goto(page.url.split("#")[0] + "#/translate")
        page.wait_for_selector(".translate-note:not([hidden])")
        assert "is being trained" in page.locator(".translate-note").text_content()
        model.wait(60)
        page.goto(page.url.split("#")[0] + "#/")
        page.wait_for_selector(".home-bars .bar-row")
        assert page.locator(".first-training").is_hidden() and page.locator("button.large").is_enabled()
        assert "My brother reads a book. →" in page.locator(".home-result").text_content()
