"""Positional encodings: sinusoids, rotations and biases."""

import torch
from torch import Tensor

from glassformer.course.worked.comparing import NOISE
from glassformer.course.worked.recomputing import CLAIMS, Answer, Given, largest_difference, recomputes
from glassformer.equations.algebra import add, linear
from glassformer.equations.attention import apply_mask
from glassformer.equations.masks import aligned_positions, causal_mask, relative_positions
from glassformer.equations.position_biases import alibi_bias, alibi_slopes
from glassformer.equations.positions import shift_matrix, sinusoidal_positions
from glassformer.equations.rotary import rotary, rotary_frequencies
from glassformer.equations.rotary_scaling import (
    base_scaled_frequencies,
    linear_scaled_frequencies,
    ntk_scaled_frequencies,
)
from glassformer.equations.similarity import euclidean_distance, inner_product, l2_norm
from glassformer.equations.softmax import softmax

BASE = 10000.0


def waves(length: int, dim: int, base: float = BASE) -> Tensor:
    """Sinusoidal encodings of the first positions, in float64."""
    return sinusoidal_positions(length, dim, base, dtype=torch.float64)


def _frequencies(dim: int) -> Tensor:
    return rotary_frequencies(dim, BASE, dtype=torch.float64)


@recomputes("sinusoidal-dot-product")
def _sinusoidal_dot_product(given: Given) -> Answer:
    dim, pairs = given.get("d_model", int), given.get("pairs", list[tuple[int, int]])
    rows = waves(1 + max(map(max, pairs)), dim)
    dots = torch.stack([inner_product(rows[p], rows[q]) for p, q in pairs])
    p, q = pairs[0]
    return {
        "dot": dots,
        "closed_form": (_frequencies(dim) * (p - q)).cos().sum(),
        CLAIMS: {"claim": torch.allclose(dots, dots[:1].expand_as(dots))},
    }


@recomputes("sinusoidal-linear-shift")
def _sinusoidal_linear_shift(given: Given) -> Answer:
    dim, k, p = (given.get(name, int) for name in ("d_model", "k", "p"))
    M, rows = shift_matrix(k, dim, BASE, dtype=torch.float64), waves(p + k + 1, dim)
    difference = largest_difference(linear(rows[p], M), rows[p + k])
    values = {"M_k": M, "PE_p": rows[p], "PE_p_plus_k": rows[p + k], "max_difference": difference}
    return {**values, CLAIMS: {"claim": difference < NOISE}}


@recomputes("rope-relative-property")
def _rope_relative_property(given: Given) -> Answer:
    q, k, theta = given.tensors("q", "k", "theta")

    def rotated(x: Tensor, position: int) -> Tensor:
        return rotary(x[None], torch.tensor([position]), frequencies=theta)[0]

    def score(m: int, n: int) -> Tensor:
        return inner_product(rotated(q, m), rotated(k, n))

    scores = torch.stack([score(m, n) for m, n in given.get("position_pairs", list[tuple[int, int]])])
    q_at_5, before = rotated(q, 5), l2_norm(q)
    after = l2_norm(q_at_5)
    as_claimed = torch.allclose(scores, scores[:1].expand_as(scores)) and torch.allclose(before, after)
    return {
        **{"scores": scores, "score_other_offset_5_4": score(5, 4), "norm_before": before, "norm_after": after},
        **{"q_at_5": q_at_5, "k_at_3": rotated(k, 3), CLAIMS: {"claim": as_claimed}},
    }


@recomputes("rope-frequency-dimension")
def _rope_frequency_dimension(given: Given) -> Answer:
    return {"theta": _frequencies(given.get("d_head", int))}


@recomputes("alibi-bias-matrix")
def _alibi_bias_matrix(given: Given) -> Answer:
    n, heads = given.get("n", int), 8  # enough heads for the slope asked for to be among theirs
    head = alibi_slopes(heads, dtype=torch.float64).tolist().index(given.get("m", float))
    bias = alibi_bias(relative_positions(*aligned_positions(n, n)), heads, dtype=torch.float64)[head]
    scores = add(torch.zeros(n, n, dtype=torch.float64), bias)
    steps = bias[0].diff()
    return {
        "bias": bias,
        "causal_weights_zero_scores": softmax(apply_mask(scores, causal_mask(n, dtype=torch.float64))),
        "bias_step_per_position": steps[0],
        CLAIMS: {"claim": torch.equal(steps, steps[:1].expand_as(steps))},
    }


@recomputes("alibi-slopes")
def _alibi_slopes(given: Given) -> Answer:
    return {"slopes": alibi_slopes(given.get("h", int), dtype=torch.float64)}


@recomputes("rope-base-scaling")
def _rope_base_scaling(given: Given) -> Answer:
    dim, alpha, factor = given.get("d", int), given.get("alpha", float), given.get("s", float)
    original, scaled = _frequencies(dim), base_scaled_frequencies(dim, BASE, alpha, dtype=torch.float64)
    printed = rotary_frequencies(dim, alpha, dtype=torch.float64) * original
    return {
        "theta_original": original,
        "theta_base_scaled": scaled,
        "theta_position_interpolation": linear_scaled_frequencies(original, factor),
        "theta_ntk_aware": ntk_scaled_frequencies(dim, BASE, factor, dtype=torch.float64),
        CLAIMS: {"formula": torch.allclose(scaled, printed)},
    }


@recomputes("rope-scaling-names")
def _rope_scaling_names(given: Given) -> Answer:
    dim, factor = given.get("d", int), given.get("s", float)
    original, larger = _frequencies(dim), base_scaled_frequencies(dim, BASE, factor, dtype=torch.float64)
    ntk = ntk_scaled_frequencies(dim, BASE, factor, dtype=torch.float64)
    # A change of base leaves a geometric series whose first member is one; an interpolation divides that one too.
    steps = ntk[1:] / ntk[:-1]
    series = torch.allclose(steps, steps[:1].expand_as(steps))
    return {
        "larger_base_raises_frequencies": bool((larger > original).any()),
        "ntk_aware_changes_base": series and bool(ntk[0] == original[0]) and not torch.allclose(ntk, original),
        "ntk_last_over_original_last": ntk[-1] / original[-1],
        "ntk_first_over_original_first": ntk[0] / original[0],
    }


@recomputes("positional-encoding-d4-pos0")
def _positional_encoding_d4_pos0(given: Given) -> Answer:
    position = given.get("pos", int)
    return {"PE": waves(position + 1, given.get("d_model", int))[position]}


@recomputes("positional-encoding-d4")
def _positional_encoding_d4(given: Given) -> Answer:
    positions = given.get("positions", list[int])
    return {"PE": waves(max(positions) + 1, given.get("d_model", int))[positions]}


def wave(length: int, exponent: float, column: int) -> Tensor:
    """One column of waves, sine or cosine by its index, with any exponent of 10000 under the position.

    In four dimensions the second pair of columns has the exponent one half, so another base gives it any other.
    """
    return waves(length, 4, BASE ** (2 * exponent))[:, 2 + column % 2]


@recomputes("positional-encoding-d4-expressions")
def _positional_encoding_d4_expressions(given: Given) -> Answer:
    length = 1 + max(given.get("positions", list[int]))
    expressions = torch.stack([wave(length, exponent, j) for j, exponent in enumerate((0.0, 0.5, 2.0, 2.5))], -1)
    return {
        "third_column_correct": waves(length, 4)[:, 2],
        "third_column_of_printed_expression": expressions[:, 2],
        "matrix_of_printed_expressions": expressions,
    }


@recomputes("pe-even-odd-wording")
def _pe_even_odd_wording(given: Given) -> Answer:
    # Where all sines are zero and all cosines are one, the pattern shows by itself.
    first = waves(1, 4)[0]
    alternates = torch.equal(first, torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=torch.float64))
    return {"selected_by": "embedding dimension index" if alternates else "position"}


@recomputes("pe-uniqueness")
def _pe_uniqueness(given: Given) -> Answer:
    rows = waves(given.get("n", int), given.get("d_model", int))
    pairs = torch.triu_indices(len(rows), len(rows), 1)
    smallest = euclidean_distance(rows[pairs[0]], rows[pairs[1]]).min()
    return {"min_distance": smallest, "all_distinct": bool(smallest > 0)}


@recomputes("x-plus-pe")
def _x_plus_pe(given: Given) -> Answer:
    return {"sum": add(given.tensor("X"), given.tensor("PE"))}


@recomputes("y-plus-pe")
def _y_plus_pe(given: Given) -> Answer:
    return {"sum": add(given.tensor("Y"), given.tensor("PE"))}


@recomputes("x-plus-pe-corrected")
def _x_plus_pe_corrected(given: Given) -> Answer:
    X = given.tensor("X")
    return {"sum": add(X, waves(*X.shape))}


@recomputes("y-plus-pe-corrected")
def _y_plus_pe_corrected(given: Given) -> Answer:
    Y = given.tensor("Y")
    return {"sum": add(Y, waves(*Y.shape))}
