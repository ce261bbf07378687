"""Named sizes, data only."""

from glassformer.layers.config import Config
from glassformer.layers.rotary import Llama3Scaling
from glassformer.models.encoder import EncoderConfig
from glassformer.models.gpt import GPTConfig
from glassformer.models.llama import LlamaConfig
from glassformer.models.mlp import MLPConfig
from glassformer.models.modern import ModernConfig
from glassformer.models.rnn import RNNConfig
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.models.t5 import T5Config

PRESETS: dict[str, Config] = {
    "transformer-tiny": Seq2SeqConfig(vocab=10000, dim=128, layers=4, heads=4, ffn_dim=256, dropout=0.3),
    "transformer-base": Seq2SeqConfig(dropout=0.1),
    "transformer-big": Seq2SeqConfig(dim=1024, heads=16, ffn_dim=4096, dropout=0.3),
    "gpt2": GPTConfig(),
    "gpt2-medium": GPTConfig(dim=1024, layers=24, heads=16),
    "gpt2-large": GPTConfig(dim=1280, layers=36, heads=20),
    "gpt2-xl": GPTConfig(dim=1600, layers=48, heads=25),
    "gpt3": GPTConfig(context=2048, dim=12288, layers=96, heads=96),
    "llama-7b": LlamaConfig(),
    "llama-3-8b": LlamaConfig(vocab=128256, context=8192, kv_heads=8, ffn_dim=14336, rope_theta=500000.0),
    "llama-3.1-8b": LlamaConfig(
        vocab=128256, context=131072, kv_heads=8, ffn_dim=14336, rope_theta=500000.0,
        rope_scaling=Llama3Scaling(factor=8.0),
    ),
    "mistral-7b": LlamaConfig(context=32768, kv_heads=8, ffn_dim=14336, window=4096),
    "qwen2-0.5b": LlamaConfig(
        vocab=151936, context=32768, dim=896, layers=24, heads=14, kv_heads=2, ffn_dim=4864, rope_theta=1000000.0,
        qkv_bias=True, tie_embeddings=True, eps=1e-6,
    ),
    "modern": ModernConfig(),
    "bert-base": EncoderConfig(head="pooled"),
    "minilm": EncoderConfig(dim=384, layers=6, ffn_dim=1536, head="sentence"),
    "t5-small": T5Config(),
    "marian": Seq2SeqConfig(vocab=58101, activation="silu", positions="halves", output_bias=True),
    "mlp-xor": MLPConfig(),
    "lstm": RNNConfig(),
}  # fmt: skip


def presets() -> dict[str, Config]:
    """Every named size by name."""
    return dict(PRESETS)
