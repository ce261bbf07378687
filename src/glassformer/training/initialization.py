"""Draw fresh weights by another initialization than the model's default."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from glassformer.equations.variance_scaling import he_normal, xavier_normal, xavier_uniform
from glassformer.layers.basic import Linear
from glassformer.layers.model import Model

INITIALIZATIONS: Mapping[str, Callable[..., Tensor]] = {
    "he_normal": he_normal,
    "xavier_normal": xavier_normal,
    "xavier_uniform": xavier_uniform,
}


@torch.no_grad()
def initialize(model: Model, name: str, seed: int) -> None:
    """Draw the matrices of all linear layers; embeddings, norms and biases stay as the model has them.

    Each matrix of a fused weight is drawn by its own fan-out.
    """
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, Linear):
            for matrix in module.weight.split(module.parts or module.weight.shape[1], 1):
                matrix.copy_(INITIALIZATIONS[name](*matrix.shape, generator=generator))
