"""Sentence vectors: what a head pools, or the mean of the last hidden states."""

from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.asking.reading import read_texts
from glassformer.equations.sequences import mean_pool
from glassformer.errors import ModelError
from glassformer.inference.pair_embeddings import embed_texts
from glassformer.inference.prepare import inference_mode
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.model import Model
from glassformer.models.clip import CLIP
from glassformer.models.encoder import Encoder
from glassformer.text.tokenizer import Tokenizer


def embed(model: Model, tokenizer: Tokenizer, texts: Sequence[str]) -> Tensor:
    """Sentence vectors [texts, dim]: what the head of an encoder pools.

    Where no head pools, it is the mean of the last hidden states, in a translator of those of its encoder.
    """
    if isinstance(model, CLIP):
        return embed_texts(model, tokenizer, texts)
    if not isinstance(model, EncoderDecoder) and "stack" not in dict(model.named_children()):
        raise ModelError(f"{type(model).__name__} does not embed: it has no blocks that read a text")
    vectors = [torch.empty(0, model.config.dim)]
    return torch.cat(vectors + [_pooled(model, *batch).cpu() for batch in read_texts(model, tokenizer, texts)])


def _pooled(model: Model, ids: Tensor, attention_mask: Tensor) -> Tensor:
    model.check_tokens("ids", ids, model.config.vocab)
    with inference_mode(model):
        if isinstance(model, EncoderDecoder):
            return mean_pool(model.encode(ids, attention_mask), attention_mask)
        if isinstance(model, Encoder) and model.config.head in ("sentence", "pooled"):
            return model(ids, attention_mask)
        assert isinstance(model, CausalLM | Encoder)
        return mean_pool(model.hidden_states(ids, attention_mask), attention_mask)
