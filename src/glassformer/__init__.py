"""The Transformer with glass walls: every formula an object, every number shown beside the equation that made it."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glassformer import equations
    from glassformer.equation import Equation, catalog
    from glassformer.errors import EquationError, GlassformerError, TapeError
    from glassformer.recording import Tape as tape  # noqa: N813 - reads as a word: `with gf.tape() as tape:`

__version__ = "0.1.0"

__all__ = ["Equation", "EquationError", "GlassformerError", "TapeError", "catalog", "equations", "tape"]

# Where each public name lives; it is loaded on first use, so that `import glassformer` needs no torch.
_HOMES = {
    "Equation": ("glassformer.equation", "Equation"),
    "EquationError": ("glassformer.errors", "EquationError"),
    "GlassformerError": ("glassformer.errors", "GlassformerError"),
    "TapeError": ("glassformer.errors", "TapeError"),
    "catalog": ("glassformer.equation", "catalog"),
    "tape": ("glassformer.recording", "Tape"),
}


def __getattr__(name: str) -> object:
    if name == "equations":
        return import_module("glassformer.equations")
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
