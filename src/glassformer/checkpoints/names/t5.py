"""T5: sublayers are numbered, and the bias by distance sits in the first block of each stack."""

from glassformer.checkpoints.naming import Row


def _t5_attention(ours: str, theirs: str, per: str) -> list[Row]:
    pairs = {"query": "q", "key": "k", "value": "v", "output": "o"}
    return [Row(f"{ours}.{a}.weight", f"{theirs}.{b}.weight", turned=True, per=per) for a, b in pairs.items()]


def _t5_stack(side: str, per: str, last: int) -> list[Row]:
    block, theirs = f"{side}.blocks.{{i}}", f"{side}.block.{{i}}.layer"
    attention = f"{theirs}.0.SelfAttention"
    return [
        Row(f"{side}.bias.weight", f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
        *_t5_attention(f"{block}.attention", attention, per),
        Row(f"{block}.around_attention.norm.weight", f"{theirs}.0.layer_norm.weight", per=per),
        Row(f"{block}.around_feed_forward.norm.weight", f"{theirs}.{last}.layer_norm.weight", per=per),
        Row(f"{side}.norm.weight", f"{side}.final_layer_norm.weight"),
    ]


def _t5_feed_forward(pairs: dict[str, str]) -> list[Row]:
    return [
        Row(
            f"{side}.blocks.{{i}}.feed_forward.{ours}.weight",
            f"{side}.block.{{i}}.layer.{last}.DenseReluDense.{theirs}.weight",
            turned=True,
            per=per,
        )
        for side, per, last in (("encoder", "layers", 1), ("decoder", "decoder_layers", 2))
        for ours, theirs in pairs.items()
    ]


T5_SHARED = [
    Row("embedding.weight", "shared.weight"),
    *_t5_stack("encoder", "layers", 1),
    *_t5_stack("decoder", "decoder_layers", 2),
    *_t5_attention("decoder.blocks.{i}.cross", "decoder.block.{i}.layer.1.EncDecAttention", "decoder_layers"),
    Row(
        "decoder.blocks.{i}.around_cross.norm.weight",
        "decoder.block.{i}.layer.1.layer_norm.weight",
        per="decoder_layers",
    ),
    # old files have a bias by distance here too, which no version ever read
    Row((), "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight", left_out=True),
    Row((), "encoder.embed_tokens.weight", same_as="shared.weight"),
    Row((), "decoder.embed_tokens.weight", same_as="shared.weight"),
]
T5_PLAIN = _t5_feed_forward({"up": "wi", "down": "wo"})
T5_GATED = _t5_feed_forward({"gate": "wi_0", "up": "wi_1", "down": "wo"})
T5_UNTIED = [Row("output.weight", "lm_head.weight", turned=True, or_else="shared.weight")]
T5_TIED = [Row((), "lm_head.weight", same_as="shared.weight")]
