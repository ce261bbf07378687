"""T5, also version 1.1, which gates its feed-forward and does not tie its output."""

from collections.abc import Collection

from glassformer.checkpoints.families.family import ModelFamily, require
from glassformer.checkpoints.hf_config import MOST_LAYERS, MOST_PLACES, MOST_TOKENS, HFConfig
from glassformer.checkpoints.names.t5 import T5_GATED, T5_PLAIN, T5_SHARED, T5_TIED, T5_UNTIED
from glassformer.checkpoints.tensor_map import TensorMap
from glassformer.errors import CheckpointError
from glassformer.models.t5 import T5Config


def _read_t5(fields: HFConfig, names: Collection[str]) -> T5Config:
    # Older files say by one word whether the output is tied and, for then they are, whether rows are scaled
    # before it; in newer ones a tied output may go without the scale, and is one of its own to us.
    tied = fields.flag("tie_word_embeddings", True)
    scaled = fields.flag("scale_decoder_outputs", tied)
    if not tied and "lm_head.weight" not in names:
        raise CheckpointError(f"{fields.where}: the output is not tied, but the file has no lm_head.weight")
    gated = fields.choice("feed_forward_proj", "relu", {"relu": False, "gated-gelu": True})
    fields.must("dense_act_fn", "gelu_new" if gated else "relu")
    fields.must("is_gated_act", gated)
    fields.maybe_whole("n_positions")  # no place is learned: any number will do
    layers = fields.layers("num_layers", 6, least=1)
    decoder_layers = fields.maybe_whole("num_decoder_layers", most=MOST_LAYERS)
    return T5Config(
        vocab=fields.whole("vocab_size", 32128, most=MOST_TOKENS),
        dim=fields.whole("d_model", 512),
        layers=layers,
        decoder_layers=None if decoder_layers == layers else decoder_layers,
        heads=fields.whole("num_heads", 8),
        head_dim=fields.whole("d_kv", 64),
        ffn_dim=fields.whole("d_ff", 2048),
        gated=gated,
        tie_embeddings=scaled,
        buckets=fields.whole("relative_attention_num_buckets", 32),
        max_distance=fields.whole("relative_attention_max_distance", 128, most=MOST_PLACES),
        dropout=fields.number("dropout_rate", 0.1),
        eps=fields.number("layer_norm_epsilon", 1e-6),
    )


def _write_t5(config: T5Config) -> dict[str, object]:
    least = min(config.layers, config.layers if config.decoder_layers is None else config.decoder_layers)
    require("T5", context=(config.context, None), one_or_more_layers=(least > 0, True))
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "is_encoder_decoder": True,
        "vocab_size": config.vocab,
        "d_model": config.dim,
        "num_layers": config.layers,
        "num_decoder_layers": config.decoder_layers or config.layers,
        "num_heads": config.heads,
        "d_kv": config.head_dim,
        "d_ff": config.ffn_dim,
        "feed_forward_proj": "gated-gelu" if config.gated else "relu",
        "tie_word_embeddings": config.tie_embeddings,
        "relative_attention_num_buckets": config.buckets,
        "relative_attention_max_distance": config.max_distance,
        "dropout_rate": config.dropout,
        "layer_norm_epsilon": config.eps,
    }


def _t5_rows(config: T5Config) -> list[TensorMap]:
    return T5_SHARED + (T5_GATED if config.gated else T5_PLAIN) + (T5_TIED if config.tie_embeddings else T5_UNTIED)


_T5_SYNONYMS = {
    "hidden_size": "d_model",
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "num_layers",
    "head_dim": "d_kv",
}
FAMILY_T5 = ModelFamily("t5", T5Config, _read_t5, _write_t5, _t5_rows, synonyms=_T5_SYNONYMS)
