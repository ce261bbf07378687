"""Pictures as tokens: a discrete autoencoder, evaluated by the error of its reconstructions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from glassformer.data.captions import Pictures, fit_pictures
from glassformer.data.picture_augmentation import Strength
from glassformer.data.picture_batches import PictureBatches
from glassformer.data.unlabeled_pictures import COLOR, SHAPES, read_unlabeled, split_pictures
from glassformer.equations.losses import mean_squared_error
from glassformer.equations.vector_quantization import peak_signal_to_noise
from glassformer.inference.prepare import inference_mode
from glassformer.layers.config import Config, Fraction, Size, setting
from glassformer.layers.model import Model
from glassformer.models.image_autoencoder import ImageAutoencoder, ImageAutoencoderConfig
from glassformer.training import task
from glassformer.training.objective import Objective
from glassformer.training.recipe import Recipe
from glassformer.training.settings import DataSettings, FilePath, Settings
from glassformer.training.task import DataContext, EvaluatedModel, EvaluationSet, Metrics, Task, TaskData

PICTURES_AT_ONCE = 64  # of a batch in an evaluation
SMALL = ImageAutoencoderConfig(features=16, blocks=1)


def reconstruction_loss(
    model: Model,
    inputs: Sequence[Tensor],
    targets: Tensor,
    weights: Tensor | None,
    label_smoothing: float,
    r_drop: float,
) -> tuple[Tensor, Tensor]:
    """The squared error of the reconstructions, summed over all pixels, and the number of pixels."""
    y = model(*inputs)
    y = y.to(torch.promote_types(y.dtype, torch.float32))
    error = mean_squared_error(y.flatten(1), targets.flatten(1)) * len(targets)
    return error, torch.full_like(error, targets.numel())


def picture_positions(model: Model, batch: dict[str, Tensor]) -> int:
    """Tokens of a batch of pictures."""
    return len(batch["pixel_values"]) * model.config.tokens


RECONSTRUCTION = Objective(
    inputs=("pixel_values",),
    targets="pixel_values",
    loss=reconstruction_loss,
    baseline=None,
    positions=picture_positions,
)


@dataclass(frozen=True, kw_only=True)
class PictureData(DataSettings):
    """Pictures: a folder of image files, an .npz or IDX file, or the built-in shapes or digits."""

    path: FilePath = SHAPES
    validation_fraction: Fraction = 0.1
    image_size: Size | None = setting(
        None, "Side to which pictures are resized; none keeps that of arrays, and is 32 for files.", 64
    )
    channels: Size = setting(COLOR, "Channels of a picture: 1 for gray, 3 for color.", 1)
    batch_size: Size = setting(32, "Pictures in a batch.", 128)
    augmentation: Strength = setting(
        "none", "How far pictures are varied for training: moved, scaled, recolored.", "light"
    )


@dataclass(frozen=True, kw_only=True)
class ImageTokensSettings(Settings):
    """A discrete autoencoder of pictures."""

    data: PictureData = PictureData()
    recipe: Recipe = Recipe(
        steps=600, warmup_steps=60, learning_rate=2e-3, betas=(0.9, 0.99), evaluate_every=100, save_every=200
    )
    model: Config = SMALL


@dataclass(frozen=True, kw_only=True)
class ReconstructionMetrics(Metrics):
    """An autoencoder on pictures; the loss is the mean squared error of pixels from 0 to 1, PSNR is in decibels."""

    psnr: float
    codes_used: int
    codes: int
    tokens_per_picture: int
    pictures: int


@dataclass(frozen=True)
class PictureSet(EvaluationSet):
    """Pictures to reconstruct."""

    batches: PictureBatches

    def evaluate(
        self,
        model: Model,
        generate: task.Generate,
        progress: task.Progress = task.silent,
        record: task.Record | None = None,
    ) -> ReconstructionMetrics:
        """The error of the reconstructions, and how many of the codes they use."""
        assert isinstance(model, ImageAutoencoder)
        device, used = next(model.parameters()).device, torch.zeros(model.config.codes, dtype=torch.bool)
        errors: list[Tensor] = []
        for batch in progress(self.batches.once(), "batches evaluated"):
            pixels = batch["pixel_values"].to(device)
            model.check(pixels)
            with inference_mode(model):
                ids = model.encode(pixels)
                apart = (model.decode(ids).clamp(0, 1) - pixels).double().square()
            used[ids.flatten().cpu()] = True
            errors.append(apart.flatten(1).mean(1).cpu())
        each = torch.cat(errors)
        for number, error in enumerate(each.tolist() if record is not None else ()):
            assert record is not None
            record({"picture": number, "mse": error, "psnr": decibels(error)})
        return ReconstructionMetrics(
            loss=float(each.mean()),
            psnr=decibels(float(each.mean())),
            codes_used=int(used.sum()),
            codes=model.config.codes,
            tokens_per_picture=model.config.tokens,
            pictures=len(each),
        )


def decibels(error: float) -> float:
    """The PSNR of a mean squared error of pixels from 0 to 1."""
    apart = torch.tensor([error], dtype=torch.float64).sqrt()
    return float(peak_signal_to_noise(apart, torch.zeros_like(apart)))


class ImageTokensTask(Task[ImageTokensSettings]):
    """Train an autoencoder to turn pictures into tokens and back."""

    settings = ImageTokensSettings
    protocol = ImageAutoencoder
    objective = RECONSTRUCTION
    built_in = SHAPES
    reads_text = False

    def read(self, settings: ImageTokensSettings, part: task.Part) -> Iterator[Pictures]:
        """The pictures of a part of the data, all at once."""
        yield self._pictures(settings, part, lambda text: None)

    def _pictures(self, settings: ImageTokensSettings, part: task.Part, report: task.Report) -> Pictures:
        data = settings.data
        return read_unlabeled(vars(data)[part], data.image_size, data.channels, report)

    def prepare(self, settings: ImageTokensSettings, context: DataContext) -> TaskData:
        """Read the pictures and split them."""
        data, seed = settings.data, settings.recipe.seed
        pixels = self._pictures(settings, "path", context.report)
        if context.config is not None:
            pixels = fitted(pixels, context.config)
        if data.validation:
            train, held_out = pixels, self._pictures(settings, "validation", context.report)
        else:
            task.require_two(data.path, len({picture.tobytes() for picture in pixels}), "different pictures")
            sides = split_pictures(pixels, data.validation_fraction, seed)
            train, held_out = (pixels[side] for side in sides)
        test = self._pictures(settings, "test", context.report) if data.test else held_out

        def made(part: Pictures, name: str, strength: Strength = "none") -> PictureBatches:
            shard = context.shard(len(part), name, "pictures")
            return PictureBatches(part, data.batch_size, seed, *shard, strength=strength)

        return TaskData(
            None,
            made(train, "training", data.augmentation),
            made(held_out, "validation"),
            PictureSet(made(test, "test")),
            config_values={"image_size": pixels.shape[1], "channels": data.channels},
            sample=Reconstruction(held_out[:1]),
        )

    def evaluation_set(self, evaluated: EvaluatedModel, settings: ImageTokensSettings) -> PictureSet:
        """Pictures of the size that the model reads."""
        config = evaluated.model.config
        data = replace(settings.data, image_size=config.image_size, channels=config.channels)
        pixels = self._pictures(replace(settings, data=data), "path", evaluated.report)
        if data.path == self.built_in:
            pixels = pixels[split_pictures(pixels, data.validation_fraction, settings.recipe.seed)[1]]
        return PictureSet(PictureBatches(pixels, evaluated.batch_size or PICTURES_AT_ONCE, 0))


def fitted(pixels: Pictures, config: Config) -> Pictures:
    """Pictures of the size that a trained model reads."""
    from_model = vars(config)
    return fit_pictures(pixels, from_model["image_size"], from_model["channels"], "data.path")


@dataclass(frozen=True)
class Reconstruction:
    """How well a model reconstructs one picture, as text for the log."""

    pixels: Pictures

    def __call__(self, model: Model) -> str:
        """The PSNR of the picture."""
        batch = next(PictureBatches(self.pixels, 1, 0).once())
        pixels = batch["pixel_values"].to(next(model.parameters()).device)
        with inference_mode(model):
            error = float((model(pixels).clamp(0, 1) - pixels).square().mean())
        return f"the first validation picture is reconstructed with {decibels(error):.1f} dB"
