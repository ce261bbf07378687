"""Rotary position embeddings (RoPE): the frequency of each pair of features, and the rotation."""

from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.arithmetic import factor as bracketed
from glassformer.arithmetic import number
from glassformer.equation import equation
from glassformer.equations.ranges import float_dtype, positive
from glassformer.equations.special_ranges import even, one_of

_PAIRS = {"adjacent": "... (pairs two)", "halves": "... (two pairs)"}
EXACT = 9  # digits for positions, bases and angles, where four would rotate the pair visibly


@equation(
    r"\theta_i = b^{-2i/d}, \quad i = 0, \dots, d/2 - 1",
    meaning="Each pair of features rotates at its own frequency, from one radian per position down to almost none.",
    intuition="The hands of a clock: the fast one tells neighbors apart, the slow one tells the hours apart.",
    symbols={
        "head_dim=d": "dimension d of a head, even",
        "base=b": "base b: the slowest pair takes 2π b^((d − 2)/d) positions for one turn",
        "dtype=": "dtype of the result; the power itself is taken in float64",
        "device=": "device",
        r"theta=\theta": "radians per position, one for each pair",
    },
    flops=lambda head_dim: 3 * (head_dim // 2),
    where={"head_dim": even, "base": positive, "dtype": float_dtype},
)
def rotary_frequencies(
    head_dim: int,
    base: float = 10000.0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, " pairs"]:
    """Give each pair of features its frequency of rotation (Vaswani et al., 2017; Su et al., 2021)."""
    i = torch.arange(head_dim // 2, dtype=torch.float64, device=device)
    return (base ** (-2 * i / head_dim)).to(dtype)


rotary_frequencies.def_cell(lambda index, head_dim, base: f"{number(base, EXACT)}^(−2·{index[0]}/{head_dim})")


@equation(
    r"\begin{pmatrix} y_{2i} \\ y_{2i+1} \end{pmatrix} ="
    r" \begin{pmatrix} \cos m\theta_i & -\sin m\theta_i \\ \sin m\theta_i & \cos m\theta_i \end{pmatrix}"
    r" \begin{pmatrix} x_{2i} \\ x_{2i+1} \end{pmatrix}, \quad \theta_i = b^{-2i/d}",
    meaning="Each pair of features is rotated by an angle that grows with the position.",
    intuition="Two dancers who turn at the same speed: however long they turn, they face each other at the same angle.",
    symbols={
        "x": "queries or keys, one vector per position",
        "positions=m": "position m of each vector",
        "base=b": "base b of the frequencies",
        r"frequencies=\theta": "radians per position θ, one for each pair, instead of those of the base",
        "layout=": "which features make pair i: 2i and 2i+1 (adjacent), or i and i+d/2 (halves)",
        "y": "rotated vectors, as long as they were",
    },
    flops=lambda batch, seq, head_dim, positions, frequencies: (
        3 * batch * seq * head_dim + 3 * (positions.numel() + (frequencies is None)) * (head_dim // 2)
    ),
    where={"base": positive, "layout": one_of("adjacent", "halves")},
    upcast=True,
)
def rotary(
    x: Float[Tensor, "*batch seq head_dim"],
    positions: Int[Tensor, "*#batch seq"],
    base: float = 10000.0,
    frequencies: Float[Tensor, " pairs"] | None = None,
    layout: Literal["adjacent", "halves"] = "adjacent",
) -> Float[Tensor, "*batch seq head_dim"]:
    """Rotate queries or keys by their position, so that scores depend on relative position only (Su et al., 2021).

    Angles are products of whole positions and frequencies in float32, or float64 for float64 inputs.
    """
    plain = frequencies is None
    theta = rotary_frequencies.fn(x.shape[-1], base, x.dtype, x.device) if plain else frequencies.to(x.dtype)
    angle = positions[..., None] * theta
    cos, sin = angle.cos(), angle.sin()
    a, b = rearrange(x, f"{_PAIRS[layout]} -> two ... pairs", two=2)
    return rearrange([a * cos - b * sin, a * sin + b * cos], f"two ... pairs -> {_PAIRS[layout]}")


@torch.library.custom_op("glassformer::turns", mutates_args=())
def _turns(angle: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine as a kernel of their own: the compiler would work them out again for every head and text."""
    return angle.cos(), angle.sin()


@_turns.register_fake
def _turns_shape(angle: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(angle), torch.empty_like(angle)


@rotary.def_fused
def _rotary_fused(
    x: Tensor, positions: Tensor, base: float = 10000.0, frequencies: Tensor | None = None, layout: str = "adjacent"
) -> Tensor:
    upcast = x.to(torch.promote_types(x.dtype, torch.float32))
    theta = rotary_frequencies.fn(x.shape[-1], base, upcast.dtype, x.device) if frequencies is None else frequencies
    angle = positions[..., None] * theta.to(upcast.dtype)
    cos, sin = _turns(angle) if torch.compiler.is_compiling() and x.is_cuda else (angle.cos(), angle.sin())
    a, b = upcast.chunk(2, -1) if layout == "halves" else upcast.unflatten(-1, (-1, 2)).unbind(-1)
    turned = a * cos - b * sin, a * sin + b * cos
    y = torch.cat(turned, -1) if layout == "halves" else torch.stack(turned, -1).flatten(-2)
    return y.to(x.dtype)


@rotary.def_gradient(
    r"\bar x = R_m^\top \bar y = R_{-m} \bar y, \quad"
    r" \bar\theta_i = \sum_m m \left(y_{2i} \bar y_{2i+1} - y_{2i+1} \bar y_{2i}\right)"
)
def _rotary_gradient(
    y_bar: Tensor, y: Tensor, positions: Tensor, base: float, frequencies: Tensor | None, layout: str
) -> tuple[Tensor, Tensor | None]:
    x_bar = rotary.fn(y_bar, -positions, base, frequencies, layout)  # pyright: ignore[reportArgumentType]
    if frequencies is None:
        return x_bar, None
    a, b = rearrange(y, f"{_PAIRS[layout]} -> two ... pairs", two=2)
    a_bar, b_bar = rearrange(y_bar, f"{_PAIRS[layout]} -> two ... pairs", two=2)
    return x_bar, positions[..., None] * (a * b_bar - b * a_bar)


@rotary.def_cell
def _rotary_cell(
    index: tuple[int, ...], x: Tensor, positions: Tensor, base: float, frequencies: Tensor | None, layout: str
) -> str:
    d, j = x.shape[-1], index[-1]
    i, second = (j // 2, j % 2) if layout == "adjacent" else (j % (d // 2), j // (d // 2))
    theta = rotary_frequencies.fn(d, base, torch.float64) if frequencies is None else frequencies
    m = positions.expand(x.shape[:-1])[index[:-1]]
    angle = f"{number(m, EXACT)}·{number(theta[i], EXACT)}"
    a, b = rearrange(x[index[:-1]], f"{_PAIRS[layout]} -> two pairs".replace("... ", ""), two=2)[:, i]
    parts = f"{number(a)}·sin({angle}) + ", f"{bracketed(b)}·cos({angle})"
    return "".join(parts) if second else f"{number(a)}·cos({angle}) − {bracketed(b)}·sin({angle})"


@rotary.def_check
def _rotary_check(x: Tensor, frequencies: Tensor | None) -> None:
    d = x.shape[-1]
    rotary.require(d >= 2 and d % 2 == 0, "x", f"of shape {list(x.shape)}", "an even last axis, to split into pairs")
    if frequencies is not None:
        shape = f"of shape {list(frequencies.shape)}"
        rotary.require(len(frequencies) == d // 2, "frequencies", shape, f"[{d // 2}], one for each pair of x")
        exact = frequencies.dtype in (torch.float32, torch.float64)
        rotary.require(
            exact, "frequencies", frequencies.dtype, "float32 or float64: half precision cannot hold an angle"
        )
