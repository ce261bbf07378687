"""From logits to the next token: temperature, top-k, top-p, penalties, sampling, speculation."""

import math
from numbers import Real

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.arithmetic import factor, minus, number
from glassformer.equation import equation
from glassformer.equations.ranges import Require, not_negative, positive, same_dtype, valid_logits, whole
from glassformer.equations.softmax import softmax
from glassformer.equations.special_ranges import distribution

_FILL = "logit of tokens that are cut off, −∞ or a number far below all others"


def _probability(require: Require, /, p: object) -> None:
    require(isinstance(p, Real) and 0 < float(p) <= 1, "p", repr(p), "a probability above 0 and up to 1")


@equation(
    r"y = \frac{z}{\tau}",
    meaning="Logits are spread apart when the temperature is below one, pulled together when above.",
    intuition="Cold water freezes into one shape, hot water tries them all.",
    symbols={"z": "logits", r"tau=\tau": "temperature, τ", "y": "scaled logits"},
    flops=lambda batch, vocab: batch * vocab,
    where={"z": valid_logits, "tau": positive},
    upcast=True,
)
def temperature(z: Float[Tensor, "*batch vocab"], tau: float) -> Float[Tensor, "*batch vocab"]:
    """Divide logits by a temperature; toward zero, sampling becomes greedy decoding."""
    return z / tau


temperature.def_gradient(r"\bar z = \frac{\bar y}{\tau}")(lambda y_bar, tau: y_bar / tau)
temperature.def_cell(lambda index, z, tau: f"{number(z[index])} / {number(tau)}")


@equation(
    r"y_i = z_i \text{ if } z_i \text{ is among the } k \text{ largest, else } -\infty",
    meaning="Only the k most likely tokens stay in play.",
    intuition="A final with k seats: however close the others came, they watch.",
    symbols={"z": "logits", "k": "number of tokens kept", r"fill=-\infty": _FILL, "y": "logits of those kept"},
    flops=lambda: 0,
    where={"z": valid_logits, "k": whole},
    upcast=True,
)
def top_k(z: Float[Tensor, "*batch vocab"], k: int, fill: float = -math.inf) -> Float[Tensor, "*batch vocab"]:
    """Keep the k largest logits (Fan et al., 2018); among equal ones, those that come first."""
    least = z.topk(k).values[..., -1:]
    above, level = z > least, z == least
    left = k - above.sum(-1, keepdim=True)
    return z.masked_fill(~(above | (level & (level.cumsum(-1) <= left))), fill)


@top_k.def_gradient(r"\bar z_i = \bar y_i \text{ if } i \text{ is kept, else } 0")
def _top_k_gradient(y_bar: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return y_bar.masked_fill(y != z, 0)


@top_k.def_check
def _top_k_check(z: Tensor, k: int) -> None:
    top_k.require(k <= z.shape[-1], "k", k, f"from 1 to {z.shape[-1]}, the size of the vocabulary")


@equation(
    r"y_i = z_i \text{ if } i \in S, \text{ else } -\infty, \quad "
    r"S \text{ smallest with } \sum_{i \in S} \operatorname{softmax}(z)_i \ge p",
    meaning="Only the fewest tokens whose probabilities sum to p stay in play.",
    intuition="Count votes from the top until a majority of p is reached; the rest go home.",
    symbols={"z": "logits", "p": "probability to keep", r"fill=-\infty": _FILL, "y": "logits of those kept"},
    flops=lambda batch, vocab: 6 * batch * vocab + 2 * batch,
    where={"z": valid_logits, "p": _probability},
    upcast=True,
)
def top_p(z: Float[Tensor, "*batch vocab"], p: float, fill: float = -math.inf) -> Float[Tensor, "*batch vocab"]:
    """Nucleus sampling (Holtzman et al., 2020); the most likely token always stays, and the first of equals."""
    best, order = z.sort(dim=-1, descending=True, stable=True)
    rest = softmax.fn(best).flip(-1).cumsum(-1).flip(-1)  # of each token and all below it, summed from the smallest
    kept = (rest > 1 - p) | (torch.arange(z.shape[-1], device=z.device) == 0)
    return z.masked_fill(~kept.scatter(-1, order, kept), fill)


@top_p.def_gradient(r"\bar z_i = \bar y_i \text{ if } i \text{ is kept, else } 0")
def _top_p_gradient(y_bar: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return y_bar.masked_fill(y != z, 0)


@equation(
    r"y_i = z_i \text{ if } z_i \ge \max z + \log p, \text{ else } -\infty",
    meaning="Only tokens at least p times as likely as the most likely one stay in play.",
    intuition="A bar that the winner sets: on a clear day it is high, in doubt it is low.",
    symbols={
        "z": "logits",
        "p": "fraction of the largest probability",
        r"fill=-\infty": _FILL,
        "y": "logits of those kept",
    },
    flops=lambda batch, vocab: batch * vocab + batch,
    where={"z": valid_logits, "p": _probability},
    upcast=True,
)
def min_p(z: Float[Tensor, "*batch vocab"], p: float, fill: float = -math.inf) -> Float[Tensor, "*batch vocab"]:
    """Cut off tokens that are unlikely beside the most likely one (Nguyen et al., 2024); this needs no softmax."""
    return z.masked_fill(z < z.amax(-1, keepdim=True) + math.log(p), fill)


@min_p.def_gradient(r"\bar z_i = \bar y_i \text{ if } i \text{ is kept, else } 0")
def _min_p_gradient(y_bar: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return y_bar.masked_fill(y != z, 0)


@equation(
    r"y_i = \begin{cases} z_i / \theta & z_i \ge 0 \\ z_i \theta & z_i < 0 \end{cases}"
    r"\text{ for } i \in x, \text{ else } z_i",
    meaning="Tokens that have occurred become less likely.",
    intuition="A speaker who hears each used word a little fainter the next time it offers itself.",
    symbols={
        "z": "logits",
        "ids=x": "tokens so far",
        r"penalty=\theta": "repetition penalty, θ; one changes nothing",
        "y": "penalized logits",
    },
    flops=lambda batch, vocab: 2 * batch * vocab,
    where={"z": valid_logits, "penalty": positive},
    upcast=True,
)
def repetition_penalty(
    z: Float[Tensor, "*batch vocab"], ids: Int[Tensor, "*batch seen"], penalty: float
) -> Float[Tensor, "*batch vocab"]:
    """Penalize tokens that have occurred (CTRL: Keskar et al., 2019), each once, however often it occurred."""
    return torch.where(_seen(z, ids), torch.where(z < 0, z * penalty, z / penalty), z)


@repetition_penalty.def_gradient(
    r"\bar z_i = \bar y_i / \theta \text{ or } \bar y_i \theta \text{ for } i \text{ seen, else } \bar y_i"
)
def _repetition_penalty_gradient(y_bar: Tensor, z: Tensor, ids: Tensor, penalty: float) -> Tensor:
    return torch.where(_seen(z, ids), torch.where(z < 0, y_bar * penalty, y_bar / penalty), y_bar)


@repetition_penalty.def_cell
def _repetition_penalty_cell(index: tuple[int, ...], z: Tensor, ids: Tensor, penalty: float) -> str:
    logit = number(z[index])
    if not _seen(z, ids)[index]:
        return logit
    return f"{logit}·{factor(penalty)}" if z[index] < 0 else f"{logit} / {number(penalty)}"


@repetition_penalty.def_check
def _repetition_penalty_check(z: Tensor, ids: Tensor) -> None:
    wrong = (ids < 0) | (ids >= z.shape[-1])
    got, wanted = f"{ids[wrong].tolist()[:3]} in some entries", f"ids from 0 to {z.shape[-1] - 1}"
    repetition_penalty.require(not wrong.any(), "ids", got, wanted)


@equation(
    r"i \sim p",
    meaning="One token is drawn from each distribution, as often as its probability says.",
    intuition="Spin a wheel of fortune whose fields are as wide as the probabilities.",
    symbols={
        "p": "probabilities",
        "generator=": "random generator; torch's default if not given",
        "ids=i": "tokens drawn",
    },
    where={"p": distribution},
    upcast=True,
)
def sample(p: Float[Tensor, "*batch vocab"], generator: torch.Generator | None = None) -> Int[Tensor, "*batch"]:
    """Draw one token id from each distribution."""
    return torch.multinomial(p.reshape(-1, p.shape[-1]), 1, generator=generator).reshape(p.shape[:-1])


@equation(
    r"i = \arg\max_j z_j",
    meaning="The most likely token, every time.",
    intuition="A traveler who takes the widest road at each fork, and never looks further.",
    symbols={"z": "logits", "ids=i": "most likely tokens"},
    where={"z": valid_logits},
)
def greedy(z: Float[Tensor, "*batch vocab"]) -> Int[Tensor, "*batch"]:
    """Greedy decoding: the id of the largest logit; among equal ones, the first."""
    return z.argmax(-1)


@equation(
    r"lp = \left(\frac{5 + n}{6}\right)^\alpha",
    meaning="What a hypothesis's log-probability is divided by, so that short ones do not win by being short.",
    intuition="A handicap in golf: longer courses are allowed more strokes.",
    symbols={
        "length=n": "number of tokens, n",
        r"alpha=\alpha": "strength, α; zero changes nothing",
        "penalty=lp": "divisor, lp",
    },
    where={"length": not_negative},
)
def length_penalty(length: int, alpha: float) -> float:
    """Length normalization of beam search (Wu et al., 2016)."""
    return ((5 + length) / 6) ** alpha


length_penalty.def_cell(lambda index, length, alpha: f"((5 + {number(length)}) / 6)^{factor(alpha)}")


@equation(
    r"y_i = -\infty \text{ for } i \in S, \text{ else } z_i",
    meaning="Some tokens are excluded, whatever their logits.",
    intuition="A referee who calls the game off-limits for a few players.",
    symbols={"z": "logits", "ids=S": "tokens to suppress", r"fill=-\infty": _FILL, "y": "logits of the others"},
    flops=lambda: 0,
    where={"z": valid_logits},
)
def suppress_tokens(
    z: Float[Tensor, "*batch vocab"], ids: Int[Tensor, " suppressed"], fill: float = -math.inf
) -> Float[Tensor, "*batch vocab"]:
    """Exclude some tokens from every distribution: an end token, say, before a text is long enough."""
    return z.masked_fill(_among(z, ids), fill)


@suppress_tokens.def_gradient(r"\bar z_i = \bar y_i \text{ unless } i \text{ is suppressed}")
def _suppress_tokens_gradient(y_bar: Tensor, z: Tensor, ids: Tensor) -> Tensor:
    return y_bar.masked_fill(_among(z, ids), 0)


@suppress_tokens.def_check
def _suppress_tokens_check(z: Tensor, ids: Tensor) -> None:
    inside = not ids.numel() or (int(ids.min()) >= 0 and int(ids.max()) < z.shape[-1])
    suppress_tokens.require(inside, "ids", f"{ids.tolist()[:3]}", f"ids from 0 to {z.shape[-1] - 1}")


@equation(
    r"y_i = -\infty \text{ if } (x_{t-n+2}, \dots, x_t, i) \text{ has occurred in } x, \text{ else } z_i",
    meaning="A token that would repeat a run of n tokens is excluded.",
    intuition="A storyteller who may come back to a word, but not to a whole phrase.",
    symbols={
        "z": "logits",
        "ids=x": "tokens so far, x; a negative id is none",
        "n": "length of a run that may not occur twice",
        r"fill=-\infty": _FILL,
        "y": "logits of tokens that repeat no run; all of them where every token would",
    },
    flops=lambda: 0,
    where={"z": valid_logits, "n": whole},
)
def no_repeat_ngram(
    z: Float[Tensor, "*batch vocab"], ids: Int[Tensor, "*batch seen"], n: int, fill: float = -math.inf
) -> Float[Tensor, "*batch vocab"]:
    """Block n-grams that have occurred (Paulus et al., 2017), as Hugging Face's `no_repeat_ngram_size`."""
    return z.masked_fill(_repeats(z, ids, n), fill)


@no_repeat_ngram.def_gradient(r"\bar z_i = \bar y_i \text{ unless } i \text{ is excluded}")
def _no_repeat_ngram_gradient(y_bar: Tensor, z: Tensor, ids: Tensor, n: int) -> Tensor:
    return y_bar.masked_fill(_repeats(z, ids, n), 0)


@no_repeat_ngram.def_check
def _no_repeat_ngram_check(z: Tensor, ids: Tensor) -> None:
    inside = not ids.numel() or int(ids.max()) < z.shape[-1]
    no_repeat_ngram.require(inside, "ids", f"{ids.tolist()[:3]}", f"ids up to {z.shape[-1] - 1}")


def _repeats(z: Tensor, ids: Tensor, n: int) -> Tensor:
    """Which tokens of the vocabulary would end a run of n tokens that has occurred, in each sequence."""
    vocab, seen = z.shape[-1], ids.shape[-1]
    if seen < n:
        return torch.zeros_like(z, dtype=torch.bool)
    runs = ids.long().unfold(-1, n, 1)
    same = (runs[..., :-1] == ids[..., None, seen - n + 1 :]).all(-1) & (runs >= 0).all(-1)
    last = torch.where(same, runs[..., -1], vocab)
    blocked = z.new_zeros(*z.shape[:-1], vocab + 1, dtype=torch.bool).scatter(-1, last, True)[..., :-1]
    return blocked & (~blocked & (z > -math.inf)).any(-1, keepdim=True)


def _unit_interval(require: Require, /, u: Tensor) -> None:
    inside = bool(((u >= 0) & (u < 1)).all())
    require(inside, "u", "outside in some entries", "numbers from 0 up to, not including, 1")


@equation(
    r"i = \min \left\{ i : \textstyle\sum_{j \le i} p_j > u \right\}",
    meaning="A uniform random number picks a token: the one whose interval of the cumulative sum it falls in.",
    intuition="A ruler cut into stretches as long as the probabilities, and a pin dropped on it.",
    symbols={"p": "probabilities", "u": "uniform random numbers, from 0 up to but not 1", "ids=i": "tokens drawn"},
    flops=lambda batch, vocab: batch * vocab + batch,
    where={"p": distribution, "u": _unit_interval},
)
def sample_from_uniform(p: Float[Tensor, "*batch vocab"], u: Float[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
    """Sample by given random numbers, so that each draw depends on its own number only."""
    c = p.double().cumsum(-1)
    return (c <= u.double()[..., None] * c[..., -1:]).sum(-1).clamp_max(p.shape[-1] - 1)


@equation(
    r"a = \min\left(1, \frac{p}{q}\right)",
    meaning="A token drawn from one distribution is accepted as often as makes it fair under another.",
    intuition="A sorting office that sends back some of the letters it gets too many of.",
    symbols={"p": "target probability", "q": "draft probability", "a": "probability of accepting the token"},
    flops=lambda batch: 2 * batch,
    upcast=True,
)
def acceptance(p: Float[Tensor, "*batch"], q: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """The probability of accepting a draft token in speculative decoding (Leviathan et al., 2023)."""
    return (p / q).clamp_max(1)


@acceptance.def_gradient(r"\bar p = \bar a / q, \; \bar q = -\bar a\, p / q^2 \text{ where } p < q, \text{ else } 0")
def _acceptance_gradient(a_bar: Tensor, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    p_bar = (a_bar / q).masked_fill(p >= q, 0)
    return p_bar, -p_bar * p / q


@acceptance.def_check
def _acceptance_check(p: Tensor, q: Tensor) -> None:
    acceptance.require(bool((p >= 0).all()), "p", "negative or NaN in some entries", "probabilities, zero or more")
    acceptance.require(bool((q > 0).all()), "q", "zero or less in some entries", "above zero: the token was drawn")


@equation(
    r"r_i = \frac{\max(0, p_i - q_i)}{\sum_j \max(0, p_j - q_j)}",
    meaning="What is left of a distribution once all that another could supply has been taken from it.",
    intuition="A shopping list after the larder was emptied: only what is still missing is bought.",
    symbols={"p": "target probabilities", "q": "draft probabilities", "r": "probabilities to draw from instead"},
    flops=lambda batch, vocab: 4 * batch * vocab,
    where={"p q": distribution},
    upcast=True,
)
def residual_distribution(
    p: Float[Tensor, "*batch vocab"], q: Float[Tensor, "*batch vocab"]
) -> Float[Tensor, "*batch vocab"]:
    """The distribution to sample from after a rejection (Leviathan et al., 2023); the target's if nothing is left."""
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


@equation(
    r"y = z_\varnothing + s \, (z - z_\varnothing)",
    meaning="What a prompt changes about the logits is exaggerated: with a scale above 1, samples follow it closely.",
    intuition="A caricature: find what sets this face apart from any face, and draw more of it.",
    symbols={
        "z": "logits after the prompt",
        r"z_empty=z_\varnothing": "logits after an empty prompt, z∅",
        "s": "guidance scale; 1 changes nothing",
        "y": "guided logits",
    },
    flops=lambda batch, vocab: 3 * batch * vocab,
    where={"z z_empty": same_dtype, "s": not_negative},
    upcast=True,
)
def classifier_free_guidance(
    z: Float[Tensor, "*batch vocab"], z_empty: Float[Tensor, "*batch vocab"], s: float
) -> Float[Tensor, "*batch vocab"]:
    """Guided logits of a model that was also trained without prompts (Ho and Salimans, 2022)."""
    return z_empty + s * (z - z_empty)


classifier_free_guidance.def_gradient(r"\bar z = s \, \bar y, \quad \bar z_\varnothing = (1 - s) \, \bar y")(
    lambda y_bar, s: (s * y_bar, (1 - s) * y_bar)
)


@classifier_free_guidance.def_cell
def _classifier_free_guidance_cell(index: tuple[int, ...], z: Tensor, z_empty: Tensor, s: float) -> str:
    return f"{number(z_empty[index])} + {number(s)}·({minus(z[index], z_empty[index])})"


def _among(z: Tensor, ids: Tensor) -> Tensor:
    """Which tokens of the vocabulary are among the ids."""
    vocab = z.shape[-1]
    known = torch.where((ids >= 0) & (ids < vocab), ids, vocab).long()
    return torch.zeros(vocab + 1, dtype=torch.bool, device=z.device).scatter(0, known, True)[:vocab]


def _seen(z: Tensor, ids: Tensor) -> Tensor:
    """Which tokens of the vocabulary have occurred, in each sequence."""
    return torch.zeros_like(z, dtype=torch.bool).scatter(-1, ids.long(), True)
