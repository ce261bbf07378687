"""Attention by hand: scores, weights, masks, heads, and the backward pass."""

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.course.worked.comparing import NOISE
from glassformer.course.worked.positions import waves
from glassformer.course.worked.recomputing import (
    CLAIMS,
    Answer,
    Given,
    largest_difference,
    loaded,
    output_of,
    recomputes,
)
from glassformer.equations.activations import gelu
from glassformer.equations.algebra import add, linear
from glassformer.equations.attention import apply_mask, attention, attention_scores, weighted_sum
from glassformer.equations.masks import padding_mask
from glassformer.equations.parameter_counts import attention_macs, attention_parameters
from glassformer.equations.sequences import concat
from glassformer.equations.softmax import softmax
from glassformer.layers.basic import FeedForward, LayerNorm
from glassformer.layers.block import Attention, AttentionShape, Block, Causal
from glassformer.recording import Tape


@dataclass(frozen=True)
class Attended:
    """Attention with its parts, as the tape saw them."""

    scores: Tensor
    weights: Tensor
    output: Tensor


def attended(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False, scale: float | None = None
) -> Attended:
    """Run attention and keep its scores and weights."""
    with Tape() as tape:
        output = attention(q, k, v, mask, causal=causal, scale=scale)
    return Attended(output_of(tape, attention_scores), output_of(tape, softmax), output)


def _queries_keys_values(given: Given) -> Attended:
    q, k, v = given.tensors("Q", "K", "V")
    return attended(q, k, v)


@recomputes("attention-cost-quadratic")
def _attention_cost_quadratic(given: Given) -> Answer:
    counts = [attention_macs(n, n, given.get("d", int)) for n in given.get("n", list[int])]
    ratio = counts[1] / counts[0]
    return {"multiply_adds": counts, "ratio": ratio, CLAIMS: {"claim": ratio == 2**2}}


@recomputes("toy-attention-scores")
def _toy_attention_scores(given: Given) -> Answer:
    return {"QKt": attention_scores(*given.tensors("Q", "K"), scale=1.0)}


@recomputes("toy-attention-weights-output")
def _toy_attention_weights_output(given: Given) -> Answer:
    found = _queries_keys_values(given)
    return {"scaled": found.scores, "weights": found.weights, "output": found.output}


@recomputes("permutation-equivariance")
def _permutation_equivariance(given: Given) -> Answer:
    X, *weights = given.tensors("X", "W_Q", "W_K", "W_V")
    order = given.get("permutation", list[int])

    def mixed(rows: Tensor) -> Tensor:
        q, k, v = (linear(rows, W) for W in weights)
        return attention(q, k, v)

    encoding = waves(*X.shape)
    without = largest_difference(mixed(X[order]), mixed(X)[order])
    with_encoding = largest_difference(mixed(add(X[order], encoding)), mixed(add(X, encoding))[order])
    return {
        "max_difference_without_pe": without,
        "max_difference_with_pe": with_encoding,
        "output_without_pe": mixed(X),
        CLAIMS: {"claim": without < NOISE < with_encoding},
    }


@recomputes("attention-average-30-50-20")
def _attention_average_30_50_20(given: Given) -> Answer:
    weights = given.tensor("weights")[None]
    return {"sum": weighted_sum(weights, torch.ones(weights.shape[-1], 1, dtype=weights.dtype))[0, 0]}


@recomputes("causal-mask-tiny")
def _causal_mask_tiny(given: Given) -> Answer:
    q, k, v = given.tensors("Q", "K", "V")
    found = attended(q, k, v, mask=given.tensor("allowed"))
    return {"weights": found.weights, "output": found.output}


@recomputes("padding-mask-weights")
def _padding_mask_weights(given: Given) -> Answer:
    scores, attended = given.tensors("scores", "keep")
    mask = padding_mask(attended[None], dtype=torch.float64)[0, 0]
    weights = softmax(apply_mask(scores[None], mask))[0]
    return {"weights": weights, CLAIMS: {"claim": bool((weights[~attended] == 0).all())}}


@recomputes("tiny-attention-raw-scores")
def _tiny_attention_raw_scores(given: Given) -> Answer:
    return {"QKt": attention_scores(*given.tensors("Q", "K"), scale=1.0)}


@recomputes("tiny-attention-scaled-scores")
def _tiny_attention_scaled_scores(given: Given) -> Answer:
    one = torch.zeros(1, given.get("d_k", int), dtype=torch.float64)
    one[0, 0] = 1.0  # a query and a key with the inner product one
    return {"inv_sqrt_dk": attention_scores(one, one)[0, 0], "S": _queries_keys_values(given).scores}


@recomputes("tiny-attention-exponentials")
def _tiny_attention_exponentials(given: Given) -> Answer:
    first, second = _queries_keys_values(given).scores.exp()
    return {"exp_row1": first, "sum_row1": first.sum(), "exp_row2": second, "sum_row2": second.sum()}


@recomputes("tiny-attention-weights")
def _tiny_attention_weights(given: Given) -> Answer:
    return {"A": _queries_keys_values(given).weights}


@recomputes("tiny-attention-output")
def _tiny_attention_output(given: Given) -> Answer:
    return {"O": _queries_keys_values(given).output}


@recomputes("tiny-attention-dV")
def _tiny_attention_dv(given: Given) -> Answer:
    Q, K, V = given.tensors("Q", "K", "V")
    with Tape() as tape:
        attention(Q, K, V)
    return {"dV": tape.reverse(given.tensor("G_O"))[V]}


@recomputes("tiny-attention-dQ-dK")
def _tiny_attention_dq_dk(given: Given) -> Answer:
    Q, K, V = given.tensors("Q", "K", "V")
    with Tape() as tape:
        scores = attention_scores(Q, K)
        weights = softmax(scores)
        weighted_sum(weights, V)
    found = tape.reverse(given.tensor("G_O"))
    return {"dP": found[weights], "dS": found[scores], "dQ": found[Q], "dK": found[K]}


@recomputes("multihead-split-512-8")
def _multihead_split_512_8(given: Given) -> Answer:
    shape = AttentionShape.of(dim=given.get("d_model", int), heads=given.get("h", int), bias=False)
    total = attention_parameters(shape.dim, shape.heads)
    with torch.device("meta"):
        layer = Attention(shape)
    projections = sum(part.weight.numel() for part in (layer.query, layer.key, layer.value))
    output = layer.output.weight.numel()
    return {
        "d_k": shape.head_dim,
        "per_head": projections // shape.heads,
        "qkv_total": projections,
        "output_projection": output,
        "total": total,
        CLAIMS: {"formula": projections == 3 * shape.dim**2 and total == projections + output == 4 * shape.dim**2},
    }


@recomputes("multihead-fused-equals-per-head")
def _multihead_fused_equals_per_head(given: Given) -> Answer:
    X, W_Q, W_K, W_V, W_O = given.tensors("X", "WQ", "WK", "WV", "WO")
    heads, dim = given.get("h", int), X.shape[-1]
    weights = {"query.weight": W_Q, "key.weight": W_K, "value.weight": W_V, "output.weight": W_O}
    fused = loaded(Attention(AttentionShape.of(dim=dim, heads=heads, bias=False)), weights)(X)
    columns = [slice(i * dim // heads, (i + 1) * dim // heads) for i in range(heads)]
    apart = [attention(linear(X, W_Q[:, i]), linear(X, W_K[:, i]), linear(X, W_V[:, i])) for i in columns]
    difference = largest_difference(fused, linear(concat(apart), W_O))
    return {"output": fused, "max_difference": difference, CLAIMS: {"claim": difference < NOISE}}


@recomputes("pre-ln-block-vector")
def _pre_ln_block_vector(given: Given) -> Answer:
    x, eps = given.tensor("x"), given.get("eps", float)
    names = ("attention.query", "attention.key", "attention.value", "attention.output", "feed_forward.up")
    inputs = ("WQ", "WK", "WV", "WO", "W1")
    weights = {f"{name}.weight": given.tensor(key) for name, key in zip(names, inputs, strict=True)}
    weights["feed_forward.down.weight"] = given.tensor("W2")
    hidden, dim = given.tensor("W2").shape
    for norm in ("attention_norm", "feed_forward_norm"):
        weights[f"{norm}.weight"] = given.tensor("gamma").expand(dim)
        weights[f"{norm}.bias"] = given.tensor("beta").expand(dim)
    answer: Answer = {}
    for ending, pattern in (("", None), ("_causal", Causal())):
        block = Block(
            Attention(AttentionShape.of(dim=dim, heads=given.get("heads", int), bias=False), pattern),
            FeedForward(dim, hidden, gelu, bias=False),
            norm=lambda: LayerNorm(dim, eps),
        )
        loaded(block, weights)
        halfway = block.attention_residual(x, block.attention(block.attention_norm(x)))
        answer |= {f"h2{ending}": halfway, f"y{ending}": block(x)}
    return answer


@recomputes("qkv-same-dimension-claim")
def _qkv_same_dimension_claim(given: Given) -> Answer:
    n, d_k, d_v = (given.get(name, int) for name in ("n", "d_k", "d_v"))
    rows = torch.zeros(n, d_k, dtype=torch.float64)
    output = attention(rows, rows, torch.zeros(n, d_v, dtype=torch.float64))
    return {"output_shape": output.shape, "v_width_must_equal_k_width": output.shape[-1] != d_v}
