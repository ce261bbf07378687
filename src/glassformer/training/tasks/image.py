"""Image classification: a model that reads pictures, evaluated by accuracy and F1."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.data.hints import example_hints
from glassformer.data.image_arrays import DIGITS, digits, is_idx, read_idx_images, read_npz_images
from glassformer.data.image_batches import PIXEL_VALUES, Augmentation, ImageBatches, channel_statistics
from glassformer.data.images import LabeledImages, class_folders, fitted, image_size, read_image_folder, require_pillow
from glassformer.data.splitting import split_indices
from glassformer.equations.sampling import greedy
from glassformer.errors import CheckpointError, ConfigError, DataError, PathError
from glassformer.inference.prepare import inference_mode
from glassformer.layers.config import Config, Count, Fraction, Probability, Size, setting
from glassformer.layers.image_classifier import ImageClassifier
from glassformer.layers.model import Model
from glassformer.models.vit import ViTConfig
from glassformer.training import task
from glassformer.training.objective import Objective, cross_entropy_loss, summed_cross_entropy
from glassformer.training.recipe import Recipe
from glassformer.training.settings import DataSettings, FilePath, Settings
from glassformer.training.task import DataContext, EvaluatedModel, EvaluationSet, Report, Task, TaskData
from glassformer.training.tasks.classify import ClassifierMetrics, class_labels, classifier_metrics, labels_of_run

LARGEST_SIDE = 64  # pixels that pictures of a folder are scaled to if nothing else is asked for
MANY_PATCHES = 400  # of a picture, from which attention takes most of the time
PICTURES_AT_ONCE = 256  # of a batch in an evaluation


@dataclass(frozen=True, kw_only=True)
class ImageData(DataSettings):
    """Pictures with their labels: a folder for each class, an IDX file, an .npz file, or the built-in digits."""

    path: FilePath = DIGITS
    validation_fraction: Fraction = 0.1
    image_size: Size | None = setting(
        None, "Side in pixels that pictures are scaled to; none keeps that of the data.", 32
    )
    color: Literal["auto", "gray", "rgb"] = setting("auto", "Whether pictures are read in color; auto is as they are.")
    batch_size: Size = setting(64, "Pictures in a batch.", 128)
    shift: Count = setting(0, "Pixels by which training pictures are moved at random, at most.", 2)
    flip: bool = setting(False, "Whether half of the training pictures are mirrored; not for digits or letters.")
    erase: Probability = setting(0.0, "Probability that a rectangle of a training picture is erased.", 0.25)
    cutmix: Probability = setting(0.0, "Probability that a batch gets rectangles of other pictures (CutMix).", 0.5)
    mixup: Probability = setting(0.0, "Probability that the pictures of another batch are mixed (mixup).", 0.2)

    @property
    def augmentation(self) -> Augmentation:
        """What is done to training pictures."""
        return Augmentation(self.shift, self.flip, self.erase, self.cutmix, self.mixup)


@dataclass(frozen=True, kw_only=True)
class ImageSettings(Settings):
    """A model that classifies pictures."""

    data: ImageData = ImageData()
    recipe: Recipe = Recipe(
        steps=600,
        learning_rate=3e-3,
        warmup_steps=60,
        weight_decay=0.1,
        label_smoothing=0.1,
        evaluate_every=200,
        save_every=200,
    )
    model: Config = ViTConfig(
        image_size=8, channels=1, patch_size=2, dim=64, layers=2, heads=4, ffn_dim=256, pool="mean", dropout=0.1,
        image_mean=(0.5,), image_std=(0.5,),
    )  # fmt: skip


def picture_loss(
    model: Model,
    inputs: Sequence[Tensor],
    targets: Tensor,
    weights: Tensor | None,
    label_smoothing: float,
    r_drop: float,
) -> tuple[Tensor, Tensor]:
    """Cross-entropy; of a mixed picture, with both of its labels by their weights."""
    if targets.dim() == 1 or weights is None:
        return cross_entropy_loss(model, inputs, targets, weights, label_smoothing, r_drop)
    logits = model(*inputs).unsqueeze(1).expand(-1, targets.shape[1], -1)
    return summed_cross_entropy(logits, targets, weights, label_smoothing), weights.sum()


def positions(model: Model, batch: Batch) -> int:
    """Positions that a model computes on for a batch: the patches of all pictures."""
    assert isinstance(model, ImageClassifier)
    return len(batch[PIXEL_VALUES]) * model.sequence_length


PICTURES = Objective(
    inputs=(PIXEL_VALUES,),
    targets="labels",
    loss=picture_loss,
    baseline=lambda model: math.log(model.config.classes),
    positions=positions,
)


@dataclass(frozen=True)
class ImageSet(EvaluationSet):
    """Labeled pictures, and the names of the labels in the order of the classifier."""

    batches: ImageBatches
    labels: Sequence[str]
    sources: Sequence[str] = ()

    def evaluate(
        self,
        model: Model,
        generate: task.Generate,
        progress: task.Progress = task.silent,
        record: task.Record | None = None,
    ) -> ClassifierMetrics:
        """Loss, accuracy and F1."""
        found = task.predict(model, self.batches, PICTURES, progress)
        metrics = classifier_metrics(found, self.labels)
        if record is not None:
            guesses, targets, losses = (each.tolist() for each in (found.guesses, found.targets, found.losses))
            for source, guess, target, loss in zip(self.sources, guesses, targets, losses, strict=True):
                names = {"label": self.labels[target], "prediction": self.labels[guess]}
                record({"picture": source, **names, "loss": loss})
        return metrics


@dataclass(frozen=True)
class PictureSample:
    """What a model says of the first validation picture."""

    pictures: ImageSet

    def __call__(self, model: Model) -> str:
        """The picture, the label that the model gives it, and whether that is right."""
        batch, labels = next(self.pictures.batches.once()), self.pictures.labels
        with inference_mode(model):
            guess = int(greedy(model(batch[PIXEL_VALUES][:1].to(next(model.parameters()).device)))[0])
        wanted = int(batch["labels"][0])
        verdict = "right" if guess == wanted else f"wanted {labels[wanted]}"
        return f"{self.pictures.sources[0]} → {labels[guess]} ({verdict})"


class ImageTask(Task[ImageSettings]):
    """Train a model to tell classes of pictures apart."""

    settings = ImageSettings
    protocol = ImageClassifier
    objective = PICTURES
    built_in = DIGITS
    reads_text = False
    config_values = {"head": "classifier"}  # noqa: RUF012 - never changed

    def read(self, settings: ImageSettings, part: task.Part) -> Iterator[LabeledImages]:
        """All pictures of a part of the data, at once."""
        yield self.pictures(vars(settings.data)[part], *asked_form(settings.data, None), _nothing)

    def check_files(self, settings: ImageSettings) -> None:
        """Refuse data of a kind that is not read, and ask for Pillow, before any work."""
        for part in task.PARTS:
            if path := vars(settings.data)[part]:
                _require_readable(path, self.built_in)

    def pictures(self, path: str, size: int | None, channels: int | None, report: Report) -> LabeledImages:
        """The pictures of a path with this size and these channels; None is as they are."""
        if path == self.built_in or not Path(path).is_dir():
            read = read_npz_images if path.lower().endswith(".npz") else read_idx_images
            return fitted(digits() if path == self.built_in else read(path), size, channels)
        height, width, own = image_size(next(iter(class_folders(Path(path)).values()))[0])
        if size is None:
            size = min(height, width, LARGEST_SIDE)
            report(f"pictures are scaled to {size} × {size} pixels; data.image_size sets another size")
        return read_image_folder(Path(path), size, channels or own, report)

    def prepare(self, settings: ImageSettings, context: DataContext) -> TaskData:
        """Read and split the pictures, and make batches of them."""
        data, seed, known = settings.data, settings.recipe.seed, context.config
        if data.augmentation.mixes and settings.recipe.r_drop:
            raise ConfigError("recipe.r_drop and mixed pictures (data.cutmix, data.mixup) are both set, wanted one")
        train = self.pictures(data.path, *asked_form(data, known), context.report)
        form = train.pixels.shape[1], train.pixels.shape[-1]
        train, validation = self._split(settings, train, context, form)
        labels, fresh = labels_of_run(set(train.labels), context)
        scale = channel_statistics(train.pixels)
        if known is not None:
            scale = vars(known)["image_mean"], vars(known)["image_std"]
        if known is None:
            _hint_patches(settings.model, train, context.report)

        def made(pictures: LabeledImages, name: str) -> ImageBatches:
            shard = context.shard(len(pictures), name, "pictures")
            augmentation = data.augmentation if name == "training" else Augmentation()
            numbers = label_numbers(pictures, labels)
            return ImageBatches(pictures.pixels, numbers, data.batch_size, scale, augmentation, seed, *shard)

        test = self.pictures(data.test, *form, context.report) if data.test else validation
        held = made(validation, "validation")
        values = {"image_size": form[0], "channels": form[1], "classes": len(labels)}
        values |= {"image_mean": tuple(scale[0]), "image_std": tuple(scale[1])}
        return TaskData(
            None, made(train, "training"), held, ImageSet(made(test, "test"), labels, test.sources), labels, values,
            "classifier." if fresh else None, PictureSample(ImageSet(held, labels, validation.sources)),
        )  # fmt: skip

    def _split(
        self, settings: ImageSettings, train: LabeledImages, context: DataContext, form: tuple[int, int]
    ) -> tuple[LabeledImages, LabeledImages]:
        data = settings.data
        if data.validation:
            validation = self.pictures(data.validation, *form, context.report)
        else:
            train, validation = split_pictures(data, train, settings.recipe.seed)
        if data.path != self.built_in:
            contents = [[picture.tobytes() for picture in part.pixels] for part in (train, validation)]
            for hint in example_hints(contents[0], contents[1], "pictures"):
                context.report(hint)
        return train, validation

    def evaluation_set(self, evaluated: EvaluatedModel, settings: ImageSettings) -> ImageSet:
        """Pictures of the size that the model reads."""
        config, data = evaluated.model.config, settings.data
        pictures = self.pictures(data.path, config.image_size, config.channels, evaluated.report)
        if data.path == self.built_in:
            pictures = split_pictures(data, pictures, settings.recipe.seed)[1]
        known = evaluated.labels or tuple(map(str, range(config.classes)))
        if len(known) != config.classes:
            raise CheckpointError(f"{evaluated.path}: has {len(known)} labels and a model of {config.classes} classes")
        labels, unknown = class_labels(set(pictures.labels), known)
        labels = known if unknown else labels
        scale = (config.image_mean, config.image_std)
        batch = evaluated.batch_size or PICTURES_AT_ONCE
        numbers = label_numbers(pictures, labels)
        batches = ImageBatches(pictures.pixels, numbers, batch, scale, Augmentation(), 0)
        return ImageSet(batches, labels, pictures.sources)


def asked_form(data: ImageData, known: Config | None) -> tuple[int | None, int | None]:
    """The size and the channels of the model to start from, or those that the settings ask for."""
    if known is not None:
        return vars(known)["image_size"], vars(known)["channels"]
    return data.image_size, {"gray": 1, "rgb": 3}.get(data.color)


def split_pictures(data: ImageData, pictures: LabeledImages, seed: int) -> tuple[LabeledImages, LabeledImages]:
    """Pictures for training, and a fraction of every class for validation; copies stay on one side."""
    contents = [picture.tobytes() for picture in pictures.pixels]
    task.require_two(data.path, len(set(contents)), "different pictures")
    held = split_indices(contents, pictures.labels, data.validation_fraction, seed)
    kept = [index for index in range(len(pictures)) if index not in held]
    return pictures.select(kept), pictures.select(sorted(held))


def label_numbers(pictures: LabeledImages, labels: Sequence[str]) -> list[int]:
    """The number of each picture's label."""
    numbers = {label: number for number, label in enumerate(labels)}
    for label, source in zip(pictures.labels, pictures.sources, strict=True):
        if label not in numbers:
            raise DataError(f"{source}: the label is {label!r}, wanted one of {', '.join(labels)}")
    return [numbers[label] for label in pictures.labels]


def _nothing(text: str) -> None:
    """Report nothing."""


def _require_readable(path: str, built_in: str) -> None:
    if path == built_in or path.lower().endswith(".npz") or is_idx(path):
        return
    if not Path(path).is_dir():
        wanted = "a folder with a folder for each class, a ...images-idx3-ubyte file, or an .npz file"
        raise PathError(f"{path}: {'is not' if Path(path).exists() else 'there is no such file; wanted'} {wanted}")
    require_pillow(f"{path}: reading pictures")


def _hint_patches(model: Config, pictures: LabeledImages, report: Report) -> None:
    """Hint at small patches of large pictures, which make long sequences."""
    patch = vars(model).get("patch_size")
    if patch and (pictures.pixels.shape[1] // patch) ** 2 > MANY_PATCHES:
        count = (pictures.pixels.shape[1] // patch) ** 2
        report(f"a picture has {count:,} patches: a larger model.patch_size than {patch} makes training faster")
