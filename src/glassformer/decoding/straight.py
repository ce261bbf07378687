"""Blocks as decoding likes them: projections joined, and plain runs go straight through.

At one row a step the calls cost more than the arithmetic, and on a GPU they do for short texts too. So a source, a
prompt or a step does what the parts of the block do, by the same kernels, without asking each of them; whenever
somebody watches, or there is more to a run than that, the parts do it.
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
from glassformer.layers.patterns import Everything, Past
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

    def straight(self, x: Tensor, slots: Slots | None, moment: Moment | None, mask: Tensor | None) -> Tensor:
        """Rows [texts, new, dim] that see each other, or all that is kept of their line and themselves."""
        heads, groups, (texts, new) = self.shape.heads, self.shape.groups, x.shape[:2]
        every = self.joined.forward(x).view(texts, new, heads + 2 * groups, self.shape.width).transpose(1, 2)
        both, value = every[:, : heads + groups], every[:, heads + groups :]
        if self.query_norm is not None and self.key_norm is not None:
            both = torch.cat([self.query_norm(both[:, :heads]), self.key_norm(both[:, heads:])], 1)
        if self.rotary is not None:
            both = self.rotary(both, torch.arange(new, device=x.device) if moment is None else moment.places)
        query, key = both[:, :heads], both[:, heads:]
        if slots is not None and moment is not None:
            assert moment.start is not None
            stop = moment.start + new
            slots.keys[:, :, moment.start : stop].copy_(key)
            slots.values[:, :, moment.start : stop].copy_(value)
            key, value = slots.keys[:, :, : moment.read], slots.values[:, :, : moment.read]
            mask = mask if moment.keys is None else moment.mask(self.pattern)
        causal = mask is None and self.pattern.causal and new > 1
        mixed = functional.scaled_dot_product_attention(
            query, key, value, mask, is_causal=causal, scale=self.scale, enable_gqa=heads != groups
        )
        return self.output.forward(mixed.transpose(1, 2).reshape(texts, new, -1))


class StraightBlock(Block):
    """A block that runs a source, a prompt or a step straight through."""

    attention: JoinedAttention

    def __init__(self, part: Block) -> None:
        nn.Module.__init__(self)
        for name, child in part.named_children():
            setattr(self, name, child)
        if part.cross is None:
            self.cross = self.around_cross = None

    @staticmethod
    def fits(part: nn.Module) -> bool:
        """Whether a block's rows look at all there is, or at their whole past, plainly."""
        if type(part) is not Block or not isinstance(part.attention, JoinedAttention):
            return False
        plain = part.cross is None or (part.cross.cap is None and part.cross.query_norm is None)
        return plain and type(part.attention.pattern) in (Everything, Past) and part.attention.cap is None

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
        if not self._plain(x, mask, bias, memory, moment) or MODE.watcher is not None or self.training:
            return super().forward(x, mask, bias, memory, memory_mask, slots, moment)
        own, far = slots or (None, None)
        around = self.around_attention
        x = _beside(around, x, self.attention.straight(_before(around, x), own, moment, mask))
        around = self.around_cross
        if around is not None and far is not None:
            x = _beside(around, x, self._recall(_before(around, x), far, memory_mask))
        around = self.around_feed_forward
        return _beside(around, x, self.feed_forward.forward(_before(around, x)))

    def _plain(
        self, x: Tensor, mask: Tensor | None, bias: Tensor | None, memory: Tensor | None, moment: Moment | None
    ) -> bool:
        """Whether these are rows of a source, or of texts that are all at the same place: at their start or a step.

        A step may go several ways at once.
        """
        if bias is not None or memory is not None or torch.compiler.is_compiling():
            return False
        if moment is None:
            return self.cross is None and (mask is None or not self.attention.pattern.causal)
        if moment.keys is None:
            return x.shape[1] in (1, moment.read)
        return moment.start is not None and moment.lines is not None

    def _recall(self, x: Tensor, slots: Slots, mask: Tensor | None) -> Tensor:
        """Look at a remembered source."""
        cross = self.cross
        assert cross is not None
        (rows, new), heads = x.shape[:2], cross.shape.heads
        query = cross.query.forward(x).view(rows, new, heads, -1).transpose(1, 2)
        mixed = functional.scaled_dot_product_attention(
            query, slots.keys, slots.values, mask, scale=cross.scale, enable_gqa=heads != cross.shape.groups
        )
        return cross.output.forward(mixed.transpose(1, 2).reshape(rows, new, -1))


def _before(around: Around, x: Tensor) -> Tensor:
    return around.norm.forward(x) if around.order == "pre" else x


def _beside(around: Around, x: Tensor, change: Tensor) -> Tensor:
    y = residual.run(x, change, around.alpha)
    return y if around.order == "pre" else around.norm.forward(y)
