"""Errata of the sources: what is printed, what is right, and the computation that settles each."""

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Literal, TypeAlias

import msgspec
import torch
from torch import Tensor

from glassformer.arithmetic import DIGITS, MOST_DIGITS, digits_apart, number
from glassformer.course.page import value_text
from glassformer.course.small_models import fresh_translator, token_ids
from glassformer.course.walk import Walk
from glassformer.equations.activations import relu, sigmoid
from glassformer.equations.algebra import linear, multiply, residual
from glassformer.equations.attention import attention
from glassformer.equations.embedding import embed
from glassformer.equations.heads import merge_heads, split_heads
from glassformer.equations.information import cross_entropy_between, one_hot
from glassformer.equations.losses import cross_entropy, mean_squared_error
from glassformer.equations.matrices import matmul
from glassformer.equations.normalization import layer_norm
from glassformer.equations.parameter_counts import projection_macs
from glassformer.equations.sequences import concat
from glassformer.equations.similarity import inner_product
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.views.terminal import shape_text

Check: TypeAlias = Callable[[Walk], tuple[str, bool]]
CHECKED: dict[int, Check] = {}
DIFFERENT = 0.1  # apart by more than any rounding explains
THREE_SUBLAYERS = (3, 3)  # additions and norms of a decoder block


class Erratum(msgspec.Struct, frozen=True, kw_only=True):
    """One erratum: `printed` is what a source says, `right` what it should say, `examples` compute the difference."""

    number: int
    source: str
    where: str
    printed: str
    right: str
    examples: tuple[str, ...]


ErrorKind: TypeAlias = Literal[
    "a number off beyond rounding", "a number rounded badly", "a statement that does not hold"
]


class Finding(msgspec.Struct, frozen=True):
    """An erratum recomputed: the kind of error, the printed and the computed value, and whether they differ."""

    kind: ErrorKind
    printed: str
    computed: str
    holds: bool


@cache
def errata() -> tuple[Erratum, ...]:
    """Every erratum, in the order of their numbers."""
    data = files("glassformer.course").joinpath("errata.json").read_bytes()
    return msgspec.json.decode(data, type=tuple[Erratum, ...])


def findings(walk: Walk, erratum: Erratum) -> list[Finding]:
    """All that is computed for an erratum; empty for an editorial one."""
    found = [_against_print(walk, example) for example in erratum.examples]
    if erratum.number in CHECKED:
        found.append(Finding("a statement that does not hold", "", *CHECKED[erratum.number](walk)))
    return [each for each in found if each is not None]


def without_findings(walk: Walk, erratum: Erratum) -> Literal["a fact, not computed", "editorial"]:
    """The label of an erratum that nothing computes: a fact that can only be stated, or editorial."""
    stated = any(walk.verdict(example).verdict == "stated" for example in erratum.examples)
    return "a fact, not computed" if stated else "editorial"


def _against_print(walk: Walk, example: str) -> Finding | None:
    """The entry of an example that is farthest from print; None if they agree or nothing is computed."""
    result = walk.verdict(example)
    entry = result.farthest
    if entry is None or entry.standing == "reproduced" or result.verdict == "stated":
        return None
    if isinstance(entry.value, bool):
        return Finding("a statement that does not hold", "", "the statement is false", entry.value != entry.printed)
    kind = "a number rounded badly" if entry.standing == "rounding" else "a number off beyond rounding"
    digits = DIGITS
    if isinstance(entry.printed, (int, float)) and isinstance(entry.value, (int, float)):
        digits = digits_apart(entry.printed, entry.value)
    computed = value_text(entry.value, digits)
    name, printed = entry.name.replace("_", " "), value_text(entry.printed, MOST_DIGITS)
    return Finding(kind, f"{name}: {printed}", f"{name}: {computed}", computed != printed)


def _settles(erratum: int) -> Callable[[Check], Check]:
    """Register a computation that settles an erratum."""

    def register(check: Check) -> Check:
        CHECKED[erratum] = check
        return check

    return register


@_settles(14)
def _zero_gradient(walk: Walk) -> tuple[str, bool]:
    here, moved = walk.tensor(0.0), walk.tensor(0.5)
    flat, higher = multiply(here, here), multiply(moved, moved)
    slope = walk.back(flat)[here]
    text = f"x² at 0 has gradient {number(slope)}, and a move of {number(moved)} adds {number(higher - flat)}"
    return text, bool(slope == 0) and bool(higher > flat)


@_settles(15)
def _direction_of_the_error(walk: Walk) -> tuple[str, bool]:
    X, W1, b1, W2, b2, Y = walk.given("mlp-backprop-prefactor").tensors("X", "W1", "b1", "W2", "b2", "Y_true")
    Z1 = linear(X, W1, b1)
    A1 = sigmoid(Z1)
    out = linear(A1, W2, b2)
    found = walk.back(mean_squared_error(out, Y))
    hidden = torch.allclose(found[Z1], found[out] @ W2.T * A1 * (1 - A1))
    weights = torch.allclose(found[W1], X.T @ found[Z1])
    return "δ₁ comes out of δ₂, and the gradient of W₁ out of δ₁", hidden and weights


@_settles(16)
def _of_the_logits(walk: Walk) -> tuple[str, bool]:
    y, p = walk.given("gradient-p-minus-y").tensors("y", "p")
    logits = p.log()
    by_logits = walk.back(cross_entropy(logits, y))[logits]
    by_probabilities = walk.back(cross_entropy_between(y, p))[p]
    text = f"of the logits {value_text(by_logits)}, of the probabilities {value_text(by_probabilities)}"
    return text, torch.allclose(by_logits, p - y) and not torch.allclose(by_probabilities, p - y)


@_settles(17)
def _shape_of_the_gradient(walk: Walk) -> tuple[str, bool]:
    q, k, v = walk.tensor([[1.0, 0.0]]), walk.tensor([[1.0, 1.0], [0.0, 1.0]]), walk.tensor([[1.0], [2.0]])
    out = attention(q, k, v)
    found = walk.back(out, torch.ones_like(out))[v]
    return f"V and its gradient are both {shape_text(found.shape)}", found.shape == v.shape


@_settles(19)
def _the_function(walk: Walk) -> tuple[str, bool]:
    point = walk.given("gd-two-variable").tensor("point")
    found = walk.back(inner_product(point, point))[point]
    text = f"at {value_text(point)} its gradient is {value_text(found)}"
    return text, torch.allclose(found, 2 * point)


@_settles(33)
def _without_residuals(walk: Walk) -> tuple[str, bool]:
    given = walk.given("encoder-block-with-residuals")
    x, M, W1, b1, W2, b2 = given.tensors("X_plus_PE", "M", "W1", "b1", "W2", "b2")
    one, zero, eps = x.new_ones(x.shape[-1]), x.new_zeros(x.shape[-1]), given.get("eps", float)
    h = layer_norm(residual(x, M), one, zero, eps)
    right = layer_norm(residual(h, linear(relu(linear(h, W1, b1)), W2, b2)), one, zero, eps)
    bare = layer_norm(M, one, zero, eps)
    printed = layer_norm(linear(relu(linear(bare, W1, b1)), W2, b2), one, zero, eps)
    apart = float((right - printed).abs().max())
    return f"without the additions the encoder's numbers differ by up to {number(apart)}", apart > DIFFERENT


@_settles(49)
def _columns_or_rows(walk: Walk) -> tuple[str, bool]:
    W, c, w, x = walk.given("xor-sigmoid").tensors("W", "c", "w", "inputs")
    b, wanted = walk.given("xor-sigmoid").tensor("b")[None], torch.tensor([0, 1, 1, 0])

    def classes(matrix: Tensor) -> Tensor:
        hidden = sigmoid(linear(x, matrix, c))
        return sigmoid(linear(hidden, w[:, None], b))[:, 0].round().long()

    as_rows, turned = classes(W), classes(W.T)
    text = f"as xW it gives {value_text(as_rows)}, transposed {value_text(turned)}"
    return text, torch.equal(turned, wanted) and not torch.equal(as_rows, wanted)


@_settles(50)
def _on_the_threshold(walk: Walk) -> tuple[str, bool]:
    given = walk.given("xor-relu")
    W, c, w, x = given.tensors("W", "c", "w", "inputs")
    hidden = relu(linear(x, W, c))
    with_bias, without = (
        relu(linear(hidden, w[:, None], b[None]))[:, 0] for b in (given.tensor("b"), walk.tensor(0.0))
    )
    text = f"outputs {value_text(with_bias)} at a threshold of {number(given.get('threshold', float))}; "
    at_the_edge = bool((with_bias == given.get("threshold", float)).any())
    return f"{text}without the bias {value_text(without)}", at_the_edge and without.tolist() == [0, 1, 1, 0]


@_settles(53)
def _padding_in_gpt(walk: Walk) -> tuple[str, bool]:
    model = GPT(GPTConfig(vocab=10, context=8, dim=4, layers=1, heads=2)).double()
    model.init_weights(torch.Generator().manual_seed(0))
    ids = token_ids("you are welcome", "thanks")
    with torch.no_grad():
        together, alone = model(ids, ids != 0), model(ids[1:, :1])
    padding = int((ids == 0).sum())
    text = f"two prompts in one batch need {padding} padding tokens, and masked they change nothing"
    return text, padding > 0 and torch.allclose(together[1:, :1], alone)


@_settles(57)
def _width_of_values(walk: Walk) -> tuple[str, bool]:
    q, k = walk.tensor([[1.0, 0.0]]), walk.tensor([[1.0, 1.0], [0.0, 1.0]])
    out = attention(q, k, walk.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    return f"keys of width {k.shape[-1]} and values of width {out.shape[-1]} work together", out.shape[-1] != k.shape[
        -1
    ]


@_settles(58)
def _projected_once(walk: Walk) -> tuple[str, bool]:
    X, W, head = walk.given("multihead-fused-equals-per-head").tensors("X", "WQ", "WK")
    twice, once = linear(linear(X, W), head), linear(X, matmul(W, head))
    return "two projections in a row are one, by the product of both", torch.allclose(twice, once)


@_settles(59)
def _around_three_sublayers(walk: Walk) -> tuple[str, bool]:
    names = _decoder_block(walk)
    count = names.count("residual"), names.count("layer_norm")
    return (
        f"a decoder block of the library has {count[0]} residual additions and {count[1]} norms",
        count == THREE_SUBLAYERS,
    )


@_settles(60)
def _head_defined(walk: Walk) -> tuple[str, bool]:
    given = walk.given("multihead-fused-equals-per-head")
    X, *weights = given.tensors("X", "WQ", "WK", "WV")
    count = given.get("h", int)
    q, k, v = (split_heads(linear(X, W), count) for W in weights)
    together = merge_heads(attention(q, k, v))
    parts = zip(*(W.chunk(count, 1) for W in weights), strict=True)
    each = [attention(linear(X, q), linear(X, k), linear(X, v)) for q, k, v in parts]
    return f"{count} heads by that definition give what the fused form gives", torch.allclose(concat(each), together)


@_settles(61)
def _embedding_lookup(walk: Walk) -> tuple[str, bool]:
    table = walk.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    token = torch.tensor([2])
    by_column = matmul(table, one_hot(token, 3, torch.float64).T)
    by_row = embed(table.T.contiguous(), token)
    return f"both give {value_text(by_row[0])}", torch.equal(by_column.T, by_row)


@_settles(62)
def _cost_of_projections(walk: Walk) -> tuple[str, bool]:
    given = walk.given("attention-cost-quadratic")
    length, dim = given.get("n", list[int])[0], given.get("d", int)
    pairs = walk.worked("attention-cost-quadratic").get("multiply_adds", list[int])[0]
    beside = projection_macs(length, dim)
    text = f"for {length} tokens of width {dim}: {pairs:,} multiply-adds between pairs, {beside:,} in projections"
    return text, beside > pairs


def _decoder_block(walk: Walk) -> list[str]:
    """The equations that one decoder block runs."""
    begun = len(walk.tape.steps)
    model = fresh_translator(Seq2SeqConfig(vocab=10, context=8, dim=4, layers=1, heads=2, ffn_dim=8), seed=0)
    with torch.no_grad():
        model(token_ids("you are welcome"), token_ids("<start> de nada"))
    steps = walk.tape.steps[begun:]
    return [each.equation.name for each in steps if each.path.startswith("decoder.blocks.0")]
