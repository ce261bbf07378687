"""Contrastive learning of pictures and captions: a CLIP, evaluated by retrieval."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.data.caption_batches import CaptionBatches, PixelScale, Variation
from glassformer.data.caption_splitting import split_pairs
from glassformer.data.captions import CaptionedImages, CaptionTable
from glassformer.data.drawn_shapes import NAME, drawn_shapes
from glassformer.data.files import LabeledText
from glassformer.data.picture_augmentation import Strength
from glassformer.equation import no_checks
from glassformer.equations.algebra import add, scale
from glassformer.equations.losses import cross_entropy
from glassformer.equations.metrics import recall_at_k
from glassformer.errors import ConfigError, DataError, ModelError
from glassformer.inference.pair_embeddings import embed_images, embed_texts, ranks_of
from glassformer.layers.config import Config, Fraction, Probability, Size, setting
from glassformer.layers.model import Model
from glassformer.models.clip import CLIP, CLIPConfig
from glassformer.text.learn_tokenizer import with_last_eos
from glassformer.text.tokenizer import Tokenizer
from glassformer.training import task
from glassformer.training.distributed import gathered_rows
from glassformer.training.objective import Objective
from glassformer.training.recipe import Recipe
from glassformer.training.settings import DataSettings, FilePath, Settings
from glassformer.training.task import DataContext, EvaluatedModel, EvaluationSet, Metrics, Report, Task, TaskData

MIDDLE = 0.5  # mean and deviation that pixels are normalized by, where no model to start from has others
SAMPLED = 50  # captions among which a sample's is chosen
SHOWN = 5  # best captions of a picture in a record


def contrastive_objective(
    model: Model,
    inputs: Sequence[Tensor],
    targets: Tensor,
    weights: Tensor | None,
    label_smoothing: float,
    r_drop: float,
) -> tuple[Tensor, Tensor]:
    """The symmetric contrastive loss of a batch of pairs, summed over the pairs of this process, and their number.

    Each picture is compared with the texts of all processes, and each text with all pictures. Pairs with the same
    caption, by their number in `targets`, are right for each other.
    """
    del weights, r_drop
    assert isinstance(model, CLIP)
    pixel_values, ids, attention_mask = inputs
    image, text = model.encode_image(pixel_values), model.encode_text(ids, attention_mask)
    # logits of 8 bits would not tell close pairs apart
    with nullcontext() if image.is_meta else torch.autocast(image.device.type, enabled=False):
        image, text = (each.to(torch.promote_types(each.dtype, torch.float32)) for each in (image, text))
        images, texts = gathered_rows(image, text)
        (labels,) = gathered_rows(targets[:, None])
        right = (targets[:, None] == labels[:, 0]).to(image.dtype)
        right = right / right.sum(-1, keepdim=True)
        smoothed = partial(cross_entropy, targets=right, label_smoothing=label_smoothing, reduction="sum")
        loss = scale(add(smoothed(model.logits(image, texts)), smoothed(model.logits(text, images))), 0.5)
    return loss, torch.full_like(loss, len(image)).detach()


def _positions(model: Model, batch: Batch) -> int:
    """Patches and class tokens of the pictures, and tokens of the captions."""
    assert isinstance(model, CLIP)
    return len(batch["ids"]) * (1 + model.patches.patches) + int(batch["attention_mask"].sum())


PAIRS = Objective(
    inputs=("pixel_values", "ids", "attention_mask"), targets="labels", loss=contrastive_objective, baseline=None,
    positions=_positions,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CaptionData(DataSettings):
    """Pictures with captions: a .tsv, .csv, .jsonl or .parquet table, or the built-in shapes."""

    path: FilePath = setting(
        NAME, "A table of image files (relative to it) and captions, or built-in data.", "pairs.tsv"
    )
    validation_fraction: Fraction = 0.1
    images: FilePath = setting(
        "", "A .npz file with an array `images`; the table's pictures are then its rows, from 0.", "images.npz"
    )
    candidates: FilePath = setting(
        "", "A table with more captions among which a picture's is sought in evaluation.", "all.tsv"
    )
    fields: tuple[str, str] = setting(("image", "caption"), "Columns of the picture and the caption.", ("file", "text"))
    separator: str = setting("", "What stands between several captions of one picture; if empty, there is one.", "|")
    image_size: Size | None = setting(
        None, "Side that pictures are resized to, in pixels; none is that of the .npz file, or 32.", 64
    )
    channels: Size = setting(3, "Channels of the pictures: 3 for color, 1 for gray.", 1)
    max_length: Size = setting(32, "Tokens after which a caption is cut; the model's context must hold them.", 77)
    batch_size: Size = setting(128, "Pairs in a batch; each is told apart from all others in it.", 256)
    augment: Strength = setting("light", "How far pictures are varied in training.", "strong")
    mirror: bool = setting(False, "Whether pictures are mirrored at random, unless a caption says left or right.")
    token_dropout: Probability = setting(0.0, "Probability that a token of a caption is left out in training.", 0.1)


@dataclass(frozen=True, kw_only=True)
class CLIPSettings(Settings):
    """A CLIP that learns from pairs of pictures and captions."""

    data: CaptionData = CaptionData()
    recipe: Recipe = Recipe(steps=600, learning_rate=1e-3, warmup_steps=60, evaluate_every=200, save_every=200)
    model: Config = CLIPConfig(
        context=32, text_dim=96, text_layers=2, text_heads=4, text_ffn_dim=256, image_size=32, patch_size=8,
        image_dim=96, image_layers=3, image_heads=4, image_ffn_dim=256, embedding_dim=64,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RetrievalMetrics(Metrics):
    """A CLIP on pairs: how often the right caption is among the first k for a picture, and its picture for a text.

    `chance` is the recall at 5 of a random order of the captions; `median_rank` is that of the right caption.
    """

    recall_1: float
    recall_5: float
    recall_10: float
    picture_recall_1: float
    picture_recall_5: float
    picture_recall_10: float
    median_rank: float
    chance: float
    captions: int
    pictures: int


@dataclass(frozen=True)
class CaptionSet(EvaluationSet):
    """Pictures with their captions, and all captions that are candidates for them."""

    batches: CaptionBatches
    tokenizer: Tokenizer
    candidates: Sequence[str] = ()

    def evaluate(
        self,
        model: Model,
        generate: task.Generate,
        progress: task.Progress = task.silent,
        record: task.Record | None = None,
    ) -> RetrievalMetrics:
        """Loss and recall; a caption is sought among all that differ, a picture among those of this data."""
        del generate
        if not isinstance(model, CLIP):
            raise ModelError(f"{type(model).__name__} does not compare pictures and texts, wanted a CLIP")
        captions = self.batches.data.first_captions
        texts = list(dict.fromkeys([*captions, *self.candidates]))
        loss = self._loss(model, progress)
        image = embed_images(model, self.batches.data.pixels)
        text = embed_texts(model, self.tokenizer, texts)
        own = torch.tensor([texts.index(caption) for caption in captions])
        scores = image @ text.T
        right = own[:, None] == torch.arange(len(texts))
        ranks, back = ranks_of(scores, right), ranks_of(text[own] @ image.T, own[:, None] == own)
        if record is not None:
            self._record(record, scores, texts, ranks)
        found, pictures = ([float(recall_at_k(each, k)) for k in (1, 5, 10)] for each in (ranks, back))
        return RetrievalMetrics(
            loss=loss,
            recall_1=found[0], recall_5=found[1], recall_10=found[2],
            picture_recall_1=pictures[0], picture_recall_5=pictures[1], picture_recall_10=pictures[2],
            median_rank=float(ranks.double().quantile(0.5)),
            chance=min(5 / len(texts), 1.0),
            captions=len(texts),
            pictures=len(captions),
        )  # fmt: skip

    @torch.no_grad()
    def _loss(self, model: CLIP, progress: task.Progress) -> float:
        """The mean loss of the pairs among those of their batch."""
        device, before, total, count = next(model.parameters()).device, model.training, 0.0, 0
        model.eval()
        for batch in progress(self.batches.once(), "batches evaluated"):
            PAIRS.check(model, batch)
            here = {name: part.to(device) for name, part in batch.items()}
            with no_checks():
                loss, pairs = contrastive_objective(model, [here[n] for n in PAIRS.inputs], here["labels"], None, 0, 0)
            total, count = total + float(loss), count + int(pairs)
        model.train(before)
        return total / count

    def _record(self, record: task.Record, scores: Tensor, texts: Sequence[str], ranks: Tensor) -> None:
        best = scores.topk(min(SHOWN, len(texts)), -1).indices.tolist()
        data = self.batches.data
        for source, caption, row, rank in zip(data.sources, data.first_captions, best, ranks.tolist(), strict=True):
            record({"picture": source, "caption": caption, "rank": rank, "best": [texts[i] for i in row]})


class CLIPTask(Task[CLIPSettings]):
    """Train two towers to put pictures and their captions in one place."""

    settings = CLIPSettings
    protocol = CLIP
    objective = PAIRS
    built_in = NAME
    grows = False  # larger texts and smaller batches, as for running text, would not help

    def read(self, settings: CLIPSettings, part: task.Part) -> Iterator[LabeledText]:
        """The rows of the table of a part of the data."""
        return iter(_table(settings.data, vars(settings.data)[part]).rows())

    def prepare(self, settings: CLIPSettings, context: DataContext) -> TaskData:
        """Read and split the pictures, encode the captions, and make batches of pairs."""
        data, seed = settings.data, settings.recipe.seed
        task.require_context(settings.model, "data.max_length", data.max_length)
        if settings.recipe.r_drop:
            raise ConfigError(f"recipe.r_drop is {settings.recipe.r_drop}, wanted 0: a contrastive loss has no classes")
        values = _picture_values(context.config)
        read = partial(_read, data, values=values, report=context.report)
        train = read(data.path)
        if data.validation:
            validation = read(data.validation)
        else:
            task.require_two(data.path, len(set(train.first_captions)), "different captions")
            train, validation = split_pairs(train, data.validation_fraction, seed)
        for part, pairs in (("training", train), ("validation", validation)):
            if len(set(pairs.first_captions)) < 2:
                raise DataError(f"1 {part} pair, wanted at least 2: a pair is told apart from others")
        tokenizer = _tokenizer(context, settings, train)
        size, channels = train.pixels.shape[2:]
        mean, std = values.get("image_mean"), values.get("image_std")
        values |= {"image_size": size, "channels": channels, "eos": tokenizer.eos}
        values |= {"image_mean": mean or (MIDDLE,) * channels, "image_std": std or (MIDDLE,) * channels}
        made = partial(_batches, tokenizer=tokenizer, values=values, settings=settings)
        shard = {
            name: context.shard(len(p), name, "pairs") for name, p in (("training", train), ("validation", validation))
        }
        batches = made(train, shard=shard["training"])
        batches.variation = Variation(data.augment, data.mirror, data.token_dropout)
        test = made(read(data.test) if data.test else validation)
        more = _candidates(data)
        return TaskData(
            tokenizer, batches, made(validation, shard=shard["validation"]), CaptionSet(test, tokenizer, more),
            config_values=values, sample=partial(_sample, validation, tokenizer),
        )  # fmt: skip

    def evaluation_set(self, evaluated: EvaluatedModel, settings: CLIPSettings) -> CaptionSet:
        """Pictures of the size that the model reads."""
        tokenizer, data = evaluated.required_tokenizer(), settings.data
        values = _picture_values(evaluated.model.config)
        pairs = _read(data, data.path, values, evaluated.report)
        if data.path == self.built_in:
            pairs = split_pairs(pairs, data.validation_fraction, settings.recipe.seed)[1]
        batches = _batches(pairs, tokenizer, values, settings, size=evaluated.batch_size)
        return CaptionSet(batches, tokenizer, _candidates(data) if data.candidates else ())


def _sample(pairs: CaptionedImages, tokenizer: Tokenizer, model: Model) -> str | None:
    """What a model takes the first validation picture for, among the first captions."""
    if not isinstance(model, CLIP):
        return None
    texts = list(dict.fromkeys(pairs.first_captions))[:SAMPLED]
    cosines = embed_images(model, pairs.pixels[:1]) @ embed_texts(model, tokenizer, texts).T
    best = texts[int(cosines.argmax())]
    verdict = "right" if best == texts[0] else f"wanted {texts[0]}"
    return f"the first picture, among {len(texts)} captions → {best} ({verdict})"


def _table(data: CaptionData, path: str) -> CaptionTable:
    return CaptionTable(path, data.images, data.fields, data.separator)


def _read(data: CaptionData, path: str, values: Mapping[str, object], report: Report) -> CaptionedImages:
    """The pairs of a table, or the built-in ones, in the size that the model to start from reads, if there is one."""
    if path == NAME:
        return drawn_shapes()
    size, channels = values.get("image_size", data.image_size), values.get("channels", data.channels)
    assert isinstance(channels, int) and (size is None or isinstance(size, int))
    return _table(data, path).read(size, channels, report)


def _candidates(data: CaptionData) -> list[str]:
    """The first captions of the table of candidates."""
    if not data.candidates:
        return []
    table = _table(data, data.candidates)
    return [table.captions(row)[0] for row in table.rows()]


def _picture_values(config: Config | None) -> dict[str, object]:
    """How a model that is started from or evaluated reads pictures."""
    names = ("image_size", "channels", "image_mean", "image_std")
    return {} if config is None else {name: vars(config)[name] for name in names}


def _tokenizer(context: DataContext, settings: CLIPSettings, train: CaptionedImages) -> Tokenizer:
    """The tokenizer of the model to start from or of a file, or a new one, with an EOS at which texts are read."""
    new = context.known is None and not settings.tokenizer.file
    found = context.tokenizer(settings.tokenizer, lambda: (text for texts in train.captions for text in texts))
    found = with_last_eos(found) if new else found.for_encoder()
    if found.eos is None or found.eos not in found.template.after:
        raise DataError("the tokenizer puts no EOS after a text, at which CLIP reads it: choose another")
    return found.with_use(max_length=settings.data.max_length)


def _batches(
    pairs: CaptionedImages,
    tokenizer: Tokenizer,
    values: Mapping[str, object],
    settings: CLIPSettings,
    shard: tuple[int, int] = (0, 1),
    size: int | None = None,
) -> CaptionBatches:
    flat = tokenizer.encode_inputs([text for texts in pairs.captions for text in texts], settings.data.max_length)
    encoded = iter(flat)
    tokens = [[next(encoded) for _ in texts] for texts in pairs.captions]
    pixel_scale = PixelScale(values["image_mean"], values["image_std"])  # pyright: ignore[reportArgumentType]
    pad = tokenizer.eos if tokenizer.pad is None else tokenizer.pad
    return CaptionBatches(
        pairs, tokens, pixel_scale, size or settings.data.batch_size, pad or 0, settings.recipe.seed, *shard
    )
