"""BERT and other encoders of its shape, such as MiniLM."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from glassformer.checkpoints.families.family import ACTIVATION_WORDS, FieldMap, Head, ModelFamily
from glassformer.checkpoints.tensor_map import Derived, TensorMap, parts, without
from glassformer.layers.config import Size
from glassformer.layers.model import Model
from glassformer.models.encoder import EncoderConfig


def _are_positions(table: Tensor, _model: Model) -> bool:
    return torch.equal(table.flatten(), torch.arange(table.numel(), device=table.device))


BERT_BLOCK = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feed_forward.up": "intermediate.dense",
    "feed_forward.down": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}


def embedding_rows(base: str, token_types: bool = True) -> list[TensorMap]:
    """Embeddings of tokens, positions and token types, and the norm on their sum."""
    names = {"embedding": "word_embeddings", "positions": "position_embeddings"}
    names |= {"token_types": "token_type_embeddings"} if token_types else {}
    return [
        *parts(names, ("", f"{base}.embeddings."), tensors=["weight"], transposed=False),
        *parts({"norm": f"{base}.embeddings.LayerNorm"}),
        TensorMap("", f"{base}.embeddings.position_ids", derived=Derived("positions", _are_positions)),
    ]


def masked_rows(base: str, output: str, dense: str, norm: str) -> list[TensorMap]:
    """The head for masked tokens, which multiplies with the embedding; its parts are named from `output` on."""
    return [
        *parts({"masked_head.transform": dense, "masked_head.norm": norm}, ("", f"{output}.")),
        TensorMap("masked_head.bias", f"{output}.bias"),
        TensorMap("", f"{output}.decoder.bias", same_as=f"{output}.bias"),
        TensorMap("", f"{output}.decoder.weight", same_as=f"{base}.embeddings.word_embeddings.weight"),
    ]


def head_rows(
    config: EncoderConfig, pooler: dict[str, str], classifier: dict[str, str], masked: Sequence[TensorMap]
) -> list[TensorMap]:
    """The tensors of the head; a file may hold a pooler that the head does not use."""
    used = {"pooled": parts(pooler), "classifier": parts(classifier), "masked": masked}.get(config.head, [])
    return [*used, *([] if any(row.ours.startswith("pooler.") for row in used) else without(parts(pooler)))]


_FIELDS: Sequence[FieldMap[EncoderConfig]] = [
    FieldMap("vocab", "vocab_size"),
    FieldMap("context", "max_position_embeddings"),
    FieldMap("dim", "hidden_size"),
    FieldMap("layers", "num_hidden_layers"),
    FieldMap("heads", "num_attention_heads"),
    FieldMap("ffn_dim", "intermediate_size"),
    FieldMap("token_types", "type_vocab_size", Size),
    FieldMap("activation", "hidden_act", words=ACTIVATION_WORDS),
    FieldMap("dropout", "hidden_dropout_prob", also=("attention_probs_dropout_prob",)),
    FieldMap("eps", "layer_norm_eps"),
]


def heads(prefix: str, bare: Head = "pooled") -> dict[str, Head]:
    """The classes of transformers for an encoder, by the head that each has."""
    classes: dict[str, Head] = {"Model": bare, "ForMaskedLM": "masked", "ForSequenceClassification": "classifier"}
    return {prefix + name: head for name, head in classes.items()}


_POOLER = {"pooler": "bert.pooler.dense"}
_MASKED = [
    *masked_rows("bert", "cls.predictions", "transform.dense", "transform.LayerNorm"),
    *without(parts({"next_sentence": "cls.seq_relationship"})),
]


def _tensors(config: EncoderConfig) -> list[TensorMap]:
    return [
        *embedding_rows("bert"),
        *parts(BERT_BLOCK, ("stack.blocks.{i}.", "bert.encoder.layer.{i}."), "layers"),
        *head_rows(config, _POOLER, {**_POOLER, "classifier": "classifier"}, _MASKED),
    ]


ENCODER = ModelFamily(
    "bert",
    "BERT",
    EncoderConfig(
        vocab=30522, context=512, dim=768, layers=12, heads=12, ffn_dim=3072, token_types=2, dropout=0.1, eps=1e-12
    ),
    _FIELDS,
    _tensors,
    {**heads("Bert"), "BertForPreTraining": "masked"},
    exceptions={"head", "classes"},
    fixed={"position_embedding_type": ("absolute", None), "tie_word_embeddings": (True,)},
    base="bert.",
    head=lambda config: config.head,
    classes=lambda config: config.classes if config.head == "classifier" else 0,
)
FAMILY_BERT = replace(
    ENCODER,
    fixed={**ENCODER.fixed, "directionality": ("bidi",)},
    # The shape of another kind of pooler; the only kind there is takes the first token.
    harmless={
        f"pooler_{name}" for name in ("fc_size", "num_attention_heads", "num_fc_layers", "size_per_head", "type")
    },
)
