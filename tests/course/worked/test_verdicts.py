"""All examples are there, each is computed again, and each comes out right."""

import inspect
import re
from collections import Counter
from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.course.worked.comparing import as_data, same
from glassformer.course.worked.examples import WorkedExample, examples
from glassformer.course.worked.recomputing import (
    MODULES,
    STATED_EXAMPLES,
    Answer,
    Given,
    recomputations,
    recomputes,
)
from glassformer.course.worked.verdicts import RECORDED, Result, check_all, check_example
from glassformer.equation import Equation
from glassformer.equations.other_norms import layer_norm_outside

ROOT = Path(__file__).parents[3]
EXAMPLES = {example.id: example for example in examples()}
TITLES = {
    "Mathematics of Transformers": 3,
    "The Transformer: Let's dive into math": 4,
    "The Mathematics of Transformers: From First Principles to Practice, Part 1": 59,
    "The Math Behind GPT Models": 73,
}


def test_all_examples_are_there() -> None:
    assert len(examples()) == len(EXAMPLES) == 139
    assert Counter(example.source for example in examples()) == TITLES


def test_each_has_one_recomputation_and_there_are_no_others() -> None:
    assert set(recomputations()) == set(EXAMPLES)
    assert len(set(recomputations().values())) == len(EXAMPLES)


def test_every_module_with_a_recomputation_is_declared() -> None:
    files = Path(inspect.getfile(recomputes)).parent.glob("*.py")
    registering = {path.stem for path in files if re.search(r"^@(recomputes|states)\(", path.read_text(), re.MULTILINE)}
    assert registering == set(MODULES) and list(MODULES) == sorted(MODULES)


def test_no_example_is_recomputed_by_two() -> None:
    def again(given: Given) -> Answer:
        return {}

    with pytest.raises(ValueError, match="two functions recompute gpt-h0"):
        recomputes("gpt-h0")(again)


def test_each_comes_out_right(results: dict[str, Result]) -> None:
    assert list(results) == list(EXAMPLES)
    assert {name: result.differing for name, result in results.items() if result.differing} == {}
    for name, example in EXAMPLES.items():
        assert results[name].expected_ok
        assert set(results[name].value) == set(example.expected)
        assert results[name].verdict == ("stated" if name in STATED_EXAMPLES else RECORDED[example.verdict])


def test_everything_in_print_is_compared(results: dict[str, Result]) -> None:
    for name, example in EXAMPLES.items():
        farthest = results[name].farthest
        assert (farthest is None) is (example.printed is None)
        if farthest is not None:
            assert farthest.value is not None
            assert farthest.name.partition("[")[0] in (example.printed or {})


def test_counts_of_verdicts(results: dict[str, Result]) -> None:
    counts = Counter(result.verdict for result in results.values())
    assert counts == {"reproduced": 89, "rounding": 5, "corrected": 43, "stated": 2}


def test_facts_are_stated_not_reproduced(results: dict[str, Result]) -> None:
    stated = {name for name, result in results.items() if result.verdict == "stated"}
    assert stated == {"airplane-neighbours", "clip-is-not-a-generator"}


READ_PRINT = [name for name, function in recomputations().items() if "fact(" in inspect.getsource(function)]


@pytest.mark.parametrize("name", READ_PRINT)
def test_what_echoes_the_print_counts_as_stated(name: str) -> None:
    example = EXAMPLES[name]
    changed = {key: torch.tensor(value).add(1).tolist() for key, value in (example.printed or {}).items()}
    values = as_data(recomputations()[name](Given(example.inputs, changed)))
    assert isinstance(values, dict)
    compared = [key for key in changed if key in example.expected]
    assert all(same(values[key], example.expected[key]) for key in compared) == (name not in STATED_EXAMPLES)


@pytest.mark.parametrize(
    ("name", "key", "right", "digits"),
    [
        ("gd-x2-iteration-10", "x", 0.3221, 4),
        ("positional-encoding-d4", "PE", [[0, 1, 0, 1], [0.8415, 0.5403, 0.01, 1], [0.9093, -0.4161, 0.02, 0.9998]], 4),
        ("cross-attention-output", "output", [[0, -0.894, 0, 0.894]] * 3, 3),
        ("probabilities-after-update", "p_new", [0.1140, 0.1031, 0.1031, 0.6798], 4),
        ("gpt-h1-love", "h1", [0.545, 0.442], 3),
        ("gpt-h2-love", "h2", [0.2858, 0.3845], 4),
        ("rope-frequency-dimension", "theta", [1, 0.01], 6),
        ("gpt3-layers-and-width", "layers", 96, 0),
    ],
)
def test_corrected_numbers(name: str, key: str, right: object, digits: int, results: dict[str, Result]) -> None:
    rounded = torch.tensor(results[name].value[key], dtype=torch.float64).round(decimals=digits)
    assert same(rounded.tolist(), torch.tensor(right, dtype=torch.float64).round(decimals=digits).tolist())
    assert results[name].verdict == "corrected"


@pytest.mark.parametrize("name", ["layernorm-M", "decoder-layernorm"])
def test_where_the_printed_norms_come_from(name: str) -> None:
    example = EXAMPLES[name]
    x = torch.tensor(example.inputs.get("M", example.inputs.get("x")), dtype=torch.float64)
    one = torch.ones(4, dtype=torch.float64)
    assert example.printed is not None
    printed = torch.tensor(example.printed["LN"], dtype=torch.float64)
    torch.testing.assert_close(layer_norm_outside(x, one, 0 * one, 1e-6), printed, rtol=0, atol=5.1e-9)


BROKEN = {
    "softmax": "toy-attention-weights-output",
    "attention_scores": "tiny-attention-scaled-scores",
    "weighted_sum": "encoder-chain-correct-pe",
    "linear": "decoder-chain-corrected",
    "layer_norm": "encoder-block-with-residuals",
    "relu": "ffn-output",
    "gelu": "pre-ln-block-vector",
    "sinusoidal_positions": "positional-encoding-d4",
    "rotary": "rope-relative-property",
    "cosine_similarity": "cosine-similarity-cat-dog",
    "gradient_descent": "gd-x2-iteration-10",
    "gpt_parameters": "gpt1-parameter-count",
    "noam_learning_rate": "noam-learning-rate",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_equation_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    equation: Equation[..., object] = gf.catalog()[name]
    right = equation.fn

    def broken(*args: object, **kwargs: object) -> object:
        result = right(*args, **kwargs)
        return result * 1.001 if isinstance(result, (torch.Tensor, float)) else int(str(result)) + 1

    assert check_example(EXAMPLES[BROKEN[name]]).expected_ok
    monkeypatch.setattr(equation, "fn", broken)
    result = check_example(EXAMPLES[BROKEN[name]])
    assert not result.expected_ok
    assert result.verdict == "wrong"


@pytest.mark.parametrize("rule", ["mlp-single-row-backprop", "tiny-attention-dV", "residual-gradient-path"])
def test_gradients_come_from_the_tape(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reverse = gf.tape.reverse
    monkeypatch.setattr(gf.tape, "reverse", lambda tape, seed=None: _doubled(reverse(tape, seed)))
    assert not check_example(EXAMPLES[rule]).expected_ok


class _doubled:  # noqa: N801 - stands in for a function
    def __init__(self, found: object) -> None:
        self.found = found

    def __getitem__(self, tensor: torch.Tensor) -> torch.Tensor:
        return 2 * self.found[tensor]  # pyright: ignore[reportIndexIssue]


def test_an_error_on_the_way_is_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(given: Given) -> Answer:
        raise gf.EquationError("softmax: z is empty")

    monkeypatch.setitem(recomputations(), "gpt-h0", fail)
    result = check_example(EXAMPLES["gpt-h0"])
    assert (result.verdict, result.expected_ok) == ("wrong", False)
    assert result.note == "EquationError: softmax: z is empty"


def test_a_verdict_that_was_recorded_wrongly_shows() -> None:
    example = EXAMPLES["gd-x2-iteration-10"]
    wrong = WorkedExample(
        **{name: getattr(example, name) for name in example.__struct_fields__} | {"verdict": "reproduced"}
    )
    assert check_example(wrong).differing == ["verdict"]


def test_threads_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.course.worked.verdicts.examples", lambda: [EXAMPLES["gpt-h0"]])
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert [result.id for result in check_all()] == ["gpt-h0"]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_sources_go_by_their_titles() -> None:
    file_name = re.compile(r"00[0-3]_[0-9a-f]{8}")
    kept = ("src", "tests", "docs", "examples", ".ci")
    paths = [path for folder in kept for path in (ROOT / folder).rglob("*") if path.is_file()]
    paths += [path for path in ROOT.iterdir() if path.is_file()]
    texts = {path: path.read_bytes().decode(errors="replace") for path in paths if "__pycache__" not in path.parts}
    assert ROOT / "src/glassformer/course/worked/examples.json" in texts
    assert [str(path) for path, text in texts.items() if file_name.search(text)] == []
