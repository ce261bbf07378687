"""preprocessor_config.json: how pixels become the input of a model, which its config.json does not say."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from glassformer.errors import CheckpointError, ConfigError
from glassformer.layers.config import Config, as_declared, field_types
from glassformer.safe_read import read_table

PREPROCESSOR = "preprocessor_config.json"
PROCESSORS = {"clip": "CLIPImageProcessor", "vit": "ViTImageProcessor"}  # of transformers, by the model_type
BICUBIC, BILINEAR = 3, 2  # Pillow's numbers
MEAN, STD = "image_mean", "image_std"
ROUNDING = 1e-6  # of a factor in a file
BYTE = 1 / 255  # the factor that makes a byte a number from 0 to 1


def has_pictures(config: Config) -> bool:
    """Whether a model of this configuration reads pictures."""
    return MEAN in vars(config)


def preprocessor_table(model_type: str, config: Config) -> dict[str, object]:
    """The preprocessor_config.json of a model that reads pictures."""
    values = vars(config)
    size, cropped = values["image_size"], model_type == "clip"
    table: dict[str, object] = {
        "image_processor_type": PROCESSORS.get(model_type, PROCESSORS["vit"]),
        "do_convert_rgb": values["channels"] == 3,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        MEAN: list(values[MEAN]),
        STD: list(values[STD]),
        "resample": BICUBIC if cropped else BILINEAR,
        "rescale_factor": BYTE,
        "size": {"shortest_edge": size} if cropped else {"height": size, "width": size},
    }
    return table | ({"do_center_crop": True, "crop_size": {"height": size, "width": size}} if cropped else {})


def with_preprocessor(config: Config, folder: Path) -> Config:
    """A configuration with the mean and the deviation of pixels that the file beside it names, if there is one."""
    path = folder / PREPROCESSOR
    if not has_pictures(config) or not path.exists():
        return config
    table = read_table(path)
    factor = table.get("rescale_factor", BYTE)
    if table.get("do_rescale", True) is not True or not isinstance(factor, float) or abs(factor - BYTE) > ROUNDING:
        raise CheckpointError(f"{path}: rescale_factor is {factor!r}, wanted 1/255, the only one this version supports")
    return _normalized(config, table, path) if table.get("do_normalize", True) else _plain(config)


def _normalized(config: Config, table: Mapping[str, object], path: Path) -> Config:
    found: dict[str, object] = {}
    for name in (MEAN, STD):
        try:
            values = as_declared(name, table.get(name, vars(config)[name]), field_types(type(config))[name])
        except ConfigError as error:
            raise CheckpointError(f"{path}: {error}") from None
        count = len(cast(tuple[float, ...], values))
        if count != vars(config)["channels"]:
            raise CheckpointError(f"{path}: {name} has {count} numbers, wanted {vars(config)['channels']}")
        found[name] = values
    return replace(config, **found)


def _plain(config: Config) -> Config:
    """A configuration that leaves pixels from 0 to 1."""
    channels = vars(config)["channels"]
    return replace(config, **{MEAN: (0.0,) * channels, STD: (1.0,) * channels})
