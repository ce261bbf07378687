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
from glassformer.views import html
from glassformer.views.export import save_trace
from glassformer.views.html import trace_frame, trace_page
from glassformer.views.mathml import mathml
from glassformer.views.terminal import agreement_text, matrix_table, render, size_text, step_view, steps_table
from glassformer.views.unicode_math import unicode_math
from tests.models.zoo import Specimen, specimen
from tests.probes.intervals import printed, work_out

SOME = ["gpt", "llama-yarn", "lstm", "seq2seq-pre", "encoder-classifier", "t5-gated", "mlp"]


@pytest.fixture(autouse=True)
def few_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arithmetic for fewer numbers than on a real page, to save time."""
    monkeypatch.setattr("glassformer.views.html.CELLS", 1000)


def traced(case: Specimen, backward: str | None = None) -> Trace:
    """One example of a specimen, with words for its tokens."""
    inputs = {key: value[:1] for key, value in case.inputs.items()}
    words = {key: [f"{key}{i}" for i in range(value.shape[1])] for key, value in inputs.items()}
    return trace(case.model, inputs, backward).labeled(**words)


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
    case = specimen("gpt")
    before = everything(traced(case), tmp_path / "before")
    with torch.no_grad():
        case.model.stack.blocks[1].attention.qkv.weight[:, : case.model.config.dim].add_(0.5)  # the queries
    found = traced(case)
    after = everything(found, tmp_path / "after")
    names = [step.name for step in found.steps]
    behind = set(names[names.index("layers.1.attention.qkv") :])
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
    assert (
        steps["decoder.layers.0.cross_attention.weights"]["rows"],
        steps["decoder.layers.0.cross_attention.weights"]["columns"],
    ) == (
        target,
        source,
    )
    assert steps["decoder.layers.0.attention.query"]["columns"] == []


def test_a_selection_is_shown_at_its_index() -> None:
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
    page = trace_page(traced(specimen("gpt")).labeled(ids=[bad] * 7), title=bad)
    assert bad not in page and "&lt;/script&gt;" in page


def test_without_its_library_a_page_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "math_core", None)
    mathml.cache_clear()
    with pytest.raises(MissingExtraError, match="need math-core: pip install math-core"):
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
    assert unicode_math(found.steps[-1].equation.latex) in whole


def test_matrices_are_colored_by_sign_and_size() -> None:
    text = render(matrix_table([[1.0, -1.0, 0.0], [float("-inf"), 0.5, float("nan")]], ["a", "b"]), 80, True)
    assert "48;2;178;24;43" in text and "48;2;33;102;172" in text and "−∞" in text
    assert "\x1b" not in render(matrix_table([[1.0]]), 80, False)


def test_what_is_not_finite_looks_like_no_number_and_like_no_other() -> None:
    shown = [0.0, 1.0, -1.0, float("nan"), float("inf"), float("-inf")]
    colors = re.findall(r"\x1b\[([\d;]*)m *(\S+)\x1b", render(matrix_table([shown]), 80, True))
    assert [text for _, text in colors] == ["1", "−1", "NaN", "∞", "−∞"], "a zero has no ground"
    assert len({color for color, _ in colors}) == 5
    assert render(matrix_table([shown]), 80, False).split() == ["0", "1", "−1", "NaN", "∞", "−∞"]
    script, style = (Path(html.__file__).with_name(f"page.{end}").read_text() for end in ("js", "css"))
    for text, name in (("NaN", "nan"), ('"∞"', "infinity"), ('"−∞"', "minus-infinity")):
        assert f'{text}: "{name}"' in script and f".{name} {{" in style and style.count(f"--{name}: ") == 2


def test_masked_scores_are_told_from_zero() -> None:
    found = traced(specimen("gpt"))
    masked = found.select(layer=0, equation="apply_mask")
    (step,) = page_data(trace_page(masked))["steps"]
    assert step["value"][0]["values"][0][1:] == ["−∞"] * 6
    assert sum(text == "−∞" for window in step["value"] for row in window["values"] for text in row) == 2 * 21
    assert ", 42 −∞" in render(steps_table(masked), 160, False)
    assert size_text(masked.steps[0].value).endswith(", 42 −∞")
    assert size_text(torch.tensor(float("nan"))) == "NaN"


def with_bad_scores(*tokens: int) -> Trace:
    """A run whose scores for these tokens are not finite."""
    case = specimen("gpt")
    with torch.no_grad():
        for token in tokens:
            case.model.embedding.weight[token] = torch.inf
    if len(tokens) == 13:
        case.model.stack.norm.bias.data[0] = torch.nan
    return trace(case.model, {"ids": torch.tensor([[0, 1, 2, 4, 5, 6, 7]])})


def test_a_run_that_is_not_finite_is_not_said_to_agree() -> None:
    shared = "numbers of the output are NaN or infinite, in the run itself as well"
    told = {
        (): "shown by the reference equations; the run itself came out within ",
        (3,): f"shown by the reference equations; 7 of 91 {shared}, the others came out within ",
        (3, 8): f"shown by the reference equations; 14 of 91 {shared}, the others came out within ",
        tuple(range(13)): f"shown by the reference equations; 91 of 91 {shared}",
    }
    for tokens, wanted in told.items():
        found = with_bad_scores(*tokens)
        assert agreement_text(found).startswith(wanted) and agreement_text(found) in trace_page(found)
        assert ("came out" in agreement_text(found)) == (len(tokens) < 13)


def test_other_infinities_in_the_run_itself_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from glassformer.equations.embedding import unembed

    case = specimen("gpt")
    with torch.no_grad():
        case.model.embedding.weight[3] = torch.inf
    run = unembed.kernel
    monkeypatch.setattr(unembed, "kernel", lambda *given: run(*given).nan_to_num(nan=torch.inf))
    found = trace(case.model, {"ids": torch.tensor([[5, 6, 7]])})
    assert found.difference.difference == torch.inf
    assert agreement_text(found).endswith("the run itself has NaN or infinities at other positions")


def test_files_tell_a_loss_that_is_no_number_from_none(tmp_path: Path) -> None:
    case = specimen("gpt")
    with torch.no_grad():
        case.model.stack.norm.bias[0] = torch.nan
    found = trace(case.model, case.inputs, lambda scores, _: scores.mean(), equation="*.weights")
    save_trace(found, tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text())["loss"] == "NaN"
    assert "<p>loss NaN</p>" in trace_page(found)


def test_the_shape_that_is_told_is_that_of_the_numbers(tmp_path: Path) -> None:
    found = traced(specimen("llama-grouped")).select(layer=1, head=3, token=2)
    save_trace(found, tmp_path / "t.json")
    data, numbers = json.loads((tmp_path / "t.json").read_text()), load_file(tmp_path / "t.numbers.safetensors")
    for step in data["steps"]:
        assert step["shape"] == list(numbers[step["name"]].shape) and step["shape"][1:3] == [1, 1]
    (keys,) = page_data(trace_page(found.select(layer=1, head=3, equation="*.values")))["steps"]
    assert keys["shape"] == "1×1×7×6 of 1×2×7×6" and keys["value"][0]["title"] == "batch 0, head 1"
    assert "1×1×1×7 of 1×4×7×7" in render(steps_table(found), 160, False)
