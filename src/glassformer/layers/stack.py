"""Blocks in a row, with what they share: a bias by distance at the start, a norm at the end."""

from collections.abc import Sequence

from torch import Tensor, nn


class Stack(nn.Module):
    """Run rows through blocks; `bias` is worked out once for all of them."""

    def __init__(
        self, blocks: Sequence[nn.Module], norm: nn.Module | None = None, bias: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.bias = bias
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        """Rows in, rows out."""
        bias = None if self.bias is None else self.bias(x.shape[-2], x.shape[-2], x)
        for block in self.blocks:
            x = block(x, mask, bias, memory, memory_mask)
        return x if self.norm is None else self.norm(x)
