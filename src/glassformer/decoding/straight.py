"""Blocks as decoding likes them: projections joined, and a step of one row a text run straight through.

At one row a step the calls cost more than the arithmetic. So a step does what the parts of the block do, by the same
kernels, without asking each of them; whenever somebody watches, or there is more to a run than a step, the parts do it.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from glassformer.equations.algebra import residual
from glassformer.equations.heads import cut_heads, split_heads
from glassformer.layers.attention import Attention
from glassformer.layers.block import Around, Block
from glassformer.layers.cache import Moment, Slots
from glassformer.layers.patterns import Past
from glassformer.recording import MODE


class JoinedAttention(Attention):
    """Self-attention whose queries, keys and values come from one map, for one large product beats three small ones."""

    def __init__(self, part: Attention, kind: Callable[[Tensor, Tensor | None], nn.Module]) -> None:
        nn.Module.__init__(self)
        self.shape, self.pattern, self.rotary = part.shape, part.pattern, part.rotary
        self.query_norm, self.key_norm = part.query_norm, part.key_norm
        self.scale, self.cap, self.rate = part.scale, part.cap, part.rate
        maps = (part.query, part.key, part.value)
        biases = [m.bias.data for m in maps if m.bias is not None]
        self.joined = kind(torch.cat([m.weight.data for m in maps], 1), torch.cat(biases) if biases else None)
        self.output = part.output

    def _project(self, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        heads, groups = self.shape.heads, self.shape.groups
        every = split_heads(self.joined(source), heads + 2 * groups)
        query, key = cut_heads(every, 0, heads), cut_heads(every, heads, heads + groups)
        return query, key, cut_heads(every, heads + groups, heads + 2 * groups)

    def step(self, x: Tensor, slots: Slots, moment: Moment) -> Tensor:
        """The next row [rows, 1, dim] of each text, seeing all that is kept and itself."""
        heads, groups = self.shape.heads, self.shape.groups
        every = self.joined.forward(x).view(len(x), heads + 2 * groups, 1, self.shape.width)
        query, key, value = every[:, :heads], every[:, heads : heads + groups], every[:, heads + groups :]
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        if self.rotary is not None:
            query, key = self.rotary(query, moment.places), self.rotary(key, moment.places)
        keys, values = slots.keys[:, :, : moment.read], slots.values[:, :, : moment.read]
        keys[:, :, -1:].copy_(key)
        values[:, :, -1:].copy_(value)
        mixed = functional.scaled_dot_product_attention(
            query, keys, values, scale=self.scale, enable_gqa=heads != groups
        )
        return self.output.forward(mixed.reshape(len(x), 1, -1))


class StraightBlock(Block):
    """A block that runs a step straight through."""

    attention: JoinedAttention

    def __init__(self, part: Block) -> None:
        nn.Module.__init__(self)
        for name, child in part.named_children():
            setattr(self, name, child)
        if part.cross is None:
            self.cross = self.around_cross = None

    @staticmethod
    def fits(part: nn.Module) -> bool:
        """Whether a block's steps are all alike: each looks at its whole past, plainly."""
        if type(part) is not Block or not isinstance(part.attention, JoinedAttention):
            return False
        plain = part.cross is None or (part.cross.cap is None and part.cross.query_norm is None)
        return plain and isinstance(part.attention.pattern, Past) and part.attention.cap is None

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
        """Rows in, rows out, each sublayer adding to them."""
        a_step = moment is not None and moment.keys is None and bias is None and x.shape[1] == 1
        if slots is None or moment is None or not a_step or MODE.watcher is not None or torch.compiler.is_compiling():
            return super().forward(x, mask, bias, memory, memory_mask, slots, moment)
        own, far = slots
        around = self.around_attention
        x = _beside(around, x, self.attention.step(_before(around, x), own, moment))
        around = self.around_cross
        if around is not None and far is not None:
            x = _beside(around, x, self._recall(_before(around, x), far, memory_mask))
        around = self.around_feed_forward
        return _beside(around, x, self.feed_forward.forward(_before(around, x)))

    def _recall(self, x: Tensor, slots: Slots, mask: Tensor | None) -> Tensor:
        """Look at a remembered source; texts that share one ask it together."""
        cross = self.cross
        assert cross is not None
        rows, sources, heads = len(x), len(slots.keys), cross.shape.heads
        query = cross.query.forward(x).view(sources, rows // sources, heads, -1).transpose(1, 2)
        mixed = functional.scaled_dot_product_attention(
            query, slots.keys, slots.values, mask, scale=cross.scale, enable_gqa=heads != cross.shape.groups
        )
        return cross.output.forward(mixed.transpose(1, 2).reshape(rows, 1, -1))


def _before(around: Around, x: Tensor) -> Tensor:
    return around.norm.forward(x) if around.order == "pre" else x


def _beside(around: Around, x: Tensor, change: Tensor) -> Tensor:
    y = residual.run(x, change, around.alpha)
    return y if around.order == "pre" else around.norm.forward(y)
