"""A block: sublayers, each with a way past it and a norm before or after."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from glassformer.equations.algebra import residual
from glassformer.equations.regularization import dropout
from glassformer.errors import ModelError
from glassformer.layers.attention import Attention
from glassformer.layers.cache import Moment, Slots

Order = Literal["pre", "post"]


class Around(nn.Module):
    """The way past a sublayer: `x + F(norm(x))` with the norm before, `norm(x + F(x))` with it after."""

    def __init__(self, norm: nn.Module, order: Order = "pre", rate: float = 0.0, alpha: float = 1.0) -> None:
        super().__init__()
        self.norm = norm
        self.order = order
        self.rate = rate
        self.alpha = alpha

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Run the sublayer and add what it says."""
        change = sublayer(self.norm(x) if self.order == "pre" else x)
        if self.training and self.rate > 0:
            change = dropout(change, self.rate)
        y = residual(x, change, self.alpha)
        return y if self.order == "pre" else self.norm(y)


class Block(nn.Module):
    """Self-attention, then attention to a memory if there is one, then feed-forward."""

    def __init__(
        self,
        attention: Attention,
        feed_forward: nn.Module,
        around: Callable[[], Around],
        cross: Attention | None = None,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.around_attention = around()
        self.cross = cross
        self.around_cross = around() if cross is not None else None
        self.feed_forward = feed_forward
        self.around_feed_forward = around()

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        slots: tuple[Slots, Slots | None] | None = None,
        moment: Moment | None = None,
    ) -> Tensor:
        """Rows in, rows out, each sublayer adding to them; with slots, from what was kept of earlier rows."""
        own, far = slots or (None, None)
        x = self.around_attention(x, lambda h: self.attention(h, None, mask, bias, None, own, moment))
        if self.cross is not None and self.around_cross is not None:
            if memory is None and far is None:
                raise ModelError("Block: memory is missing, wanted the encoder's output for the cross-attention")
            cross = self.cross
            x = self.around_cross(x, lambda h: cross(h, memory, memory_mask, slots=far))
        return self.around_feed_forward(x, self.feed_forward)
