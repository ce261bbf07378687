"""Fine-tuning: LoRA layers in place of linear ones, merging them, and freezing parameters by name."""

import copy
from fnmatch import fnmatchcase
from typing import TypeVar

import torch
from torch import Tensor, nn

from glassformer.equations.algebra import linear, residual
from glassformer.equations.initialization import normal
from glassformer.equations.lora import lora, merge_lora
from glassformer.equations.regularization import dropout
from glassformer.errors import ConfigError
from glassformer.layers.basic import Linear

M = TypeVar("M", bound=nn.Module)
LORA_A, LORA_B = "lora_A", "lora_B"
SHOWN_NAMES = 8  # in an error


class LoRALinear(nn.Module):
    """A linear layer whose weight is frozen, with a low-rank update that is trained (Hu et al., 2021).

    It holds the weight and bias of the layer it replaces under the same names. B is zero at first, so that the layer
    starts as the one it replaces. Dropout applies to the input of the update, in training.
    """

    def __init__(self, base: Linear, rank: int, alpha: float, dropout: float = 0.0) -> None:
        super().__init__()
        self.weight, self.bias, self.parts = base.weight, base.bias, base.parts
        inputs, outputs = base.weight.shape
        self.lora_A = nn.Parameter(base.weight.new_zeros(inputs, rank))
        self.lora_B = nn.Parameter(base.weight.new_zeros(rank, outputs))
        self.alpha, self.dropout = alpha, dropout

    def forward(self, x: Tensor) -> Tensor:
        """Project the last axis, and add the update."""
        if not (self.training and self.dropout > 0):
            return lora(x, self.weight, self.lora_A, self.lora_B, self.alpha, self.bias)
        update = linear(linear(dropout(x, self.dropout), self.lora_A), self.lora_B)
        return residual(linear(x, self.weight, self.bias), update, self.alpha / self.lora_A.shape[1])

    @torch.no_grad()
    def merged(self) -> Linear:
        """A linear layer with the update merged into its weight."""
        layer = Linear(1, 1, bias=False)
        layer.bias, layer.parts = self.bias, self.parts
        layer.weight = nn.Parameter(merged_weight(self.weight, self.lora_A, self.lora_B, self.alpha))
        return layer.train(self.training).requires_grad_()


def merged_weight(weight: Tensor, a: Tensor, b: Tensor, alpha: float) -> Tensor:
    """The weight with an update merged into it: computed in float32 or finer, and rounded once."""
    dtype = torch.promote_types(weight.dtype, torch.float32)
    return merge_lora(weight.to(dtype), a.to(dtype), b.to(dtype), alpha).to(weight.dtype)


def add_lora(
    model: nn.Module, targets: str, rank: int, alpha: float, dropout: float = 0.0, seed: int = 0
) -> dict[str, LoRALinear]:
    """Replace the linear layers that match `targets` by LoRA layers, and return those by name.

    `targets` are patterns as `matches` reads them. A is drawn from a normal distribution with variance 1/inputs.
    """
    linears = {name: module for name, module in model.named_modules() if isinstance(module, Linear)}
    chosen = {name: module for name, module in linears.items() if matches(name, targets)}
    require_matches("targets", targets or "(nothing)", list(linears), "linear layer")
    generator = torch.Generator().manual_seed(seed)
    layers = {name: LoRALinear(module, rank, alpha, dropout) for name, module in chosen.items()}
    for name, layer in layers.items():
        if not layer.lora_A.is_meta:
            shape = tuple(layer.lora_A.shape)
            layer.lora_A.data.copy_(normal(shape, shape[0] ** -0.5, generator))
        _replace(model, name, layer.train(model.training))
    return layers


def lora_layers(model: nn.Module) -> dict[str, LoRALinear]:
    """The LoRA layers of a model by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, LoRALinear)}


def add_lora_like(model: nn.Module, other: nn.Module) -> None:
    """Give a model LoRA layers where another has them, with zeros in their matrices."""
    for name, layer in lora_layers(other).items():
        base = model.get_submodule(name)
        assert isinstance(base, Linear)
        _replace(model, name, LoRALinear(base, layer.lora_A.shape[1], layer.alpha, layer.dropout))


def merge_layers(model: nn.Module) -> None:
    """Merge the update of every LoRA layer, which becomes a linear layer again; all parameters can be trained then."""
    for name, layer in lora_layers(model).items():
        _replace(model, name, layer.merged())
    model.requires_grad_()


def merged(model: M) -> M:
    """A copy of a model with its LoRA layers merged; the model itself if it has none."""
    if not lora_layers(model):
        return model
    model = copy.deepcopy(model)
    merge_layers(model)
    return model


def freeze(model: nn.Module, patterns: str) -> None:
    """Freeze the parameters whose names match: they get no gradient, no optimizer state and no moving average."""
    parameters = dict(model.named_parameters())
    require_matches("freeze", patterns, list(parameters), "parameter")
    for name, parameter in parameters.items():
        parameter.requires_grad_(not matches(name, patterns))


def freeze_for_lora(model: nn.Module, modules_to_save: str) -> None:
    """Freeze everything but the LoRA matrices and the parameters whose names match `modules_to_save`."""
    parameters = dict(model.named_parameters())
    require_matches("modules_to_save", modules_to_save, list(parameters), "parameter")
    for name, parameter in parameters.items():
        parameter.requires_grad_(name.endswith((LORA_A, LORA_B)) or matches(name, modules_to_save))


def matches(name: str, patterns: str) -> bool:
    """Whether some parts in a row of a dotted name match one of the patterns, which commas separate.

    `attention` matches `stack.blocks.0.attention.qkv`, `*norm` any norm, `blocks.?.feed_forward` the first ten blocks.
    """
    parts = name.split(".")
    for pattern in split_patterns(patterns):
        wanted = pattern.split(".")
        for start in range(len(parts) - len(wanted) + 1):
            if all(fnmatchcase(part, each) for part, each in zip(parts[start:], wanted, strict=False)):
                return True
    return False


def split_patterns(patterns: str) -> list[str]:
    """The patterns of a list with commas."""
    return [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]


def require_matches(setting: str, patterns: str, names: list[str], kind: str) -> None:
    """Refuse a pattern that matches none of the names."""
    for pattern in split_patterns(patterns):
        if not any(matches(name, pattern) for name in names):
            known = dict.fromkeys(".".join(part for part in name.split(".") if not part.isdigit()) for name in names)
            more = ", ..." if len(known) > SHOWN_NAMES else ""
            there = f"there are {', '.join(list(known)[:SHOWN_NAMES])}{more}"
            raise ConfigError(f"{setting}: {pattern} matches no {kind} of the model; {there}")


def _replace(model: nn.Module, name: str, layer: nn.Module) -> None:
    parent, _, leaf = name.rpartition(".")
    setattr(model.get_submodule(parent), leaf, layer)
