"""Word vectors by skip-gram with negative sampling: the loss, the noise words, and fewer of the frequent words."""

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from glassformer.arithmetic import number, total
from glassformer.equation import equation
from glassformer.equations.activations import sigmoid
from glassformer.equations.ranges import Require, finite, not_empty, not_negative, positive
from glassformer.equations.special_ranges import counts


def _logits(require: Require, /, **tensors: Tensor) -> None:
    not_empty(require, **tensors)
    finite(require, **tensors)


def _some_counted(require: Require, /, n: Tensor) -> None:
    counts(require, n=n)
    require(bool((n > 0).any()), "n", "zero for every word", "at least one word that occurs")


@equation(
    r"L = -\log \sigma(z_0) - \sum_{j=1}^{k} \log \sigma(-z_j), \quad \sigma(z) = \frac{1}{1 + e^{-z}}",
    meaning="Tell the word that stood near from k words drawn at random.",
    intuition="A police line-up: point at the one who was there, and away from those who were not.",
    symbols={
        "z": "logits: inner products of a word's vector with the context vectors of its neighbor and of k noise words",
        "L": "loss, in nats",
    },
    names={"z": "logits", "L": "loss"},
    flops=lambda batch, words: 3 * batch + 2 * batch * (words - 1),
    where={"z": _logits},
    upcast=True,
)
def negative_sampling_loss(z: Float[Tensor, "*batch words"]) -> Float[Tensor, "*batch"]:
    """Loss of skip-gram with negative sampling; the first logit is the true neighbor's (Mikolov et al., 2013)."""
    return functional.softplus(-z[..., 0]) + functional.softplus(z[..., 1:]).sum(-1)  # softplus(x) is −log σ(−x)


@negative_sampling_loss.def_gradient(r"\bar z_0 = -\bar L \, \sigma(-z_0), \quad \bar z_j = \bar L \, \sigma(z_j)")
def _negative_sampling_loss_gradient(L_bar: Tensor, z: Tensor) -> Tensor:
    z_bar = L_bar.unsqueeze(-1) * sigmoid.fn(z)
    z_bar[..., 0] -= L_bar  # σ(z) − 1 is −σ(−z)
    return z_bar


@negative_sampling_loss.def_cell
def _negative_sampling_loss_cell(index: tuple[int, ...], z: Tensor) -> str:
    first, *others = z[index].tolist()
    terms = [f"ln(1 + e^({number(x)}))" for x in (-first, *others)]
    return total(terms, functional.softplus(z[index].new_tensor([-first, *others])).tolist())


@equation(
    r"P(w) = \frac{n_w^{\alpha}}{\sum_v n_v^{\alpha}}",
    meaning="Noise words are drawn by their counts, flattened so that rare words are drawn more often than they occur.",
    intuition="A raffle where whoever buys many tickets gets a little less for each.",
    symbols={
        "n": "count of each word",
        r"alpha=\alpha": "exponent α; 1 draws as in the text",
        "P": "probabilities",
    },
    names={"n": "counts", "P": "probabilities"},
    flops=lambda vocab: 3 * vocab,
    where={"n": _some_counted, "alpha": not_negative},
)
def noise_distribution(n: Int[Tensor, " vocab"], alpha: float = 0.75) -> Float[Tensor, " vocab"]:
    """The distribution of negative samples: unigram counts to the power 3/4 (Mikolov et al., 2013)."""
    p = n.double().pow(alpha).masked_fill(n == 0, 0)  # 0 to the power 0 is 1, and such a word is still never drawn
    return p / p.sum()


@noise_distribution.def_cell
def _noise_distribution_cell(index: tuple[int, ...], n: Tensor, alpha: float) -> str:
    found = [x for x in n.tolist() if x]
    if not int(n[index]):
        return "0"
    terms = [f"{number(x)}^{number(alpha)}" for x in found]
    return f"{number(n[index])}^{number(alpha)} / ({total(terms, [x**alpha for x in found])})"


@equation(
    r"p_w = \min\left(1, \sqrt{\frac{t}{f_w}}\right), \quad f_w = \frac{n_w}{\sum_v n_v}",
    meaning="The more frequent a word, the fewer of its occurrences are trained on.",
    intuition="A photographer who has enough pictures of pigeons, and none yet of the kingfisher.",
    symbols={
        "n": "count of each word",
        "t": "frequency up to which every occurrence is kept",
        "p": "probability of keeping an occurrence of each word",
    },
    names={"n": "counts", "p": "probabilities"},
    flops=lambda vocab: 5 * vocab,
    where={"n": _some_counted, "t": positive},
)
def keep_probability(n: Int[Tensor, " vocab"], t: float = 1e-3) -> Float[Tensor, " vocab"]:
    """Subsampling of frequent words: how likely each occurrence is kept (Mikolov et al., 2013)."""
    f = n.clamp_min(1).double() / n.sum()
    return (t / f).sqrt().clamp_max(1)


@keep_probability.def_cell
def _keep_probability_cell(index: tuple[int, ...], n: Tensor, t: float) -> str:
    return f"min(1, √({number(t)}·{int(n.sum())} / {max(int(n[index]), 1)}))"
