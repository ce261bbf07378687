"""Lessons in a real browser: controls show what was computed, letters explain themselves, the search finds."""

from pathlib import Path

import pytest

from glassformer.course.contents import contents_page, lesson_page
from tests.course.runs import lesson, run


@pytest.fixture
def opened(chromium: object, tmp_path: Path) -> object:
    (tmp_path / "index.html").write_text(contents_page(), encoding="utf-8")
    (tmp_path / "descent.html").write_text(lesson_page(lesson("descent"), run("descent"), links=True), encoding="utf-8")
    page, faults = chromium.new_page(), []
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda asked: faults.append(asked.url) if not asked.url.startswith(("file:", "data:")) else None)
    page.goto((tmp_path / "index.html").as_uri())
    page.wait_for_selector("body[data-ready=yes]")
    yield page
    page.close()
    assert faults == []


def test_the_search_finds_a_step_and_leads_to_it(opened: object) -> None:
    assert opened.locator("[data-words]:visible").count() > 40
    opened.fill("#search", "parking a car")
    assert opened.text_content("#found") == "1 lesson"
    opened.click("text=Too long, too short")
    assert opened.url.endswith("descent.html#step-3")


def test_a_control_shows_another_path(opened: object) -> None:
    opened.click("a[href='descent.html'] >> nth=0")
    opened.wait_for_selector("body[data-ready=yes]")
    choice = opened.locator(".choice")
    before = choice.locator(".frame:visible").inner_html()
    control = choice.locator("input")
    control.focus()
    control.press("End")
    assert choice.locator("output").text_content() == "1.05"
    assert choice.locator(".frame:visible").count() == 1 and choice.locator(".frame:visible").inner_html() != before


def test_letters_of_a_formula_say_what_they_stand_for(opened: object) -> None:
    opened.goto(opened.url.replace("index", "descent"))
    opened.wait_for_selector("glass-formula math")
    assert "Point at a letter" in opened.locator("glass-formula output").first.text_content()


def test_the_arrow_keys_turn_the_pages(opened: object) -> None:
    opened.goto(opened.url.replace("index", "descent"))
    opened.wait_for_selector("body[data-ready=yes]")
    target = opened.locator("a[rel=prev]").first.get_attribute("href")
    opened.route(f"**/{target}", lambda route: route.fulfill(body="there", content_type="text/html"))
    opened.keyboard.press("ArrowLeft")
    opened.wait_for_url(f"**/{target}")
    assert opened.inner_text("body") == "there"
