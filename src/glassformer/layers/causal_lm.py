"""The protocol of decoder-only language models: forward pass, cache and decoding step."""

from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.equations.masks import padding_mask
from glassformer.errors import ModelError
from glassformer.layers.block import Stack
from glassformer.layers.cache import DecoderState, KVCache, left_padded
from glassformer.layers.model import TokenPredictor, checks_inputs


class CausalLM(TokenPredictor):
    """A language model that reads left to right: token ids in, logits for each next token out.

    An architecture sets `embedding`, `stack` and `output` (None where the embedding is tied), and overrides `embed`
    if more happens before the first block. A recurrent or state-space model overrides `forward` and `new_cache`.
    """

    stack: Stack
    reads_source = False
    can_rewind = True

    @property
    def reads_past_context(self) -> bool:
        """Whether a text may outgrow the context as it is, by a sliding window or by ALiBi, which extrapolates."""
        return False

    def embed(self, ids: Tensor, positions: Tensor | None) -> Tensor:
        """Hidden states [batch, seq, dim] that enter the first block; without positions, tokens count from 0."""
        return self.embedding(ids)

    def check(self, ids: Tensor, attention_mask: Tensor | None = None, cache: DecoderState | None = None) -> None:
        """Raise on token ids the model cannot take."""
        self.check_tokens("ids", ids, self.config.vocab, self.max_length)
        self.check_mask(attention_mask, ids)
        if cache is None:
            return
        where, wanted, context = type(self).__name__, cache.longest(ids.shape[1]), self.max_length
        if attention_mask is not None:
            raise ModelError(f"{where}: attention_mask is given beside a cache, wanted the padding of the cache")
        if context is not None and wanted > context:
            raise ModelError(f"{where}: {wanted} tokens with those in the cache, wanted at most {context}, the context")

    def hidden_states(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Hidden states [batch, seq, dim] after the last block, from which logits are computed."""
        x = self.embed(ids, None)
        return self.stack(x, None if attention_mask is None else padding_mask(attention_mask, dtype=x.dtype))

    def output_weights(self) -> tuple[Tensor, Tensor | None] | None:
        """Weights and bias of the output layer, or None where logits are more than a linear layer of hidden states."""
        return super().output_weights() if type(self).forward is CausalLM.forward else None

    @checks_inputs(check)
    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, cache: DecoderState | None = None) -> Tensor:
        """Logits [batch, seq, vocab] from token ids [batch, seq]; `attention_mask` is false for padding.

        With a cache, the tokens continue those it holds, and are added to it.
        """
        if cache is None:
            return self.unembed(self.hidden_states(ids, attention_mask))
        if not isinstance(cache, KVCache):
            raise ModelError(f"{type(self).__name__}: cache is a {type(cache).__name__}, wanted a KVCache")
        context = cache.attention_context(ids.shape[1])
        x = self.stack(self.embed(ids, context.positions), cache=cache, context=context)
        cache.advance(ids.shape[1])
        return self.unembed(x)

    def new_cache(self, batch: int, slots: int, padding: Tensor | None = None, headroom: int = 1) -> DecoderState:
        """An empty cache for sequences of up to `slots` tokens; the first `padding` columns of each are empty."""
        return self.stack.cache(batch, slots, self.embedding.weight, padding, headroom)

    def decoder_input(self, prompt: Sequence[int], start: int) -> Sequence[int]:
        """The tokens a decoder reads before the first one it predicts: here the prompt."""
        return prompt

    def prefill(self, prompts: Sequence[Sequence[int]], slots: int, chunk: int) -> DecoderState:
        """Read all but the last token of each prompt into a new cache, `chunk` tokens at a time."""
        ids, padding = left_padded(prompts, 0, self.embedding.weight.device)
        cache = self.new_cache(len(prompts), slots, padding, chunk)
        for part in ids[:, :-1].split(chunk, 1):
            if part.shape[1]:
                self(part, cache=cache)
        return cache

    def decode_step(self, ids: Tensor, cache: DecoderState) -> Tensor:
        """Logits [batch, new, vocab], in float32 or finer, after reading tokens [batch, new] into the cache."""
        logits = self(ids, cache=cache)
        return logits if logits.dtype == torch.float64 else logits.float()
