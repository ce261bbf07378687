"""Every lesson runs, says what it computes, and asks what it can judge."""

import ast
import inspect
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from glassformer.arithmetic import MINUS
from glassformer.course import lessons as lesson_modules
from glassformer.course.page import Beside, Claim, Page, Slope, Work
from glassformer.course.registry import COURSE
from glassformer.course.walk import Walk
from glassformer.course.worked.recomputing import Given
from glassformer.equations.activations import relu
from glassformer.equations.algebra import scale
from glassformer.equations.masks import causal_mask
from glassformer.equations.normalization import layer_norm
from glassformer.equations.optimizers import gradient_descent
from glassformer.equations.similarity import inner_product
from glassformer.errors import GlassformerError, LessonError
from tests.course.runs import NAMES, lesson, run, text

# What the roadmap names, in its order, and where a lesson on it must stand.
ROADMAP = [
    *("how-it-works", "conventions"),
    *("slope", "descent", "gradient-sizes", "momentum", "linear-model", "mini-batches", "backpropagation"),
    *("deep-networks", "xor", "sine", "softmax", "norms", "norm-stability", "residuals"),
    *("similarity", "choosing-a-measure", "word-vectors", "skip-gram", "tokens", "positions", "rotary-scaling"),
    *("attention", "why-softmax", "scaling", "masks", "heads", "why-heads", "reading-attention", "pronouns"),
    *(
        "feed-forward",
        "encoder-block",
        "decoder-block",
        "pre-norm-block",
        "output-layer",
        "gpt",
        "recurrent-against-attention",
    ),
    *("training-step", "adam", "regularization", "fine-tuning-and-few-shot"),
    *("patches", "contrastive", "images-as-tokens"),
    *("decoding", "complexity", "flash-attention", "planning", "pitfalls", "errata"),
]
SLOW = (
    "descent",
    "sine",
    "softmax",
    "output-layer",
    "adam",
    "how-it-works",
    "mini-batches",
    "norm-stability",
    "pronouns",
    "recurrent-against-attention",
    "fine-tuning-and-few-shot",
)
SECONDS = 3


def test_the_lessons_follow_the_roadmap() -> None:
    assert NAMES == ROADMAP
    assert list(COURSE)[:5] == ["Overview", "Gradients", "Similarity", "Attention", "Blocks"]


def test_every_lesson_is_declared_and_only_the_one_asked_for_is_imported() -> None:
    files = Path(inspect.getfile(lesson_modules)).parent.glob("[a-z]*.py")
    assert {path.stem.replace("_", "-") for path in files} == set(NAMES)
    program = (
        "import sys; from glassformer.course.registry import lesson_called; lesson_called('slope').run();"
        "print(*(name for name in sys.modules if name.startswith('glassformer.course.lessons.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["glassformer.course.lessons.slope"]


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_is_whole(name: str) -> None:
    walk = run(name)
    assert len(walk.pages) >= 4 and len(walk.exercises) >= 2
    parts = [part for page in walk.pages for part in page.parts]
    assert any(isinstance(part, Claim) for part in parts)
    assert any(isinstance(part, (Work, Slope, Beside)) for part in parts)
    for page in walk.pages:
        assert page.title and page.text.endswith((".", "!", "?")) and page.like.endswith((".", "?")), page.title
        assert page.parts, f"{page.title} shows nothing"


@pytest.mark.soak  # alone on the machine and without type checks: beside other tests even processor time triples
@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_is_quick(name: str) -> None:
    run(name)  # what torch loads at first use is not the lesson's
    begun = time.perf_counter()
    lesson(name).run()
    assert time.perf_counter() - begun < SECONDS


def share_with_an_equation(pages: list[Page]) -> float:
    """How many of the pages show an equation as it ran."""
    shown = [page for page in pages if any(isinstance(part, (Work, Slope, Beside)) for part in page.parts)]
    return len(shown) / len(pages)


@pytest.mark.parametrize("name", NAMES)
def test_pages_show_an_equation_as_it_ran(name: str) -> None:
    assert share_with_an_equation(run(name).pages) >= 0.4


@pytest.mark.soak  # it runs every lesson
def test_most_pages_show_an_equation_as_it_ran() -> None:
    assert share_with_an_equation([page for name in NAMES for page in run(name).pages]) > 0.75


@pytest.mark.parametrize("name", NAMES)
def test_what_is_shown_is_on_the_tape(name: str) -> None:
    walk = run(name)
    made = {id(output) for top in walk.tape.steps for step in top.walk() for output in step.outputs}
    for page in walk.pages:
        for part in page.parts:
            if isinstance(part, Work):
                assert id(part.output.value) in made


@pytest.mark.parametrize("name", [name for name in NAMES if name != "errata"])
def test_every_page_checks_something_it_says(name: str) -> None:
    without_claims = [page.title for page in run(name).pages if not any(isinstance(part, Claim) for part in page.parts)]
    assert without_claims == []


@pytest.mark.parametrize("name", NAMES)
def test_arithmetic_ends_in_a_number_of_the_table_above_it(name: str) -> None:
    for part in (part for page in run(name).pages for part in page.parts if isinstance(part, Work)):
        value = part.output.value
        numbers = value.flatten().tolist() if isinstance(value, Tensor) else [value]
        for line in part.cells:
            end = float(line.rpartition(" = ")[2].replace(MINUS, "-").replace(",", "").replace("∞", "inf"))
            assert any(end == pytest.approx(number, rel=2e-3, abs=1e-9) for number in numbers), line


def words_of(name: str) -> list[str]:
    """Every literal text of a lesson that a reader gets to see, less the names of examples."""
    tree = ast.parse(inspect.getsource(sys.modules[lesson(name).walk.__module__]))
    walk = next(node for node in tree.body if isinstance(node, ast.ClassDef))
    found = [
        ast.get_docstring(node) or "" for node in ast.walk(walk) if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    ]
    for call in (node for node in ast.walk(walk) if isinstance(node, ast.Call)):
        told = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if told in ("step", "say", "claim", "same", "differ", "less", "ask"):
            parts = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "like")]
            found += [text for part in parts for text in _literal(part)]
    return found


def _literal(node: ast.expr) -> list[str]:
    if isinstance(node, ast.JoinedStr):
        return [part for value in node.values for part in _literal(value)]
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


@pytest.mark.parametrize("name", NAMES)
def test_no_number_is_typed_into_the_words(name: str) -> None:
    words = words_of(name)
    assert len(words) > 10
    typed = [line for line in words if re.search(r"\d", re.sub(r"\b(T5|float32|float64)\b", "", line))]
    assert typed == []


class Nudges(Walk):
    """A walk that changes one of the inputs it is asked for, every number of it by another amount."""

    target = 0

    def __init__(self) -> None:
        super().__init__()
        self.asked = -1
        self.touched = False

    def tensor(self, values: object) -> Tensor:
        self.asked += 1
        return super().tensor(self._nudged(values) if self.asked == self.target else values)

    def given(self, example: str) -> Given:
        self.asked += 1
        given = super().given(example)
        if self.asked != self.target:
            return given
        return Given({key: self._nudged(value) for key, value in given.inputs.items()}, given.printed)

    def _nudged(self, value: object, amount: float = 0.02) -> object:
        if isinstance(value, list):
            return [self._nudged(item, amount * (1 + index / 3)) for index, item in enumerate(value)]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return value
        self.touched = True
        return value + (amount * max(1.0, abs(value)) if isinstance(value, float) else 1)


def nudged(name: str, target: int) -> Walk:
    return type("Nudged", (Nudges, lesson(name).walk), {"target": target})()


def outcome(walk: Walk) -> object:
    """All that a lesson says and asks, or that it broke off because something did not hold."""
    try:
        walk.run()
    except (GlassformerError, ValueError, IndexError) as error:
        return type(error)
    return text(walk), [(exercise.question, exercise.working) for exercise in walk.exercises]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "errata"])
def test_another_input_makes_another_lesson(name: str) -> None:
    walk = nudged(name, -2)
    before, inputs = outcome(walk), vars(walk)["asked"] + 1
    assert isinstance(before, tuple) and inputs > 1
    most = 2 if name in SLOW else 6
    for target in range(0, inputs, -(-inputs // most)):
        walk = nudged(name, target)
        assert outcome(walk) != before or not vars(walk)["touched"], f"input {target} makes no difference"


def twice(x: Tensor) -> Tensor:
    return scale(x, 2.0)


def gradient_step(theta: Tensor, g: Tensor, velocity: Tensor, rate: float, beta: float) -> tuple[Tensor, Tensor]:
    return gradient_descent(theta, g, rate), g


# A sentence of a lesson, and an equation that is put in place of one of its own so that the sentence is no longer true.
BROKEN = [
    ("descent", "momentum", gradient_step, "momentum crosses it less often"),
    ("backpropagation", "sigmoid", twice, "lets at most a quarter"),
    ("xor", "relu", twice, "the two units add up"),
    ("residuals", "tanh", twice, "through tanh the largest weights do not"),
    ("norms", "rms_norm", lambda x, gamma, eps: twice(x), "root mean square becomes one"),
    ("similarity", "cosine_similarity", inner_product, "same cosine"),
    ("scaling", "score_variance", lambda width, sigma, mu=0.0: 64 * sigma**4, "within a tenth of the formula"),
    ("masks", "causal_mask", lambda n, dtype: torch.zeros(n, n, dtype=dtype), "weight zero"),
    ("heads", "attention_parameters", lambda dim, heads: 4 * dim * dim * heads, "four squares"),
    ("feed-forward", "gelu", relu, "about half"),
    ("decoding", "top_p", lambda z, p: z.clone(), "one fewer would not"),
    ("complexity", "sliding_window_mask", lambda n, keys, w, dtype=None: causal_mask(n, dtype=dtype), "fewer pairs"),
    ("planning", "training_hours", lambda flops, rate, devices: 1.0, "half the time"),
    ("flash-attention", "logsumexp", lambda z: z.amax(-1), "sum of the exponentials"),
    ("pitfalls", "layer_norm_outside", layer_norm, "more than five times"),
]


@pytest.mark.parametrize(("name", "equation", "other", "sentence"), BROKEN, ids=[case[0] for case in BROKEN])
def test_a_sentence_that_is_no_longer_true_ends_its_lesson(
    name: str, equation: str, other: Callable[..., object], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = lesson(name).walk
    monkeypatch.setattr(sys.modules[walk.__module__], equation, other)
    monkeypatch.setattr(Walk, "show", lambda *parts, **labels: None)  # what is put in place may be no equation
    monkeypatch.setattr(Walk, "beside", lambda *parts, **values: None)  # a worked example would notice first
    with pytest.raises(LessonError, match=f"it does not hold that .*{sentence}"):
        walk().run()


@pytest.mark.parametrize("name", NAMES)
def test_an_exercise_takes_its_own_answer_and_no_other(name: str) -> None:
    for exercise in run(name).exercises:
        assert exercise.judge(exercise.answer_text).right, exercise.question
        assert exercise.working in exercise.judge(exercise.answer_text).text
        wrong = "7x7x7" if isinstance(exercise.answer, tuple) else str(exercise.answer + 2 * exercise.tolerance + 1)
        refused = exercise.judge(wrong)
        assert not refused.right and exercise.hint in refused.text
        assert not exercise.judge("").right and not exercise.judge("a lot").right
        assert exercise.question.strip() and exercise.hint.endswith((".", "?"))
