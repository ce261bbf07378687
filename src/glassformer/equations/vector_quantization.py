"""Vectors as codes of a finite set, so that a picture becomes tokens: finite scalar quantization."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.arithmetic import factor, number
from glassformer.equation import equation
from glassformer.equations.ranges import Require, not_empty, positive, require_ids

_LEVELS = "number of levels L of each entry, at least 2; their product is the number of codes"


def _two_or_more(require: Require, /, levels: Sequence[int]) -> None:
    fits = len(levels) > 0 and all(isinstance(level, int) and level >= 2 for level in levels)
    require(fits, "levels", repr(levels), "whole numbers, 2 or more each")


def _last(x: Tensor, levels: Sequence[int]) -> Tensor:
    """The highest level of each entry, L − 1."""
    return torch.tensor([level - 1 for level in levels], dtype=x.dtype, device=x.device)


@equation(
    r"u_i = \frac{L_i - 1}{1 + e^{-z_i}}",
    meaning="Each entry of a vector is squeezed between 0 and its highest level.",
    intuition="A slider that can be pushed as hard as one likes and never leaves its slot.",
    symbols={"z": "vectors", "levels=L": _LEVELS, "u": "the same, between 0 and L − 1"},
    flops=lambda batch, dim: 4 * batch * dim,
    where={"levels": _two_or_more},
    upcast=True,
)
def bound_to_levels(z: Float[Tensor, "*batch dim"], levels: Sequence[int]) -> Float[Tensor, "*batch dim"]:
    """Squeeze vectors into the box whose whole points are the codes (Mentzer et al., 2023)."""
    return _last(z, levels) / (1 + (-z).exp())


bound_to_levels.def_fused(lambda z, levels: _last(z, levels) * torch.sigmoid(z))


@bound_to_levels.def_gradient(r"\bar z_i = \bar u_i \, u_i \left(1 - \frac{u_i}{L_i - 1}\right)")
def _bound_to_levels_gradient(u_bar: Tensor, u: Tensor, levels: Sequence[int]) -> Tensor:
    return u_bar * u * (1 - u / _last(u, levels))


@bound_to_levels.def_cell
def _bound_to_levels_cell(index: tuple[int, ...], z: Tensor, levels: Sequence[int]) -> str:
    return f"{levels[index[-1]] - 1} / (1 + e^({number(-z[index])}))"


def _require_entries(require: Require, x: Tensor, levels: Sequence[int], symbol: str) -> None:
    fits = x.shape[-1] == len(levels)
    require(fits, symbol, f"of shape {list(x.shape)}", f"{len(levels)} entries in each vector, one for each level")


@bound_to_levels.def_check
def _bound_to_levels_check(z: Tensor, levels: Sequence[int]) -> None:
    _require_entries(bound_to_levels.require, z, levels, "z")


@equation(
    r"q = \lfloor u + \tfrac12 \rfloor, \quad \text{with the gradient of } q = u",
    meaning="Each number becomes the nearest whole one; the gradient passes as if nothing had been done to it.",
    intuition="A ball that clicks into the nearest hole, and is pushed on as if the board were smooth.",
    symbols={"u": "numbers", "q": "whole numbers"},
    names={"q": "codes"},
    flops=lambda shape: 4 * shape,
    upcast=True,
)
def round_straight_through(u: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Round, with the straight-through estimator as gradient (Bengio et al., 2013): the slope of a step is useless."""
    return (u + 0.5).floor().detach() + (u - u.detach())  # the second term is zero and carries the gradient


round_straight_through.def_gradient(r"\bar u = \bar q")(lambda q_bar: q_bar)


@round_straight_through.def_cell
def _round_straight_through_cell(index: tuple[int, ...], u: Tensor) -> str:
    nearest = math.floor(float(u[index]) + 0.5)
    return f"{number(u[index], 12)} + {factor(nearest - float(u[index]), 12)}"


@equation(
    r"v_i = \frac{2 q_i}{L_i - 1} - 1",
    meaning="Levels from 0 to L − 1 are spread evenly from −1 to 1, whatever their number.",
    intuition="Thermometers with different scales, all read from frost to boil.",
    symbols={"q": "levels, whole numbers", "levels=L": _LEVELS, "v": "the same, from −1 to 1"},
    flops=lambda batch, dim: 3 * batch * dim,
    where={"levels": _two_or_more},
    upcast=True,
)
def normalize_levels(q: Float[Tensor, "*batch dim"], levels: Sequence[int]) -> Float[Tensor, "*batch dim"]:
    """The vectors that a decoder reads, from the levels of a code."""
    return 2 * q / _last(q, levels) - 1


@normalize_levels.def_gradient(r"\bar q_i = \frac{2 \bar v_i}{L_i - 1}")
def _normalize_levels_gradient(v_bar: Tensor, levels: Sequence[int]) -> Tensor:
    return 2 * v_bar / _last(v_bar, levels)


@normalize_levels.def_cell
def _normalize_levels_cell(index: tuple[int, ...], q: Tensor, levels: Sequence[int]) -> str:
    return f"2·{factor(q[index])} / {levels[index[-1]] - 1} − 1"


@normalize_levels.def_check
def _normalize_levels_check(q: Tensor, levels: Sequence[int]) -> None:
    _require_entries(normalize_levels.require, q, levels, "q")


@equation(
    r"k = q_1 + L_1 \left(q_2 + L_2 \left(q_3 + \dots\right)\right)",
    meaning="The levels of a vector are the digits of one number: the id of its code.",
    intuition="An odometer whose wheels have different numbers of teeth.",
    symbols={"q": "levels, whole numbers", "levels=L": _LEVELS, "ids=k": "ids of the codes, k"},
    names={"ids": "codes"},
    flops=lambda: 0,
    where={"levels": _two_or_more},
)
def code_ids(q: Float[Tensor, "*batch dim"], levels: Sequence[int]) -> Int[Tensor, "*batch"]:
    """The id of each vector of levels, from 0 to one below the number of codes."""
    return (q.long() * _places(q, levels)).sum(-1)


def _places(q: Tensor, levels: Sequence[int]) -> Tensor:
    """What a digit counts at each place: 1, L₁, L₁L₂, ..."""
    return torch.tensor([math.prod(levels[:i]) for i in range(len(levels))], device=q.device)


@code_ids.def_cell
def _code_ids_cell(index: tuple[int, ...], q: Tensor, levels: Sequence[int]) -> str:
    digits = [int(digit) for digit in q[index].tolist()]
    return " + ".join(f"{digit}·{math.prod(levels[:i])}" for i, digit in enumerate(digits))


@code_ids.def_check
def _code_ids_check(q: Tensor, levels: Sequence[int]) -> None:
    _require_entries(code_ids.require, q, levels, "q")
    inside = (q >= 0) & (q <= _last(q, levels)) & (q == q.floor())
    code_ids.require(bool(inside.all()), "q", "not a level in some entries", "whole numbers from 0 to L − 1")


@equation(
    r"q_i = \left\lfloor \frac{k}{L_1 \cdots L_{i-1}} \right\rfloor \bmod L_i",
    meaning="The digits of a code's id are the levels of its vector.",
    intuition="The odometer read wheel by wheel.",
    symbols={
        "ids=k": "ids of codes, k",
        "levels=L": _LEVELS,
        "dtype=": "float type of the levels",
        "q": "levels, whole numbers",
    },
    names={"ids": "codes"},
    flops=lambda: 0,
    where={"levels": _two_or_more},
)
def code_levels(
    ids: Int[Tensor, "*batch"], levels: Sequence[int], dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*batch dim"]:
    """The vector of levels of each code; the inverse of `code_ids`."""
    sizes = torch.tensor(list(levels), device=ids.device)
    return (ids.long()[..., None] // _places(ids, levels) % sizes).to(dtype)


@code_levels.def_cell
def _code_levels_cell(index: tuple[int, ...], ids: Tensor, levels: Sequence[int]) -> str:
    *lead, i = index
    return f"{int(ids[tuple(lead)])} // {math.prod(levels[:i])} % {levels[i]}"


@code_levels.def_check
def _code_levels_check(ids: Tensor, levels: Sequence[int]) -> None:
    require_ids(code_levels.require, ids, math.prod(levels), "the codes")


@equation(
    r"\mathrm{PSNR} = 10 \log_{10} \frac{P^2}{\frac1n \sum_i (\hat x_i - x_i)^2}",
    meaning="How far a copy is from the original, in decibels: each 10 more is a tenth of the squared error.",
    intuition="How loud a song is over the hiss of the tape.",
    symbols={
        r"x_hat=\hat x": "the copy, x̂",
        "x": "the original",
        "peak=P": "difference P between the darkest and the lightest value",
        r"psnr=\mathrm{PSNR}": "peak signal-to-noise ratio",
    },
    names={"psnr": "psnr"},
    flops=lambda n: 3 * n + 3,
    where={"peak": positive, "x": not_empty},
    upcast=True,
)
def peak_signal_to_noise(x_hat: Float[Tensor, " n"], x: Float[Tensor, " n"], peak: float = 1.0) -> Float[Tensor, ""]:
    """Peak signal-to-noise ratio of a reconstruction; infinite for an exact one."""
    error = (x_hat - x).square().mean()
    return (error / peak**2).log() * (-10 / math.log(10))


@peak_signal_to_noise.def_gradient(
    r"\bar{\hat x} = -\frac{20}{\ln 10} \frac{\hat x - x}{\sum_i (\hat x_i - x_i)^2} \, \overline{\mathrm{PSNR}},"
    r" \quad \bar x = -\bar{\hat x}"
)
def _peak_signal_to_noise_gradient(psnr_bar: Tensor, x_hat: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    apart = x_hat - x
    back = -20 / math.log(10) * apart / apart.square().sum() * psnr_bar
    return back, -back


@peak_signal_to_noise.def_cell
def _peak_signal_to_noise_cell(index: tuple[int, ...], x_hat: Tensor, x: Tensor, peak: float) -> str:
    error = (x_hat - x).square().mean()
    return f"10·ln({number(peak)}^2 / {number(error)}) / ln(10)"
