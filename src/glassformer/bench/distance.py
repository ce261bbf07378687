"""How far two results are from each other."""

from torch import Tensor


def relative_distance(found: Tensor, wanted: Tensor) -> float:
    """The norm of the difference over the norm of what is wanted."""
    exact = wanted.detach().double()
    return float((found.detach().double() - exact).norm() / exact.norm())
