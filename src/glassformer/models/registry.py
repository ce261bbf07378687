"""Every architecture and every preset by name, and how a model is built: adding one takes its file and a line here."""

from typing import get_type_hints

import torch

from glassformer.errors import ConfigError
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.layers.rotary import Llama3Scaling
from glassformer.models.causal_classifier import CausalClassifier
from glassformer.models.clip import CLIP, CLIPConfig
from glassformer.models.cnn import CNN
from glassformer.models.dalle import DALLE, DALLEConfig
from glassformer.models.encoder import Encoder, EncoderConfig
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.image_autoencoder import ImageAutoencoder, ImageAutoencoderConfig
from glassformer.models.image_mlp import ImageMLP
from glassformer.models.linear import LinearConfig, LinearRegression
from glassformer.models.llama import Llama, LlamaConfig
from glassformer.models.mlp import MLP, MLPConfig
from glassformer.models.modern import Modern, ModernConfig
from glassformer.models.rnn import RNN, RNNConfig
from glassformer.models.seq2seq import Seq2Seq, Seq2SeqConfig
from glassformer.models.t5 import T5, T5Config
from glassformer.models.vit import ViT, ViTConfig
from glassformer.models.word2vec import SkipGram, SkipGramConfig

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
    "vit-b16": ViTConfig(classes=1000),
    "vit-tiny": ViTConfig(
        image_size=28, channels=1, patch_size=4, dim=96, layers=6, heads=4, ffn_dim=384, classes=10, image_mean=(0.5,),
        image_std=(0.5,),
    ),
    "linear": LinearConfig(),
    "mlp-xor": MLPConfig(),
    "mlp-sine": MLPConfig(inputs=1, hidden_dims=(10, 10)),
    "lstm": RNNConfig(),
    "image-autoencoder": ImageAutoencoderConfig(),
    "dalle": DALLEConfig(),
    "clip-vit-b32": CLIPConfig(),
    "word2vec": SkipGramConfig(dim=300),
    "rnn": RNNConfig(cell="rnn"),
}  # fmt: skip


def presets() -> dict[str, Config]:
    """Every named size by name."""
    return dict(PRESETS)


ARCHITECTURES: dict[str, type[Model]] = {
    "seq2seq": Seq2Seq,
    "t5": T5,
    "gpt": GPT,
    "llama": Llama,
    "modern": Modern,
    "encoder": Encoder,
    "linear": LinearRegression,
    "mlp": MLP,
    "rnn": RNN,
    "image_autoencoder": ImageAutoencoder,
    "dalle": DALLE,
    "clip": CLIP,
    "vit": ViT,
    "skip_gram": SkipGram,
    "cnn": CNN,
    "image_mlp": ImageMLP,
}


def config_type(model: type[Model]) -> type[Config]:
    """The dataclass that a model is built from."""
    return get_type_hints(model.__init__)["config"]


def architecture_of(config: object) -> str:
    """The name of the architecture that a configuration describes."""
    for name, model in ARCHITECTURES.items():
        if config_type(model) is type(config):
            return name
    known = ", ".join(config_type(model).__name__ for model in ARCHITECTURES.values())
    raise ConfigError(f"config is {repr(config)[:60]}, wanted the name of a preset or one of {known}")


def build(config: Config | str, seed: int = 0, device: torch.device | str | None = None) -> Model:
    """Build the model a configuration or a preset's name describes, with fresh weights drawn from the seed.

    Without a device it goes where torch puts new tensors, by `with torch.device(...)` or `torch.set_default_device`.
    On the device "meta" nothing is allocated: good for counting parameters of models that do not fit.
    """
    if isinstance(config, str):
        if config not in PRESETS:
            raise ConfigError(f"no preset is called {config}; there are {', '.join(PRESETS)}")
        config = PRESETS[config]
    architecture: type[Model] = ARCHITECTURES[architecture_of(config)]
    target = torch.get_default_device() if device is None else torch.device(device)
    try:
        with target:
            model = architecture(config)
            if isinstance(model, CausalLM) and vars(config).get("head") == "classifier":
                model = CausalClassifier(config, model)
    except (RuntimeError, OverflowError, MemoryError) as error:
        raise ConfigError(f"the model cannot be built: {str(error).splitlines()[0]}") from None
    if target.type != "meta":
        model.init_weights(torch.Generator().manual_seed(seed))
    return model
