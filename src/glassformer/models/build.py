"""A configuration in, a model out."""

import torch

from glassformer.errors import ConfigError
from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.models.presets import PRESETS
from glassformer.models.registry import ARCHITECTURES, architecture_of


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
    place = torch.get_default_device() if device is None else torch.device(device)
    try:
        with place:
            model = architecture(config)
    except (RuntimeError, OverflowError, MemoryError) as error:
        raise ConfigError(f"the model cannot be built: {str(error).splitlines()[0]}") from None
    if place.type != "meta":
        model.init_weights(torch.Generator().manual_seed(seed))
    return model
