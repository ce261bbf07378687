"""The Transformer with glass walls: every formula an object, every number shown beside the equation that made it."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glassformer import equations, probes
    from glassformer.asking.classification import Classification
    from glassformer.checkpoints.parity import parity
    from glassformer.checkpoints.save import save
    from glassformer.checkpoints.vectors import load_vectors
    from glassformer.decoding.config import GenerationConfig
    from glassformer.decoding.generate import generate, translate
    from glassformer.equation import Equation, catalog
    from glassformer.errors import ConfigError, EquationError, GlassformerError, ModelError, TapeError
    from glassformer.interactive_training import train
    from glassformer.interface import LoadedModel, load
    from glassformer.layers.config import Config
    from glassformer.models.registry import build, presets
    from glassformer.planning.figures import Plan
    from glassformer.planning.plan import plan
    from glassformer.probes.trace import trace
    from glassformer.recording import Tape as tape  # noqa: N813 - reads as a word: `with gf.tape() as tape:`
    from glassformer.training.evaluate import evaluate

__version__ = "0.1.0"

__all__ = [
    "Classification", "Config", "ConfigError", "Equation", "EquationError", "GenerationConfig", "GlassformerError",
    "LoadedModel", "ModelError", "Plan", "TapeError", "build", "catalog", "equations", "evaluate", "generate", "load",
    "load_vectors", "parity", "plan", "presets", "probes", "save", "tape", "trace", "train", "translate",
]  # fmt: skip

# The public names of each module; one is loaded on first use, so that `import glassformer` needs no torch.
_MODULES = {
    "asking.classification": ("Classification",),
    "checkpoints.parity": ("parity",),
    "checkpoints.save": ("save",),
    "checkpoints.vectors": ("load_vectors",),
    "decoding.config": ("GenerationConfig",),
    "decoding.generate": ("generate", "translate"),
    "equation": ("Equation", "catalog"),
    "errors": ("ConfigError", "EquationError", "GlassformerError", "ModelError", "TapeError"),
    "interactive_training": ("train",),
    "interface": ("LoadedModel", "load"),
    "layers.config": ("Config",),
    "models.registry": ("build", "presets"),
    "planning.figures": ("Plan",),
    "planning.plan": ("plan",),
    "probes.trace": ("trace",),
    "recording": ("tape",),
    "training.evaluate": ("evaluate",),
}
_DEFINED_AS = {"tape": "Tape"}
# An equation is in the catalog once its file has been read; Jupyter shows an object once its view has been read.
_SHOWN = ("views.equation_frame", "views.html", "views.attention", "views.model_frame")
_ALSO_READ = {
    "build": _SHOWN,
    "catalog": ("equations", "views.equation_frame"),
    "equations": ("views.equation_frame",),
    "load": _SHOWN,
    "probes": _SHOWN,
    "tape": _SHOWN,
    "trace": _SHOWN,
    "train": (*_SHOWN, "views.run_frame"),
}


def __getattr__(name: str) -> object:
    for also in _ALSO_READ.get(name, ()):
        import_module(f"glassformer.{also}")
    if name in ("equations", "probes"):
        return import_module(f"glassformer.{name}")
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"glassformer.{module}"), _DEFINED_AS.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
