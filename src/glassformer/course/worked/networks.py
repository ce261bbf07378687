"""Perceptrons: forward, backward, and what a nonlinearity between two matrices is good for."""

import torch
from torch import Tensor

from glassformer.course.worked.recomputing import CLAIMS, Answer, Given, largest_difference, recomputes
from glassformer.equations.activations import gelu, relu, sigmoid, tanh
from glassformer.equations.algebra import add, linear, scale
from glassformer.equations.losses import mean_squared_error
from glassformer.equations.matrices import transpose
from glassformer.equations.optimizers import gradient_descent
from glassformer.equations.rotary import rotary
from glassformer.layers.basic import ACTIVATIONS
from glassformer.recording import Tape


@recomputes("mse-matrix-gradients")
def _mse_matrix_gradients(given: Given) -> Answer:
    X, W, b, Y = given.tensors("X", "W", "b", "Y_true")
    with Tape() as tape:
        y_hat = linear(X, W, b)
        loss = mean_squared_error(y_hat, Y)
    found, rate = tape.reverse(), given.get("alpha", float)
    return {
        "Y_hat": y_hat,
        "L": loss,
        "dW": found[W],
        "db": found[b],
        "W_new": gradient_descent(W, found[W], rate),
        "b_new": gradient_descent(b, found[b], rate),
    }


def _perceptron(given: Given) -> Answer:
    """Forward and backward through one hidden layer; deltas are error signals without the loss's own factor."""
    X, W1, b1, W2, b2, Y = given.tensors("X", "W1", "b1", "W2", "b2", "Y_true")
    with Tape() as tape:
        z1 = linear(X, W1, b1)
        a1 = ACTIVATIONS[given.get("activation", str)](z1)
        y_hat = linear(a1, W2, b2)
        loss = mean_squared_error(y_hat, Y)
    found, rows = tape.reverse(), given.get("N", int)
    delta2 = add(y_hat, scale(Y, -1.0))
    factor = (found[y_hat] / delta2).mean().item() * rows
    return {
        **{"Z1": z1, "A1": a1, "Y_hat": y_hat, "L": loss},
        **{"delta2": delta2, "delta1": scale(found[z1], rows / factor), "prefactor_times_N": factor},
        **{"dW1": found[W1], "db1": found[b1], "dW2": found[W2], "db2": found[b2]},
    }


@recomputes("mlp-backprop-prefactor")
def _mlp_backprop_prefactor(given: Given) -> Answer:
    return _perceptron(given)


@recomputes("mlp-backprop-relu")
def _mlp_backprop_relu(given: Given) -> Answer:
    return _perceptron(given)


@recomputes("mlp-single-row-backprop")
def _mlp_single_row_backprop(given: Given) -> Answer:
    x, W1, W2, y = given.tensors("x", "W1", "W2", "y")
    with Tape() as tape:
        z1 = linear(x, W1)
        h1 = tanh(z1)
        z2 = linear(h1, W2)
        mean_squared_error(z2, y)  # of one row, so the mean is the sum of its squared errors
    found = tape.reverse()
    return {"z1": z1, "h1": h1, "z2": z2, "dz2": found[z2], "dW2": found[W2], "dW1": found[W1]}


@recomputes("block-row-matmul")
def _block_row_matmul(given: Given) -> Answer:
    H, W = given.tensors("H", "W")
    whole = linear(H, W)
    return {"HW": whole, "max_row_difference": largest_difference(whole, torch.stack([linear(h, W) for h in H]))}


@recomputes("transpose-is-not-inverse")
def _transpose_is_not_inverse(given: Given) -> Answer:
    h, W = given.tensors("h", "W")
    # A turn of the plane is a rotary embedding at position 1 whose one frequency is the angle.
    positions, angle = torch.ones(2, dtype=torch.int64), given.tensor("R_angle").reshape(1)
    R = rotary(torch.eye(2, dtype=torch.float64), positions, frequencies=angle)
    back = linear(linear(h, W), transpose(W))
    return {
        "h_W_WT": back,
        "h_R_RT": linear(linear(h, R), transpose(R)),
        "transpose_reverses_W": torch.allclose(back, h),
    }


@recomputes("gelu-values")
def _gelu_values(given: Given) -> Answer:
    x = given.tensor("x")
    y = gelu(x)
    lowest = _lowest_of_gelu()
    between = (torch.minimum(x, torch.zeros_like(x)) <= y) & (y <= torch.maximum(x, torch.zeros_like(x)))
    return {
        "gelu": y,
        "minimum_value": gelu(lowest),
        "minimum_location_approx": round(lowest.item(), 6),
        "between_zero_and_x": bool(between.all()),
    }


def _slope_of_gelu(x: Tensor) -> Tensor:
    with Tape() as tape:
        y = gelu(x)
    return tape.reverse(torch.ones_like(y))[x]


def _lowest_of_gelu() -> Tensor:
    """Halve the interval in which the slope changes its sign until it is as narrow as float64 can tell."""
    low, high = torch.tensor(-1.0, dtype=torch.float64), torch.tensor(-0.5, dtype=torch.float64)
    for _ in range(52):
        middle = (low + high) / 2
        low, high = (middle, high) if _slope_of_gelu(middle) < 0 else (low, middle)
    return low


@recomputes("gelu-survival-probability")
def _gelu_survival_probability(given: Given) -> Answer:
    x = given.tensor("x")
    # GELU is x times the chance to be kept; at zero, where that says nothing, the chance is its slope.
    keep = torch.where(x == 0, _slope_of_gelu(x), gelu(x) / x)
    return {"keep_probability": keep, "highest_at_mean": bool(keep.argmax() == x.abs().argmin())}


@recomputes("xor-sigmoid")
def _xor_sigmoid(given: Given) -> Answer:
    W, c, w, x = given.tensors("W", "c", "w", "inputs")
    hidden = sigmoid(linear(x, transpose(W), c))  # the document's matrix acts on columns
    output = sigmoid(linear(hidden, w[:, None], given.tensor("b")[None]))[:, 0]
    return {
        **{"hidden": hidden, "output": output, "rounded": output.round().long()},
        **{"hidden_first_input": hidden[0], "output_first_input": output[0]},
    }


@recomputes("xor-relu")
def _xor_relu(given: Given) -> Answer:
    W, c, w, x = given.tensors("W", "c", "w", "inputs")
    hidden = relu(linear(x, W, c))
    output = relu(linear(hidden, w[:, None], given.tensor("b")[None]))[:, 0]
    return {"hidden": hidden, "output": output, "class": (output >= given.get("threshold", float)).long()}


@recomputes("xor-linear-fit")
def _xor_linear_fit(given: Given) -> Answer:
    x, targets = given.tensors("inputs", "targets")
    weights, bias = least_squares(x, targets[:, None])
    predictions = linear(x, weights, bias)
    error = mean_squared_error(predictions, targets[:, None])
    answer = {"w": weights[:, 0], "b": bias[0], "predictions": predictions[:, 0], "mse": error}
    return {**answer, CLAIMS: {"claim": not torch.allclose(predictions[:, 0], targets)}}


def least_squares(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The matrix and the bias whose linear map has the smallest mean squared error."""
    columns = torch.cat([x, torch.ones_like(x[:, :1])], 1)
    solution = torch.linalg.lstsq(columns, y).solution
    return solution[:-1], solution[-1]
