"""The Transformer with glass walls: every formula an object, every number shown beside the equation that made it."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glassformer import equations, probes
    from glassformer.checkpoints.parity import parity
    from glassformer.checkpoints.save import save
    from glassformer.checkpoints.vectors import load_vectors
    from glassformer.decoding.config import GenerationConfig
    from glassformer.decoding.generate import generate, translate
    from glassformer.equation import Equation, catalog
    from glassformer.errors import ConfigError, EquationError, GlassformerError, ModelError, TapeError
    from glassformer.interface import Classification, LoadedModel, load
    from glassformer.layers.config import Config
    from glassformer.models.registry import build, presets
    from glassformer.recording import Tape as tape  # noqa: N813 - reads as a word: `with gf.tape() as tape:`
    from glassformer.training.evaluate import evaluate
    from glassformer.training.run import train_task as train
    from glassformer.views.notebook import trace

__version__ = "0.1.0"

__all__ = [
    "Classification",
    "Config",
    "ConfigError",
    "Equation",
    "EquationError",
    "GenerationConfig",
    "GlassformerError",
    "LoadedModel",
    "ModelError",
    "TapeError",
    "build",
    "catalog",
    "equations",
    "evaluate",
    "generate",
    "load",
    "load_vectors",
    "parity",
    "presets",
    "probes",
    "save",
    "tape",
    "trace",
    "train",
    "translate",
]

# Where each public name lives; it is loaded on first use, so that `import glassformer` needs no torch.
_HOMES = {
    "Classification": ("glassformer.interface", "Classification"),
    "Config": ("glassformer.layers.config", "Config"),
    "ConfigError": ("glassformer.errors", "ConfigError"),
    "Equation": ("glassformer.equation", "Equation"),
    "EquationError": ("glassformer.errors", "EquationError"),
    "GenerationConfig": ("glassformer.decoding.config", "GenerationConfig"),
    "GlassformerError": ("glassformer.errors", "GlassformerError"),
    "LoadedModel": ("glassformer.interface", "LoadedModel"),
    "ModelError": ("glassformer.errors", "ModelError"),
    "TapeError": ("glassformer.errors", "TapeError"),
    "build": ("glassformer.models.registry", "build"),
    "catalog": ("glassformer.equation", "catalog"),
    "evaluate": ("glassformer.training.evaluate", "evaluate"),
    "generate": ("glassformer.decoding.generate", "generate"),
    "load": ("glassformer.interface", "load"),
    "load_vectors": ("glassformer.checkpoints.vectors", "load_vectors"),
    "parity": ("glassformer.checkpoints.parity", "parity"),
    "presets": ("glassformer.models.registry", "presets"),
    "save": ("glassformer.checkpoints.save", "save"),
    "tape": ("glassformer.recording", "Tape"),
    "trace": ("glassformer.views.notebook", "trace"),
    "train": ("glassformer.training.run", "train_task"),
    "translate": ("glassformer.decoding.generate", "translate"),
}


def __getattr__(name: str) -> object:
    if name in ("equations", "probes"):
        return import_module(f"glassformer.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "catalog":
        import_module("glassformer.equations")  # an equation is in the catalog once its file has been read
    module, attribute = _HOMES[name]
    value: object = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
