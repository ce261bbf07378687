"""Training in 8-bit floats: linear layers inside blocks that multiply them, in place of those that do not."""

from collections.abc import Iterator

from torch import Tensor, nn

from glassformer.equations.float8 import fits_float8, float8_linear, keep_products_whole
from glassformer.layers.basic import Linear
from glassformer.layers.block import Block


class Float8Linear(Linear):
    """A linear layer that multiplies 8-bit floats; it holds the parameters of the layer it replaces."""

    def __init__(self, base: Linear) -> None:
        nn.Module.__init__(self)
        self.weight, self.bias, self.parts = base.weight, base.bias, base.parts
        self.train(base.training)

    def forward(self, x: Tensor) -> Tensor:
        """Project the last axis."""
        return float8_linear(x, self.weight, self.bias)

    def base(self) -> Linear:
        """The layer that it replaced, with the same parameters."""
        layer = Linear(1, 1, bias=False)
        layer.weight, layer.bias, layer.parts = self.weight, self.bias, self.parts
        return layer.train(self.training)


def use_float8(model: nn.Module) -> int:
    """Let linear layers inside blocks multiply 8-bit floats; the number of layers that do.

    Layers whose sizes are not multiples of 16 stay as they are, as do LoRA layers, embeddings and the output layer.
    """
    keep_products_whole()
    found = [each for each in _linears(model) if type(each[2]) is Linear and fits_float8(each[2].weight)]
    for parent, name, layer in found:
        setattr(parent, name, Float8Linear(layer))
    return len(found)


def leave_float8(model: nn.Module) -> None:
    """Undo `use_float8`."""
    for parent, name, layer in list(_linears(model)):
        if isinstance(layer, Float8Linear):
            setattr(parent, name, layer.base())


def _linears(model: nn.Module) -> Iterator[tuple[nn.Module, str, Linear]]:
    """The linear layers inside the blocks of a model, each once, with the module and the name that hold it."""
    parents = {id(part): part for block in model.modules() if isinstance(block, Block) for part in block.modules()}
    for parent in parents.values():
        for name, layer in parent.named_children():
            if isinstance(layer, Linear):
                yield parent, name, layer
