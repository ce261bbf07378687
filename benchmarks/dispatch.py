"""Overhead of calling an equation beyond its kernel, and the cost of its argument checks.

Best of many rounds, each call timed beside the bare kernel in the same process.
"""

import timeit
from collections.abc import Callable

import torch

from glassformer.equation import no_checks
from glassformer.equations.activations import relu
from glassformer.equations.algebra import linear

CALLS, ROUNDS = 5000, 40
x, W, b = torch.randn(4, 4), torch.randn(4, 4), torch.randn(4)


def best(*calls: Callable[[], object]) -> list[float]:
    """Microseconds of each call, interleaved, the best of all rounds."""
    rounds = [[timeit.timeit(call, number=CALLS) for call in calls] for _ in range(ROUNDS)]
    return [min(column) / CALLS * 1e6 for column in zip(*rounds, strict=True)]


for equation, arguments in ((relu, (x,)), (linear, (x, W, b))):
    kernel = equation.fused
    assert kernel is not None
    with no_checks():
        bare, dispatched = best(lambda k=kernel, a=arguments: k(*a), lambda e=equation, a=arguments: e(*a))
    bare_again, checked = best(lambda k=kernel, a=arguments: k(*a), lambda e=equation, a=arguments: e(*a))
    print(
        f"{equation.name}: kernel {bare:.2f} µs, dispatch adds {dispatched - bare:.2f} µs, "
        f"argument checks add {checked - bare_again - (dispatched - bare):.1f} µs"
    )
