"""A configuration in, a model out."""

import torch

from glassformer.errors import ConfigError
from glassformer.layers.model import Model
from glassformer.models.encoder import Encoder, EncoderConfig
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.llama import Llama, LlamaConfig
from glassformer.models.mlp import MLP, MLPConfig
from glassformer.models.modern import Modern, ModernConfig
from glassformer.models.presets import PRESETS, Config
from glassformer.models.rnn import RNN, RNNConfig
from glassformer.models.seq2seq import Seq2Seq, Seq2SeqConfig
from glassformer.models.t5 import T5, T5Config

MODELS: dict[type, type] = {
    Seq2SeqConfig: Seq2Seq,
    GPTConfig: GPT,
    LlamaConfig: Llama,
    ModernConfig: Modern,
    EncoderConfig: Encoder,
    T5Config: T5,
    MLPConfig: MLP,
    RNNConfig: RNN,
}


def build(config: Config | str, seed: int = 0, device: torch.device | str | None = None) -> Model:
    """Build the model a configuration or a preset's name describes, with fresh weights drawn from the seed.

    Without a device it goes where torch puts new tensors, by `with torch.device(...)` or `torch.set_default_device`.
    On the device "meta" nothing is allocated: good for counting parameters of models that do not fit.
    """
    if isinstance(config, str):
        if config not in PRESETS:
            raise ConfigError(f"no preset is called {config}; there are {', '.join(PRESETS)}")
        config = PRESETS[config]
    if type(config) not in MODELS:
        kinds = ", ".join(kind.__name__ for kind in MODELS)
        raise ConfigError(f"config is {repr(config)[:60]}, wanted the name of a preset or one of {kinds}")
    place = torch.get_default_device() if device is None else torch.device(device)
    try:
        with place:
            model = MODELS[type(config)](config)
    except (RuntimeError, OverflowError, MemoryError) as error:
        raise ConfigError(f"the model cannot be built: {str(error).splitlines()[0]}") from None
    if place.type != "meta":
        model.reset(torch.Generator().manual_seed(seed))
    return model
