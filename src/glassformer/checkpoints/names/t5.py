"""T5: sublayers are numbered, and the bias by distance sits in the first block of each stack."""

from glassformer.checkpoints.tensor_map import TensorMap


def _t5_attention(ours: str, theirs: str, per: str) -> list[TensorMap]:
    pairs = {"query": "q", "key": "k", "value": "v", "output": "o"}
    return [TensorMap(f"{ours}.{a}.weight", f"{theirs}.{b}.weight", transposed=True, per=per) for a, b in pairs.items()]


def _t5_stack(side: str, per: str, last: int) -> list[TensorMap]:
    block, theirs = f"{side}.blocks.{{i}}", f"{side}.block.{{i}}.layer"
    attention = f"{theirs}.0.SelfAttention"
    return [
        TensorMap(f"{side}.bias.weight", f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
        *_t5_attention(f"{block}.attention", attention, per),
        TensorMap(f"{block}.attention_norm.weight", f"{theirs}.0.layer_norm.weight", per=per),
        TensorMap(f"{block}.feed_forward_norm.weight", f"{theirs}.{last}.layer_norm.weight", per=per),
        TensorMap(f"{side}.norm.weight", f"{side}.final_layer_norm.weight"),
    ]


def _t5_feed_forward(pairs: dict[str, str]) -> list[TensorMap]:
    return [
        TensorMap(
            f"{side}.blocks.{{i}}.feed_forward.{ours}.weight",
            f"{side}.block.{{i}}.layer.{last}.DenseReluDense.{theirs}.weight",
            transposed=True,
            per=per,
        )
        for side, per, last in (("encoder", "layers", 1), ("decoder", "decoder_layers", 2))
        for ours, theirs in pairs.items()
    ]


T5_SHARED = [
    TensorMap("embedding.weight", "shared.weight"),
    *_t5_stack("encoder", "layers", 1),
    *_t5_stack("decoder", "decoder_layers", 2),
    *_t5_attention("decoder.blocks.{i}.cross_attention", "decoder.block.{i}.layer.1.EncDecAttention", "decoder_layers"),
    TensorMap(
        "decoder.blocks.{i}.cross_norm.weight",
        "decoder.block.{i}.layer.1.layer_norm.weight",
        per="decoder_layers",
    ),
    # old files have a bias by distance here too, which no version ever read
    TensorMap((), "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight", left_out=True),
    TensorMap((), "encoder.embed_tokens.weight", same_as="shared.weight"),
    TensorMap((), "decoder.embed_tokens.weight", same_as="shared.weight"),
]
T5_PLAIN = _t5_feed_forward({"up": "wi", "down": "wo"})
T5_GATED = _t5_feed_forward({"gate": "wi_0", "up": "wi_1", "down": "wo"})
T5_UNTIED = [TensorMap("output.weight", "lm_head.weight", transposed=True, or_else="shared.weight")]
T5_TIED = [TensorMap((), "lm_head.weight", same_as="shared.weight")]
