"""Small models of every family with weights worth comparing, and files made of them."""

import torch
from safetensors import safe_open
from torch import Tensor

from glassformer.checkpoints.parity_configs import PARITY_CONFIGS
from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.models.registry import build

NAMES = list(PARITY_CONFIGS)


def shaken(config: Config, seed: int = 0, dtype: torch.dtype = torch.float32) -> Model:
    """A model whose every parameter matters: none left at zero or one."""
    model = build(config, seed).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model.to(dtype)


def assert_equal(left: Model, right: Model) -> None:
    """Two models have the same parameters to the bit."""
    mine, yours = dict(left.named_parameters()), dict(right.named_parameters())
    assert mine.keys() == yours.keys()
    assert all(torch.equal(mine[name], yours[name]) and mine[name].dtype == yours[name].dtype for name in mine)


def contents(path: object) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file."""
    with safe_open(str(path), "pt") as file:
        return {name: file.get_tensor(name).clone() for name in file.keys()}, file.metadata()  # noqa: SIM118
