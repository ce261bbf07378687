"""BERT and the encoders of its shape: DistilBERT, RoBERTa (from Hugging Face and from fairseq) and ALBERT."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from glassformer.checkpoints.families.family import (
    ACTIVATION_WORDS,
    FAIRSEQ_BLOCK,
    FieldMap,
    Head,
    ModelFamily,
    are_positions,
    fields,
)
from glassformer.checkpoints.hf_config import HFConfig
from glassformer.checkpoints.tensor_map import Derived, TensorMap, parts, without
from glassformer.errors import CheckpointError
from glassformer.layers.config import Count, OneOrMoreLayers, Size
from glassformer.models.encoder import EncoderConfig

_SPAN = parts({"span_head": "qa_outputs"})


def _tensors(
    base: str,
    layer: str,
    block: Mapping[str, str],
    pooler: Mapping[str, str],
    classifier: Mapping[str, str],
    masked: Sequence[TensorMap],
) -> Callable[[EncoderConfig], list[TensorMap]]:
    """The tensors of an encoder by its configuration; a file may hold a pooler that the head does not use."""

    def tensors(config: EncoderConfig) -> list[TensorMap]:
        names = {"embedding": "word_embeddings", "positions": "position_embeddings"}
        names |= {"token_types": "token_type_embeddings"} if config.token_types else {}
        widen = {"widen": f"{base}.encoder.embedding_hidden_mapping_in"} if config.share_layers else {}
        native, per = ("stack.blocks.0.", "") if config.share_layers else ("stack.blocks.{i}.", "layers")
        heads = {"pooled": parts(pooler), "classifier": parts(classifier), "masked": masked, "span": _SPAN}
        head = heads.get(config.head, [])
        return [
            *parts(names, ("", f"{base}.embeddings."), tensors=["weight"], transposed=False),
            *parts({"norm": f"{base}.embeddings.LayerNorm", **widen}),
            TensorMap("", f"{base}.embeddings.position_ids", derived=Derived("positions", are_positions)),
            *parts(block, (native, f"{base}.{layer}."), per),
            *head,
            *([] if any(row.native.startswith("pooler.") for row in head) else without(parts(pooler))),
        ]

    return tensors


def _masked(base: str, output: str, dense: str, norm: str) -> list[TensorMap]:
    """The masked-language-model head, which is tied to the embedding; its parts are named from `output` on."""
    return [
        *parts({"masked_head.transform": dense, "masked_head.norm": norm}, ("", f"{output}.")),
        TensorMap("masked_head.bias", f"{output}.bias"),
        TensorMap("", f"{output}.decoder.bias", same_as=f"{output}.bias"),
        TensorMap("", f"{output}.decoder.weight", same_as=f"{base}.embeddings.word_embeddings.weight"),
    ]


def _heads(prefix: str, bare: Head = "pooled") -> dict[str, Head]:
    """The classes of transformers for an encoder, by the head that each has."""
    classes: dict[str, Head] = {"Model": bare, "ForMaskedLM": "masked", "ForSequenceClassification": "classifier"}
    classes["ForQuestionAnswering"] = "span"
    return {prefix + name: head for name, head in classes.items()}


_BLOCK = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feed_forward.up": "intermediate.dense",
    "feed_forward.down": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}
_POOLER = {"pooler": "bert.pooler.dense"}
_MASKED = [
    *_masked("bert", "cls.predictions", "transform.dense", "transform.LayerNorm"),
    *without(parts({"next_sentence": "cls.seq_relationship"})),
]
_FIELDS: Sequence[FieldMap[EncoderConfig]] = [
    *fields(vocab="vocab_size", context="max_position_embeddings", dim="hidden_size", layers="num_hidden_layers"),
    *fields(heads="num_attention_heads", ffn_dim="intermediate_size"),
    FieldMap("token_types", "type_vocab_size", Size),
    FieldMap("activation", "hidden_act", words=ACTIVATION_WORDS),
    FieldMap("dropout", "hidden_dropout_prob", also=("attention_probs_dropout_prob",)),
    *fields(eps="layer_norm_eps"),
]
_ENCODER = ModelFamily(
    "bert",
    "BERT",
    EncoderConfig(
        vocab=30522, context=512, dim=768, layers=12, heads=12, ffn_dim=3072, token_types=2, dropout=0.1, eps=1e-12
    ),
    _FIELDS,
    _tensors("bert", "encoder.layer.{i}", _BLOCK, _POOLER, {**_POOLER, "classifier": "classifier"}, _MASKED),
    {**_heads("Bert"), "BertForPreTraining": "masked"},
    exceptions={"head", "classes"},
    fixed={"position_embedding_type": ("absolute", None), "tie_word_embeddings": (True,)},
    base="bert.",
    head=lambda config: config.head,
    classes=lambda config: config.classes if config.head == "classifier" else 0,
)
FAMILY_BERT = replace(
    _ENCODER,
    fixed={**_ENCODER.fixed, "directionality": ("bidi",)},
    # The shape of another kind of pooler; the only kind there is takes the first token.
    harmless={
        f"pooler_{name}" for name in ("fc_size", "num_attention_heads", "num_fc_layers", "size_per_head", "type")
    },
)


# DistilBERT: half of BERT's layers, no token types, and a classifier with a ReLU.
_DISTILBERT_BLOCK = {
    "attention.query": "attention.q_lin",
    "attention.key": "attention.k_lin",
    "attention.value": "attention.v_lin",
    "attention.output": "attention.out_lin",
    "attention_norm": "sa_layer_norm",
    "feed_forward.up": "ffn.lin1",
    "feed_forward.down": "ffn.lin2",
    "feed_forward_norm": "output_layer_norm",
}
_DISTILBERT_CLASSIFIER = {"pooler": "pre_classifier", "classifier": "classifier"}
_DISTILBERT_MASKED = [
    *parts({"masked_head.transform": "vocab_transform", "masked_head.norm": "vocab_layer_norm"}),
    TensorMap("masked_head.bias", "vocab_projector.bias"),
    TensorMap("", "vocab_projector.weight", same_as="distilbert.embeddings.word_embeddings.weight"),
]


def _write_distilbert(config: EncoderConfig) -> dict[str, object]:
    if config.head == "classifier" and config.pool != "relu":
        raise FAMILY_DISTILBERT.refusal("pool", config.pool, repr("relu"))
    return {}


FAMILY_DISTILBERT = replace(
    _ENCODER,
    model_type="distilbert",
    name="DistilBERT",
    defaults=replace(_ENCODER.defaults, layers=6, token_types=0),
    fields=[
        *fields(vocab="vocab_size", context="max_position_embeddings", dim="dim", layers="n_layers", heads="n_heads"),
        *fields(ffn_dim="hidden_dim"),
        FieldMap("activation", "activation", words=ACTIVATION_WORDS),
        FieldMap("dropout", "dropout", also=("attention_dropout",)),
    ],
    tensors=_tensors(
        "distilbert", "transformer.layer.{i}", _DISTILBERT_BLOCK, {}, _DISTILBERT_CLASSIFIER, _DISTILBERT_MASKED
    ),
    architectures=_heads("DistilBert", bare="hidden"),
    read=lambda _fields, _names, config: replace(config, pool="relu" if config.head == "classifier" else "tanh"),
    write=_write_distilbert,
    exceptions={*_ENCODER.exceptions, "pool"},
    fixed={
        "sinusoidal_pos_embds": (False, True),  # how positions were initialized; the file holds their current values
        "tie_weights_": (True,),
        "tie_word_embeddings": (True,),
    },
    synonyms={"hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"},
    base="distilbert.",
)


# ALBERT: one block for all layers, and embeddings narrower than the hidden states.
_ALBERT_BLOCK = {
    "attention.query": "attention.query",
    "attention.key": "attention.key",
    "attention.value": "attention.value",
    "attention.output": "attention.dense",
    "attention_norm": "attention.LayerNorm",
    "feed_forward.up": "ffn",
    "feed_forward.down": "ffn_output",
    "feed_forward_norm": "full_layer_layer_norm",
}
_ALBERT_POOLER = {"pooler": "albert.pooler"}
FAMILY_ALBERT = replace(
    _ENCODER,
    model_type="albert",
    name="ALBERT",
    defaults=EncoderConfig(
        vocab=30000, dim=4096, heads=64, ffn_dim=16384, embedding_dim=128, activation="gelu_tanh", share_layers=True
    ),
    fields=[
        *(row for row in _FIELDS if row.native != "layers"),
        FieldMap("layers", "num_hidden_layers", OneOrMoreLayers),
        FieldMap("embedding_dim", "embedding_size", Size),
    ],
    tensors=_tensors(
        "albert",
        "encoder.albert_layer_groups.0.albert_layers.0",
        _ALBERT_BLOCK,
        _ALBERT_POOLER,
        {**_ALBERT_POOLER, "classifier": "classifier"},
        _masked("albert", "predictions", "dense", "LayerNorm"),
    ),
    architectures=_heads("Albert"),
    fixed={
        **_ENCODER.fixed,
        "num_hidden_groups": (1,),
        "inner_group_num": (1,),
        # transformers does not read these
        **dict.fromkeys(("down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks"), (0, 1)),
    },
    base="albert.",
)


def _read_roberta(fields: HFConfig, names: Collection[str], config: EncoderConfig) -> EncoderConfig:
    first = fields.whole("pad_token_id", 1, Count) + 1
    if first >= config.context:
        raise CheckpointError(f"{fields.where}: pad_token_id is {first - 1}, which leaves no positions to count from")
    if config.activation != "gelu" and config.head == "masked":
        raise CheckpointError(f"{fields.where}: hidden_act is {config.activation}, but the head for masks has gelu")
    return replace(config, position_offset=first, context=config.context - first)


def _write_roberta(config: EncoderConfig) -> dict[str, object]:
    offset = config.position_offset
    if offset == 0:
        raise FAMILY_ROBERTA.refusal("position_offset", offset, "1 or more")
    if config.head == "masked" and config.activation != "gelu":
        raise FAMILY_ROBERTA.refusal("activation", config.activation, "'gelu' beside a head for masks")
    return {"max_position_embeddings": offset + config.context, "pad_token_id": offset - 1}


# RoBERTa: positions start after the padding token's id.
FAMILY_ROBERTA = replace(
    _ENCODER,
    model_type="roberta",
    name="RoBERTa",
    defaults=replace(_ENCODER.defaults, vocab=50265),
    tensors=_tensors(
        "roberta",
        "encoder.layer.{i}",
        _BLOCK,
        {"pooler": "roberta.pooler.dense"},
        {"pooler": "classifier.dense", "classifier": "classifier.out_proj"},
        _masked("roberta", "lm_head", "dense", "layer_norm"),
    ),
    architectures=_heads("Roberta"),
    read=_read_roberta,
    write=_write_roberta,
    exceptions={*_ENCODER.exceptions, "position_offset"},
    base="roberta.",
)
_SIDE = "decoder.sentence_encoder"
_FAIRSEQ = [
    TensorMap("embedding.weight", f"{_SIDE}.embed_tokens.weight"),
    TensorMap("positions.weight", f"{_SIDE}.embed_positions.weight"),
    *parts(FAIRSEQ_BLOCK, ("stack.blocks.{i}.", f"{_SIDE}.layers.{{i}}."), "layers"),
    *parts({"masked_head.transform": "dense", "masked_head.norm": "layer_norm"}, ("", "decoder.lm_head.")),
    *parts({"norm": f"{_SIDE}.emb_layer_norm"}),
    TensorMap("masked_head.bias", "decoder.lm_head.bias"),
    TensorMap("", "decoder.lm_head.weight", same_as=f"{_SIDE}.embed_tokens.weight"),
]
FAMILY_FAIRSEQ = ModelFamily(
    "fairseq-roberta",
    "fairseq's RoBERTa",
    EncoderConfig(token_types=0, head="masked", eps=1e-5),
    [
        *fields(required=True, vocab="vocab_size", context="max_positions", dim="encoder_embed_dim"),
        *fields(required=True, layers="encoder_layers", heads="encoder_attention_heads"),
        *fields(required=True, ffn_dim="encoder_ffn_embed_dim"),
        FieldMap("activation", "activation_fn", words=ACTIVATION_WORDS),
    ],
    lambda _: _FAIRSEQ,
    read=lambda fields, _, config: replace(config, position_offset=fields.whole("padding_idx", 1, Count) + 1),
    read_only=True,
)
FAMILIES = FAMILY_BERT, FAMILY_DISTILBERT, FAMILY_ROBERTA, FAMILY_ALBERT, FAMILY_FAIRSEQ
