"""“De nada” through a decoder: masked attention, cross-attention to the source, logits for words."""

import torch
from torch import Tensor

from glassformer.course.worked.attention import attended
from glassformer.course.worked.encoder import one_head
from glassformer.course.worked.geometry import normalized
from glassformer.course.worked.recomputing import Answer, Given, loaded, output_of, recomputes
from glassformer.equations.algebra import linear
from glassformer.equations.embedding import unembed
from glassformer.equations.masks import padding_mask
from glassformer.equations.softmax import softmax
from glassformer.layers.basic import LayerNorm
from glassformer.layers.block import Attention, AttentionShape, Block, Causal
from glassformer.models.seq2seq import Seq2Seq, Seq2SeqConfig
from glassformer.recording import Tape


@recomputes("decoder-self-attention")
def _decoder_self_attention(given: Given) -> Answer:
    Y, W_o = given.tensors("Y_plus_PE", "W_o")
    q, k, v = (linear(Y, W) for W in given.tensors("W_q", "W_k", "W_v"))
    masked, open_ = attended(q, k, v, mask=given.tensor("allowed")), attended(q, k, v)
    return {
        "weights": masked.weights,
        "output": linear(masked.output, W_o),
        "output_scaled_unmasked": linear(open_.output, W_o),
    }


@recomputes("decoder-layernorm")
def _decoder_layernorm(given: Given) -> Answer:
    return {"LN": normalized(given.tensor("x"), given.get("eps", float))}


@recomputes("cross-attention-weights")
def _cross_attention_weights(given: Given) -> Answer:
    decoder, encoder, W_Q, W_K = given.tensors("decoder", "encoder", "W_Q", "W_K")
    found = attended(linear(decoder, W_Q), linear(encoder, W_K), encoder)
    return {"scores": found.scores, "weights": found.weights}


@recomputes("cross-attention-output")
def _cross_attention_output(given: Given) -> Answer:
    decoder, encoder, W_Q, W_K, W_V = given.tensors("decoder", "encoder", "W_Q", "W_K", "W_V")
    values = linear(encoder, W_V)
    return {"V": values, "output": attended(linear(decoder, W_Q), linear(encoder, W_K), values).output}


@recomputes("cross-attention-mask-claim")
def _cross_attention_mask_claim(given: Given) -> Answer:
    with torch.device("meta"):
        model = Seq2Seq(Seq2SeqConfig(vocab=8, dim=4, layers=1, heads=1, ffn_dim=4))
    crosses = [module.cross_attention for module in model.decoder.modules() if isinstance(module, Block)]
    return {"causal_mask_needed": any(cross.pattern.causal for cross in crosses if cross is not None)}


@recomputes("start-token-mask-claim")
def _start_token_mask_claim(given: Given) -> Answer:
    attended = torch.tensor([[token != "<pad>" for token in given.get("tokens", list[str])]])
    masked = padding_mask(attended, dtype=torch.float64)[0, 0, 0].isinf()
    return {"masked_as_padding": masked, "start_is_masked": bool(masked[0])}


@recomputes("output-layer-shape")
def _output_layer_shape(given: Given) -> Answer:
    tokens, dim, vocab = (given.get(name, int) for name in ("tokens", "d_model", "vocabulary"))
    table = torch.zeros(vocab, dim, dtype=torch.float64)
    logits = unembed(torch.zeros(tokens, dim, dtype=torch.float64), table)
    return {"logits_shape": logits.shape, "weights": table.numel()}


def _recorded(layer: Attention, x: Tensor, encoder_output: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The weights of a layer of one head, and its output."""
    with Tape() as tape:
        output = layer(x, encoder_output)
    return output_of(tape, softmax)[0], output


@recomputes("decoder-chain-corrected")
def _decoder_chain_corrected(given: Given) -> Answer:
    Y, encoder_output = given.tensors("Y_plus_PE", "encoder_output")
    shape = AttentionShape.of(dim=Y.shape[-1], heads=1, head_dim=Y.shape[-1], bias=False)
    own = one_head(given, ("W_q", "W_k", "W_v", "W_o"), Attention(shape, Causal()))
    cross = one_head(given, ("W_Q", "W_K", "W_V", None), Attention(shape))
    self_weights, self_output = _recorded(own, Y)
    rows = loaded(LayerNorm(shape.dim, given.get("eps", float)))(self_output)
    cross_weights, cross_output = _recorded(cross, rows, encoder_output)
    return {
        **{"self_weights": self_weights, "self_output": self_output, "LN": rows},
        **{"cross_weights": cross_weights, "cross_output": cross_output},
    }


@recomputes("target-self-attention-own-qkv")
def _target_self_attention_own_qkv(given: Given) -> Answer:
    q, k, v = given.tensors("Q", "K", "V")
    open_, causal = attended(q, k, v), attended(q, k, v, causal=True)
    return {
        **{"weights": open_.weights, "output": open_.output},
        **{"causal_weights": causal.weights, "causal_output": causal.output},
    }
