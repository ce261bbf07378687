"""The page of a large trace in a real browser: it opens, stays small, and says where its numbers end."""

import time
from pathlib import Path

import pytest
import torch

from glassformer.models.llama import LlamaConfig
from glassformer.models.registry import build
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.probes.trace import Trace, trace
from glassformer.views.html import trace_page
from tests.models.zoo import specimen

WEIGHTS = "decoder.layers.5.cross_attention.weights"


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


def test_a_model_of_260_thousand_parameters_has_a_small_page_soon() -> None:
    config = LlamaConfig(vocab=512, context=512, dim=64, layers=5, heads=8, kv_heads=4, ffn_dim=172)
    run = trace(build(config).eval(), torch.arange(3, 11)[None], "next")
    begun = time.process_time()
    page = trace_page(run)
    assert time.process_time() - begun < 8, "2.5 s where nothing else runs"
    assert len(page) < 8_000_000 and "This file holds" not in page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_large_page_opens_and_reads_out_its_numbers(chromium: object, path: Path, found: Trace, scheme: str) -> None:
    assert path.stat().st_size < 8_000_000
    page, said, asked = chromium.new_page(color_scheme=scheme), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{path.as_uri()}#/step/{WEIGHTS}/0,0,0,0")
    page.wait_for_selector("body[data-ready=yes]")
    assert page.locator(".step-list li").count() == len(found.steps)
    arithmetic = page.locator(".reading-text")
    page.wait_for_function("document.querySelector('.reading-text').textContent.includes(' = ')")
    assert found.cell(WEIGHTS, 0, 0, 0) in arithmetic.text_content()
    assert page.locator("glass-formula math").first.bounding_box()["height"] > 15, "set, not spelt out"
    assert "This file holds " in page.locator("body").text_content()
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(19, 22, 28)"}[scheme]
    assert said == [] and [url for url in asked if not url.startswith("data:")] == [page.url.partition("#")[0]]
    page.close()


def test_masked_scores_are_counted_apart_from_zero(chromium: object, tmp_path: Path) -> None:
    small = specimen("gpt", torch.float32)
    path = tmp_path / "masked.html"
    path.write_text(trace_page(trace(small.model, small.inputs, layer=0, equation="apply_mask")), encoding="utf-8")
    page = chromium.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready=yes]")
    page.wait_for_selector("text=−∞ 21")
    page.close()
