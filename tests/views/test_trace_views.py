"""Terminal, page, notebook and files: all from the tape, and from nothing else."""

import base64
import gzip
import json
import re
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from glassformer.equation import catalog
from glassformer.errors import MissingExtraError
from glassformer.probes.trace import Trace, trace
from glassformer.views.export import save_trace
from glassformer.views.html import mathml, trace_page
from glassformer.views.notebook import trace_frame
from glassformer.views.terminal import matrix_table, render, step_view, steps_table
from tests.models.zoo import Specimen, specimen
from tests.probes.intervals import printed, work_out

SOME = ["gpt", "llama-yarn", "lstm", "seq2seq-pre", "encoder-classes", "t5-gated", "mlp"]


@pytest.fixture(autouse=True)
def few_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arithmetic for fewer numbers than on a real page, to save time."""
    monkeypatch.setattr("glassformer.views.html.CELLS", 1000)


def traced(subject: Specimen, backward: str | None = None) -> Trace:
    """One example of a specimen, with words for its tokens."""
    inputs = {key: value[:1] for key, value in subject.inputs.items()}
    words = {key: [f"{key}{i}" for i in range(value.shape[1])] for key, value in inputs.items()}
    return trace(subject.model, inputs, backward).labelled(**words)


def page_data(page: str) -> dict:
    """What a page carries."""
    packed = re.search(r'id="data">([^<]*)<', page)
    assert packed
    return json.loads(gzip.decompress(base64.b64decode(packed[1])))


def everything(found: Trace, folder: Path) -> dict[str, dict[str, str]]:
    """What each rendering shows of each step."""
    folder.mkdir(exist_ok=True)
    save_trace(found, folder / "trace.json")
    numbers = load_file(folder / "trace.numbers.safetensors")
    return {
        "terminal": {step.name: render(step_view(step), 120, False) for step in found.steps},
        "page": {step["name"]: json.dumps(step["value"]) for step in page_data(trace_page(found))["steps"]},
        "numbers": {name: str(value.tolist()) for name, value in numbers.items()},
    }


def test_a_changed_weight_shows_in_every_rendering_behind_it_and_in_none_before(tmp_path: Path) -> None:
    subject = specimen("gpt")
    before = everything(traced(subject), tmp_path / "before")
    with torch.no_grad():
        subject.model.stack.blocks[1].attention.query.weight.add_(0.5)
    found = traced(subject)
    after = everything(found, tmp_path / "after")
    names = [step.name for step in found.steps]
    behind = set(names[names.index("layers.1.attention.query") :])
    quiet = {f"layers.1.attention.{word}" for word in ("key", "keys", "value", "values", "causal_mask")}
    for kind, shown in after.items():
        changed = {name for name, text in shown.items() if text != before[kind][name]}
        assert changed == behind - quiet, kind


@pytest.mark.parametrize("name", SOME)
def test_the_page_carries_every_step_with_its_numbers_and_arithmetic(name: str) -> None:
    found = traced(specimen(name))
    data = page_data(trace_page(found))
    assert [step["name"] for step in data["steps"]] == [step.name for step in found.steps]
    count = 0
    for drawn, step in zip(data["steps"], found.steps, strict=True):
        assert data["equations"][drawn["equation"]]["formula"].startswith("<math")
        if not isinstance(step.output, Tensor):
            continue
        value = step.output.detach().double().reshape((1,) * (2 - min(2, step.output.dim())) + step.shape)
        for window, matrix in zip(drawn["value"], value.reshape(-1, *value.shape[-2:]), strict=False):
            for i, row in enumerate(window["values"]):
                for j, text in enumerate(row):
                    if not isinstance(text, str):
                        assert text == pytest.approx(float(matrix[i, j]), rel=1e-3, abs=1e-12)
            for i, row in enumerate(window["cells"]):
                for j, text in enumerate(row[:2]):
                    written, _, told = text.rpartition(" = ")
                    assert printed(told.replace("−", "-").replace("∞", "inf")).low <= float(matrix[i, j]) + 1e-9
                    if written and (i + j) % 3 == 0 and torch.isfinite(matrix[i, j]):
                        count += 1
                        reach = work_out(written)
                        assert reach.low - 1e-6 <= float(matrix[i, j]) <= reach.high + 1e-6, text
    assert count > 3


def test_the_page_shows_gradients_with_their_rules() -> None:
    found = traced(specimen("gpt"), "next")
    data = page_data(trace_page(found))
    weights = next(step for step in data["steps"] if step["name"] == "layers.0.attention.weights")
    wanted = found["layers.0.attention.weights"].gradient[0, 1]
    assert weights["gradient"][1]["title"] == "batch 0, head 1"
    assert torch.allclose(torch.tensor(weights["gradient"][1]["values"]).double(), wanted, rtol=1e-3)
    assert data["equations"]["softmax"]["rule"].startswith("<math")
    assert weights["value"][0]["rows"] == weights["value"][0]["columns"] == [f"ids{i}" for i in range(7)]


def test_rows_and_columns_of_a_translator_bear_the_right_words() -> None:
    found = traced(specimen("seq2seq"))
    steps = {step["name"]: step["value"][0] for step in page_data(trace_page(found))["steps"]}
    source, target = [f"source{i}" for i in range(7)], [f"target{i}" for i in range(5)]
    assert (
        steps["encoder.layers.1.attention.weights"]["rows"],
        steps["encoder.layers.1.attention.weights"]["columns"],
    ) == (source, source)
    assert (
        steps["decoder.layers.0.attention.weights"]["rows"],
        steps["decoder.layers.0.attention.weights"]["columns"],
    ) == (target, target)
    assert (steps["decoder.layers.0.cross.weights"]["rows"], steps["decoder.layers.0.cross.weights"]["columns"]) == (
        target,
        source,
    )
    assert steps["decoder.layers.0.attention.query"]["columns"] == []


def test_a_focus_is_shown_where_it_stands() -> None:
    found = traced(specimen("gpt")).select(layer=1, head=1, token=3, equation="*.weights")
    (step,) = page_data(trace_page(found))["steps"]
    (window,) = step["value"]
    assert (window["index"], window["start"], window["rows"][0]) == ([0, 1], [3, 0], "ids3")
    assert window["cells"][0][2] == found.cell("layers.1.attention.weights", 1, 3, 2)
    assert "ids3" in render(step_view(found.steps[0]), 100, False)


def test_every_formula_of_the_catalog_can_be_set() -> None:
    for equation in catalog().values():
        for latex in (equation.latex, equation.gradient.latex if equation.gradient else "x"):
            assert mathml(latex).startswith("<math"), equation.name


def test_names_and_tokens_cannot_become_markup() -> None:
    bad = '</script><img src=x onerror="alert(1)">'
    page = trace_page(traced(specimen("gpt")).labelled(ids=[bad] * 7), title=bad)
    assert bad not in page and "&lt;/script&gt;" in page


def test_without_its_library_a_page_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "math_core", None)
    mathml.cache_clear()
    with pytest.raises(MissingExtraError, match=r"need math-core: pip install glassformer\[studio\]"):
        trace_page(traced(specimen("mlp")))


def test_a_notebook_shows_the_page() -> None:
    found = traced(specimen("mlp"))
    assert found._repr_html_() == trace_frame(found)
    assert found._repr_html_().startswith("<iframe srcdoc=") and found._repr_html_().count("<") == 2


def test_files_for_machines_hold_every_number(tmp_path: Path) -> None:
    found = traced(specimen("gpt"), "next")
    save_trace(found, tmp_path / "t.json")
    data, numbers = json.loads((tmp_path / "t.json").read_text()), load_file(tmp_path / "t.numbers.safetensors")
    assert data["numbers"] == "t.numbers.safetensors" and data["loss"] == pytest.approx(float(found.loss))
    for told, step in zip(data["steps"], found.steps, strict=True):
        assert (told["name"], told["equation"], told["latex"]) == (step.name, step.equation.name, step.equation.latex)
        assert torch.equal(numbers[step.name], step.value) and told["shape"] == list(step.shape)
        if step.gradient is not None:
            assert torch.equal(numbers[f"{step.name}/gradient"], step.gradient)
    scores = next(told for told in data["steps"] if told["name"] == "layers.0.attention.scores")
    assert [(s["name"], s.get("source")) for s in scores["symbols"]] == [
        ("q", "layers.0.attention.queries"), ("k", "layers.0.attention.keys"), ("scale", None),
        ("s", "layers.0.attention.scores"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", SOME)
def test_the_terminal_shows_every_step(name: str) -> None:
    found = traced(specimen(name))
    table = render(steps_table(found), 160, False)
    assert all(step.name in table for step in found.steps)
    whole = render(step_view(found.steps[-1]), 100, True)
    assert found.steps[-1].equation.latex[:20] in whole


def test_matrices_are_coloured_by_sign_and_size() -> None:
    text = render(matrix_table([[1.0, -1.0, 0.0], [float("-inf"), 0.5, float("nan")]], ["a", "b"]), 80, True)
    assert "48;2;178;24;43" in text and "48;2;33;102;172" in text and "−∞" in text
    assert "\x1b" not in render(matrix_table([[1.0]]), 80, False)
