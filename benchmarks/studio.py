"""How fast Studio is in a real browser: first paint, a run, one cell, and a run of a large model.

    python -m benchmarks.studio MODEL [--tokens 64] [--cells 200] [--large] [--tab]

MODEL is a folder or a file; `--large` also runs a GPT-2 of 124M parameters with random weights on 256 tokens, and
`--tab` gives the memory of a tab with 512 tokens of a small GPT after all views. Needs Chromium and the extra `studio`.
Times are those of the page, from the request to the answer.
"""

import argparse
import json
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import sync_playwright

import glassformer as gf
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.studio.app import studio_app
from glassformer.studio.guard import Access
from glassformer.studio.serving import listen, served
from glassformer.studio.sessions import Sessions
from glassformer.text.learn_tokenizer import learn_tokenizer
from tests.browser.conftest import CHROMIUM, VIEWS

CELLS = """async ([count, text]) => {
  const { api } = await import("glassformer/api.js");
  const began = performance.now();
  const run = await api.post("/runs", { text });
  const seconds = (performance.now() - began) / 1000;
  const steps = run.data.steps.filter((step) => step.shape.length);
  const times = [];
  for (let i = 0; i < count; i++) {
    const step = steps[(i * 7919) % steps.length];
    const index = step.shape.map((size, axis) => (i * (31 + axis)) % size).join(",");
    const start = performance.now();
    await api.get(`/runs/${run.id}/cell`, { step: step.name, index });
    times.push(performance.now() - start);
  }
  return { seconds, steps: run.data.steps.length, times };
}"""


@contextmanager
def opened(model: gf.LoadedModel) -> Iterator[object]:
    """A page of Studio on this model."""
    sessions, listening = Sessions(), listen(0)
    sessions.add_model("model", model)
    access = Access(listening.getsockname()[1])
    with served(studio_app(sessions, access), listening), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{access.address}#/step")  # Home would run its example meanwhile
        page.wait_for_selector("body[data-ready=yes]")
        yield page
        browser.close()


def measured(model: gf.LoadedModel, text: str, cells: int) -> dict[str, float]:
    """First paint in milliseconds, the run in seconds, cells in milliseconds."""
    with opened(model) as page:
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        page.evaluate(CELLS, [1, text[: len(text) // 2]])  # the first run reads code and weights
        found = page.evaluate(CELLS, [cells, text])
    times = sorted(found["times"])
    return {
        "first_paint_ms": round(paint),
        "run_s": round(found["seconds"], 3),
        "steps": found["steps"],
        "cell_median_ms": round(statistics.median(times), 1),
        "cell_95_ms": round(times[int(0.95 * len(times))], 1),
    }


def tab_memory() -> dict[str, float]:
    """The largest renderer process and the heap of the page, in megabytes, after all views with 512 tokens."""
    tokenizer = learn_tokenizer(["-"], "bpe", 261)
    config = GPTConfig(vocab=512, context=1024, dim=64, layers=5, heads=8)
    with opened(gf.LoadedModel(build(config).eval(), tokenizer)) as page:
        for view in VIEWS:
            state = f"#/{view}/layers.0.attention.weights/0,0,500,499?text={'abcdefgh' * 64}"
            page.evaluate("state => { location.hash = state; }", state)
            page.wait_for_timeout(2500)
        heap = page.context.new_cdp_session(page).send("Runtime.getHeapUsage")["usedSize"]
        listed = subprocess.run(["ps", "-eo", "rss,args"], capture_output=True, text=True, check=True).stdout
        largest = max(int(line.split()[0]) for line in listed.splitlines() if "--type=renderer" in line)
    return {"renderer_mb": round(largest / 1e3), "heap_mb": round(heap / 1e6)}


def main() -> None:
    """Measure, and print what was found as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--tab", action="store_true")
    given = parser.parse_args()
    loaded = gf.load(given.model)
    words = "once upon a time there was a little cat who liked to play in the garden with her friend the dog " * 40
    text = loaded.required_tokenizer().decode(loaded.required_tokenizer().encode(words)[: given.tokens - 1])
    print(json.dumps({"model": given.model, **measured(loaded, text, given.cells)}), flush=True)
    if given.large:
        config = GPTConfig(vocab=50_257, context=1024, dim=768, layers=12, heads=12)
        tokenizer = learn_tokenizer(["-"], "bpe", 261)
        large = gf.LoadedModel(build(config).eval(), tokenizer)
        began = time.monotonic()
        found = measured(large, "a" * 256, given.cells)
        print(json.dumps({"model": "GPT-2 124M, 256 tokens", **found, "all_s": round(time.monotonic() - began, 1)}))

    if given.tab:
        print(json.dumps({"model": "a small GPT, 512 tokens", **tab_memory()}))


if __name__ == "__main__":
    main()
