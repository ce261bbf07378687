"""A translator made of `torch.nn.Transformer`'s layers, with the sizes, the start and the output of ours."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from glassformer.data.batches import IGNORE
from glassformer.equations.positions import sinusoidal_positions
from glassformer.models.seq2seq import Seq2SeqConfig

ATTENTION = {"query": 0, "key": 1, "value": 2}
PARTS = {  # ours to theirs, in a block of the encoder and of the decoder
    "attention": "self_attn",
    "cross_attention": "multihead_attn",
    "feed_forward.up": "linear1",
    "feed_forward.down": "linear2",
}
NORMS = {
    "encoder": {"attention_norm": "norm1", "feed_forward_norm": "norm2"},
    "decoder": {"attention_norm": "norm1", "cross_norm": "norm2", "feed_forward_norm": "norm3"},
}


class TorchTranslator(nn.Module):
    """Embedding, positions, `torch.nn.Transformer` without the norms that 2017 had not, and the tied output.

    Dropout is where ours is: on the embeddings and after each sublayer, not on attention weights.
    """

    def __init__(self, config: Seq2SeqConfig, longest: int) -> None:
        super().__init__()
        sizes = (config.dim, config.heads, config.ffn_dim, config.dropout)
        how = {"batch_first": True, "layer_norm_eps": config.eps, "norm_first": False}
        encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(*sizes, **how), config.layers, enable_nested_tensor=False
        )
        decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(*sizes, **how), config.layers)
        custom = {"custom_encoder": encoder, "custom_decoder": decoder, "batch_first": True}
        self.transformer = nn.Transformer(config.dim, config.heads, **custom)
        for part in self.transformer.modules():
            if isinstance(part, nn.MultiheadAttention):
                part.dropout = 0.0
            if isinstance(part, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                part.dropout = nn.Dropout(0.0)
        self.embedding = nn.Embedding(config.vocab, config.dim)
        self.dropout = nn.Dropout(config.dropout)
        self.dim = config.dim
        self.register_buffer("positions", sinusoidal_positions(longest, config.dim, layout="adjacent"))

    def embed(self, ids: Tensor) -> Tensor:
        """Hidden states that enter a stack."""
        positions = self.get_buffer("positions")[: ids.shape[1]]
        return self.dropout(self.embedding(ids) * math.sqrt(self.dim) + positions)

    def forward(self, source: Tensor, target: Tensor, padding: Tensor | None = None) -> Tensor:
        """Logits for each next target token; `padding` is true where the source is padding."""
        length, device = target.shape[1], target.device
        causal = torch.full((length, length), -math.inf, device=device).triu(1)
        x = self.transformer(
            self.embed(source), self.embed(target), tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=padding, memory_key_padding_mask=padding,
        )  # fmt: skip
        return functional.linear(x, self.embedding.weight)


class TranslatorLoss(nn.Module):
    """The summed, smoothed cross-entropy of a translator, divided by the number of targets."""

    def __init__(self, model: TorchTranslator, label_smoothing: float) -> None:
        super().__init__()
        self.model, self.label_smoothing = model, label_smoothing

    def forward(self, source: Tensor, target: Tensor, targets: Tensor, padding: Tensor | None = None) -> Tensor:
        """The mean loss of a batch."""
        logits = self.model(source, target, padding).flatten(0, 1).float()
        return functional.cross_entropy(
            logits, targets.flatten(), ignore_index=IGNORE, label_smoothing=self.label_smoothing
        )


@torch.no_grad()
def copy_to_torch(ours: Mapping[str, Tensor], theirs: TorchTranslator) -> None:
    """Copy our weights into `torch.nn.Transformer`, every one of them."""
    state = theirs.state_dict()
    state["embedding.weight"].copy_(ours["embedding.weight"])
    for name, value in ours.items():
        stack, _, rest = name.partition(".blocks.")
        if not rest:
            continue
        number, _, layer = rest.partition(".")
        part, _, kind = layer.rpartition(".")
        block, turned = f"transformer.{stack}.layers.{number}", value.T if value.dim() > 1 else value
        head, _, which = part.rpartition(".")
        if part in NORMS[stack]:
            state[f"{block}.{NORMS[stack][part]}.{kind}"].copy_(value)
        elif which in ATTENTION:
            rows = state[f"{block}.{PARTS[head]}.in_proj_{kind}"]
            rows.chunk(3)[ATTENTION[which]].copy_(turned)
        elif which == "output":
            state[f"{block}.{PARTS[head]}.out_proj.{kind}"].copy_(turned)
        else:
            state[f"{block}.{PARTS[part]}.{kind}"].copy_(turned)
