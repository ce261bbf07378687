"""How far two results are from each other."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from glassformer.bench.measure import BenchError

TOLERANCE = 1e-4  # of outputs in float32 with the same weights


@contextmanager
def exact_products() -> Iterator[None]:
    """Products in float32 as they are written, while inside; TF32, which some peers switch on, has three digits."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@torch.no_grad()
def draw_vectors(model: nn.Module, endings: tuple[str, ...] = (".weight", ".bias")) -> None:
    """Draw the weights of norms, and biases: fresh ones are alike, so that exchanged or missing ones would not show."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1 and name.endswith(endings):
            parameter.add_(torch.randn_like(parameter), alpha=0.1)


def relative_distance(found: Tensor, wanted: Tensor) -> float:
    """The norm of the difference over the norm of what is wanted."""
    exact = wanted.detach().double()
    return float((found.detach().double() - exact).norm() / exact.norm())


def require_near(name: str, apart: float) -> None:
    """Raise if a peer's outputs are not ours, with our weights; NaN is not near anything."""
    if not apart <= TOLERANCE:
        raise BenchError(f"{name}: its logits are {apart:.1e} from ours with the same weights, wanted {TOLERANCE}")
