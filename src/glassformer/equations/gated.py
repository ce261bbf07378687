"""Gated linear units: one projection decides how much of another passes."""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from glassformer.arithmetic import factor, number
from glassformer.equation import equation
from glassformer.equations.activations import gelu_tanh, silu, silu_gradient
from glassformer.equations.algebra import multiply


@equation(
    r"a = (g \, \sigma(g)) \odot u",
    meaning="One projection, through SiLU, decides how much of another passes.",
    intuition="Two lanes merge at a traffic light, and one of the lanes controls the light.",
    symbols={"g": "gate projection", "u": "value projection", "a": "gated value"},
    flops=lambda shape: 6 * shape,
    upcast=True,
)
def swiglu(g: Float[Tensor, "*shape"], u: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """SwiGLU, the gated linear unit of modern feed-forward layers (Shazeer, 2020)."""
    return silu.fn(g) * u


swiglu.def_fused(lambda g, u: functional.silu(g) * u)


@swiglu.def_gradient(r"\bar g = (\bar a \odot u) \odot \text{silu}'(g), \quad \bar u = \bar a \odot \text{silu}(g)")
def _swiglu_gradient(a_bar: Tensor, g: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    return silu_gradient(a_bar * u, g), a_bar * silu.fn(g)


swiglu.def_cell(lambda index, g, u: f"{number(g[index])} / (1 + e^({number(-g[index])}))·{factor(u[index])}")


@equation(
    r"a = \text{GELU}(g) \odot u",
    meaning="One projection, through GELU, decides how much of another passes.",
    intuition="The doorman of one lane works the barrier of the other.",
    symbols={"g": "gate projection", "u": "value projection", "a": "gated value"},
)
def geglu(g: Float[Tensor, "*shape"], u: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """GEGLU, the gated linear unit of T5 version 1.1 (Shazeer, 2020)."""
    return multiply(gelu_tanh(g), u)
