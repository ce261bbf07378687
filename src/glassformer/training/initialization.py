"""Draw fresh weights by another initialization than the model's default."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from glassformer.equations.variance_scaling import he_normal, xavier_normal, xavier_uniform
from glassformer.layers.linear import Linear
from glassformer.layers.model import Model

INITIALIZATIONS: Mapping[str, Callable[..., Tensor]] = {
    "he_normal": he_normal,
    "xavier_normal": xavier_normal,
    "xavier_uniform": xavier_uniform,
}


@torch.no_grad()
def initialize(model: Model, name: str, seed: int) -> None:
    """Draw the matrices of all linear layers anew; embeddings, norms and biases stay as the model has them."""
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, Linear):
            module.weight.copy_(INITIALIZATIONS[name](*module.weight.shape, generator=generator))
