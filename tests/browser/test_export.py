"""An exported page: the Studio's views in one file, which asks nobody and shows the same pixels."""

import io
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.arithmetic import number
from glassformer.interface import LoadedModel
from glassformer.probes.trace import Trace
from glassformer.views.html import trace_page
from tests.browser.conftest import OpenPage, small_model
from tests.browser.test_attention import RIBBONS

image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
ALONE = """() => document.querySelectorAll('body > :not(main), main > :not(.body)').forEach((each) => {
    each.style.display = 'none';
})"""  # the view without the frame around it
TEXT, SCORES = "I love AI", "layers.1.attention.scores"


@cache
def model() -> LoadedModel:
    """A small GPT whose weights are far from uniform."""
    torch.manual_seed(0)
    found = small_model("gpt")
    with torch.no_grad():
        for parameter in found.model.parameters():
            parameter.mul_(3)
    return found


@cache
def run() -> Trace:
    """One run of it, forward and backward."""
    return model().trace(TEXT, backward="next")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("page") / "trace.html"
    found.write_text(trace_page(run(), tokenizer=model().tokenizer), encoding="utf-8")
    return found


@pytest.fixture
def exported(chromium: object, file: Path) -> Iterator[OpenPage]:
    """Open the file at a state; an error, or a request for anything else, fails the test."""
    faults, asked, pages = [], [], []

    def open_page(state: str = "", **options: object) -> object:
        page = chromium.new_page(**options)
        pages.append(page)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda said: faults.append(said.text))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(file.as_uri() + state)
        page.wait_for_selector("body[data-ready=yes]")
        return page

    yield open_page
    for page in pages:
        page.close()
    assert faults == []
    assert {url.partition("#")[0] for url in asked if not url.startswith("data:")} == {file.as_uri()}


def test_it_begins_with_the_prediction_and_a_list_of_steps(exported: OpenPage) -> None:
    page = exported()
    likely = run().output[0].softmax(-1)
    shown = page.locator(".prediction-rows td")
    assert shown.count() == len(likely)
    best = model().tokenizer.token(int(likely[-1].argmax())).replace(" ", "␣")
    assert shown.last.locator("li span").first.text_content() == best
    assert page.locator(".step-list li").count() == len(run().steps)
    page.get_by_label("Find a step").fill("layers.1 attention scores")
    assert page.locator(".step-list li:visible a").all_text_contents() == [SCORES]
    page.locator(".step-list li:visible a").click()
    page.wait_for_function(f"location.hash.includes('{SCORES}')")
    assert page.locator(".step-list a[aria-current]").text_content() == SCORES


def test_every_step_opens(exported: OpenPage) -> None:
    page = exported()
    for step in run().steps:
        page.evaluate("(step) => { location.hash = `#/step/${step}`; }", step.name)
        page.wait_for_function("(name) => document.querySelector('main').textContent.includes(name)", arg=step.name)
    page.wait_for_selector("main math")


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_number_is_the_trace_s_and_so_is_its_arithmetic(exported: OpenPage, direction: str) -> None:
    page = exported(f"#/step/{SCORES}/0,0,0,0?direction={direction}")
    page.wait_for_function("document.querySelector('.reading-text').textContent.length > 3")
    text = page.locator(".reading-text").text_content()
    if direction == "forward":
        assert run().cell(SCORES, 0, 0, 0) in text
    else:
        assert "(from " in text
    page.evaluate("() => { location.hash = location.hash.replace('0,0,0,0', '0,1,5,2'); }")
    value = run()[SCORES].value if direction == "forward" else run()[SCORES].gradient
    says = "(told) => document.querySelector('.reading-text').textContent.includes(told)"
    page.wait_for_function(says, arg=number(value[0, 1, 5, 2]))


def test_pointing_marks_a_row_and_a_column_of_any_number(exported: OpenPage) -> None:
    page = exported(f"#/step/{SCORES}/0,1,5,2")
    marks = "() => [...document.querySelectorAll('glass-matrix')].map((each) => each.marks)"
    marked = "(each) => each.marks.rows?.length || each.marks.columns?.length || each.marks.cells?.length"
    page.wait_for_function(f"[...document.querySelectorAll('glass-matrix')].filter({marked}).length > 1")
    told = [str(each) for each in page.evaluate(marks)]
    assert any("5" in each for each in told) and any("2" in each for each in told)


def test_paths_lead_back_from_the_prediction(exported: OpenPage) -> None:
    at = [0, len(run().tokens["ids"]) - 1, int(run().output[0, -1].argmax())]
    page = exported(f"#/path/{run().source_of(run().output)}/{','.join(map(str, at))}")
    page.wait_for_function("document.querySelector('.path-tree').textContent.includes('stack.norm')")


def test_attention_is_there(exported: OpenPage) -> None:
    page = exported("#/attention/layers.1.attention.weights?head=1")
    page.wait_for_selector(".ribbon", state="attached")
    weights = run()["layers.1.attention.weights"].value[0, 1]
    drawn = page.evaluate(RIBBONS)
    found = torch.zeros_like(weights)
    for row, column, weight, _ in drawn:
        found[row, column] = weight
    assert torch.allclose(found, weights, atol=1e-7)
    assert page.locator(".ribbon-tokens.rows .token").all_text_contents() == [
        word.replace(" ", "␣") for word in run().tokens["ids"]
    ]
    assert page.locator(".thumbnail").count() == 4


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_shows_the_same_pixels_as_the_step_view_of_the_studio(
    studio: OpenPage, exported: OpenPage, scheme: str
) -> None:
    state = f"#/step/{SCORES}/0,0,0,0?backward=next&text=I%20love%20AI"
    options = {"color_scheme": scheme, "viewport": {"width": 1280, "height": 900}}
    shots = []
    for page in (studio(model(), state, **options), exported(state, **options)):
        page.wait_for_function("document.querySelector('.reading-text')?.textContent.length > 3")
        page.evaluate("document.fonts.ready")
        page.evaluate(ALONE)
        page.wait_for_timeout(800)  # until the matrices have been painted
        shots.append(image.open(io.BytesIO(page.locator("main > .body").screenshot())).convert("RGB"))
    assert shots[0].size[0] == shots[1].size[0]
    height = min(shot.size[1] for shot in shots)
    assert max(shot.size[1] for shot in shots) - height < 3
    first, second = (shot.crop((0, 0, shot.size[0], height)) for shot in shots)
    apart = np.abs(np.asarray(first, dtype=int) - np.asarray(second, dtype=int)).max(-1) > 8
    assert apart.mean() < 0.005


def test_the_content_policy_allows_what_is_inside_and_nothing_else(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    rules = dict(rule.strip().partition(" ")[::2] for rule in policy[1].split(";"))
    assert rules["default-src"] == "'none'" and "unsafe" not in policy[1]
    assert {"connect-src", "frame-src", "font-src"}.isdisjoint(rules), "they fall back to none"
    assert re.findall(r"https?://(?!www\.w3\.org)", text) == []


def test_frames_of_a_notebook_show_themselves(chromium: object, tmp_path: Path) -> None:
    import glassformer as gf

    with gf.tape() as tape:
        gf.equations.softmax(torch.randn(3, 5))
    assert gf.build and gf.load
    maps = gf.probes.attention_maps(model(), TEXT)
    shown = [gf.equations.softmax, tape, maps, model().model, run()]
    folder = tmp_path / "notebook.html"
    folder.write_text(
        "<!doctype html><meta charset=utf-8>" + "".join(each._repr_html_() for each in shown), encoding="utf-8"
    )
    page, faults = chromium.new_page(), []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    page.goto(folder.as_uri())
    wanted = ["glass-formula math", "glass-matrix canvas", ".thumbnail", "glass-matrix canvas", "main math"]
    for at, selector in enumerate(wanted):
        frame = page.frame_locator("iframe").nth(at)
        page.locator("iframe").nth(at).scroll_into_view_if_needed()
        frame.locator("body[data-ready=yes]").wait_for()
        frame.locator(selector).first.wait_for(state="attached")
    assert faults == []
    page.close()
