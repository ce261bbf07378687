"""Optimizer steps from gradient to parameters, with the optimizer's state passed in and returned."""

from numbers import Real

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.arithmetic import factor, number, times, total
from glassformer.equation import equation
from glassformer.equations.ranges import Require, below_one, finite, not_negative, same_dtype


@equation(
    r"\theta' = \theta - \eta \, g",
    meaning="Every parameter moves a little against its gradient.",
    intuition="In fog on a hillside, feel which way the ground falls and take one step that way.",
    symbols={
        r"theta=\theta": "parameters",
        "g": "gradient",
        r"rate=\eta": "η, the learning rate",
        r"theta_new=\theta'": "updated parameters",
    },
    names={"theta": "parameters", "g": "gradient"},
    flops=lambda size: 2 * size,
    where={"theta g": same_dtype, "rate": not_negative, "g": finite},
    upcast=True,
)
def gradient_descent(theta: Float[Tensor, "*size"], g: Float[Tensor, "*size"], rate: float) -> Float[Tensor, "*size"]:
    """One step of gradient descent (Cauchy, 1847)."""
    return theta - rate * g


gradient_descent.def_fused(lambda theta, g, rate: torch.sub(theta, g, alpha=rate))


@gradient_descent.def_gradient(r"\bar\theta = \bar\theta', \quad \bar g = -\eta \, \bar\theta'")
def _gradient_descent_gradient(theta_new_bar: Tensor, rate: float) -> tuple[Tensor, Tensor]:
    return theta_new_bar, -rate * theta_new_bar


gradient_descent.def_cell(lambda index, theta, g, rate: total([number(theta[index]), times(-rate, g[index])], []))


@equation(
    r"\theta' = (1 - \eta \lambda) \, \theta",
    meaning="Every parameter shrinks a little, so that only those the data keep asking for stay large.",
    intuition="A garden path that grows over unless someone keeps walking on it.",
    symbols={
        r"theta=\theta": "parameters",
        r"rate=\eta": "η, the learning rate",
        r"decay=\lambda": "λ, strength of the decay",
        r"theta_new=\theta'": "updated parameters",
    },
    names={"theta": "parameters"},
    flops=lambda size: size,
    where={"rate decay": not_negative},
    upcast=True,
)
def weight_decay(theta: Float[Tensor, "*size"], rate: float, decay: float) -> Float[Tensor, "*size"]:
    """Decoupled weight decay: shrink parameters apart from the gradient step (Loshchilov and Hutter, 2019)."""
    return (1 - rate * decay) * theta


@weight_decay.def_gradient(r"\bar\theta = (1 - \eta \lambda) \, \bar\theta'")
def _weight_decay_gradient(theta_new_bar: Tensor, rate: float, decay: float) -> Tensor:
    return (1 - rate * decay) * theta_new_bar


weight_decay.def_cell(lambda index, theta, rate, decay: f"(1 − {times(rate, decay)})·{factor(theta[index])}")


def _up_to_one(require: Require, /, decay: object) -> None:
    fits = isinstance(decay, Real) and 0 <= float(decay) <= 1
    require(fits, "decay", repr(decay), "at least 0, at most 1")


@equation(
    r"a' = \beta \, a + (1 - \beta) \, x",
    meaning="A moving average that forgets: the newest value counts a little, the older ones less and less.",
    intuition="Milk in tea: each splash changes the color a bit, and every earlier splash fades.",
    symbols={
        "average=a": "a, the average so far",
        "theta=x": "x, the newest value",
        r"decay=\beta": "β",
        "average_new=a'": "a'",
    },
    flops=lambda size: 3 * size,
    where={"decay": _up_to_one, "average theta": same_dtype},
    upcast=True,
)
def exponential_moving_average(
    average: Float[Tensor, "*size"], theta: Float[Tensor, "*size"], decay: float
) -> Float[Tensor, "*size"]:
    """Mix a new value into an average of the past (Roberts, 1959)."""
    return decay * average + (1 - decay) * theta


exponential_moving_average.def_fused(lambda average, theta, decay: torch.lerp(average, theta, 1 - decay))


@exponential_moving_average.def_gradient(r"\bar a = \beta \, \bar a', \quad \bar x = (1 - \beta) \, \bar a'")
def _exponential_moving_average_gradient(average_new_bar: Tensor, decay: float) -> tuple[Tensor, Tensor]:
    return decay * average_new_bar, (1 - decay) * average_new_bar


@exponential_moving_average.def_cell
def _exponential_moving_average_cell(index: tuple[int, ...], average: Tensor, theta: Tensor, decay: float) -> str:
    return total([times(decay, average[index]), times(1 - decay, theta[index])], [])


@equation(
    r"v' = \beta v + g, \quad \theta' = \theta - \eta v' \;\; (\text{Nesterov: } \theta - \eta (g + \beta v'))",
    meaning="Past gradients add up to a velocity, and the parameters move with the velocity.",
    intuition="A heavy ball rolls on through small bumps and gathers pace down a long valley.",
    symbols={
        r"theta=\theta": "parameters",
        "g": "gradient",
        "velocity=v": "v, the velocity so far, zeros at first",
        r"rate=\eta": "η, the learning rate",
        r"beta=\beta": "β, decay of the velocity",
        r"nesterov=\text{Nesterov}": "whether to look one step ahead along the velocity",
        r"theta_new=\theta'": "updated parameters",
        "velocity_new=v'": "updated velocity",
    },
    names={"theta": "parameters", "g": "gradient"},
    flops=lambda size, nesterov: (6 if nesterov else 4) * size,
    where={"theta g velocity": same_dtype, "rate": not_negative, "beta": below_one, "g": finite},
    upcast=True,
)
def momentum(
    theta: Float[Tensor, "*size"],
    g: Float[Tensor, "*size"],
    velocity: Float[Tensor, "*size"],
    rate: float,
    beta: float = 0.9,
    nesterov: bool = False,
) -> tuple[Float[Tensor, "*size"], Float[Tensor, "*size"]]:
    """Gradient descent with momentum (Polyak, 1964; Nesterov, 1983)."""
    velocity = beta * velocity + g
    return gradient_descent.fn(theta, g + beta * velocity if nesterov else velocity, rate), velocity


@momentum.def_gradient(
    r"u = \bar v' - \eta \bar\theta', \quad \bar\theta = \bar\theta', \quad \bar g = u, \quad \bar v = \beta u "
    r"\;\; (\text{Nesterov: } u = \bar v' - \eta \beta \bar\theta', \; \bar g = u - \eta \bar\theta')"
)
def _momentum_gradient(
    theta_new_bar: Tensor, velocity_new_bar: Tensor, rate: float, beta: float, nesterov: bool
) -> tuple[Tensor, Tensor, Tensor]:
    step = rate * theta_new_bar
    u = velocity_new_bar - (beta * step if nesterov else step)
    return theta_new_bar, u - step if nesterov else u, beta * u


@momentum.def_cell
def _momentum_cell(
    index: tuple[int, ...], theta: Tensor, g: Tensor, velocity: Tensor, rate: float, beta: float, nesterov: bool
) -> str:
    v = total([times(beta, velocity[index]), number(g[index])], [])
    move = f"{number(g[index])} + {number(beta)}·({v})" if nesterov else v
    return f"{number(theta[index])} − {number(rate)}·({move})"
