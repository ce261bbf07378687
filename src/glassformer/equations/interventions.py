"""Interventions: some numbers of a run replaced by others."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.equation import equation
from glassformer.equations.ranges import same_dtype


@equation(
    r"y_i = \begin{cases} v_i & m_i \\ x_i & \text{otherwise} \end{cases}",
    meaning="Some numbers are replaced by others, whatever they were computed from; the rest stays.",
    intuition="A hand on the scale: it shows what one wants, and nothing that lies on it counts.",
    symbols={
        "x": "values as computed",
        "m": "true where a value is replaced",
        "v": "new values",
        "y": "values as changed",
    },
    flops=lambda: 0,
    where={"x v": same_dtype},
)
def intervene(
    x: Float[Tensor, "*shape"], m: Bool[Tensor, "*shape"], v: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """Replace values where a mask is true: the do-operator of causal inference (Pearl, 1995)."""
    return torch.where(m, v, x)


@intervene.def_gradient(r"\bar x = (1 - m) \odot \bar y, \quad \bar v = m \odot \bar y")
def _intervene_gradient(y_bar: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
    return y_bar.masked_fill(m, 0), y_bar.masked_fill(~m, 0)


intervene.def_cell(lambda index, x, m, v: number(v[index] if m[index] else x[index]))
