"""A small one of every model, in every variety its configuration knows, with inputs to run it on."""

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.layers.rotary import LinearScaling, Llama3Scaling, NTKScaling, ThetaScaling, YarnScaling
from glassformer.models.clip import CLIPConfig
from glassformer.models.cnn import CNNConfig
from glassformer.models.dalle import DALLEConfig
from glassformer.models.encoder import EncoderConfig
from glassformer.models.gpt import GPTConfig
from glassformer.models.image_autoencoder import ImageAutoencoderConfig
from glassformer.models.image_mlp import ImageMLPConfig
from glassformer.models.linear import LinearConfig
from glassformer.models.llama import LlamaConfig
from glassformer.models.mlp import MLPConfig
from glassformer.models.modern import ModernConfig
from glassformer.models.registry import build
from glassformer.models.rnn import RNNConfig
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.models.t5 import T5Config
from glassformer.models.vit import ViTConfig
from glassformer.models.word2vec import SkipGramConfig

VOCAB = 13
PICTURES = ImageAutoencoderConfig(image_size=4, channels=2, features=4, halvings=1, blocks=1, levels=(3, 2), groups=2)
LLAMA = {"vocab": VOCAB, "context": 16, "dim": 8, "layers": 2, "heads": 4, "ffn_dim": 12}
SEQ2SEQ = {"vocab": VOCAB, "context": 16, "dim": 8, "layers": 2, "heads": 2, "ffn_dim": 12}
ENCODER = {"vocab": VOCAB, "context": 16, "dim": 8, "layers": 2, "heads": 2, "ffn_dim": 12}
VIT = {"image_size": 6, "channels": 2, "patch_size": 2, "dim": 8, "layers": 2, "heads": 2, "ffn_dim": 12}
VIT |= {"image_mean": (0.5, 0.4), "image_std": (0.5, 0.2)}
T5 = {"vocab": VOCAB, "dim": 8, "layers": 2, "heads": 2, "head_dim": 3, "ffn_dim": 12}
TEXT_TOWER = {"vocab": VOCAB, "context": 16, "text_dim": 8, "text_layers": 2, "text_heads": 2, "text_ffn_dim": 12}
IMAGE_TOWER = {
    "image_size": 6,
    "patch_size": 3,
    "image_dim": 8,
    "image_layers": 2,
    "image_heads": 2,
    "image_ffn_dim": 12,
}
CLIP = {**TEXT_TOWER, **IMAGE_TOWER, "channels": 3, "embedding_dim": 6}

ZOO: dict[str, Config] = {
    "gpt": GPTConfig(vocab=VOCAB, context=16, dim=8, layers=2, heads=2),
    "gpt-classifier": GPTConfig(vocab=VOCAB, context=16, dim=8, layers=2, heads=2, head="classifier", classes=3),
    "llama": LlamaConfig(**LLAMA),
    "llama-classifier": LlamaConfig(**LLAMA, head="classifier", classes=3),
    "llama-grouped": LlamaConfig(**LLAMA, kv_heads=2, head_dim=6),
    "llama-multi-query-tied": LlamaConfig(**LLAMA, kv_heads=1, tie_embeddings=True),
    "llama-base": LlamaConfig(**LLAMA, rope_scaling=ThetaScaling(alpha=4.0)),
    "llama-linear": LlamaConfig(**LLAMA, rope_scaling=LinearScaling(factor=2.0)),
    "llama-ntk": LlamaConfig(**(LLAMA | {"heads": 2}), rope_scaling=NTKScaling(factor=2.0)),
    "llama-yarn": LlamaConfig(**LLAMA, rope_scaling=YarnScaling(factor=4.0, original_length=8)),
    "llama-3": LlamaConfig(**LLAMA, rope_scaling=Llama3Scaling(factor=8.0, original_length=8)),
    "mistral": LlamaConfig(**LLAMA, window=3),
    "qwen2": LlamaConfig(**LLAMA, qkv_bias=True),
    "modern": ModernConfig(vocab=VOCAB, context=16, dim=8, layers=2, heads=2),
    "modern-alibi": ModernConfig(
        vocab=VOCAB, context=16, dim=8, layers=2, heads=2, positions="alibi", attention="sliding_window", window=3
    ),
    "modern-dilated": ModernConfig(
        vocab=VOCAB, context=16, dim=8, layers=2, heads=2, attention="dilated", window=3, attention_softcap=2.0
    ),
    "modern-blocks": ModernConfig(
        vocab=VOCAB, context=16, dim=8, layers=2, heads=2, positions="none", attention="block_sparse", block_size=3
    ),
    "rnn": RNNConfig(vocab=VOCAB, dim=6, hidden_dim=5, layers=2, cell="rnn"),
    "lstm": RNNConfig(vocab=VOCAB, dim=6, hidden_dim=5, layers=2),
    "seq2seq": Seq2SeqConfig(**SEQ2SEQ),
    "seq2seq-pre": Seq2SeqConfig(**SEQ2SEQ, norm_first=True, activation="gelu", decoder_layers=1),
    "seq2seq-learned": Seq2SeqConfig(**SEQ2SEQ, positions="learned", scale_embeddings=False, embedding_norm=True),
    "marian": Seq2SeqConfig(**SEQ2SEQ, positions="halves", activation="silu", output_bias=True),
    "encoder": EncoderConfig(**ENCODER),
    "encoder-pooled": EncoderConfig(**ENCODER, head="pooled"),
    "encoder-sentence": EncoderConfig(**ENCODER, head="sentence", token_types=0),
    "encoder-masked": EncoderConfig(**ENCODER, head="masked"),
    "encoder-classifier": EncoderConfig(**ENCODER, head="classifier", classes=3),
    "encoder-span": EncoderConfig(**ENCODER, head="span"),
    "t5": T5Config(**T5),
    "t5-gated": T5Config(**T5, gated=True, tie_embeddings=False, decoder_layers=1),
    "image-autoencoder": PICTURES,
    "dalle": DALLEConfig(autoencoder=PICTURES, vocab=VOCAB, context=16, dim=8, layers=2, heads=2),
    "clip": CLIPConfig(**CLIP),
    "clip-eos": CLIPConfig(**(CLIP | {"channels": 1}), image_mean=(0.5,), image_std=(0.5,), eos=3, activation="gelu"),
    "cnn": CNNConfig(
        image_size=6, channels=2, dim=8, layers=1, groups=2, classes=3, image_mean=(0.5, 0.4), image_std=(0.5, 0.2)
    ),
    "image-mlp": ImageMLPConfig(
        image_size=3, channels=2, dim=8, layers=2, classes=3, image_mean=(0.5, 0.4), image_std=(0.5, 0.2)
    ),
    "vit": ViTConfig(**VIT, classes=3),
    "vit-mean": ViTConfig(**VIT, classes=3, pool="mean", activation="relu"),
    "vit-sinusoidal": ViTConfig(**VIT, positions="sinusoidal"),
    "vit-sinusoidal-mean": ViTConfig(**VIT, positions="sinusoidal", pool="mean"),
    "vit-pooled": ViTConfig(**VIT, head="pooled"),
    "vit-hidden": ViTConfig(**VIT, head="hidden"),
    "skip-gram": SkipGramConfig(vocab=VOCAB, dim=8),
    "linear": LinearConfig(
        inputs=3,
        outputs=2,
        input_mean=(0.5, -1.0, 2.0),
        input_std=(2.0, 0.5, 1.5),
        target_mean=(1.0, 2.0),
        target_std=(3.0, 0.25),
    ),
    "mlp": MLPConfig(inputs=3, hidden_dims=(5, 4), outputs=2, activation="tanh"),
}
STRAIGHT_THROUGH = ["image-autoencoder"]  # rounds, and has a gradient by convention
CLASSIFIERS = [name for name, c in ZOO.items() if name.endswith("-classifier") and not isinstance(c, EncoderConfig)]
DECODERS = (GPTConfig, LlamaConfig, ModernConfig, RNNConfig, DALLEConfig)
CAUSAL = [name for name, c in ZOO.items() if isinstance(c, DECODERS) and name not in CLASSIFIERS]
READERS = [name for name, c in ZOO.items() if isinstance(c, EncoderConfig)]
PAIRED = [name for name, c in ZOO.items() if isinstance(c, CLIPConfig)]
VIEWERS = [
    name for name, c in ZOO.items() if isinstance(c, (ViTConfig, CNNConfig, ImageMLPConfig))
]  # which read pictures
TRANSLATORS = [name for name, c in ZOO.items() if isinstance(c, (Seq2SeqConfig, T5Config))]


@dataclass
class Specimen:
    """A model with weights worth testing, and inputs for it."""

    model: Model
    inputs: dict[str, Tensor]

    def __call__(self, **changed: Tensor) -> Tensor:
        """Run the model, with some inputs changed."""
        return self.model(**(self.inputs | changed))


def specimen(name: str, dtype: torch.dtype = torch.float64, seed: int = 0, length: int = 7) -> Specimen:
    """A model of the zoo whose every parameter matters: none left at zero or one."""
    generator = torch.Generator().manual_seed(seed)
    model = build(ZOO[name], seed).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_((0.3 * noise).to(dtype))
    ids = torch.randint(VOCAB, (3, length), generator=generator)
    if name in ("linear", "mlp"):
        return Specimen(model, {"x": torch.randn(4, 3, generator=generator, dtype=torch.float64).to(dtype)})
    if name == "image-autoencoder":
        pixels = torch.randn(3, 2, 4, 4, generator=generator, dtype=torch.float64)
        return Specimen(model, {"pixel_values": pixels.to(dtype)})
    if name in PAIRED:
        size = (4, ZOO[name].channels, ZOO[name].image_size, ZOO[name].image_size)
        pixels = torch.randn(size, generator=generator, dtype=torch.float64).to(dtype)
        return Specimen(model, {"pixel_values": pixels, "ids": ids})
    if name in VIEWERS:
        shape = (3, ZOO[name].channels, ZOO[name].image_size, ZOO[name].image_size)
        return Specimen(model, {"pixel_values": torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)})
    if name == "skip-gram":
        return Specimen(model, {"centers": ids[:, :1], "candidates": ids[:, 1:]})
    if name in TRANSLATORS:
        return Specimen(model, {"source": ids, "target": torch.randint(VOCAB, (3, length - 2), generator=generator)})
    return Specimen(model, {"ids": ids})
