"""Every architecture by name: adding one takes its file and a line here."""

from typing import get_type_hints

from glassformer.errors import ConfigError
from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.models.encoder import Encoder
from glassformer.models.gpt import GPT
from glassformer.models.llama import Llama
from glassformer.models.mlp import MLP
from glassformer.models.modern import Modern
from glassformer.models.rnn import RNN
from glassformer.models.seq2seq import Seq2Seq
from glassformer.models.t5 import T5

ARCHITECTURES: dict[str, type[Model]] = {
    "seq2seq": Seq2Seq,
    "t5": T5,
    "gpt": GPT,
    "llama": Llama,
    "modern": Modern,
    "encoder": Encoder,
    "mlp": MLP,
    "rnn": RNN,
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
