"""The page of a trace in a real browser: no error, no request, every number within reach of mouse and keyboard."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from glassformer.models.registry import build
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.probes.trace import Trace, trace
from glassformer.views.html import trace_page
from tests.models.zoo import specimen

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
STEP = '[id="decoder.layers.5.cross_attention.weights"]'

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here"),
    pytest.mark.enable_socket,  # the browser is spoken to over a local one
]


@pytest.fixture(scope="module")
def found() -> Trace:
    """Six layers each side and 32 tokens, forward and backward: the largest page that is promised."""
    model = build(Seq2SeqConfig(vocab=500, context=64, dim=64, layers=6, heads=8, ffn_dim=128)).eval()
    ids = torch.randint(500, (2, 32), generator=torch.Generator().manual_seed(0))
    words = {"source": [f"s{i}" for i in range(32)], "target": [f"t{i}" for i in range(32)]}
    return trace(model, {"source": ids[:1], "target": ids[1:]}, "next").labeled(**words)


@pytest.fixture(scope="module")
def path(found: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "trace.html"
    file.write_text(trace_page(found), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def test_the_page_is_small(path: Path) -> None:
    assert path.stat().st_size < 5_000_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_without_error_or_request_and_reads_out_its_numbers(
    browser: object, path: Path, found: Trace, scheme: str
) -> None:
    page = browser.new_page(color_scheme=scheme)
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready]")
    assert page.locator("details").count() == len(found.steps)

    page.locator(f"{STEP} > summary").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(f"{STEP} math")  # a step is drawn when it is opened
    assert page.locator(f"{STEP} math").count() == 2, "the formula and the rule"
    assert page.locator(f"{STEP} math").first.bounding_box()["height"] > 15, "set, not spelt out"
    canvas, output = page.locator(f"{STEP} canvas").first, page.locator(f"{STEP} output").first
    canvas.hover(position={"x": 1, "y": 1})
    assert found.cell("decoder.layers.5.cross_attention.weights", 0, 0, 0) in output.text_content()
    canvas.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert output.text_content().startswith("[0, 0, 1, 2] t1 → s2: ")
    assert found.cell("decoder.layers.5.cross_attention.weights", 0, 1, 2) in output.text_content()
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 29)"}[scheme]

    page.get_by_label("Find a step").fill("layers.5 cross weights")
    assert page.locator("details:visible").count() == 1
    for step in page.locator("details:visible").all():
        step.evaluate("element => element.open = true")
    assert said == [] and asked == [path.as_uri()]
    page.close()


def test_every_step_opens(browser: object, tmp_path: Path) -> None:
    small = specimen("seq2seq", torch.float32)
    found, path = trace(small.model, small.inputs, "next"), tmp_path / "small.html"
    path.write_text(trace_page(found), encoding="utf-8")
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready]")
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    page.wait_for_function(f"document.querySelectorAll('details math').length >= {len(found.steps)}")
    assert page.locator("canvas").count() > len(found.steps) and said == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_masked_scores_are_painted_apart_from_zero(browser: object, tmp_path: Path, scheme: str) -> None:
    small = specimen("gpt", torch.float32)
    path = tmp_path / "masked.html"
    path.write_text(trace_page(trace(small.model, small.inputs, layer=0, equation="apply_mask")), encoding="utf-8")
    page = browser.new_page(color_scheme=scheme)
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready]")
    page.locator("details").evaluate("element => { element.open = true; }")
    page.wait_for_selector("canvas")
    assert page.locator(".legend").first.text_content() == "−∞ 21"
    corner = "canvas => [...canvas.getContext('2d').getImageData(canvas.width - 2, 1, 1, 1).data].slice(0, 3)"
    variables = (
        "name => getComputedStyle(document.documentElement).getPropertyValue(name).trim().split(' ').map(Number)"
    )
    painted = page.locator("canvas").first.evaluate(corner)
    assert painted == page.evaluate(variables, "--minus-infinity") != page.evaluate(variables, "--ground")
    page.close()
