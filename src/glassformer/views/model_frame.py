"""A model in a notebook: its settings, its parameters, and the numbers of the chosen one.

Once this module is imported, Jupyter shows a model at the end of a cell.
"""

import html

import msgspec

from glassformer.layers.model import Model
from glassformer.views.bundle import NOTEBOOK_METHOD, document, frame
from glassformer.views.stored_numbers import StoredPart, fitting, store

NUMBERS = 60_000  # of all parameters, at most
PARAMETERS_SHOWN = 120
FRAME_HEIGHT = 560  # pixels


class ParameterData(msgspec.Struct, frozen=True):
    """A parameter of a model."""

    name: str
    count: int
    tensor: StoredPart


class ModelData(msgspec.Struct, frozen=True):
    """A model without its numbers."""

    settings: dict[str, str]
    parameters: list[ParameterData]
    more: int


def model_frame(model: Model) -> str:
    """A model as a page in an iframe."""
    every = [(name, value) for name, value in model.named_parameters() if not value.is_meta]
    shown = every[:PARAMETERS_SHOWN]
    tensors = [value for _, value in shown]
    stored, numbers = store(tensors, fitting(tensors, NUMBERS))
    parameters = [
        ParameterData(name, value.numel(), tensor) for (name, value), tensor in zip(shown, stored, strict=True)
    ]
    settings = {name: str(value) for name, value in vars(model.config).items()}
    data = ModelData(settings, parameters, len(every) - len(shown))
    name = type(model).__name__
    body = f"<h3>{html.escape(name)}, {model.parameter_count():,} parameters</h3>"
    page = document(name, body, "show_model.js", {"run": msgspec.json.encode(data), "numbers": numbers})
    return frame(page, name, FRAME_HEIGHT)


setattr(Model, NOTEBOOK_METHOD, model_frame)
