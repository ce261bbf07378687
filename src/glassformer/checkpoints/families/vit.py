"""ViT: the patch embedding is a convolution there, and positions and class token have a first axis of size one."""

from glassformer.checkpoints.families.family import ACTIVATION_WORDS, FieldMap, ModelFamily, fields
from glassformer.checkpoints.tensor_map import TensorMap, parts, without
from glassformer.models.vit import ViTConfig

_BLOCK = {
    "attention.query": "attention.attention.query",
    "attention.key": "attention.attention.key",
    "attention.value": "attention.attention.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "layernorm_before",
    "feed_forward.up": "intermediate.dense",
    "feed_forward.down": "output.dense",
    "feed_forward_norm": "layernorm_after",
}
_POOLER = parts({"pooler": "vit.pooler.dense"})


def _tensors(config: ViTConfig) -> list[TensorMap]:
    kernel = (config.dim, config.channels, config.patch_size, config.patch_size)
    patches = "vit.embeddings.patch_embeddings.projection"
    return [
        TensorMap("class_token", "vit.embeddings.cls_token", reshaped=(1, 1, config.dim)),
        TensorMap("positions.weight", "vit.embeddings.position_embeddings", unsqueezed=True),
        TensorMap("patches.projection.weight", f"{patches}.weight", transposed=True, reshaped=kernel),
        TensorMap("patches.projection.bias", f"{patches}.bias"),
        *without([TensorMap("mask_token", "vit.embeddings.mask_token")]),
        *parts(_BLOCK, ("stack.blocks.{i}.", "vit.encoder.layer.{i}."), "layers"),
        *parts({"stack.norm": "vit.layernorm"}),
        *(_POOLER if config.head == "pooled" else without(_POOLER)),
        *(parts({"classifier": "classifier"}) if config.head == "classifier" else []),
    ]


FAMILY_VIT = ModelFamily(
    "vit",
    "ViT",
    ViTConfig(),
    [
        *fields(image_size="image_size", channels="num_channels", patch_size="patch_size", dim="hidden_size"),
        *fields(layers="num_hidden_layers", heads="num_attention_heads", ffn_dim="intermediate_size"),
        FieldMap("activation", "hidden_act", words=ACTIVATION_WORDS),
        *fields(dropout="hidden_dropout_prob", attention_dropout="attention_probs_dropout_prob", eps="layer_norm_eps"),
    ],
    _tensors,
    {"ViTModel": "pooled", "ViTForImageClassification": "classifier"},
    exceptions={"head", "classes", "image_mean", "image_std"},
    fixed={"qkv_bias": (True,), "pooler_act": ("tanh", None)},
    harmless={"encoder_stride", "pooler_output_size"},
    base="vit.",
    head=lambda config: config.head,
    classes=lambda config: config.classes if config.head == "classifier" else 0,
    modules={  # in the order they are replaced
        "encoder.layer.": "layers.",
        "attention.attention.query": "attention.q_proj",
        "attention.attention.key": "attention.k_proj",
        "attention.attention.value": "attention.v_proj",
        "attention.output.dense": "attention.o_proj",
        "intermediate.dense": "mlp.fc1",
        "output.dense": "mlp.fc2",
    },
)
FAMILIES = (FAMILY_VIT,)
