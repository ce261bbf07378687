"""Terminal, page, notebook and files: all from the tape, and from nothing else."""

import base64
import gzip
import json
import math
import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from glassformer.equation import catalog
from glassformer.errors import MissingExtraError
from glassformer.probes.trace import Trace, trace
from glassformer.views.cell_data import cell
from glassformer.views.export import save_trace
from glassformer.views.html import trace_frame, trace_page
from glassformer.views.mathml import marked_mathml, mathml
from glassformer.views.run_data import TensorName
from glassformer.views.terminal import agreement_text, matrix_table, render, size_text, step_view, steps_table
from glassformer.views.unicode_math import unicode_math
from tests.models.zoo import Specimen, specimen
from tests.probes.intervals import printed, work_out

SOME = ["gpt", "llama-yarn", "lstm", "seq2seq-pre", "encoder-classifier", "t5-gated", "mlp"]


@pytest.fixture(autouse=True)
def few_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arithmetic for fewer numbers than on a real page, to save time."""
    for name, count in (("PATH_CELLS", 8), ("FIRST_CELLS", 40), ("TEXTS", 400)):
        monkeypatch.setattr(f"glassformer.views.file_cells.{name}", count)


def traced(case: Specimen, backward: str | None = None) -> Trace:
    """One example of a specimen, with words for its tokens."""
    inputs = {key: value[:1] for key, value in case.inputs.items()}
    words = {key: [f"{key}{i}" for i in range(value.shape[1])] for key, value in inputs.items()}
    return trace(case.model, inputs, backward).labeled(**words)


class Page:
    """What a page carries: the data of its run, and its numbers by tensor."""

    def __init__(self, page: str) -> None:
        self.data = json.loads(self._block(page, "run"))
        planes = np.frombuffer(self._block(page, "numbers"), np.uint8).reshape(4, -1)
        self.numbers = np.ascontiguousarray(planes.T).view("<f4").reshape(-1)
        self.steps = {step["name"]: step for step in self.data["run"]["steps"]}

    def _block(self, page: str, name: str) -> bytes:
        packed = re.search(rf'id="{name}">([^<]*)<', page)
        assert packed
        return gzip.decompress(base64.b64decode(packed[1]))

    def tensor(self, step: str, symbol: str = "", direction: int = 0) -> Tensor:
        """The part of a tensor that is in the file."""
        stored = self.data["tensors"][self.data["positions"][step][symbol][direction]]
        count = math.prod(stored["shape"])
        return torch.tensor(self.numbers[stored["start"] : stored["start"] + count]).reshape(stored["shape"])


def everything(found: Trace, folder: Path) -> dict[str, dict[str, str]]:
    """What each rendering shows of each step."""
    folder.mkdir(exist_ok=True)
    save_trace(found, folder / "trace.json")
    numbers = load_file(folder / "trace.numbers.safetensors")
    page = Page(trace_page(found))
    return {
        "terminal": {step.name: render(step_view(step), 120, False) for step in found.steps},
        "page": {name: str(page.tensor(name).tolist()) for name in page.steps},
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
    page = Page(trace_page(found))
    assert list(page.steps) == [step.name for step in found.steps]
    count = 0
    for step in found.steps:
        drawn = page.steps[step.name]
        assert page.data["run"]["equations"][drawn["equation"]]["mathml"].startswith("<math")
        if not isinstance(step.output, Tensor):
            continue
        value = step.output.detach()
        assert torch.equal(page.tensor(step.name), value.float())
        known = page.data["cells"][step.name]
        cells = {key: cell["text"] for key, cell in known["cells"].items() if "backward" not in key}
        for key, text in [*cells.items(), *known["texts"].items()]:
            number = float(value[tuple(int(i) for i in key.split(",") if i)])
            written, _, told = text.rpartition(" = ")
            assert printed(told.replace("−", "-").replace("∞", "inf")).low <= number + 1e-9
            if written and math.isfinite(number):
                count += 1
                reach = work_out(written)
                assert reach.low - 1e-6 <= number <= reach.high + 1e-6, text
    assert count > 3


@pytest.mark.parametrize("name", ["gpt", "llama-grouped", "seq2seq", "encoder-classifier"])
def test_the_page_knows_which_entries_count_in_any_number(name: str) -> None:
    found = traced(specimen(name))
    known = Page(trace_page(found)).data["cells"]
    generator = random.Random(0)
    checked = 0
    for step in found.steps:
        pattern = known[step.name]["pattern"]
        if pattern is None:
            continue
        index = tuple(generator.randrange(n) for n in step.shape)
        told = [
            (each["symbol"], *zip(*([index[a]] * 2 if isinstance(a, int) else a for a in each["axes"]), strict=True))
            for each in pattern
            if each["axes"]
        ]
        boxes = [
            (box.symbol, box.first, box.last) for box in cell(found, TensorName(step.name), index).boxes if box.first
        ]
        assert told == boxes, f"{step.name}{list(index)}"
        checked += len(boxes)
    assert checked > len(found.steps) / 2


def test_the_page_has_the_whole_arithmetic_along_the_path_of_the_prediction() -> None:
    found = traced(specimen("gpt"))
    page = Page(trace_page(found))
    step, at = found.source_of(found.output), [0, 6, int(found.output[0, 6].argmax())]
    for _ in range(4):
        cell = page.data["cells"][step]["cells"][",".join(map(str, at))]
        assert abs(sum(abs(each["share"]) for each in cell["operands"])) <= 1 + 1e-3
        heaviest = next(each for each in cell["operands"] if each["step"])
        value = found[heaviest["source"]].step.output[tuple(heaviest["index"])]
        assert heaviest["value"] == pytest.approx(float(value), rel=1e-5)
        step, at = heaviest["source"], heaviest["index"]


def test_the_page_shows_gradients_with_their_rules() -> None:
    found = traced(specimen("gpt"), "next")
    page = Page(trace_page(found))
    name = "layers.0.attention.weights"
    assert torch.equal(page.tensor(name, direction=1), found[name].gradient.float())
    assert torch.equal(page.tensor(name, "z", 1), found.gradient_of(found[name].step.inputs["z"]).float())
    assert page.data["run"]["equations"]["softmax"]["rule_mathml"].startswith("<math")
    assert "0,0,0,0 backward" in page.data["cells"][name]["cells"]


def test_rows_and_columns_of_a_translator_bear_the_right_words() -> None:
    steps = Page(trace_page(traced(specimen("seq2seq")))).steps
    for name, rows, columns in (
        ("encoder.layers.1.attention.weights", "source", "source"),
        ("decoder.layers.0.attention.weights", "target", "target"),
        ("decoder.layers.0.cross_attention.weights", "target", "source"),
        ("decoder.layers.0.attention.query", "target", None),
    ):
        assert steps[name]["labels"][-2:] == [rows, columns], name


def test_a_selection_is_shown_at_its_index() -> None:
    found = traced(specimen("gpt")).select(layer=1, head=1, token=3, equation="*.weights")
    page = Page(trace_page(found))
    assert list(page.steps) == ["layers.1.attention.weights"]
    assert page.data["start"] == {"layer": 1, "head": 1, "token": 3}
    known = page.data["cells"]["layers.1.attention.weights"]
    assert known["cells"]["0,1,3,0"]["text"] == found.cell("layers.1.attention.weights", 1, 3, 0)
    assert "ids3" in render(step_view(found.steps[0]), 100, False)


def test_a_page_holds_what_fits_and_says_what_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    found = traced(specimen("gpt"))
    assert "This file holds" not in trace_page(found)
    monkeypatch.setattr("glassformer.views.file_data.NUMBERS", 2000)
    text = trace_page(found)
    page = Page(text)
    assert "This file holds " in text and len(page.numbers) <= 2500
    name = "layers.0.feed_forward.up"
    rows, columns = page.steps[name]["shape"][-2:]
    assert torch.equal(page.tensor(name), found[name].value[..., :rows, :columns].float())
    assert page.steps[name]["shape"] != list(found[name].shape)


@pytest.mark.parametrize("name", ["gpt", "seq2seq", "encoder-classifier", "encoder"])
def test_the_page_begins_with_the_prediction(name: str) -> None:
    found = traced(specimen(name))
    shown = Page(trace_page(found)).data["predictions"]
    if name == "encoder":
        assert shown == [], "hidden states are no logits"
        return
    likely = found.output.softmax(-1).float()
    rows = likely if likely.dim() == 2 else likely[0]
    assert len(shown) == len(rows)
    for told, row in zip(shown, rows, strict=True):
        assert [each["probability"] for each in told["next"]] == pytest.approx(
            row.topk(min(5, len(row))).values.tolist()
        )
    if name != "encoder-classifier":
        assert shown[-1]["token"] == list(found.tokens.values())[-1][-1]


def test_every_formula_of_the_catalog_can_be_set() -> None:
    for equation in catalog().values():
        for latex in (equation.latex, equation.gradient.latex if equation.gradient else "x"):
            assert mathml(latex).startswith("<math"), equation.name
            assert marked_mathml(latex, equation.symbols).startswith("<math"), equation.name


def test_names_and_tokens_cannot_become_markup() -> None:
    bad = '</script><img src=x onerror="alert(1)">'
    page = trace_page(traced(specimen("gpt")).labeled(ids=[bad] * 7), title=bad)
    assert bad not in page and "&lt;/script&gt;" in page


def test_without_its_library_a_page_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "math_core", None)
    mathml.cache_clear()
    marked_mathml.cache_clear()
    with pytest.raises(MissingExtraError, match="need math-core: pip install math-core"):
        trace_page(traced(specimen("mlp")))


def test_a_notebook_shows_the_page() -> None:
    found = traced(specimen("mlp"))
    assert found._repr_html_() == trace_frame(found)
    assert (
        found._repr_html_().startswith('<iframe sandbox="allow-scripts" srcdoc=')
        and found._repr_html_().count("<") == 2
    )


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


def test_masked_scores_are_told_from_zero() -> None:
    found = traced(specimen("gpt"))
    masked = found.select(layer=0, equation="apply_mask")
    page = Page(trace_page(masked))
    (step,) = page.steps.values()
    assert step["infinite"] == int((page.tensor(step["name"]) == -torch.inf).sum()) == 2 * 21
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
    (values,) = Page(trace_page(found.select(layer=1, head=3, equation="*.values"))).steps.values()
    assert values["shape"] == [1, 2, 7, 6], "a page has the whole step"
    assert "1×1×1×7 of 1×4×7×7" in render(steps_table(found), 160, False)
