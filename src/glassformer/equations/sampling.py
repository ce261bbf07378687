"""From scores to the next token: sharpen, cut off, penalise, and draw."""

import math
from numbers import Real

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.arithmetic import factor, number
from glassformer.equation import equation
from glassformer.equations.probability import require_distribution, require_scores, softmax
from glassformer.equations.ranges import Require, not_negative, positive, whole

_FILL = "score of what is cut off, −∞ or a number far below all others"


def _require_share(require: Require, p: float) -> None:
    require(isinstance(p, Real) and 0 < p <= 1, "p", repr(p), "a share above 0 and up to 1")


@equation(
    r"y = \frac{z}{\tau}",
    meaning="Scores are pulled apart when the temperature is below one, together when above.",
    intuition="Cold water freezes into one shape, hot water tries them all.",
    symbols={"z": "scores", "tau": "temperature, τ", "y": "tempered scores"},
    flops=lambda rows, vocab: rows * vocab,
    upcast=True,
)
def temperature(z: Float[Tensor, "*rows vocab"], tau: float) -> Float[Tensor, "*rows vocab"]:
    """Divide scores by a temperature; towards zero, sampling becomes the greedy choice."""
    return z / tau


@temperature.def_gradient(r"\bar z = \frac{\bar y}{\tau}")
def _temperature_gradient(y_bar: Tensor, tau: float) -> Tensor:
    return y_bar / tau


@temperature.def_cell
def _temperature_cell(index: tuple[int, ...], z: Tensor, tau: float) -> str:
    return f"{number(z[index])} / {number(tau)}"


@temperature.def_check
def _temperature_check(z: Tensor, tau: float) -> None:
    require_scores(temperature.require, "z", z)
    positive(temperature.require, tau=tau)


@equation(
    r"y_i = z_i \text{ if } z_i \text{ is among the } k \text{ largest, else } -\infty",
    meaning="Only the k best scores stay in play.",
    intuition="A final with k places: however close the others came, they watch.",
    symbols={"z": "scores", "k": "how many to keep", "fill": _FILL, "y": "scores of those kept"},
    flops=lambda: 0,
    upcast=True,
)
def top_k(z: Float[Tensor, "*rows vocab"], k: int, fill: float = -math.inf) -> Float[Tensor, "*rows vocab"]:
    """Keep the k largest scores (Fan et al., 2018); among equal ones, those that come first."""
    least = z.topk(k).values[..., -1:]
    above, level = z > least, z == least
    places = k - above.sum(-1, keepdim=True)
    return z.masked_fill(~(above | (level & (level.cumsum(-1) <= places))), fill)


@top_k.def_gradient(r"\bar z_i = \bar y_i \text{ if } i \text{ is kept, else } 0")
def _top_k_gradient(y_bar: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return y_bar.masked_fill(y != z, 0)


@top_k.def_check
def _top_k_check(z: Tensor, k: int) -> None:
    require_scores(top_k.require, "z", z)
    whole(top_k.require, k=k)
    top_k.require(k <= z.shape[-1], "k", k, f"from 1 to {z.shape[-1]}, the size of the vocabulary")


@equation(
    r"y_i = z_i \text{ if } i \in S, \text{ else } -\infty, \quad "
    r"S \text{ smallest with } \sum_{i \in S} \operatorname{softmax}(z)_i \ge p",
    meaning="Only the fewest choices that hold a share p of the probability stay in play.",
    intuition="Count votes from the top until a majority of p is reached; the rest go home.",
    symbols={"z": "scores", "p": "share to hold", "fill": _FILL, "y": "scores of those kept"},
    flops=lambda rows, vocab: 6 * rows * vocab + 2 * rows,
    upcast=True,
)
def top_p(z: Float[Tensor, "*rows vocab"], p: float, fill: float = -math.inf) -> Float[Tensor, "*rows vocab"]:
    """Nucleus sampling's cut (Holtzman et al., 2020); the best choice always stays, and the first of equals."""
    best, order = z.sort(dim=-1, descending=True, stable=True)
    rest = (
        softmax.fn(best).flip(-1).cumsum(-1).flip(-1)
    )  # what each choice and all below it hold, summed from the smallest
    kept = (rest > 1 - p) | (torch.arange(z.shape[-1], device=z.device) == 0)
    return z.masked_fill(~kept.scatter(-1, order, kept), fill)


@top_p.def_gradient(r"\bar z_i = \bar y_i \text{ if } i \text{ is kept, else } 0")
def _top_p_gradient(y_bar: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return y_bar.masked_fill(y != z, 0)


@top_p.def_check
def _top_p_check(z: Tensor, p: float) -> None:
    require_scores(top_p.require, "z", z)
    _require_share(top_p.require, p)


@equation(
    r"y_i = z_i \text{ if } z_i \ge \max z + \log p, \text{ else } -\infty",
    meaning="Only choices at least p times as likely as the best one stay in play.",
    intuition="A bar that the winner sets: on a clear day it is high, in doubt it is low.",
    symbols={"z": "scores", "p": "share of the best choice's probability", "fill": _FILL, "y": "scores of those kept"},
    flops=lambda rows, vocab: rows * vocab + rows,
    upcast=True,
)
def min_p(z: Float[Tensor, "*rows vocab"], p: float, fill: float = -math.inf) -> Float[Tensor, "*rows vocab"]:
    """Cut off what is unlikely beside the best choice (Nguyen et al., 2024); no softmax is needed for it."""
    return z.masked_fill(z < z.amax(-1, keepdim=True) + math.log(p), fill)


@min_p.def_gradient(r"\bar z_i = \bar y_i \text{ if } i \text{ is kept, else } 0")
def _min_p_gradient(y_bar: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return y_bar.masked_fill(y != z, 0)


@min_p.def_check
def _min_p_check(z: Tensor, p: float) -> None:
    require_scores(min_p.require, "z", z)
    _require_share(min_p.require, p)


@equation(
    r"y_i = \begin{cases} z_i / \theta & z_i \ge 0 \\ z_i \theta & z_i < 0 \end{cases}"
    r"\text{ for } i \text{ seen, else } z_i",
    meaning="What was said already becomes less likely to be said again.",
    intuition="A speaker who hears each used word a little fainter the next time it offers itself.",
    symbols={
        "z": "scores",
        "ids": "tokens seen so far",
        "penalty": "how much fainter, θ; one changes nothing",
        "y": "penalised scores",
    },
    flops=lambda rows, vocab: 2 * rows * vocab,
    upcast=True,
)
def repetition_penalty(
    z: Float[Tensor, "*rows vocab"], ids: Int[Tensor, "*rows seen"], penalty: float
) -> Float[Tensor, "*rows vocab"]:
    """Penalise tokens seen before (CTRL: Keskar et al., 2019), each once, however often it was seen."""
    return torch.where(_seen(z, ids), torch.where(z < 0, z * penalty, z / penalty), z)


@repetition_penalty.def_gradient(
    r"\bar z_i = \bar y_i / \theta \text{ or } \bar y_i \theta \text{ for } i \text{ seen, else } \bar y_i"
)
def _repetition_penalty_gradient(y_bar: Tensor, z: Tensor, ids: Tensor, penalty: float) -> Tensor:
    return torch.where(_seen(z, ids), torch.where(z < 0, y_bar * penalty, y_bar / penalty), y_bar)


@repetition_penalty.def_cell
def _repetition_penalty_cell(index: tuple[int, ...], z: Tensor, ids: Tensor, penalty: float) -> str:
    score = number(z[index])
    if not _seen(z, ids)[index]:
        return score
    return f"{score}·{factor(penalty)}" if z[index] < 0 else f"{score} / {number(penalty)}"


@repetition_penalty.def_check
def _repetition_penalty_check(z: Tensor, ids: Tensor, penalty: float) -> None:
    require_scores(repetition_penalty.require, "z", z)
    wrong = (ids < 0) | (ids >= z.shape[-1])
    got, wanted = f"{ids[wrong].tolist()[:3]} in places", f"ids from 0 to {z.shape[-1] - 1}"
    repetition_penalty.require(not wrong.any(), "ids", got, wanted)
    positive(repetition_penalty.require, penalty=penalty)


@equation(
    r"i \sim p",
    meaning="One choice is drawn from each distribution, each as often as its share says.",
    intuition="Spin a wheel of fortune whose fields are as wide as the shares.",
    symbols={
        "p": "shares",
        "generator": "source of the random numbers; torch's own when none is given",
        "ids": "the choices drawn",
    },
    upcast=True,
)
def sample(p: Float[Tensor, "*rows vocab"], generator: torch.Generator | None = None) -> Int[Tensor, "*rows"]:
    """Draw one id from each row of probabilities."""
    return torch.multinomial(p.reshape(-1, p.shape[-1]), 1, generator=generator).reshape(p.shape[:-1])


@sample.def_check
def _sample_check(p: Tensor) -> None:
    require_distribution(sample.require, "p", p)


@equation(
    r"i = \arg\max_j z_j",
    meaning="The best choice, every time.",
    intuition="A traveller who takes the widest road at each fork, and never looks further.",
    symbols={"z": "scores", "ids": "the best choice of each row"},
)
def greedy(z: Float[Tensor, "*rows vocab"]) -> Int[Tensor, "*rows"]:
    """The id of the largest score in each row; among equal ones, the first."""
    return z.argmax(-1)


@greedy.def_check
def _greedy_check(z: Tensor) -> None:
    require_scores(greedy.require, "z", z)


@equation(
    r"lp = \left(\frac{5 + n}{6}\right)^\alpha",
    meaning="What a hypothesis's log-probability is divided by, so that short ones do not win by being short.",
    intuition="A handicap in golf: longer courses are allowed more strokes.",
    symbols={"length": "number of tokens, n", "alpha": "strength, α; zero changes nothing", "penalty": "divisor, lp"},
    where={"length": not_negative},
)
def length_penalty(length: int, alpha: float) -> float:
    """Length normalisation of beam search (Wu et al., 2016)."""
    return ((5 + length) / 6) ** alpha


@length_penalty.def_cell
def _length_penalty_cell(index: tuple[int, ...], length: int, alpha: float) -> str:
    return f"((5 + {number(length)}) / 6)^{factor(alpha)}"


@equation(
    r"y_i = -\infty \text{ for } i \text{ forbidden, else } z_i",
    meaning="Some choices are taken out of play, whatever their score.",
    intuition="A referee who calls the game off-limits for a few players.",
    symbols={"z": "scores", "ids": "the choices to take out", "fill": _FILL, "y": "scores of the others"},
    flops=lambda: 0,
)
def suppress_tokens(
    z: Float[Tensor, "*rows vocab"], ids: Int[Tensor, " some"], fill: float = -math.inf
) -> Float[Tensor, "*rows vocab"]:
    """Take some ids out of play in every row: an end token, say, before a text is long enough."""
    return z.masked_fill(_among(z, ids), fill)


@suppress_tokens.def_gradient(r"\bar z_i = \bar y_i \text{ unless } i \text{ is forbidden}")
def _suppress_tokens_gradient(y_bar: Tensor, z: Tensor, ids: Tensor) -> Tensor:
    return y_bar.masked_fill(_among(z, ids), 0)


@suppress_tokens.def_check
def _suppress_tokens_check(z: Tensor, ids: Tensor) -> None:
    require_scores(suppress_tokens.require, "z", z)
    inside = not ids.numel() or (int(ids.min()) >= 0 and int(ids.max()) < z.shape[-1])
    suppress_tokens.require(inside, "ids", f"{ids.tolist()[:3]}", f"ids from 0 to {z.shape[-1] - 1}")


@equation(
    r"i = \min \left\{ i : \textstyle\sum_{j \le i} p_j > u \right\}",
    meaning="A number between zero and one decides: the choice whose stretch of the line it falls on.",
    intuition="A ruler cut into stretches as long as the shares, and a pin dropped on it.",
    symbols={"p": "shares", "u": "where the pin falls, from 0 up to but not 1", "ids": "the choices it falls on"},
    flops=lambda rows, vocab: rows * vocab + rows,
)
def sample_from_uniform(p: Float[Tensor, "*rows vocab"], u: Float[Tensor, "*rows"]) -> Int[Tensor, "*rows"]:
    """Choose by given random numbers, so that a row's choice depends on nothing but its own number."""
    c = p.double().cumsum(-1)
    return (c <= u.double()[..., None] * c[..., -1:]).sum(-1).clamp_max(p.shape[-1] - 1)


@sample_from_uniform.def_check
def _sample_from_uniform_check(p: Tensor, u: Tensor) -> None:
    require_distribution(sample_from_uniform.require, "p", p)
    sample_from_uniform.require(
        bool(((u >= 0) & (u < 1)).all()), "u", "outside in places", "numbers from 0 up to, not including, 1"
    )


@equation(
    r"a = \min\left(1, \frac{p}{q}\right)",
    meaning="A guess drawn from one distribution is kept as often as makes it fair under another.",
    intuition="A sorting office that sends back some of the letters it gets too many of.",
    symbols={"p": "the guess's true share", "q": "its share where it was drawn", "a": "how often to keep it"},
    flops=lambda rows: 2 * rows,
    upcast=True,
)
def acceptance(p: Float[Tensor, "*rows"], q: Float[Tensor, "*rows"]) -> Float[Tensor, "*rows"]:
    """The chance to keep a draft's token in speculative sampling (Leviathan et al., 2023)."""
    return (p / q).clamp_max(1)


@acceptance.def_gradient(r"\bar p = \bar a / q, \; \bar q = -\bar a\, p / q^2 \text{ where } p < q, \text{ else } 0")
def _acceptance_gradient(a_bar: Tensor, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    p_bar = (a_bar / q).masked_fill(p >= q, 0)
    return p_bar, -p_bar * p / q


@acceptance.def_check
def _acceptance_check(p: Tensor, q: Tensor) -> None:
    acceptance.require(bool((p >= 0).all()), "p", "negative or NaN in places", "shares of zero and more")
    acceptance.require(bool((q > 0).all()), "q", "zero or less in places", "shares above zero: the guess was drawn")


@equation(
    r"r_i = \frac{\max(0, p_i - q_i)}{\sum_j \max(0, p_j - q_j)}",
    meaning="What is left of a distribution once all that another could supply has been taken from it.",
    intuition="A shopping list after the larder was emptied: only what is still missing is bought.",
    symbols={"p": "the true shares", "q": "the shares guesses were drawn from", "r": "the shares to draw from instead"},
    flops=lambda rows, vocab: 4 * rows * vocab,
    upcast=True,
)
def residual_distribution(
    p: Float[Tensor, "*rows vocab"], q: Float[Tensor, "*rows vocab"]
) -> Float[Tensor, "*rows vocab"]:
    """Where to draw after a guess was refused (Leviathan et al., 2023); the true shares if nothing is left."""
    d = (p - q).clamp_min(0)
    s = d.sum(-1, keepdim=True)
    return torch.where(s > 0, d / s.masked_fill(s == 0, 1), p)


@residual_distribution.def_gradient(
    r"\bar p_i = -\bar q_i = [p_i > q_i] (\bar r_i - \langle \bar r, r \rangle) / \textstyle\sum_j \max(0, p_j - q_j)"
)
def _residual_distribution_gradient(r_bar: Tensor, r: Tensor, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    s = (p - q).clamp_min(0).sum(-1, keepdim=True)
    d_bar = (r_bar - (r_bar * r).sum(-1, keepdim=True)) / s.masked_fill(s == 0, 1)
    d_bar = d_bar.masked_fill((p <= q) | (s == 0), 0)
    return torch.where(s > 0, d_bar, r_bar), -d_bar


@residual_distribution.def_check
def _residual_distribution_check(p: Tensor, q: Tensor) -> None:
    require_distribution(residual_distribution.require, "p", p)
    require_distribution(residual_distribution.require, "q", q)


def _among(z: Tensor, ids: Tensor) -> Tensor:
    """Which entries of the vocabulary stand among the ids."""
    places = torch.arange(z.shape[-1], device=z.device)
    return (places[:, None] == ids).any(-1)


def _seen(z: Tensor, ids: Tensor) -> Tensor:
    """Which entries of the vocabulary stand among the ids."""
    return torch.zeros_like(z, dtype=torch.bool).scatter(-1, ids.long(), True)
