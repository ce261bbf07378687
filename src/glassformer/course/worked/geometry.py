"""Distances, angles, and the numbers of the norms."""

import math

import torch
from torch import Tensor

from glassformer.course.worked.recomputing import CLAIMS, Answer, Given, recomputes
from glassformer.equations.algebra import linear, residual
from glassformer.equations.attention import attention_scores
from glassformer.equations.losses import mean_squared_error
from glassformer.equations.normalization import layer_norm, rms_norm
from glassformer.equations.sequences import mean_pool
from glassformer.equations.similarity import (
    cosine_similarity,
    euclidean_distance,
    inner_product,
    l2_norm,
    nearest,
    random_cosine_rms,
    score_variance,
)
from glassformer.equations.softmax import softmax


def mean_and_variance(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Of each row its mean, and its mean squared distance from that mean."""
    means = mean_pool(rows[..., None])
    return means[..., 0], torch.stack(
        [mean_squared_error(row[:, None], mean.expand(len(row), 1)) for row, mean in zip(rows, means, strict=True)]
    )


def normalized(x: Tensor, eps: float) -> Tensor:
    """Layer norm before anything is learned: scale one, bias zero."""
    one = torch.ones(x.shape[-1], dtype=x.dtype)
    return layer_norm(x, one, torch.zeros_like(one), eps)


@recomputes("random-vectors-orthogonal")
def _random_vectors_orthogonal(given: Given) -> Answer:
    cosines = [random_cosine_rms(dim) for dim in given.get("d", list[int])]
    near = cosines == sorted(cosines, reverse=True) and cosines[-1] < math.cos(math.radians(89))
    return {"rms_cosine": cosines, CLAIMS: {"claim": near}}


@recomputes("cosine-euclid-equivalence")
def _cosine_euclid_equivalence(given: Given) -> Answer:
    u, candidates = given.tensors("u", "candidates")
    cosine, squared = cosine_similarity(u, candidates), euclidean_distance(u, candidates).square()
    same = torch.equal(cosine.argsort(descending=True), squared.argsort())
    return {"cosine": cosine, "euclid_squared": squared, "same_ranking": same, CLAIMS: {"claim": not same}}


@recomputes("cosine-similarity-dot-and-norms")
def _cosine_similarity_dot_and_norms(given: Given) -> Answer:
    cat, dog = given.tensors("cat", "dog")
    return {
        "dot": inner_product(cat, dog),
        "norm_cat": l2_norm(cat),
        "norm_dog": l2_norm(dog),
        "norm_cat_squared": inner_product(cat, cat),
        "norm_dog_squared": inner_product(dog, dog),
    }


@recomputes("cosine-similarity-cat-dog")
def _cosine_similarity_cat_dog(given: Given) -> Answer:
    cat, dog = given.tensors("cat", "dog")
    return {"norm_product": l2_norm(cat) * l2_norm(dog), "cosine": cosine_similarity(cat, dog)}


@recomputes("euclidean-distance-cat-dog")
def _euclidean_distance_cat_dog(given: Given) -> Answer:
    distance = euclidean_distance(given.tensor("cat"), given.tensor("dog"))
    return {"squared": distance.square(), "distance": distance}


@recomputes("cosine-one-is-not-identity")
def _cosine_one_is_not_identity(given: Given) -> Answer:
    u, v = given.tensors("u", "v")
    return {"cosine": cosine_similarity(u, v), "vectors_identical": torch.equal(u, v)}


@recomputes("mips-versus-attention")
def _mips_versus_attention(given: Given) -> Answer:
    q, keys = given.tensors("q", "keys")
    best, _ = nearest(q, keys)
    weights = [softmax(attention_scores(q[None], keys, 1 / tau))[0] for tau in given.get("tau", list[float])]
    hard = torch.zeros_like(weights[0]).index_fill(0, best, 1.0)
    return {
        "inner_products": inner_product(q, keys),
        "argmax": best[0],
        "attention": weights,
        "attention_is_argmax": all(torch.allclose(row, hard) for row in weights),
    }


@recomputes("qk-variance-zero-mean")
def _qk_variance_zero_mean(given: Given) -> Answer:
    sizes = list(zip(given.get("d_k", list[int]), given.get("sigma", list[float]), strict=True))
    variance = [score_variance(width, sigma) for width, sigma in sizes]
    printed = [width * sigma**4 for width, sigma in sizes]
    return {
        "variance": variance,
        "scaled_variance": [v / width for v, (width, _) in zip(variance, sizes, strict=True)],
        CLAIMS: {"formula": all(map(math.isclose, variance, printed))},
    }


@recomputes("qk-variance-nonzero-mean")
def _qk_variance_nonzero_mean(given: Given) -> Answer:
    width, sigma = given.get("d_k", int), given.get("sigma", float)
    return {
        "variance": score_variance(width, sigma, given.get("mu", float)),
        "sigma_squared_is_the_variance": sigma**2,
    }


@recomputes("layernorm-properties")
def _layernorm_properties(given: Given) -> Answer:
    x, eps = given.tensor("x"), given.get("eps", float)
    gamma, beta = (given.tensor(name).expand_as(x).clone() for name in ("gamma", "beta"))
    y = layer_norm(x, gamma, beta, eps)
    (mean, y_mean), (variance, y_variance) = mean_and_variance(torch.stack([x, y]))
    unit = abs(y_mean.item()) < eps and abs(y_variance.item() - 1) < eps
    values = {"mu": mean, "var": variance, "y": y, "y_mean": y_mean, "y_var": y_variance}
    return {**values, CLAIMS: {"claim": unit}}


@recomputes("rmsnorm-example")
def _rmsnorm_example(given: Given) -> Answer:
    x, centered = given.tensors("x", "x_centred")
    gamma, eps = given.tensor("gamma").expand_as(x).clone(), given.get("eps", float)
    return {
        "rmsnorm_x": rms_norm(x, gamma, eps),
        "rmsnorm_centred": rms_norm(centered, gamma, eps),
        "layernorm_centred": normalized(centered, eps),
    }


@recomputes("pre-ln-post-ln")
def _pre_ln_post_ln(given: Given) -> Answer:
    h, F = given.tensors("h", "F_matrix")
    eps = given.get("eps", float)
    return {
        "pre_ln": residual(h, linear(normalized(h, eps), F)),
        "post_ln": normalized(residual(h, linear(h, F)), eps),
    }


@recomputes("layernorm-M")
def _layernorm_m(given: Given) -> Answer:
    M = given.tensor("M")
    mean, variance = mean_and_variance(M)
    gamma, beta = (given.tensor(name).expand(M.shape[-1]).clone() for name in ("gamma", "beta"))
    return {"mean": mean, "variance": variance, "LN": layer_norm(M, gamma, beta, given.get("eps", float))}


@recomputes("layernorm-M-moments")
def _layernorm_m_moments(given: Given) -> Answer:
    y = normalized(given.tensor("M"), given.get("eps", float))
    means, variances = mean_and_variance(y)
    largest = y.abs().max()
    as_claimed = means.abs().max() < 1e-6 and (variances - 1).abs().max() < 1e-5 and largest > 1  # noqa: PLR2004
    return {
        "row_means": means,
        "row_stds": variances.sqrt(),
        "max_abs": largest,
        CLAIMS: {"claim": bool(as_claimed)},
    }


@recomputes("layernorm-two-features")
def _layernorm_two_features(given: Given) -> Answer:
    rows = given.tensor("rows")
    y = normalized(rows, given.get("eps", float))
    signs = (rows - rows.flip(-1)).sign()
    return {"LN": y, CLAIMS: {"claim": not torch.allclose(y, signs, atol=1e-4)}}


@recomputes("layernorm-ffn")
def _layernorm_ffn(given: Given) -> Answer:
    return {"LN": normalized(given.tensor("x"), given.get("eps", float))}


@recomputes("layernorm-ffn-explanation")
def _layernorm_ffn_explanation(given: Given) -> Answer:
    x = given.tensor("x")
    ratios = x[:, 1:] / x[:, :-1]
    progression = torch.arange(x.shape[-1], dtype=x.dtype)
    factor = torch.full_like(ratios, given.fact("factor", float))
    return {
        "row_differences": x.diff(),
        "consecutive_ratios": ratios,
        "limit": normalized(progression, 0.0),
        "columns_are_scalar_multiples": torch.allclose(ratios, ratios[:1].expand_as(ratios)),
        CLAIMS: {"factor": torch.allclose(ratios, factor)},
    }
