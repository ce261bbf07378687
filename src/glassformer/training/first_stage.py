"""The first stage of a DALL-E: an autoencoder, loaded from a folder or trained on the same pictures."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from glassformer.checkpoints.load import load
from glassformer.checkpoints.save import save
from glassformer.checkpoints.tensor_files import CONFIG_FILE
from glassformer.data.captions import Pictures
from glassformer.data.picture_batches import PictureBatches
from glassformer.errors import ConfigError
from glassformer.models.dalle import DALLE
from glassformer.models.image_autoencoder import ImageAutoencoder, ImageAutoencoderConfig
from glassformer.models.registry import build
from glassformer.training.device import Device
from glassformer.training.loop import train
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import RunFolder
from glassformer.training.task import DataContext
from glassformer.training.tasks.image_tokens import RECONSTRUCTION, decibels

FOLDER = "autoencoder"  # of the first stage, in the folder of the run
Report = Callable[[str], None]


def load_autoencoder(path: str, pixels: Pictures) -> ImageAutoencoder:
    """The autoencoder of a folder, or the one inside a DALL-E; it must read pictures of this shape."""
    model = load(path).model
    model = model.autoencoder if isinstance(model, DALLE) else model
    if not isinstance(model, ImageAutoencoder):
        what = f"holds a {type(model).__name__}, wanted an autoencoder, as `glassformer train image-tokens` makes it"
        raise ConfigError(f"data.autoencoder is {path}, which {what}")
    wanted, shape = (model.config.image_size, model.config.channels), pixels.shape[2:]
    if wanted != shape:
        sizes = f"pictures of {wanted[0]} pixels and {wanted[1]} channels, and those of the data have {shape[0]}"
        raise ConfigError(f"data.autoencoder is {path}, which reads {sizes} and {shape[1]}: set data.image_size")
    return model


def known_autoencoder(context: DataContext) -> ImageAutoencoder | None:
    """The autoencoder of the model to start from or to evaluate, or the one that this run trained before it stopped."""
    if isinstance(context.model, DALLE):
        return context.model.autoencoder
    if context.folder is None or not (context.folder / FOLDER / CONFIG_FILE).exists():
        return None
    model = load(context.folder / FOLDER).model
    return model if isinstance(model, ImageAutoencoder) else None


def train_autoencoder(
    config: ImageAutoencoderConfig, sides: tuple[Pictures, Pictures], recipe: Recipe, batch: int, device: Device,
    folder: Path | None, report: Report,
) -> ImageAutoencoder:  # fmt: skip
    """Train an autoencoder on pictures, reporting its progress; with a folder, it is saved there and can be resumed."""
    pixels, held_out = sides
    config = replace(config, image_size=pixels.shape[1], channels=pixels.shape[3])
    model = build(config, recipe.seed)
    assert isinstance(model, ImageAutoencoder)
    report(f"first stage: an autoencoder of {model.parameter_count():,} parameters, {recipe.steps:,} steps")
    batches = PictureBatches(pixels, batch, recipe.seed, strength="light")
    validation, run = PictureBatches(held_out, batch, recipe.seed), None if folder is None else RunFolder(folder)
    for log in train(model, batches, RECONSTRUCTION, recipe, run, validation, device):
        if log.validation is not None:
            report(f"autoencoder: step {log.step:,} of {recipe.steps:,}: validation {decibels(log.validation):.1f} dB")
    model.to("cpu")
    if run is not None:
        best = build(config, recipe.seed)
        best.load_state_dict(run.best_or_newest().model)
        save(best, run.path, in_run=True)
        assert isinstance(best, ImageAutoencoder)
        return best
    return model
