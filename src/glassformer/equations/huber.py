"""The Huber loss, by which scaling laws are fitted."""

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.equation import equation
from glassformer.equations.ranges import positive


@equation(
    r"L_i = \begin{cases} \frac{1}{2} x_i^2 & |x_i| \le \delta \\ "
    r"\delta \left(|x_i| - \frac{1}{2} \delta\right) & \text{otherwise} \end{cases}",
    meaning="Small errors count by their square, large ones in proportion, so that no outlier rules.",
    intuition="A jury that weighs each opinion, and shouting louder past a point adds no more weight.",
    symbols={"x": "residuals", r"delta=\delta": "δ, where the loss turns into a line", "L": "losses"},
    flops=lambda batch: 5 * batch,
    where={"delta": positive},
)
def huber_loss(x: Float[Tensor, "*batch"], delta: float) -> Float[Tensor, "*batch"]:
    """Huber loss of residuals (Huber, 1964), by which scaling laws are fitted."""
    size = x.abs()
    return torch.where(size <= delta, x**2 / 2, delta * (size - delta / 2))


huber_loss.def_gradient(r"\bar x_i = \bar L_i \max(-\delta, \min(\delta, x_i))")(
    lambda L_bar, x, delta: L_bar * x.clamp(-delta, delta)
)


@huber_loss.def_cell
def _huber_loss_cell(index: tuple[int, ...], x: Tensor, delta: float) -> str:
    size = abs(float(x[index]))
    if size <= delta:
        return f"{number(size)}^2 / 2"
    return f"{number(delta)}·({number(size)} − {number(delta)} / 2)"
