"""Adaptive optimizers: RMSProp, Adam and AdamW divide each gradient by its root mean square."""

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.arithmetic import number, times, total
from glassformer.equation import equation
from glassformer.equations.optimizers import exponential_moving_average, gradient_descent, weight_decay
from glassformer.equations.ranges import Require, below_one, finite, not_negative, positive, same_dtype, whole
from glassformer.equations.special_ranges import squares

_MOMENTS = {
    r"theta=\theta": "parameters",
    "g": "gradient",
    "m": "first moment, the average of gradients, zeros at first",
    "v": "second moment, the average of squared gradients, zeros at first",
    "step=t": "t, the step, from 1",
    r"rate=\eta": "η, the learning rate",
    r"betas=\beta_1, \beta_2": "β₁ and β₂, decays of the two averages",
}
_UPDATED = {
    r"theta_new=\theta'": "updated parameters",
    "m_new=m'": "updated first moment",
    "v_new=v'": "updated second moment",
}


def _decays(require: Require, /, betas: tuple[float, float]) -> None:
    require(isinstance(betas, tuple | list) and len(betas) == 2, "betas", repr(betas), "two numbers")
    below_one(require, **dict(zip(("betas[0]", "betas[1]"), betas, strict=True)))


@equation(
    r"v' = \beta \, v + (1 - \beta) \, g \odot g",
    meaning="A moving average of squares: how large each gradient usually is, whatever its sign.",
    intuition="The needle of a loudness meter: it follows the noise, not the tune.",
    symbols={
        "v": "second moment, zeros at first",
        "g": "gradient",
        r"decay=\beta": "β",
        "v_new=v'": "updated second moment",
    },
    names={"g": "gradient"},
    flops=lambda size: 4 * size,
    where={"v g": same_dtype, "decay": below_one, "g": finite, "v": squares},
    upcast=True,
)
def moving_mean_square(v: Float[Tensor, "*size"], g: Float[Tensor, "*size"], decay: float) -> Float[Tensor, "*size"]:
    """Update the second moment: a moving average of squared gradients (Tieleman and Hinton, 2012)."""
    return exponential_moving_average.fn(v, g * g, decay)


@moving_mean_square.def_gradient(r"\bar v = \beta \, \bar v', \quad \bar g = 2 (1 - \beta) \, g \odot \bar v'")
def _moving_mean_square_gradient(v_new_bar: Tensor, g: Tensor, decay: float) -> tuple[Tensor, Tensor]:
    return decay * v_new_bar, 2 * (1 - decay) * g * v_new_bar


@moving_mean_square.def_cell
def _moving_mean_square_cell(index: tuple[int, ...], v: Tensor, g: Tensor, decay: float) -> str:
    return f"{times(decay, v[index])} + {number(1 - decay)}·({number(g[index])})^2"


@equation(
    r"\hat a = \frac{a}{1 - \beta^t}",
    meaning="A moving average that began at zero is scaled up to the size it would have with a full past.",
    intuition="A glass filled from empty reads low at first, so the first readings are scaled up.",
    symbols={
        "average=a": "a, an average that began at zero",
        r"decay=\beta": "β",
        "step=t": "t, the step, from 1",
        r"a_hat=\hat a": "â",
    },
    flops=lambda size: size,
    where={"decay": below_one, "step": whole},
    upcast=True,
)
def bias_correction(average: Float[Tensor, "*size"], decay: float, step: int) -> Float[Tensor, "*size"]:
    """Correct the bias toward zero of a young moving average (Kingma and Ba, 2015)."""
    return average / (1 - decay**step)


@bias_correction.def_gradient(r"\bar a = \frac{\bar{\hat a}}{1 - \beta^t}")
def _bias_correction_gradient(a_hat_bar: Tensor, decay: float, step: int) -> Tensor:
    return a_hat_bar / (1 - decay**step)


bias_correction.def_cell(lambda index, average, decay, step: f"{number(average[index])} / (1 − {number(decay)}^{step})")


@equation(
    r"\theta' = \theta - \eta \frac{m}{\sqrt{v} + \epsilon}",
    meaning="Each parameter's step is divided by the usual size of its own gradient.",
    intuition="Turn down the loud voices and turn up the quiet ones before listening to the choir.",
    symbols={
        r"theta=\theta": "parameters",
        "m": "direction: a gradient or its moving average",
        "v": "moving average of squared gradients",
        r"rate=\eta": "η, the learning rate",
        r"eps=\epsilon": "ε, keeps the division away from zero",
        r"theta_new=\theta'": "updated parameters",
    },
    names={"theta": "parameters"},
    flops=lambda size: 5 * size,
    where={"theta m v": same_dtype, "rate": not_negative, "eps": positive, "m": finite, "v": squares},
    upcast=True,
)
def normalized_descent(
    theta: Float[Tensor, "*size"],
    m: Float[Tensor, "*size"],
    v: Float[Tensor, "*size"],
    rate: float,
    eps: float = 1e-8,
) -> Float[Tensor, "*size"]:
    """One descent step in units of the root mean square of the gradient (Tieleman and Hinton, 2012)."""
    return gradient_descent.fn(theta, m / (v.sqrt() + eps), rate)


@normalized_descent.def_gradient(
    r"s = \sqrt{v} + \epsilon, \quad \bar\theta = \bar\theta', \quad \bar m = -\frac{\eta}{s} \bar\theta', \quad "
    r"\bar v = \frac{\eta \, m}{2 \sqrt{v} \, s^2} \bar\theta'"
)
def _normalized_descent_gradient(
    theta_new_bar: Tensor, m: Tensor, v: Tensor, rate: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    root = v.sqrt()
    s, step = root + eps, rate * theta_new_bar
    steep = m / s / s / (2 * root.clamp_min(torch.finfo(root.dtype).tiny))  # 0, not NaN, where m and v are both 0
    return theta_new_bar, -step / s, step * steep


@normalized_descent.def_cell
def _normalized_descent_cell(
    index: tuple[int, ...], theta: Tensor, m: Tensor, v: Tensor, rate: float, eps: float
) -> str:
    move = times(-rate, m[index])
    return f"{total([number(theta[index]), move], [])} / (√({number(v[index])}) + {number(eps)})"


@equation(
    r"v' = \rho v + (1 - \rho) g^2, \quad \theta' = \theta - \eta \frac{g}{\sqrt{v'} + \epsilon}",
    meaning="Follow the gradient, with each parameter's step divided by the usual size of its own gradient.",
    intuition="Short paces on steep ground, long ones on the flat.",
    symbols={
        r"theta=\theta": "parameters",
        "g": "gradient",
        "v": "second moment, the average of squared gradients, zeros at first",
        r"rate=\eta": "η, the learning rate",
        r"rho=\rho": "ρ, decay of the average",
        r"eps=\epsilon": "ε, keeps the division away from zero",
        r"theta_new=\theta'": "updated parameters",
        "v_new=v'": "updated second moment",
    },
    names={"theta": "parameters", "g": "gradient"},
    where={"theta g v": same_dtype, "rate": not_negative, "eps": positive, "rho": below_one, "g": finite, "v": squares},
)
def rmsprop(
    theta: Float[Tensor, "*size"],
    g: Float[Tensor, "*size"],
    v: Float[Tensor, "*size"],
    rate: float,
    rho: float = 0.99,
    eps: float = 1e-8,
) -> tuple[Float[Tensor, "*size"], Float[Tensor, "*size"]]:
    """Descend with steps scaled by the root of the mean square of the gradient (Tieleman and Hinton, 2012)."""
    v = moving_mean_square(v, g, rho)
    return normalized_descent(theta, g, v, rate, eps), v


@rmsprop.def_cell
def _rmsprop_cell(
    index: tuple[int, ...], theta: Tensor, g: Tensor, v: Tensor, rate: float, rho: float, eps: float
) -> str:
    square = f"{times(rho, v[index])} + {number(1 - rho)}·({number(g[index])})^2"
    move = times(-rate, g[index])
    return f"{total([number(theta[index]), move], [])} / (√({square}) + {number(eps)})"


@equation(
    r"m' = \beta_1 m + (1 - \beta_1) g, \quad v' = \beta_2 v + (1 - \beta_2) g^2, \quad "
    r"\hat m = \frac{m'}{1 - \beta_1^t}, \quad \hat v = \frac{v'}{1 - \beta_2^t}, \quad "
    r"\theta' = \theta - \eta \frac{\hat m}{\sqrt{\hat v} + \epsilon}",
    meaning="Each parameter follows the average of its gradients, in units of their usual size.",
    intuition="A hiker with a memory: full paces where the ground falls steadily, short ones where it wavers.",
    symbols=_MOMENTS | {r"eps=\epsilon": "ε, keeps the division away from zero"} | _UPDATED,
    names={"theta": "parameters", "g": "gradient"},
    where={
        "step": whole,
        "rate": not_negative,
        "eps": positive,
        "theta g m v": same_dtype,
        "betas": _decays,
        "g": finite,
        "v": squares,
    },
)
def adam(
    theta: Float[Tensor, "*size"],
    g: Float[Tensor, "*size"],
    m: Float[Tensor, "*size"],
    v: Float[Tensor, "*size"],
    step: int,
    rate: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
) -> tuple[Float[Tensor, "*size"], Float[Tensor, "*size"], Float[Tensor, "*size"]]:
    """Adam: the first moment over the root of the second, both corrected for starting at zero (Kingma and Ba, 2015)."""
    m = exponential_moving_average(m, g, betas[0])
    v = moving_mean_square(v, g, betas[1])
    m_hat, v_hat = bias_correction(m, betas[0], step), bias_correction(v, betas[1], step)
    return normalized_descent(theta, m_hat, v_hat, rate, eps), m, v


@equation(
    r"(\theta', m', v') = \text{Adam}\left((1 - \eta \lambda) \, \theta,\; g, m, v, t, \eta, \beta_1, \beta_2\right)",
    meaning="Decay every parameter a little, then take an Adam step; the decay stays out of the moments.",
    intuition="Prune the hedge by the same fraction everywhere, then let it grow where the sun is.",
    symbols=_MOMENTS | {r"decay=\lambda": "λ, strength of the decay"} | _UPDATED,
    names={"theta": "parameters", "g": "gradient"},
    where={
        "step": whole,
        "rate decay": not_negative,
        "theta g m v": same_dtype,
        "betas": _decays,
        "g": finite,
        "v": squares,
    },
)
def adamw(
    theta: Float[Tensor, "*size"],
    g: Float[Tensor, "*size"],
    m: Float[Tensor, "*size"],
    v: Float[Tensor, "*size"],
    step: int,
    rate: float,
    decay: float = 0.01,
    betas: tuple[float, float] = (0.9, 0.999),
) -> tuple[Float[Tensor, "*size"], Float[Tensor, "*size"], Float[Tensor, "*size"]]:
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    For another ε than Adam's default, call `adam` on `weight_decay(theta, rate, decay)`, which is all this does.
    """
    return adam(weight_decay(theta, rate, decay), g, m, v, step, rate, betas)
