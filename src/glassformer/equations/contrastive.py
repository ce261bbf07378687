"""Contrastive learning of pairs: the learned temperature, the logits of every pair, and the loss (CLIP)."""

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.arithmetic import dot, factor, number, total
from glassformer.equation import equation
from glassformer.equations.losses import cross_entropy
from glassformer.equations.ranges import Require, finite, positive
from glassformer.equations.similarity import along_sphere, l2_norm, normalize
from glassformer.equations.softmax import log_softmax, softmax

LARGEST_SCALE = 100.0  # of the paper: beyond it, training was unstable


def _pairs(require: Require, /, **tensors: Tensor) -> None:
    for symbol, tensor in tensors.items():
        require(tensor.numel() > 0, symbol, f"of shape {list(tensor.shape)}", "at least one number")
    finite(require, **tensors)


@equation(
    r"a = \min(e^s, a_{\max}), \quad \tau = \frac{1}{a}",
    meaning="The factor on cosines before the softmax, one over the temperature; its logarithm is learned.",
    intuition="A volume knob that the pupil may turn, with a stop so that it never screams.",
    symbols={"s": "learned logarithm of the scale", r"largest=a_{\max}": "the largest scale allowed", "a": "scale"},
    names={"a": "scale"},
    flops=lambda shape: 2 * shape,
    where={"largest": positive},
    upcast=True,
)
def logit_scale(s: Float[Tensor, "*shape"], largest: float = LARGEST_SCALE) -> Float[Tensor, "*shape"]:
    """The scale of contrastive logits, clipped at 100 as in CLIP; its gradient is zero where it is clipped."""
    return s.exp().clamp_max(largest)


@logit_scale.def_gradient(r"\bar s = a \, \bar a \; [e^s \le a_{\max}]")
def _logit_scale_gradient(a_bar: Tensor, s: Tensor, largest: float) -> Tensor:
    scale = s.exp()
    return a_bar * scale * (scale <= largest)


logit_scale.def_cell(lambda index, s, largest: f"min(e^({number(s[index])}), {number(largest)})")


@equation(
    r"Z = a X Y^\top",
    meaning="The logit of every pair of an image and a text: their cosine, times the scale.",
    intuition="A seating chart that says for every two guests how well they would get on.",
    symbols={
        "X": "image embeddings of length one",
        "Y": "text embeddings of length one",
        "a": "scale, one over the temperature",
        "Z": "logits, a row for each image and a column for each text",
    },
    names={"Z": "logits"},
    flops=lambda images, texts, dim: 2 * images * texts * dim + images * texts,
)
def contrastive_logits(
    X: Float[Tensor, "images dim"], Y: Float[Tensor, "texts dim"], a: Float[Tensor, "1"]
) -> Float[Tensor, "images texts"]:
    """Scaled cosines of all pairs of images and texts; the transpose has the logits of texts."""
    return a * (X @ Y.T)


@contrastive_logits.def_gradient(
    r"\bar X = a \bar Z Y, \quad \bar Y = a \bar Z^\top X, \quad \bar a = \langle \bar Z, X Y^\top \rangle"
)
def _contrastive_logits_gradient(Z_bar: Tensor, X: Tensor, Y: Tensor, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return a * (Z_bar @ Y), a * (Z_bar.T @ X), (Z_bar * (X @ Y.T)).sum().reshape(1)


contrastive_logits.def_cell(lambda index, X, Y, a: f"{number(a)}·({dot(X[index[0]], Y[index[1]])})")


@equation(
    r"L = \frac{H(Z, I) + H(Z^\top, I)}{2}, \quad Z = \frac{\hat X \hat Y^\top}{\tau}, \quad "
    r"\hat X = \frac{X}{\|X\|}, \; \hat Y = \frac{Y}{\|Y\|}",
    meaning="Each image must find its own text among all texts of the batch, and each text its image.",
    intuition="A party where every guest has one partner: call out, and hope that the right one hears you best.",
    symbols={
        "image=X": "image embeddings, X",
        "text=Y": "text embeddings, Y, in the order of their images",
        r"temperature=\tau": "temperature of the cosines, τ, a number or a trained scalar",
        "L": "loss, in nats",
    },
    flops=lambda batch, dim: 2 * batch**2 * dim + 6 * batch * dim + 19 * batch**2 + 12 * batch + 4,
    where={"image text": _pairs},
    upcast=True,
)
def contrastive_loss(
    image: Float[Tensor, "batch dim"], text: Float[Tensor, "batch dim"], temperature: Float[Tensor, ""] | float
) -> Float[Tensor, ""]:
    """Symmetric contrastive loss (InfoNCE) over a batch of pairs (CLIP: Radford et al., 2021)."""
    z = normalize.fn(image) @ normalize.fn(text).T / temperature
    own = torch.arange(len(image), device=image.device)
    return (cross_entropy.fn(z, own) + cross_entropy.fn(z.T, own)) / 2


@contrastive_loss.def_gradient(
    r"\bar Z = \frac{\bar L}{2N} (P + P' - 2I), \quad \bar{\hat X} = \tfrac{1}{\tau} \bar Z \hat Y, \quad"
    r"\bar{\hat Y} = \tfrac{1}{\tau} \bar Z^\top \hat X, \quad \bar\tau = -\tfrac{1}{\tau} \langle \bar Z, Z \rangle"
)
def _contrastive_loss_gradient(
    L_bar: Tensor, image: Tensor, text: Tensor, temperature: Tensor | float
) -> tuple[Tensor, Tensor, Tensor | None]:
    x, y = normalize.fn(image), normalize.fn(text)
    z = x @ y.T / temperature
    own = 2 * torch.eye(len(z), dtype=z.dtype, device=z.device)
    z_bar = L_bar / (2 * len(z)) * (softmax.fn(z) + softmax.fn(z.T).T - own)
    image_bar = along_sphere(z_bar @ y / temperature, x, l2_norm.fn(image))
    text_bar = along_sphere(z_bar.T @ x / temperature, y, l2_norm.fn(text))
    return image_bar, text_bar, -(z_bar * z).sum() / temperature if isinstance(temperature, Tensor) else None


@contrastive_loss.def_cell
def _contrastive_loss_cell(index: tuple[int, ...], image: Tensor, text: Tensor, temperature: Tensor | float) -> str:
    z = normalize.fn(image) @ normalize.fn(text).T / temperature
    p = torch.cat([log_softmax.fn(side).diagonal().exp() for side in (z, z.T)])
    return f"−({total([f'ln({factor(each)})' for each in p], p.log().tolist())}) / (2·{len(z)})"


@contrastive_loss.def_check
def _contrastive_loss_check(temperature: Tensor | float) -> None:
    value = temperature.item() if isinstance(temperature, Tensor) else temperature
    positive(contrastive_loss.require, temperature=value)
