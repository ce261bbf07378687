"""Activation functions: the nonlinearities between linear layers, without which depth would collapse to one map."""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from glassformer.arithmetic import factor, number
from glassformer.equation import equation
from glassformer.equations.compiled_gelu import CompiledGelu, for_compiler


@equation(
    r"a = \sigma(z) = \frac{1}{1 + e^{-z}}",
    meaning="Any number is squashed smoothly between zero and one.",
    intuition="A door that is nearly shut, half open or nearly open, never quite either.",
    symbols={"z": "pre-activation", "a": "activation"},
    names={"a": "activation"},
    flops=lambda shape: 4 * shape,
    upcast=True,
)
def sigmoid(z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The logistic function."""
    return (1 + (-z).exp()).reciprocal()


sigmoid.def_fused(lambda z: z.sigmoid())
sigmoid.def_gradient(r"\bar z = \bar a \odot a (1 - a)")(lambda a_bar, a: a_bar * a * (1 - a))
sigmoid.def_cell(lambda index, z: f"1 / (1 + e^({number(-z[index])}))")


@equation(
    r"a = \tanh z = \frac{2}{1 + e^{-2z}} - 1",
    meaning="Any number is squashed smoothly between minus one and one.",
    intuition="A spring that gives way at first and then will not move further, to either side.",
    symbols={"z": "pre-activation", "a": "activation"},
    names={"a": "activation"},
    flops=lambda shape: 6 * shape,
    upcast=True,
)
def tanh(z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The hyperbolic tangent, a sigmoid stretched to be symmetric about zero."""
    return 2 / (1 + (-2 * z).exp()) - 1


tanh.def_fused(lambda z: z.tanh())
tanh.def_gradient(r"\bar z = \bar a \odot (1 - a^2)")(lambda a_bar, a: a_bar * (1 - a * a))
tanh.def_cell(lambda index, z: f"2 / (1 + e^(−2·{factor(z[index])})) − 1")


@equation(
    r"a = \max(0, x)",
    meaning="Positive numbers pass, negative ones become zero.",
    intuition="A one-way valve.",
    symbols={"x": "pre-activation", "a": "activation"},
    names={"a": "activation"},
    flops=lambda shape: shape,
)
def relu(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The rectified linear unit (Nair and Hinton, 2010)."""
    return x.clamp_min(0)


relu.def_fused(lambda x: x.relu())
relu.def_gradient(r"\bar x = \bar a \odot \mathbb{1}[x > 0]")(lambda a_bar, x: a_bar * (x > 0))
relu.def_cell(lambda index, x: f"max(0, {number(x[index])})")


@equation(
    r"a = \max(0, x)^2",
    meaning="Positive numbers are squared, negative ones become zero.",
    intuition="A one-way valve that opens wider the harder one pushes.",
    symbols={"x": "pre-activation", "a": "activation"},
    names={"a": "activation"},
    flops=lambda shape: 2 * shape,
    upcast=True,
)
def squared_relu(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The square of the rectified linear unit (So et al., 2021)."""
    return x.clamp_min(0).square()


squared_relu.def_gradient(r"\bar x = 2 \, \bar a \odot \max(0, x)")(lambda a_bar, x: 2 * a_bar * x.clamp_min(0))
squared_relu.def_cell(lambda index, x: f"max(0, {number(x[index])})^2")


@equation(
    r"a = x \, \Phi(x) = \tfrac{x}{2}\left(1 + \operatorname{erf}\tfrac{x}{\sqrt 2}\right)",
    meaning="A number is scaled by the probability that a standard normal number lies below it.",
    intuition="A doorman who lets the tall in, keeps the small out, and thinks it over in between.",
    symbols={"x": "pre-activation", "a": "activation"},
    names={"a": "activation"},
    flops=lambda shape: 5 * shape,
    upcast=True,
)
def gelu(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The Gaussian error linear unit, exact (Hendrycks and Gimpel, 2016)."""
    return x / 2 * (1 + torch.erf(x / math.sqrt(2)))


@gelu.def_fused
def _gelu_fused(x: Tensor) -> Tensor:
    if for_compiler(x):
        return CompiledGelu.apply(x, False)  # pyright: ignore[reportReturnType]
    return functional.gelu(x)


@gelu.def_gradient(r"\bar x = \bar a \odot \left(\Phi(x) + x \, \varphi(x)\right)")
def _gelu_gradient(a_bar: Tensor, x: Tensor) -> Tensor:
    below = (1 + torch.erf(x / math.sqrt(2))) / 2
    density = torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return a_bar * (below + x * density)


gelu.def_cell(lambda index, x: f"{number(x[index])}·Φ({number(x[index])})")


@equation(
    r"a = \tfrac{x}{2}\left(1 + \tanh\left(\sqrt{2/\pi}\,(x + 0.044715\,x^3)\right)\right)",
    meaning="GELU with the normal distribution function approximated by a hyperbolic tangent.",
    intuition="The same doorman, judging by eye instead of by a ruler.",
    symbols={"x": "pre-activation", "a": "activation"},
    names={"a": "activation"},
    flops=lambda shape: 8 * shape,
    upcast=True,
)
def gelu_tanh(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The Gaussian error linear unit by its tanh approximation, as GPT-2 uses it."""
    return x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@gelu_tanh.def_fused
def _gelu_tanh_fused(x: Tensor) -> Tensor:
    if for_compiler(x):
        return CompiledGelu.apply(x, True)  # pyright: ignore[reportReturnType]
    return functional.gelu(x, approximate="tanh")


@gelu_tanh.def_gradient(
    r"\bar x = \bar a \odot \tfrac12\left(1 + t + x (1 - t^2) \sqrt{2/\pi}\,(1 + 0.134145\,x^2)\right)"
)
def _gelu_tanh_gradient(a_bar: Tensor, x: Tensor) -> Tensor:
    c = math.sqrt(2 / math.pi)
    t = torch.tanh(c * (x + 0.044715 * x**3))
    return a_bar / 2 * (1 + t + x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x))


@gelu_tanh.def_cell
def _gelu_tanh_cell(index: tuple[int, ...], x: Tensor) -> str:
    v = factor(x[index])
    return f"{v}/2·(1 + tanh(√(2/π)·({v} + 0.044715·{v}^3)))"


@equation(
    r"a = x \, \sigma(x)",
    meaning="A number passes through a gate that it opens itself.",
    intuition="A self-opening door: the faster one walks up to it, the wider it swings.",
    symbols={"x": "pre-activation", "a": "activation"},
    names={"a": "activation"},
    flops=lambda shape: 5 * shape,
    upcast=True,
)
def silu(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The sigmoid linear unit, also called swish (Ramachandran et al., 2017)."""
    return x * sigmoid.fn(x)


silu.def_fused(lambda x: functional.silu(x, inplace=False))


@silu.def_gradient(r"\bar x = \bar a \odot \sigma(x)\left(1 + x (1 - \sigma(x))\right)")
def silu_gradient(a_bar: Tensor, x: Tensor) -> Tensor:
    """The rule of `silu`, which `swiglu` uses too."""
    s = sigmoid.fn(x)
    return a_bar * s * (1 + x * (1 - s))


silu.def_cell(lambda index, x: f"{number(x[index])} / (1 + e^({number(-x[index])}))")


@equation(
    r"a = x \, \sigma(1.702 \, x)",
    meaning="GELU with the normal distribution function approximated by a sigmoid.",
    intuition="The doorman of GELU in a hurry: one glance instead of two.",
    symbols={"x": "pre-activation", "a": "activation"},
    names={"a": "activation"},
    flops=lambda shape: 6 * shape,
    upcast=True,
)
def quick_gelu(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The Gaussian error linear unit by its sigmoid approximation (Hendrycks and Gimpel, 2016), as CLIP uses it."""
    return x * sigmoid.fn(1.702 * x)


quick_gelu.def_fused(lambda x: x * torch.sigmoid(1.702 * x))


@quick_gelu.def_gradient(r"\bar x = \bar a \odot \sigma(1.702 x)\left(1 + 1.702 x (1 - \sigma(1.702 x))\right)")
def _quick_gelu_gradient(a_bar: Tensor, x: Tensor) -> Tensor:
    s = sigmoid.fn(1.702 * x)
    return a_bar * s * (1 + 1.702 * x * (1 - s))


quick_gelu.def_cell(lambda index, x: f"{number(x[index])} / (1 + e^(−1.702·{factor(x[index])}))")
