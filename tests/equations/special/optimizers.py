"""Arguments of the optimizers and of the gradients they read, whose values matter."""

from torch import Tensor

from tests.equations.drawing import Draw


def gradient_descent(draw: Draw) -> dict:
    shape = draw.lead()
    return {"theta": draw.normal(*shape), "g": draw.normal(*shape), "rate": draw.number(0.0, 0.5)}


def weight_decay(draw: Draw) -> dict:
    return {"theta": draw.normal(*draw.lead()), "rate": draw.number(0.0, 0.5), "decay": draw.number(0.0, 0.5)}


def exponential_moving_average(draw: Draw) -> dict:
    shape = draw.lead()
    return {"average": draw.normal(*shape), "theta": draw.normal(*shape), "decay": draw.number(0.0, 1.0)}


def momentum(draw: Draw) -> dict:
    drawn = gradient_descent(draw)
    velocity, beta = draw.normal(*drawn["theta"].shape), draw.number(0.0, 0.99)
    return drawn | {"velocity": velocity, "beta": beta, "nesterov": draw.choose(True, False)}


def moving_mean_square(draw: Draw) -> dict:
    shape = draw.lead()
    return {"v": draw.positive(*shape), "g": draw.normal(*shape), "decay": draw.number(0.0, 0.999)}


def bias_correction(draw: Draw) -> dict:
    return {"average": draw.normal(*draw.lead()), "decay": draw.number(0.0, 0.99), "step": draw.integer(1, 50)}


def normalized_descent(draw: Draw) -> dict:
    shape = draw.lead()
    tensors = {"theta": draw.normal(*shape), "m": draw.normal(*shape), "v": draw.positive(*shape)}
    return tensors | {"rate": draw.number(0.0, 0.1), "eps": draw.number(1e-8, 1e-2)}


def rmsprop(draw: Draw) -> dict:
    drawn = gradient_descent(draw)
    return drawn | {"v": draw.positive(*drawn["theta"].shape), "rho": draw.number(0.0, 0.999)}


def adam(draw: Draw) -> dict:
    drawn = gradient_descent(draw)
    shape, betas = drawn["theta"].shape, (draw.number(0.0, 0.99), draw.number(0.0, 0.999))
    state = {"m": draw.normal(*shape), "v": draw.positive(*shape), "step": draw.integer(1, 50)}
    return drawn | state | {"betas": betas}


def adamw(draw: Draw) -> dict:
    return adam(draw) | {"decay": draw.number(0.0, 0.5)}


def newton_schulz(draw: Draw) -> dict:
    return {"X": _matrix(draw) / 5}


def orthogonalize(draw: Draw) -> dict:
    return {"G": _matrix(draw), "steps": draw.integer(1, 5)}


def muon(draw: Draw) -> dict:
    g = _matrix(draw)
    tensors = {"theta": draw.normal(*g.shape), "g": g, "buffer": draw.normal(*g.shape)}
    return tensors | {"rate": draw.number(0.0, 0.1), "steps": draw.integer(1, 3), "nesterov": draw.choose(True, False)}


def _matrix(draw: Draw) -> Tensor:
    return draw.normal(*draw.lead(), draw.integer(1, 4), draw.integer(1, 4))


def difference_quotient(draw: Draw) -> dict:
    shape = draw.lead()
    return {"f_ahead": draw.normal(*shape), "f_here": draw.normal(*shape), "h": draw.choose(-0.5, 0.1, 2.0)}


def global_norm(draw: Draw) -> dict:
    return {"gradients": [draw.normal(*draw.lead()) for _ in range(draw.integer(1, 3))]}


def clip_gradient(draw: Draw) -> dict:
    norm = draw.positive()
    return {"g": draw.normal(*draw.lead()), "norm": norm, "limit": float(norm) * draw.choose(0.5, 2.0)}
