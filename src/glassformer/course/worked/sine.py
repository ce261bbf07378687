"""A straight line and a small network through the same wave."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from glassformer.course.worked.networks import least_squares
from glassformer.course.worked.recomputing import Answer, Given, recomputes
from glassformer.equation import no_checks
from glassformer.equations.activations import relu
from glassformer.equations.adam import adam
from glassformer.equations.algebra import add, linear
from glassformer.equations.losses import mean_squared_error
from glassformer.equations.matrices import matmul
from glassformer.equations.variance_scaling import xavier_uniform
from glassformer.recording import Tape

WIDTHS = (1, 10, 10, 1)
SEEDS = 20
# The document's thousand epochs of small batches take minutes here; fewer and longer steps on all points at once
# answer the same question.
STEPS = 300
RATE = 0.03


@recomputes("linear-regression-vs-network-sin")
def _linear_regression_vs_network_sin(given: Given) -> Answer:
    x = torch.linspace(-10, 10, 100, dtype=torch.float64)[:, None]
    y = x.sin()
    slope, intercept = least_squares(x, y)
    error = mean_squared_error(linear(x, slope, intercept), y)
    spread = mean_squared_error(y.mean(0).expand_as(y), y)
    with no_checks():  # what holds for the first of many steps holds for all
        parameters = _trained(x, y)
    guesses = _guesses(x, parameters)
    errors = torch.stack([mean_squared_error(guess, y) for guess in guesses])
    return {
        "slope": slope[0, 0],
        "intercept": intercept[0],
        "mse_linear": error,
        "r2_linear": 1 - error / spread,
        "network_mse_min_over_20_seeds": errors.min(),
        "network_mse_median": errors.quantile(0.5),
        "network_mse_max": errors.max(),
        "network_beats_line": bool((errors < error).all()),
    }


def _guesses(x: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """What every network says, [seeds, points, 1]; matrices and shifts take turns in the parameters."""
    h = x.expand(SEEDS, *x.shape)
    for i in range(0, len(parameters), 2):
        h = add(matmul(h if i == 0 else relu(h), parameters[i]), parameters[i + 1])
    return h


def _trained(x: Tensor, y: Tensor) -> list[Tensor]:
    """Parameters of one network for each seed, trained side by side by Adam."""
    generators = [torch.Generator().manual_seed(seed) for seed in range(SEEDS)]
    parameters: list[Tensor] = []
    for inputs, outputs in pairwise(WIDTHS):
        drawn = [xavier_uniform(inputs, outputs, generator, torch.float64) for generator in generators]
        parameters += [torch.stack(drawn), torch.zeros(SEEDS, 1, outputs, dtype=torch.float64)]
    targets = y.expand(SEEDS, *y.shape)
    means, squares = ([torch.zeros_like(theta) for theta in parameters] for _ in range(2))
    for step in range(1, STEPS + 1):
        with Tape() as tape:
            mean_squared_error(_guesses(x, parameters), targets)
        found = tape.reverse()
        for i, theta in enumerate(parameters):
            parameters[i], means[i], squares[i] = adam(theta, found[theta], means[i], squares[i], step, RATE)
    return parameters
