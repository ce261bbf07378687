"""GELU as the compiler gets it in half precision: exponentials in place of erf and tanh, which are slower."""

import math

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

CDF = (0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)  # Abramowitz and Stegun, 26.2.17: to 7.5e-8
SLOPE, CUBIC = 2 * math.sqrt(2 / math.pi), 0.044715  # the approximation is x times sigmoid(SLOPE (x + CUBIC x³))


def for_compiler(x: Tensor) -> bool:
    """Whether code is compiled for half precision on a GPU."""
    return x.is_cuda and x.dtype in (torch.float16, torch.bfloat16) and torch.compiler.is_compiling()


class CompiledGelu(torch.autograd.Function):
    """GELU of x, by its tanh approximation or exactly; only x is kept for the backward pass."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, tanh: bool) -> Tensor:
        """Each number times its gate."""
        ctx.save_for_backward(x)
        ctx.tanh = tanh  # pyright: ignore[reportAttributeAccessIssue]
        z = x.float()
        if tanh:
            return (z * torch.sigmoid(SLOPE * (z + CUBIC * z * z * z))).to(x.dtype)
        return (z.relu() - z.abs() * density_and_tail(z)[1]).to(x.dtype)

    @staticmethod
    def backward(ctx: FunctionCtx, a_bar: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The gate, plus x times its slope."""
        (x,) = ctx.saved_tensors  # pyright: ignore[reportAttributeAccessIssue]
        z = x.float()
        if ctx.tanh:  # pyright: ignore[reportAttributeAccessIssue]
            gate = torch.sigmoid(SLOPE * (z + CUBIC * z * z * z))
            slope = gate * (1 - gate) * SLOPE * (1 + 3 * CUBIC * z * z)
        else:
            slope, tail = density_and_tail(z)
            gate = torch.where(z > 0, 1 - tail, tail)
        return (a_bar.float() * (gate + z * slope)).to(x.dtype), None


def density_and_tail(z: Tensor) -> tuple[Tensor, Tensor]:
    """The standard normal density at z, and the probability of a number further from 0 on the same side."""
    density = torch.exp2(z * z * (-0.5 / math.log(2)) - 0.5 * math.log2(2 * math.pi))
    k = 1 / (1 + 0.2316419 * z.abs())
    return density, density * k * (CDF[0] + k * (CDF[1] + k * (CDF[2] + k * (CDF[3] + k * CDF[4]))))
