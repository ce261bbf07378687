"""GPT-2, and minGPT, which stores its matrices transposed and does not tie its output."""

from dataclasses import replace

import torch
from torch import Tensor

from glassformer.checkpoints.families.family import ACTIVATION_WORDS, FieldMap, ModelFamily, classifier_rows, fields
from glassformer.checkpoints.tensor_map import Derived, TensorMap, parts
from glassformer.layers.model import Model
from glassformer.models.causal_classifier import BODY
from glassformer.models.gpt import GPTConfig


def _is_causal(table: Tensor, _model: Model) -> bool:
    return table.dim() >= 2 and torch.equal(table.bool().squeeze(), torch.ones_like(table).bool().tril().squeeze())


_BLOCK = {
    "attention_norm": "ln_1",
    "attention.qkv": "attn.c_attn",
    "attention.output": "attn.c_proj",
    "feed_forward_norm": "ln_2",
    "feed_forward.up": "mlp.c_fc",
    "feed_forward.down": "mlp.c_proj",
}


def _tensors(tied: bool, transposed: bool) -> list[TensorMap]:
    """GPT-2 stores linear layers as [inputs, outputs], like the native format; its untied output is transposed."""
    layer, number = "transformer.h.{i}.attn", Derived("one number", lambda table, _: table.numel() == 1)
    return [
        TensorMap("embedding.weight", "transformer.wte.weight"),
        TensorMap("positions.weight", "transformer.wpe.weight"),
        *parts(_BLOCK, ("stack.blocks.{i}.", "transformer.h.{i}."), "layers", transposed=transposed),
        *parts({"stack.norm": "transformer.ln_f"}),
        TensorMap("", f"{layer}.bias", derived=Derived("causality", _is_causal), per="layers"),
        TensorMap("", f"{layer}.masked_bias", derived=number, per="layers"),
        TensorMap("", "lm_head.weight", same_as="transformer.wte.weight")
        if tied
        else TensorMap("output.weight", "lm_head.weight", transposed=True),
    ]


def _gpt2_tensors(config: GPTConfig) -> list[TensorMap]:
    rows = _tensors(config.tie_embeddings, transposed=False)
    return classifier_rows(rows, BODY) if config.head == "classifier" else rows


_DEFAULTS = GPTConfig(vocab=50257, context=1024, dim=768, layers=12, heads=12, activation="gelu_tanh", dropout=0.1)
FAMILY_GPT2 = ModelFamily(
    "gpt2",
    "GPT-2",
    _DEFAULTS,
    [
        FieldMap("context", "n_positions", also=("n_ctx",)),  # llama.cpp's converter reads n_ctx
        *fields(vocab="vocab_size", dim="n_embd", layers="n_layer", heads="n_head"),
        *fields(ffn_dim="n_inner", tie_embeddings="tie_word_embeddings", eps="layer_norm_epsilon"),
        FieldMap("activation", "activation_function", words=ACTIVATION_WORDS),
        FieldMap("dropout", "resid_pdrop", also=("embd_pdrop", "attn_pdrop")),
    ],
    _gpt2_tensors,
    {"GPT2LMHeadModel": "lm", "GPT2ForSequenceClassification": "classifier"},
    exceptions={"head", "classes"},
    fixed={
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "reorder_and_upcast_attn": (False, True),  # another order of the same product
    },
    synonyms={
        "hidden_size": "n_embd",
        "max_position_embeddings": "n_positions",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    },
    harmless={"n_ctx", "is_decoder"},  # its attention is causal, whatever the file says
    base="transformer.",
    head=lambda config: config.head,
    classes=lambda config: config.classes if config.head == "classifier" else 0,
)
FAMILY_MINGPT = ModelFamily(
    "mingpt",
    "minGPT",
    replace(_DEFAULTS, tie_embeddings=False),
    [
        *fields(
            required=True, vocab="vocab_size", context="block_size", dim="n_embd", layers="n_layer", heads="n_head"
        ),
        *fields(dropout="resid_pdrop"),
    ],
    lambda _: _tensors(tied=False, transposed=True),
    read_only=True,
)
FAMILIES = FAMILY_GPT2, FAMILY_MINGPT
