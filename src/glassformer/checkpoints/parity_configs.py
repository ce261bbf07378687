"""A small configuration of every family, and of every choice that one offers, for parity; data only."""

from dataclasses import replace

from glassformer.layers.config import Config
from glassformer.layers.rotary import LinearScaling, Llama3Scaling, YarnScaling
from glassformer.models.clip import CLIPConfig
from glassformer.models.encoder import EncoderConfig
from glassformer.models.gpt import GPTConfig
from glassformer.models.llama import LlamaConfig
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.models.t5 import T5Config
from glassformer.models.vit import ViTConfig

_GPT = GPTConfig(vocab=29, context=16, dim=12, layers=2, heads=3, ffn_dim=20)
_LLAMA = LlamaConfig(vocab=29, context=32, dim=16, ffn_dim=20, layers=2, heads=4)
_ENCODER = EncoderConfig(vocab=29, context=16, dim=12, layers=2, heads=3, ffn_dim=20)
_ROBERTA = replace(_ENCODER, token_types=1, position_offset=2)
_ALBERT = replace(_ENCODER, share_layers=True, embedding_dim=6)
_T5 = T5Config(vocab=29, dim=12, layers=2, heads=3, head_dim=5, ffn_dim=20, buckets=8, max_distance=10)
_MARIAN = Seq2SeqConfig(
    vocab=29, context=16, dim=12, layers=2, heads=3, ffn_dim=20, positions="halves", output_bias=True
)
_BART = replace(_MARIAN, positions="learned", position_offset=2, embedding_norm=True, activation="gelu")
_CLIP = CLIPConfig(
    vocab=29, context=16, text_dim=12, text_layers=2, text_heads=3, text_ffn_dim=20, embedding_dim=10,
    image_size=8, patch_size=4, image_dim=8, image_layers=3, image_heads=2, image_ffn_dim=16,
)  # fmt: skip
_VIT = ViTConfig(image_size=8, channels=3, patch_size=2, dim=12, layers=2, heads=3, ffn_dim=20)

PARITY_CONFIGS: dict[str, Config] = {
    "GPT-2": _GPT,
    "GPT-2, untied, exact GELU": replace(_GPT, ffn_dim=None, activation="gelu", tie_embeddings=False, eps=1e-3),
    "GPT-2, classes": replace(_GPT, head="classifier", classes=3),
    "Llama, classes": replace(_LLAMA, head="classifier", classes=3),
    "Llama": replace(_LLAMA, rope_theta=5000.0, eps=1e-4),
    "Llama, tied, grouped queries": replace(_LLAMA, kv_heads=2, head_dim=6, tie_embeddings=True),
    "Llama, all biases": replace(_LLAMA, qkv_bias=True, output_bias=True, feed_forward_bias=True),
    "Llama, linear scaling": replace(_LLAMA, rope_scaling=LinearScaling(factor=2.0)),
    "Llama, YaRN": replace(_LLAMA, rope_scaling=YarnScaling(factor=4.0, original_length=8, fast=16.0)),
    "Llama 3.1": replace(_LLAMA, rope_scaling=Llama3Scaling(factor=8.0, original_length=8)),
    "Mistral": replace(_LLAMA, kv_heads=2, window=3),
    "Qwen2": replace(_LLAMA, kv_heads=2, qkv_bias=True, tie_embeddings=True, eps=1e-6),
    "Qwen2, window": replace(_LLAMA, qkv_bias=True, window=3),
    "BERT": _ENCODER,
    "BERT, pooler": replace(_ENCODER, head="pooled"),
    "BERT, masks, ReLU": replace(_ENCODER, head="masked", activation="relu", eps=1e-5),
    "BERT, classes": replace(_ENCODER, head="classifier", classes=3, token_types=3),
    "BERT, span": replace(_ENCODER, head="span"),
    "DistilBERT": replace(_ENCODER, token_types=0),
    "DistilBERT, masks": replace(_ENCODER, token_types=0, head="masked"),
    "DistilBERT, classes": replace(_ENCODER, token_types=0, head="classifier", classes=3, pool="relu"),
    "DistilBERT, span": replace(_ENCODER, token_types=0, head="span"),
    "RoBERTa": replace(_ROBERTA, head="pooled"),
    "RoBERTa, masks": replace(_ROBERTA, head="masked"),
    "RoBERTa, classes": replace(_ROBERTA, position_offset=4, head="classifier", classes=3),
    "RoBERTa, span": replace(_ROBERTA, head="span"),
    "ALBERT": replace(_ALBERT, head="pooled", activation="gelu_tanh"),
    "ALBERT, masks": replace(_ALBERT, head="masked"),
    "ALBERT, classes": replace(_ALBERT, head="classifier", classes=3),
    "ALBERT, span": replace(_ALBERT, head="span"),
    "T5": replace(_T5, decoder_layers=3),
    "T5, gated": replace(_T5, gated=True),
    "T5 1.1": replace(_T5, gated=True, tie_embeddings=False, eps=1e-4),
    "Marian, SiLU": replace(_MARIAN, activation="silu"),
    "Marian, ReLU, unscaled": replace(_MARIAN, scale_embeddings=False, decoder_layers=1),
    "BART": replace(_BART, scale_embeddings=False, decoder_layers=3),
    "BART, scaled": _BART,
    "CLIP": _CLIP,
    "CLIP, EOS, GELU, gray": replace(
        _CLIP, eos=5, activation="gelu", channels=1, image_mean=(0.5,), image_std=(0.5,), eps=1e-3
    ),
    "ViT": replace(_VIT, head="pooled"),
    "ViT, hidden states": replace(_VIT, head="hidden", activation="gelu_tanh"),
    "ViT, classes": replace(_VIT, classes=3),
    "ViT, classes, gray, ReLU": replace(
        _VIT, channels=1, patch_size=4, activation="relu", eps=1e-6, image_mean=(0.3,), image_std=(0.2,)
    ),
}
