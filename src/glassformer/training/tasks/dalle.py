"""Pictures from text: a decoder over the tokens of captions and pictures, evaluated by the loss on pictures.

One command trains both stages: where `data.autoencoder` names none, an autoencoder is trained first on the same
pictures, since someone with a table of pictures and captions wants drawings and not two commands in the right order.
"""

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from glassformer.checkpoints.tensor_files import CONFIG_FILE
from glassformer.data.caption_splitting import split_pairs
from glassformer.data.captions import CaptionedImages, CaptionTable, Pictures
from glassformer.data.drawn_shapes import NAME, drawn_shapes
from glassformer.data.files import LabeledText
from glassformer.data.picture_batches import CaptionedTokenBatches, PictureBatches, TokenLayout
from glassformer.errors import ConfigError
from glassformer.inference.picture_tokens import encode_pictures
from glassformer.layers.config import Config, Fraction, NotNegative, Probability, Size, setting
from glassformer.layers.model import Model
from glassformer.models.dalle import DALLE, DALLEConfig
from glassformer.models.image_autoencoder import ImageAutoencoder
from glassformer.text.tokenizer import Tokenizer
from glassformer.training import task
from glassformer.training.device import Device, run_device
from glassformer.training.objective import NEXT_TOKEN
from glassformer.training.recipe import Recipe
from glassformer.training.settings import DataSettings, FilePath, Settings, TokenizerSettings
from glassformer.training.task import DataContext, EvaluatedModel, EvaluationSet, Metrics, Report, Task, TaskData
from glassformer.training.tasks.image_tokens import RECONSTRUCTION, SMALL, decibels

CAPTIONS = TokenizerSettings(kind="wordpiece", vocab_size=2000, lowercase=True)
TINY = DALLEConfig(dim=128, layers=4, heads=4, autoencoder=SMALL)
FIRST_STAGE = Recipe(learning_rate=2e-3, betas=(0.9, 0.99), evaluate_every=100, save_every=200, log_every=100)
FOLDER = "autoencoder"  # of the first stage, in the folder of the run
BATCH = 32  # pairs of a batch in an evaluation


@dataclass(frozen=True, kw_only=True)
class DALLEData(DataSettings):
    """Pictures with captions: a .tsv, .csv, .jsonl or .parquet table, or the built-in shapes."""

    path: FilePath = setting(
        NAME, "A table of image files (relative to it) and captions, or built-in data.", "pairs.tsv"
    )
    validation_fraction: Fraction = 0.1
    images: FilePath = setting(
        "", "A .npz file with an array `images`; the table's pictures are then its rows, from 0.", "images.npz"
    )
    fields: tuple[str, str] = setting(("image", "caption"), "Columns of the picture and the caption.", ("file", "text"))
    separator: str = setting("", "What stands between several captions of one picture; if empty, there is one.", "|")
    image_size: Size | None = setting(
        None, "Side that pictures are resized to, in pixels; none is that of the .npz file, or 32.", 64
    )
    channels: Size = setting(3, "Channels of the pictures: 3 for color, 1 for gray.", 1)
    autoencoder: FilePath = setting(
        "", "Folder of an autoencoder that image-tokens trained; if empty, one is trained first.", "runs/tokens"
    )
    autoencoder_steps: Size = setting(600, "Steps of the autoencoder, where one is trained first.", 2000)
    caption_length: Size = setting(24, "Tokens to which captions are cut or padded.", 32)
    batch_size: Size = setting(32, "Pairs in a batch.", 128)
    variations: Size = setting(1, "Versions of each picture in training: itself, and others moved and recolored.", 8)
    caption_dropout: Probability = setting(
        0.1, "Fraction of captions that are left empty in training, which guidance needs.", 0.2
    )
    text_weight: NotNegative = setting(
        0.125, "Weight of a caption's tokens in the loss; those of pictures have 1.", 0.0
    )


@dataclass(frozen=True, kw_only=True)
class DALLESettings(Settings):
    """A decoder that draws what a caption says."""

    data: DALLEData = DALLEData()
    tokenizer: TokenizerSettings = CAPTIONS
    recipe: Recipe = Recipe(steps=600, warmup_steps=60, learning_rate=1e-3, evaluate_every=200, save_every=200)
    model: Config = TINY


@dataclass(frozen=True, kw_only=True)
class DALLEMetrics(Metrics):
    """A decoder on pictures with captions; the loss is that of the tokens of pictures, in nats.

    `bits_per_pixel` is what the tokens of a picture take; `text_loss` is the loss of the tokens of captions.
    """

    perplexity: float
    bits_per_pixel: float
    text_loss: float
    pictures: int


@dataclass(frozen=True)
class CaptionedSet(EvaluationSet):
    """Captions with the tokens of their pictures."""

    batches: CaptionedTokenBatches

    def evaluate(
        self,
        model: Model,
        generate: task.Generate,
        progress: task.Progress = task.silent,
        record: task.Record | None = None,
    ) -> DALLEMetrics:
        """Losses on the tokens of pictures and of captions."""
        assert isinstance(model, DALLE)
        found = task.predict(model, self.batches, NEXT_TOKEN, progress)
        drawn = found.targets >= model.config.text_vocab
        losses, texts = found.losses[drawn], found.losses[~drawn]
        if record is not None:
            for number, part in enumerate(losses.view(self.batches.count, -1).mean(1).tolist()):
                record({"picture": number, "loss": part})
        loss, picture = float(losses.mean()), model.config.autoencoder
        return DALLEMetrics(
            loss=loss,
            perplexity=math.exp(loss),
            bits_per_pixel=loss / math.log(2) * picture.tokens / picture.image_size**2,
            text_loss=float(texts.mean()) if len(texts) else 0.0,
            pictures=self.batches.count,
        )


class DALLETask(Task[DALLESettings]):
    """Train a decoder to continue captions with the tokens of pictures."""

    settings = DALLESettings
    protocol = DALLE
    objective = NEXT_TOKEN
    built_in = NAME
    follows = {"model.context": "data.caption_length", "model.autoencoder": "data.autoencoder"}  # noqa: RUF012

    def read(self, settings: DALLESettings, part: task.Part) -> Iterator[LabeledText]:
        """The rows of the table of a part of the data."""
        return iter(_table(settings.data, vars(settings.data)[part]).rows())

    def prepare(self, settings: DALLESettings, context: DataContext) -> TaskData:
        """Read and split the pictures, train or load the autoencoder, and make tokens of everything."""
        data, seed = settings.data, settings.recipe.seed
        read = partial(_read, data, report=context.report)
        train = read(data.path)
        if data.validation:
            validation = read(data.validation)
        else:
            task.require_two(data.path, len(set(train.first_captions)), "different captions")
            train, validation = split_pairs(train, data.validation_fraction, seed)
        test = read(data.test) if data.test else validation
        autoencoder = self._autoencoder(settings, context, train, validation)
        if context.model is None:
            autoencoder.to(_device(settings).device)
        texts = (text for captions in train.captions for text in captions)
        tokenizer = context.tokenizer(settings.tokenizer, lambda: texts).for_decoder()
        layout = TokenLayout(data.caption_length, tokenizer.vocab_size, tokenizer.required("pad"))

        def made(pairs: CaptionedImages, name: str, variations: int = 1) -> CaptionedTokenBatches:
            shard = context.shard(len(pairs), name, "pairs")
            codes = _codes(autoencoder, pairs, variations, seed)
            found = CaptionedTokenBatches(_encoded(tokenizer, pairs), codes, layout, data.batch_size, seed, *shard)
            found.checksum = zlib.crc32(pairs.pixels.tobytes())
            return found

        batches = made(train, "training", data.variations)
        batches.varies, batches.caption_dropout, batches.text_weight = True, data.caption_dropout, data.text_weight
        config = autoencoder.config
        return TaskData(
            tokenizer,
            batches,
            made(validation, "validation"),
            CaptionedSet(made(test, "test")),
            config_values={
                "autoencoder": config,
                "vocab": tokenizer.vocab_size + config.codes,
                "context": data.caption_length + config.tokens,
            },
            weights={f"autoencoder.{name}": value for name, value in autoencoder.state_dict().items()},
            sample=lambda model: None,
        )

    def _autoencoder(
        self, settings: DALLESettings, context: DataContext, train: CaptionedImages, validation: CaptionedImages
    ) -> ImageAutoencoder:
        """The autoencoder that is named, or known from the model or the run, or else one that is trained now."""
        data = settings.data
        if data.autoencoder:
            return _load_autoencoder(context, data.autoencoder, train.pixels)
        assert isinstance(settings.model, DALLEConfig)
        if known := _known_autoencoder(context):
            return known
        config = settings.model.autoencoder
        if context.dry_run:
            return ImageAutoencoder(replace(config, image_size=train.pixels.shape[1], channels=data.channels))
        if context.process_group.world_size > 1:
            how = "train one with `glassformer train image-tokens` and name its folder"
            raise ConfigError(f"data.autoencoder is empty, and several processes do not train one first: {how}")
        recipe = replace(FIRST_STAGE, steps=data.autoencoder_steps, warmup_steps=0, seed=settings.recipe.seed)
        folder = None if context.folder is None else context.folder / FOLDER
        config = replace(config, image_size=train.pixels.shape[1], channels=data.channels)
        model, size = ImageAutoencoder(config), data.batch_size
        model.init_weights(torch.Generator().manual_seed(recipe.seed))
        context.report(f"first stage: an autoencoder of {model.parameter_count():,} parameters, {recipe.steps:,} steps")
        batches = PictureBatches(train.pixels, size, recipe.seed, strength="light")
        sides = (batches, PictureBatches(validation.pixels, size, recipe.seed))

        def log(step: int, error: float) -> None:
            context.report(f"autoencoder: step {step:,} of {recipe.steps:,}: validation {decibels(error):.1f} dB")

        found = context.train_first_stage(model, sides, RECONSTRUCTION, recipe, _device(settings), folder, log)
        assert isinstance(found, ImageAutoencoder)
        return found

    def evaluation_set(self, evaluated: EvaluatedModel, settings: DALLESettings) -> CaptionedSet:
        """Pictures of the size that the model draws."""
        model, tokenizer = evaluated.model, evaluated.required_tokenizer()
        assert isinstance(model, DALLE)
        picture = model.config.autoencoder
        data = replace(settings.data, image_size=picture.image_size, channels=picture.channels)
        pairs = _read(data, data.path, evaluated.report)
        if data.path == self.built_in:
            pairs = split_pairs(pairs, data.validation_fraction, settings.recipe.seed)[1]
        layout = TokenLayout(model.config.text_length, model.config.text_vocab, tokenizer.required("pad"))
        codes = _codes(model.autoencoder, pairs, 1, 0)
        size = evaluated.batch_size or BATCH
        return CaptionedSet(CaptionedTokenBatches(_encoded(tokenizer, pairs), codes, layout, size, 0))


def _load_autoencoder(context: DataContext, path: str, pixels: Pictures) -> ImageAutoencoder:
    """The autoencoder of a folder, or the one inside a DALL-E; it must read pictures of this shape."""
    model = context.load_model(path)
    model = model.autoencoder if isinstance(model, DALLE) else model
    if not isinstance(model, ImageAutoencoder):
        what = f"holds a {type(model).__name__}, wanted an autoencoder, as `glassformer train image-tokens` makes it"
        raise ConfigError(f"data.autoencoder is {path}, which {what}")
    wanted, shape = (model.config.image_size, model.config.channels), pixels.shape[2:]
    if wanted != shape:
        sizes = f"pictures of {wanted[0]} pixels and {wanted[1]} channels, and those of the data have {shape[0]}"
        raise ConfigError(f"data.autoencoder is {path}, which reads {sizes} and {shape[1]}: set data.image_size")
    return model


def _known_autoencoder(context: DataContext) -> ImageAutoencoder | None:
    """The autoencoder of the model to start from or to evaluate, or the one that this run trained before it stopped."""
    if isinstance(context.model, DALLE):
        return context.model.autoencoder
    if context.folder is None or not (context.folder / FOLDER / CONFIG_FILE).exists():
        return None
    model = context.load_model(context.folder / FOLDER)
    return model if isinstance(model, ImageAutoencoder) else None


def _device(settings: DALLESettings) -> Device:
    """The device of the autoencoder, which has no blocks whose activations could be recomputed."""
    return replace(run_device(settings.run), activation_checkpointing=False)


def _table(data: DALLEData, path: str) -> CaptionTable:
    return CaptionTable(path, data.images, data.fields, data.separator)


def _read(data: DALLEData, path: str, report: Report) -> CaptionedImages:
    """The pairs of a table, or the built-in ones."""
    return drawn_shapes() if path == NAME else _table(data, path).read(data.image_size, data.channels, report)


def _encoded(tokenizer: Tokenizer, pairs: CaptionedImages) -> list[list[list[int]]]:
    """The captions of each picture as token ids."""
    flat = iter(tokenizer.encode_batch([text for texts in pairs.captions for text in texts]))
    return [[next(flat) for _ in texts] for texts in pairs.captions]


def _codes(autoencoder: ImageAutoencoder, pairs: CaptionedImages, variations: int, seed: int) -> np.ndarray:
    """The tokens of each picture [variations, pictures, tokens]; the first variation is the picture itself."""
    kinds = ["none" if number == 0 else "light" for number in range(variations)]
    parts = [encode_pictures(autoencoder, pairs.pixels, kind, seed + i) for i, kind in enumerate(kinds)]  # pyright: ignore
    return np.stack(parts).astype(np.int32)
