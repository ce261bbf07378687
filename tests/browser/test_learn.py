"""Learn in a real browser: the new weight is the optimizer's, curves appear while a model trains, pause holds it."""

import copy
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch.optim import AdamW

from glassformer.interface import load
from glassformer.probes.loss_targets import next_token_loss
from glassformer.probes.training_step import TrainingStep, training_step
from tests.browser.conftest import OpenPage, small_model

CORPUS = "the cat sat on the mat and the dog ran home. " * 30
MORE = (
    "tokenizer.kind = characters\nmodel.context = 16\ndata.max_length = 16\ndata.batch_size = 2\nrecipe.save_every = 40"
)
TEXT = "I love AI"
ADDRESS = "#/learn?text=I%20love%20AI"
INDEX = (2, 5)
PATH = ".learn-live glass-chart .chart-line"


def hash_of(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small_model("gpt").save(tmp_path / "model")
    return tmp_path / "model"


def by_torch(folder: Path, weight: str) -> TrainingStep:
    """The step that the page shows, taken here."""
    loaded = load(folder)
    model, inputs = copy.deepcopy(loaded.model).eval(), loaded.inputs(TEXT).values
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.01},
        {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    optimizer = AdamW(groups, 1e-3, (0.9, 0.98))
    return training_step(model, optimizer, lambda: next_token_loss(model(**inputs), inputs), weight, 1.0)


def settled(page: object, index: tuple[int, ...]) -> None:
    page.wait_for_function(
        f"() => document.querySelector('.ends dt')?.textContent.includes('[{index[0]}, {index[1]}]')"
    )


def test_the_new_weight_is_the_optimizers_and_the_model_file_keeps_its_hash(studio: OpenPage, folder: Path) -> None:
    before = hash_of(folder)
    page = studio(load(folder), ADDRESS)
    settled(page, (0, 0))
    matrix = page.locator(".learn-step glass-matrix .matrix-scroll")
    matrix.focus()
    for key in ["ArrowDown"] * INDEX[0] + ["ArrowRight"] * INDEX[1] + ["Enter"]:
        page.keyboard.press(key)
    settled(page, INDEX)
    weight = page.locator(".learn-step select").first.input_value()
    step = by_torch(folder, weight)
    ends = page.locator(".ends")
    shown, actual = (float(ends.get_attribute(f"data-{name}")) for name in ("shown", "actual"))
    assert abs(shown - float(step.actual[INDEX])) <= step.difference
    assert abs(actual - float(step.actual[INDEX])) <= step.difference
    assert shown != float(step.before[INDEX])
    assert ends.locator("[data-kind=shown]").text_content() == ends.locator("[data-kind=actual]").text_content()
    assert hash_of(folder) == before


def test_the_stages_are_gone_through_by_key_each_with_its_formula_and_numbers(studio: OpenPage) -> None:
    page = studio(small_model("gpt"), ADDRESS)
    settled(page, (0, 0))
    titles, reading = [], page.locator(".stage-reading")
    page.locator("#stage").focus()
    page.keyboard.press("Home")
    count = page.locator(".rail li").count()
    for number in range(count):
        titles.append(reading.locator("h3").text_content())
        assert reading.locator("math").first.bounding_box()["height"] > 10
        current = page.locator(".rail button[aria-current=step]")
        assert current.count() == 1 and current.locator("span").text_content() in titles[-1]
        value, said = current.locator("b").text_content(), reading.locator(".arithmetic").text_content()
        assert said.endswith(f"= {value}"), f"{titles[-1]}: {said}, {value}"
        if number < count - 1:
            page.keyboard.press("ArrowRight")
    assert titles[0] == "1. Loss" and titles[1] == "2. Gradient" and titles[-1] == f"{count}. New weight"
    loss = page.locator(".learn-step [role=status]").text_content()
    page.get_by_role("button", name="Take it, and show the next").click()
    page.wait_for_function("() => document.querySelector('.learn-step [role=status]').textContent.startsWith('Step 2')")
    later = page.locator(".learn-step [role=status]").text_content()
    assert float(later.split()[-1].rstrip(".")) < float(loss.split()[-1].rstrip(".")), "it learned the text"


@pytest.fixture
def training(studio: OpenPage) -> Iterator[object]:
    """A page on which a small model is trained on a typed text."""
    page = studio(small_model("gpt"), ADDRESS)
    form = page.locator(".learn-form")
    page.wait_for_function("() => document.querySelector('#learn-task').options.length > 5")
    form.get_by_label("Data").select_option("typed")
    form.get_by_label("Text to learn").fill(CORPUS)
    for label, value in {"Steps": "4000", "Layers": "2", "Width (dim)": "8", "Heads": "2"}.items():
        form.get_by_label(label, exact=True).fill(value)
    form.locator("summary").click()
    form.get_by_label("One key = value per line").fill(MORE)
    form.get_by_role("button", name="Start").click()
    yield page
    if page.get_by_role("button", name="Stop").is_enabled():
        page.get_by_role("button", name="Stop").click()
        page.wait_for_function("() => /Stopped|Finished/.test(document.querySelector('.learn-status').textContent)")


def points(page: object) -> int:
    return page.locator(PATH).first.get_attribute("d").count("L")


def test_curves_appear_live_pause_holds_and_a_checkpoint_runs_the_text(training: object) -> None:
    page, status = training, training.locator(".learn-status")
    page.wait_for_selector(PATH, timeout=60_000)
    first = points(page)
    page.wait_for_function(f"() => document.querySelector('{PATH}').getAttribute('d').split('L').length > {first + 3}")
    page.get_by_role("button", name="Pause").click()
    page.wait_for_function("() => document.querySelector('.learn-status').textContent.startsWith('Paused')")
    held = status.text_content()
    page.wait_for_timeout(400)
    assert status.text_content() == held, "nothing goes on"
    page.get_by_role("button", name="Resume").click()
    page.wait_for_function("() => document.querySelector('.learn-status').textContent.startsWith('Training')")
    page.wait_for_function("() => document.querySelectorAll('.learn-checkpoints option').length > 0", timeout=60_000)
    page.get_by_role("button", name="Stop").click()
    page.wait_for_function(
        "() => document.querySelector('.learn-status').textContent.startsWith('Stopped')", timeout=60_000
    )
    assert page.locator(".multiples glass-chart").count() == 5, "embedding, positions, two layers, the last norm"
    assert page.locator(".film button").count() == 4, "two layers of two heads"
    read_the_curve(page)
    look_at_a_checkpoint(page)


def read_the_curve(page: object) -> None:
    chart = page.locator(".learn-live glass-chart").first
    chart.locator("svg").focus()
    page.keyboard.press("Home")
    assert " at step 1" in chart.locator(".chart-said").text_content().split(" · ")[0]
    page.keyboard.press("ArrowRight")
    assert " at step 2" in chart.locator(".chart-said").text_content().split(" · ")[0]
    others = page.locator(".learn-live .charts glass-chart .chart-said").all_text_contents()
    assert all("at step 2" in said for said in others[1:]), "one cursor for all curves"
    chart.locator("summary").click()
    assert chart.locator("tbody tr").first.locator("th").text_content() == "1"


def look_at_a_checkpoint(page: object) -> None:
    page.wait_for_function("() => !document.querySelector('.learn-checkpoints .slide').hidden")
    page.locator("#checkpoint").focus()
    page.keyboard.press("Home")
    page.locator("#checkpoint").dispatch_event("input")
    page.wait_for_function("() => location.hash.includes('model=') && document.querySelector('.checkpoints tbody tr')")
    assert "%40" in page.url
    page.wait_for_function(
        "() => document.querySelector('.learn-step [role=status]').textContent.includes('of the checkpoint')"
    )
    page.get_by_role("button", name="Back to the model").click()
    page.wait_for_function("() => !location.hash.includes('model=')")


def test_nothing_moves_on_hover_and_a_failure_is_said(studio: OpenPage) -> None:
    page = studio(small_model("gpt"), ADDRESS)
    settled(page, (0, 0))
    boxes = """() => [...document.querySelectorAll("section > *, .stages > *, .stage > *, .stage-reading > *")]
        .map(e => e.getBoundingClientRect()).filter(b => b.width).map(b => [b.x, b.y + scrollY, b.width, b.height])"""
    page.wait_for_function("() => document.querySelector('.learn-checkpoints [role=status]').textContent")
    still = page.evaluate(boxes)
    for x, y in [(30, 30), (80, 40), (120, 60)]:
        page.locator(".learn-step glass-matrix .matrix-scroll").hover(position={"x": x, "y": y})
    for letter in page.locator(".learn-step [data-symbol]").all()[:3]:
        letter.hover()
    assert page.evaluate(boxes) == still
    form = page.locator(".learn-form")
    page.wait_for_function("() => document.querySelector('#learn-task').options.length > 5")
    form.get_by_label("Data").select_option("path")
    form.get_by_role("textbox", name="File or folder").fill("/nowhere/at/all.txt")
    form.get_by_role("button", name="Start").click()
    page.wait_for_function(
        "() => document.querySelector('.learn-status').textContent.startsWith('Failed')", timeout=60_000
    )
    assert "/nowhere/at/all.txt" in page.locator(".learn-status").text_content()


def test_axes_have_round_numbers_and_the_nearest_point_is_read(studio: OpenPage) -> None:
    page = studio(small_model("gpt"), ADDRESS)
    found = page.evaluate("""async () => {
        const { ticks, rangeOf, nearest } = await import("glassformer/charts.js");
        const points = [[1, 5], [10, 4], [11, 3]];
        return [ticks(0, 120), ticks(1.4, 3.1), ticks(0.01, 2, true), rangeOf([0, -1, 10, 1000], true), rangeOf([NaN]),
            [0, 5, 6, 10.6, 99, Infinity].map((x) => nearest(points, x)[0]), nearest([], 1) ?? null];
    }""")
    linear, close, logarithmic, positive, nothing, near, none = found
    assert linear == [0, 20, 40, 60, 80, 100, 120] and close == pytest.approx([1.5, 2, 2.5, 3])
    assert logarithmic == pytest.approx([0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2])
    assert positive == pytest.approx([10 / 1.1, 1100]) and nothing is None
    assert near == [1, 1, 10, 11, 11, 11] and none is None


@pytest.mark.parametrize(
    ("name", "task", "more"), [("seq2seq", "translate", ""), ("llama", "gpt", "model.family = llama")]
)
def test_a_training_from_nothing_is_of_the_kind_that_is_open(studio: OpenPage, name: str, task: str, more: str) -> None:
    page = studio(small_model(name), "#/learn?text=I%20love%20AI")
    page.wait_for_function("() => document.querySelector('#learn-task').options.length > 5")
    page.wait_for_function("task => document.querySelector('#learn-task').value === task", arg=task)
    page.wait_for_timeout(300)
    assert page.locator("#learn-task").input_value() == task
    assert page.locator(".learn-form details textarea").input_value() == more
    page.locator("#learn-from").select_option("model")
    assert page.locator("#learn-task").input_value() == ""


@pytest.mark.parametrize("optimizer", ["muon", "rmsprop"])
def test_a_step_of_muon_and_of_rmsprop_is_shown(studio: OpenPage, optimizer: str) -> None:
    page = studio(small_model("gpt"), "#/learn?text=I%20love%20AI")
    page.wait_for_selector(".stages:not(.waiting)")
    page.locator(".learn-step select.short").select_option(optimizer)
    page.wait_for_function(
        "name => document.querySelector('.learn-step [role=status]').textContent.includes(name)", arg=optimizer
    )
    last = "Orthogonalized, round 5" if optimizer == "muon" else "Second moment"
    page.wait_for_function("last => document.querySelector('.rail').textContent.includes(last)", arg=last)
    titles = page.locator(".rail button span").all_text_contents()
    assert titles[0] == "Loss" and titles[-1] == "New weight"
    ends = page.locator(".ends").evaluate("({ dataset }) => [dataset.shown, dataset.actual].map(Number)")
    assert ends[0] == pytest.approx(ends[1], abs=1e-3)
