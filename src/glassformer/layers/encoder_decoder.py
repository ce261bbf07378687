"""The protocol of encoder-decoder models: forward pass, cache and decoding step."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from glassformer.equations.masks import padding_mask
from glassformer.errors import ModelError
from glassformer.layers.block import Separated, Stack
from glassformer.layers.cache import DecoderState, KVCache
from glassformer.layers.model import TokenPredictor, checks_inputs


@runtime_checkable
class Packing(Protocol):
    """Which tokens of a row belong together, where several pairs share one: `PackedPairs` of `packing`."""

    def most(self) -> int:
        """The most tokens of a sequence."""
        ...

    @property
    def masks(self) -> tuple[Separated, Separated, Separated]:
        """Instead of masks: what sources see of themselves, targets of themselves, and targets of sources."""
        ...

    def positions(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Positions [batch, seq] of source and target tokens, from 0 in each sequence."""
        ...


class EncoderDecoder(TokenPredictor):
    """A source and a target so far in, logits for each next target token out.

    An architecture sets `embedding`, `encoder`, `decoder` and `output` (None where the embedding is tied), and says
    how tokens become hidden states in `embed_source` and `embed_target`.
    """

    encoder: Stack
    decoder: Stack

    def embed_source(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """Hidden states [batch, seq, dim] that enter the encoder's first block; without positions, counted from 0."""
        return self.embedding(ids)

    def embed_target(self, ids: Tensor, positions: Tensor | None) -> Tensor:
        """Hidden states [batch, seq, dim] that enter the decoder; without positions, tokens count from 0."""
        return self.embed_source(ids, positions)

    def check(
        self,
        source: Tensor,
        target: Tensor,
        attention_mask: Tensor | None = None,
        packing: Packing | None = None,
    ) -> None:
        """Raise on token ids the model cannot take."""
        context = self.max_length
        if packing is not None and context is not None and not source.is_meta and packing.most() > context:
            where = f"{type(self).__name__}: packing has a sequence of {packing.most()} tokens"
            raise ModelError(f"{where}, wanted at most {context}, the model's context")
        self.check_tokens("source", source, self.config.vocab, context if packing is None else None)
        self.check_tokens("target", target, self.config.vocab, context if packing is None else None)
        self.check_mask(attention_mask, source)
        if len(target) != len(source):
            where = f"{type(self).__name__}: target"
            raise ModelError(f"{where} has {len(target)} sequences, wanted {len(source)}, as many as the source")

    @checks_inputs(check)
    def forward(
        self,
        source: Tensor,
        target: Tensor,
        attention_mask: Tensor | None = None,
        packing: Packing | None = None,
    ) -> Tensor:
        """Logits [batch, seq, vocab] for every next target token; `attention_mask` is false for source padding.

        With `packing` a row holds several sources or targets.
        """
        return self.unembed(self.hidden_states(source, target, attention_mask, packing))

    def hidden_states(
        self,
        source: Tensor,
        target: Tensor,
        attention_mask: Tensor | None = None,
        packing: Packing | None = None,
    ) -> Tensor:
        """Hidden states [batch, seq, dim] after the last block, from which logits are computed."""
        if packing is not None:
            return self._packed(source, target, packing)
        return self._read_target(target, self.encode(source, attention_mask), attention_mask)

    def _packed(self, source: Tensor, target: Tensor, packing: Packing) -> Tensor:
        """The same for rows of several sequences."""
        in_source, in_target, across = packing.masks
        source_positions, target_positions = packing.positions(source, target)
        encoder_output = self.encoder(self.embed_source(source, source_positions), in_source)
        x = self.embed_target(target, target_positions)
        return self.decoder(x, in_target, encoder_output, across)

    def encode(self, source: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Encoder output [batch, seq, dim] of source ids [batch, seq]."""
        x = self.embed_source(source)
        return self.encoder(x, None if attention_mask is None else padding_mask(attention_mask, dtype=x.dtype))

    def decode(
        self,
        target: Tensor,
        encoder_output: Tensor | None,
        attention_mask: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Logits [batch, seq, vocab] for the token after each target token; `attention_mask` is of the source.

        With a cache, which holds the source too, the tokens continue those it holds, and are added to it.
        """
        return self.unembed(self._read_target(target, encoder_output, attention_mask, cache))

    def _read_target(
        self, target: Tensor, encoder_output: Tensor | None, attention_mask: Tensor | None, cache: KVCache | None = None
    ) -> Tensor:
        """Hidden states that leave the decoder."""
        context = None if cache is None else cache.attention_context(target.shape[1])
        x = self.embed_target(target, None if context is None else context.positions)
        encoder_mask = None if attention_mask is None else padding_mask(attention_mask, dtype=x.dtype)
        x = self.decoder(x, encoder_output=encoder_output, encoder_mask=encoder_mask, cache=cache, context=context)
        if cache is not None:
            cache.advance(target.shape[1])
        return x

    def new_cache(self, source: Tensor, slots: int, attention_mask: Tensor | None = None, headroom: int = 1) -> KVCache:
        """Encode the source, and open an empty cache for targets of up to `slots` tokens."""
        encoder_output = self.encode(source, attention_mask)
        cache = self.decoder.cache(len(source), slots, encoder_output, headroom=headroom)
        cache.cross_kv = self.decoder.project_memory(encoder_output)
        cache.source_mask = None if attention_mask is None else padding_mask(attention_mask, dtype=encoder_output.dtype)
        return cache

    def decoder_input(self, prompt: Sequence[int], start: int) -> Sequence[int]:
        """The tokens the decoder reads before the first one it predicts: its start token."""
        return [start]

    def prefill(self, prompts: Sequence[Sequence[int]], slots: int, chunk: int) -> KVCache:
        """Encode the sources into a new cache; no target token has been read yet."""
        source, real = right_padded(prompts, self.embedding.weight.device)
        return self.new_cache(source, slots, None if bool(real.all()) else real)

    def decode_step(self, ids: Tensor, cache: DecoderState) -> Tensor:
        """Logits [batch, new, vocab], in float32 or finer, after reading target tokens [batch, new] into the cache."""
        assert isinstance(cache, KVCache)
        logits = self.decode(ids, None, cache=cache)
        return logits if logits.dtype == torch.float64 else logits.float()


def right_padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Sequences as one tensor, and which of its entries are real; an empty one gets one token to attend to."""
    width = max(1, *map(len, rows))
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=device)
    lengths = torch.tensor([max(1, len(row)) for row in rows], device=device)
    return ids, torch.arange(width, device=device) < lengths[:, None]
