"""GPT-2, and minGPT, which stores its matrices the other way round and does not tie its output."""

from collections.abc import Collection

from glassformer.checkpoints.families.family import ACTIVATION_WORDS, ModelFamily, activation_word, require
from glassformer.checkpoints.hf_config import MOST_LAYERS, MOST_PLACES, MOST_TOKENS, HFConfig
from glassformer.checkpoints.names.gpt2 import GPT2, GPT2_TIED, GPT2_UNTIED, MINGPT
from glassformer.checkpoints.tensor_map import TensorMap
from glassformer.models.gpt import GPTConfig


def _read_gpt2(fields: HFConfig, names: Collection[str]) -> GPTConfig:
    fields.must("scale_attn_weights", True)
    fields.must("scale_attn_by_inverse_layer_idx", False)
    fields.must("reorder_and_upcast_attn", False, True)  # another order of the same product
    return GPTConfig(
        vocab=fields.whole("vocab_size", 50257, most=MOST_TOKENS),
        context=fields.whole("n_positions", 1024, most=MOST_PLACES),
        dim=fields.whole("n_embd", 768),
        layers=fields.layers("n_layer", 12),
        heads=fields.whole("n_head", 12),
        ffn_dim=fields.maybe_whole("n_inner"),
        activation=fields.choice("activation_function", "gelu_new", ACTIVATION_WORDS),
        tie_embeddings=fields.flag("tie_word_embeddings", True),
        dropout=fields.number("resid_pdrop", 0.1),
        eps=fields.number("layer_norm_epsilon", 1e-5),
    )


def _write_gpt2(config: GPTConfig) -> dict[str, object]:
    return {
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": config.vocab,
        "n_positions": config.context,
        "n_embd": config.dim,
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_inner": config.ffn_dim,
        "activation_function": activation_word(config.activation),
        "tie_word_embeddings": config.tie_embeddings,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.dropout,
        "layer_norm_epsilon": config.eps,
    }


def _gpt2_rows(config: GPTConfig) -> list[TensorMap]:
    return GPT2 + (GPT2_TIED if config.tie_embeddings else GPT2_UNTIED)


def _read_mingpt(fields: HFConfig, names: Collection[str]) -> GPTConfig:
    return GPTConfig(
        vocab=fields.whole("vocab_size", most=MOST_TOKENS),
        context=fields.whole("block_size", most=MOST_PLACES),
        dim=fields.whole("n_embd"),
        layers=fields.whole("n_layer", most=MOST_LAYERS),
        heads=fields.whole("n_head"),
        tie_embeddings=False,
        dropout=fields.number("resid_pdrop", 0.1),
    )


def _write_mingpt(config: GPTConfig) -> dict[str, object]:
    require(
        "minGPT",
        tie_embeddings=(config.tie_embeddings, False),
        ffn_dim=(config.ffn_dim or 4 * config.dim, 4 * config.dim),
        activation=(config.activation, "gelu_tanh"),
        eps=(config.eps, 1e-5),
    )
    return {
        "vocab_size": config.vocab,
        "block_size": config.context,
        "n_embd": config.dim,
        "n_layer": config.layers,
        "n_head": config.heads,
        "resid_pdrop": config.dropout,
    }


_GPT2_SYNONYMS = {
    "hidden_size": "n_embd",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}
FAMILY_GPT2 = ModelFamily(
    "gpt2",
    GPTConfig,
    _read_gpt2,
    _write_gpt2,
    _gpt2_rows,
    base="transformer.",
    synonyms=_GPT2_SYNONYMS,
    harmless=frozenset({"n_ctx", "is_decoder"}),  # it looks back only, whatever they say
)
FAMILY_MINGPT = ModelFamily("mingpt", GPTConfig, _read_mingpt, _write_mingpt, lambda _: MINGPT)
