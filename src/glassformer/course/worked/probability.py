"""Softmax, cross-entropy, and gradient descent on logits."""

import math

import numpy as np
import torch
from torch import Tensor

from glassformer.course.worked.recomputing import CLAIMS, Answer, Given, recomputes
from glassformer.equation import no_checks
from glassformer.equations.algebra import add, linear, scale
from glassformer.equations.attention import attention_scores
from glassformer.equations.gradients import line
from glassformer.equations.information import cross_entropy_between, entropy, kl_divergence, softmax_jacobian
from glassformer.equations.losses import cross_entropy, perplexity
from glassformer.equations.optimizers import gradient_descent
from glassformer.equations.softmax import log_softmax, softmax
from glassformer.recording import Tape

RIGHT_WORD = 0.7  # what the right word gets in the example whose loss the document gives as 0.357


def _exponentials_over_sum(z: Tensor, peak: Tensor | float) -> Tensor:
    """Softmax as scripts write it, about any peak and with no care for empty rows: shows where that fails."""
    e = (z - peak).exp()
    return e / e.sum(-1, keepdim=True)


def _step(logits: Tensor, y: Tensor, rate: float) -> tuple[Tensor, Tensor]:
    """One step of gradient descent on logits: the new logits, and the gradient."""
    with Tape() as tape:
        cross_entropy(logits, y)
    gradient = tape.reverse()[logits]
    return gradient_descent(logits, gradient, rate), gradient


@recomputes("cross-entropy-90-vs-1-percent")
def _cross_entropy_90_vs_1_percent(given: Given) -> Answer:
    right = given.tensor("p_true")
    q = torch.stack([right, 1 - right], -1)
    loss = cross_entropy_between(torch.tensor([1.0, 0.0], dtype=torch.float64).expand_as(q), q)
    even = math.log(2)  # the loss of not knowing which of two
    return {"loss": loss, CLAIMS: {"loss": bool(loss[0] < even < loss[1])}}


@recomputes("softmax-invariances")
def _softmax_invariances(given: Given) -> Answer:
    z = given.tensor("z")
    shifted = line(z, 1.0, given.get("shift", float))
    return {"base": softmax(z), "shifted": softmax(shifted), "scaled": softmax(scale(z, given.get("scale", float)))}


@recomputes("fully-masked-row")
def _fully_masked_row(given: Given) -> Answer:
    scores = given.tensor("scores")
    finite = softmax(add(scores, torch.full_like(scores, given.get("mask_value", float))))
    infinite = _exponentials_over_sum(torch.full_like(scores, -torch.inf), 0.0)
    return {
        "weights_finite_mask": finite,
        "infinite_mask_is_nan": bool(infinite.isnan().all()),
        CLAIMS: {"claim": not finite.isnan().any()},
    }


@recomputes("unscaled-softmax-saturates")
def _unscaled_softmax_saturates(given: Given) -> Answer:
    keys, queries = given.get("n_keys", int), given.get("n_queries", int)
    unscaled: list[float] = []
    scaled: list[float] = []
    for width in given.get("d_k", list[int]):
        random = np.random.default_rng(given.get("numpy_default_rng_seed", int))
        q = torch.from_numpy(random.standard_normal((queries, width)))
        k = torch.from_numpy(random.standard_normal((keys, width)))
        unscaled.append(softmax(attention_scores(q, k, 1.0)).amax(-1).mean().item())
        scaled.append(softmax(attention_scores(q, k)).amax(-1).mean().item())
    grows = unscaled == sorted(unscaled) and max(scaled) < min(unscaled)
    return {"mean_max_weight_unscaled": unscaled, "mean_max_weight_scaled": scaled, CLAIMS: {"claim": grows}}


@recomputes("softmax-jacobian")
def _softmax_jacobian(given: Given) -> Answer:
    jacobian = softmax_jacobian(given.tensor("p"))
    return {"jacobian": jacobian, "row_sums": jacobian.sum(-1)}


@recomputes("perplexity-example")
def _perplexity_example(given: Given) -> Answer:
    right = given.tensor("token_probabilities")
    logits = torch.stack([right, 1 - right], -1).log()
    tokens = torch.zeros(len(right), dtype=torch.int64)
    uniform = torch.zeros(given.get("uniform_vocabulary", int), dtype=torch.float64)
    return {
        "loss": cross_entropy(logits, tokens, reduction="sum"),
        "perplexity": perplexity(log_softmax(logits)[:, 0]),
        "uniform_perplexity": perplexity(log_softmax(uniform)),
    }


@recomputes("softmax-2-1-02")
def _softmax_2_1_02(given: Given) -> Answer:
    p = softmax(given.tensor("x"))
    return {"softmax": p, "sum": p.sum()}


@recomputes("softmax-global-max-pitfall")
def _softmax_global_max_pitfall(given: Given) -> Answer:
    scores = given.tensor("scores")
    second = _exponentials_over_sum(scores, scores.max())[1]
    return {
        "row_max_softmax": softmax(scores),
        "global_max_second_row_is_nan": bool(second.isnan().all()),
        CLAIMS: {"claim": not second.isnan().any()},
    }


@recomputes("cross-entropy-good")
def _cross_entropy_good(given: Given) -> Answer:
    return {"loss": cross_entropy_between(given.tensor("y"), given.tensor("p"))}


@recomputes("cross-entropy-bad")
def _cross_entropy_bad(given: Given) -> Answer:
    return {"loss": cross_entropy_between(given.tensor("y"), given.tensor("p"))}


@recomputes("gradient-p-minus-y")
def _gradient_p_minus_y(given: Given) -> Answer:
    return {"gradient": _step(given.tensor("p").log(), given.tensor("y"), 0.0)[1]}


@recomputes("logit-update-increments")
def _logit_update_increments(given: Given) -> Answer:
    gradient = given.tensor("gradient")
    return {"delta_Z": gradient_descent(torch.zeros_like(gradient), gradient, given.get("alpha", float))}


@recomputes("probabilities-after-update")
def _probabilities_after_update(given: Given) -> Answer:
    y = given.tensor("y")
    new, _ = _step(given.tensor("p").log(), y, given.get("alpha", float))
    return {"Z_new": new, "p_new": softmax(new), "loss_new": cross_entropy(new, y)}


@recomputes("updated-probabilities-sum-claim")
def _updated_probabilities_sum_claim(given: Given) -> Answer:
    total = given.tensor("p_new_printed").sum()
    return {"sum": total, "sums_to_one": math.isclose(total.item(), 1.0)}


def _descent(start: Tensor, given: Given, iterations: int) -> tuple[Tensor, Tensor]:
    """Logits after the last of the iterations, and the probabilities before it."""
    y = torch.tensor(given.get("true_class", int))
    rate = given.get("learning_rate", float)
    before, (now, _) = start, _step(start, y, rate)
    with no_checks():  # what holds for the first step holds for the thousands after it
        for _ in range(iterations - 1):
            before, (now, _) = now, _step(now, y, rate)
    return now, softmax(before)


@recomputes("softmax-gd-iteration-0")
def _softmax_gd_iteration_0(given: Given) -> Answer:
    weights, probabilities = _descent(given.tensor("weights0"), given, 1)
    return {"weights": weights, "probabilities": probabilities}


@recomputes("softmax-gd-iteration-1990")
def _softmax_gd_iteration_1990(given: Given) -> Answer:
    weights, probabilities = _descent(given.tensor("weights0"), given, given.get("iteration", int) + 1)
    return {"weights": weights, "probabilities": probabilities}


@recomputes("softmax-gd-final")
def _softmax_gd_final(given: Given) -> Answer:
    weights, _ = _descent(given.tensor("weights0"), given, given.get("iterations", int))
    return {"weights": weights, "probabilities": softmax(weights)}


@recomputes("softmax-gd-from-true-logits")
def _softmax_gd_from_true_logits(given: Given) -> Answer:
    first, _ = _descent(given.tensor("p0").log(), given, 1)
    last, _ = _descent(first, given, given.get("iterations", int) - 1)
    return {
        "weights_after_1": first,
        "probabilities_after_1": softmax(first),
        "probabilities_final": softmax(last),
    }


@recomputes("cross-entropy-extra-bits-claim")
def _cross_entropy_extra_bits_claim(given: Given) -> Answer:
    p, q = given.tensors("p", "q")
    bit = math.log(given.get("log_base", int))  # nats
    known = torch.tensor([1.0, 0.0], dtype=torch.float64)
    guess = torch.tensor([RIGHT_WORD, 1 - RIGHT_WORD], dtype=torch.float64)
    return {
        "cross_entropy_bits": cross_entropy_between(p, q) / bit,
        "entropy_bits": entropy(p) / bit,
        "extra_bits": kl_divergence(p, q) / bit,
        "loss_0_357_in_bits": cross_entropy_between(known, guess) / bit,
    }


@recomputes("weight-update-symbol")
def _weight_update_symbol(given: Given) -> Answer:
    h, p, y = given.tensors("h", "p", "y")
    W = torch.outer(h, p.log()) / h.dot(h)  # weights whose logits for h are log p
    with Tape() as tape:
        logits = linear(h, W)
        cross_entropy(logits, y)
    found = tape.reverse()
    same = all(torch.allclose(row, found[logits]) for row in found[W])
    return {"dW": found[W], CLAIMS: {"formula": same}}
