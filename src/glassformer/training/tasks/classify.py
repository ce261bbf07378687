"""Text classification: an encoder or a decoder with a classifier, evaluated by accuracy and F1."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from glassformer.data.files import LabeledText, read_labeled
from glassformer.data.hints import label_hints
from glassformer.data.padded_batches import LabeledBatches
from glassformer.data.python_source import stdlib_labeled
from glassformer.data.splitting import split_labeled
from glassformer.equations.losses import balanced_class_weights
from glassformer.equations.metrics import accuracy, f1
from glassformer.errors import CheckpointError, DataError, ModelError
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.config import Config, Fraction, Size, setting
from glassformer.layers.model import Model
from glassformer.models.causal_classifier import CausalClassifier
from glassformer.models.encoder import Encoder, EncoderConfig
from glassformer.text.tokenizer import Tokenizer
from glassformer.training import task
from glassformer.training.objective import Objective
from glassformer.training.recipe import TINY_RECIPE, Recipe
from glassformer.training.settings import DataSettings, FilePath, Settings
from glassformer.training.task import DataContext, EvaluatedModel, EvaluationSet, Metrics, Task, TaskData

CLASSES = Objective(
    inputs=("ids", "attention_mask"), targets="labels", baseline=lambda model: math.log(model.config.classes)
)
TEXTS_AT_ONCE = 256  # of a batch in an evaluation
SHOWN_LABELS = 5  # in a message


@dataclass(frozen=True, kw_only=True)
class LabeledData(DataSettings):
    """Texts with their labels: a .tsv, .jsonl or .parquet file, or the built-in stdlib."""

    path: FilePath = "stdlib"
    validation_fraction: Fraction = 0.1
    fields: tuple[str, str] = setting(
        ("label", "text"), "Fields or columns that hold the label and the text.", ("class", "review")
    )
    max_length: Size = setting(128, "Tokens after which a text is cut; the model's context must hold them.", 64)
    batch_size: Size = setting(32, "Texts in a batch.", 16)
    class_weights: Literal["none", "balanced"] = setting(
        "none",
        "Weights of the classes in the loss; balanced makes rare classes count as much as common ones.",
        "balanced",
    )


@dataclass(frozen=True, kw_only=True)
class ClassifySettings(Settings):
    """An encoder, or with another `model.family` a decoder, that classifies texts."""

    data: LabeledData = LabeledData()
    recipe: Recipe = TINY_RECIPE
    model: Config = EncoderConfig(head="classifier", dim=128, layers=2, heads=4, ffn_dim=512, context=128)


@dataclass(frozen=True, kw_only=True)
class ClassMetrics:
    """One class of a classifier: its F1, and the number of examples that belong to it."""

    name: str
    f1: float
    examples: int


@dataclass(frozen=True, kw_only=True)
class ClassifierMetrics(Metrics):
    """A classifier on labeled examples; macro weighs classes equally, weighted by their number of examples."""

    accuracy: float
    f1_macro: float
    f1_weighted: float
    classes: tuple[ClassMetrics, ...]
    examples: int


def classifier_metrics(found: task.Predictions, labels: Sequence[str]) -> ClassifierMetrics:
    """Loss, accuracy and F1; a class without examples and predictions is left out of the macro average."""
    size = len(labels)
    highest = int(max(found.guesses.max(), found.targets.max()))
    if highest >= size:
        raise ModelError(f"class {highest} is among the predictions, and there are labels for {size} classes")
    confusion = torch.bincount(size * found.targets + found.guesses, minlength=size**2).view(size, size)
    examples, each = confusion.sum(1), f1(confusion).double()
    return ClassifierMetrics(
        loss=found.loss,
        accuracy=float(accuracy(found.guesses, found.targets)),
        f1_macro=float(each[(examples + confusion.sum(0)) > 0].mean()),
        f1_weighted=float((each * examples).sum() / examples.sum()),
        classes=tuple(
            ClassMetrics(name=name, f1=value, examples=count)
            for name, value, count in zip(labels, each.tolist(), examples.tolist(), strict=True)
        ),
        examples=len(found.losses),
    )


@dataclass(frozen=True)
class LabeledSet(EvaluationSet):
    """Labeled texts as token ids and as text, and the names of the labels in the order of the classifier."""

    batches: LabeledBatches
    labels: Sequence[str]
    texts: Sequence[LabeledText] = ()

    def evaluate(
        self,
        model: Model,
        generate: task.Generate,
        progress: task.Progress = task.silent,
        record: task.Record | None = None,
    ) -> ClassifierMetrics:
        """Loss, accuracy and F1."""
        found = task.predict(model, self.batches, CLASSES, progress)
        metrics = classifier_metrics(found, self.labels)
        if record is not None:
            predicted, losses = found.guesses.tolist(), found.losses.tolist()
            for text, guess, loss in zip(self.texts, predicted, losses, strict=True):
                record({"text": text.text, "label": text.label, "prediction": self.labels[guess], "loss": loss})
        return metrics


class ClassifyTask(Task[ClassifySettings]):
    """Train an encoder or a decoder to tell classes of text apart."""

    settings = ClassifySettings
    protocol = (Encoder, CausalLM, CausalClassifier)
    objective = CLASSES
    built_in = "stdlib"
    config_values = {"head": "classifier"}  # noqa: RUF012 - never changed

    def read(self, settings: ClassifySettings, part: task.Part) -> Iterator[LabeledText]:
        """The labeled texts of a part of the data."""
        path = vars(settings.data)[part]
        return iter(stdlib_labeled()) if path == self.built_in else read_labeled(path, settings.data.fields)

    def prepare(self, settings: ClassifySettings, context: DataContext) -> TaskData:
        """Split the texts, and encode them with their labels."""
        data, seed = settings.data, settings.recipe.seed
        task.require_context(settings.model, "data.max_length", data.max_length)
        train = list(self.read(settings, "path"))
        validation = list(self.read(settings, "validation")) if data.validation else []
        if not validation:
            task.require_two(data.path, len({text.text for text in train}), "different texts")
            train, validation = split_labeled(train, data.validation_fraction, seed)
        for hint in label_hints(train, validation) if data.path != self.built_in else ():
            context.report(hint)
        labels, fresh = labels_of_run({text.label for text in train}, context)
        weights = _class_weights(train, labels) if data.class_weights == "balanced" else None
        tokenizer = context.tokenizer(settings.tokenizer, lambda: (text.text for text in train))
        reads_back = isinstance(settings.model, EncoderConfig)
        tokenizer = tokenizer.for_encoder() if reads_back else tokenizer.with_end()
        tokenizer = tokenizer.with_use(max_length=data.max_length)

        def made(texts: Sequence[LabeledText], name: str) -> LabeledBatches:
            shard = context.shard(len(texts), name, "texts")
            found = labeled_batches(tokenizer, texts, labels, data.max_length, data.batch_size, seed, *shard)
            found.class_weights = weights
            return found

        batches = made(validation, "validation")
        test, texts = batches, validation
        if data.test or context.process_group.world_size > 1:
            texts = list(self.read(settings, "test")) if data.test else validation
            test = made(texts, "test")
        return TaskData(
            tokenizer, made(train, "training"), batches, LabeledSet(test, labels, texts), labels,
            config_values={"classes": len(labels)}, fresh="classifier." if fresh else None,
        )  # fmt: skip

    def evaluation_set(self, evaluated: EvaluatedModel, settings: ClassifySettings) -> LabeledSet:
        """Texts cut to the length the model was trained on."""
        texts, classes = list(self.read(settings, "path")), evaluated.model.config.classes
        if settings.data.path == self.built_in:
            texts = split_labeled(texts, settings.data.validation_fraction, settings.recipe.seed)[1]
        known = evaluated.labels or tuple(map(str, range(classes)))
        if len(known) != classes:
            raise CheckpointError(f"{evaluated.path}: has {len(known)} labels and a model of {classes} classes")
        labels, unknown = class_labels({text.label for text in texts}, known)
        size = evaluated.max_length
        labels = known if unknown else labels
        at_once = evaluated.batch_size or TEXTS_AT_ONCE
        return LabeledSet(labeled_batches(evaluated.required_tokenizer(), texts, labels, size, at_once), labels, texts)


def labeled_batches(
    tokenizer: Tokenizer, texts: Sequence[LabeledText], labels: Sequence[str], max_length: int | None,
    batch_size: int, seed: int = 0, rank: int = 0, world: int = 1,
) -> LabeledBatches:  # fmt: skip
    """Batches of texts as token ids, cut to a length, with the numbers of their labels."""
    for text in texts:
        if text.label not in labels:
            raise DataError(f"{text.source}: the label is {text.label!r}, wanted one of {', '.join(labels)}")
    rows = tokenizer.encode_inputs([text.text for text in texts], max_length)
    numbers = [labels.index(text.label) for text in texts]
    return LabeledBatches(rows, numbers, batch_size, tokenizer.required("pad"), seed, rank, world)


def _class_weights(texts: Sequence[LabeledText], labels: Sequence[str]) -> Tensor:
    """The weight of each class: the rarer it is in the training data, the larger."""
    numbers = torch.tensor([labels.index(text.label) for text in texts])
    return balanced_class_weights(torch.bincount(numbers, minlength=len(labels)))


def labels_of_run(found: set[str], context: DataContext) -> tuple[tuple[str, ...], bool]:
    """The labels of a run, and whether its classifier must be a new one, which is reported."""
    labels, fresh = class_labels(found, context.labels)
    if fresh and context.labels is not None:
        more = ", ..." if len(context.labels) > SHOWN_LABELS else ""
        known = ", ".join(context.labels[:SHOWN_LABELS]) + more
        context.report(f"a new classification head: the model to start from has other labels ({known})")
    return labels, fresh


def class_labels(found: set[str], known: tuple[str, ...] | None) -> tuple[tuple[str, ...], bool]:
    """The labels in the order of the classifier, and whether it must be a new one.

    A classifier that has all labels is kept, with their order; if its labels are only numbered, they may be numbers.
    """
    if known is None:
        return tuple(sorted(found)), False
    numbers = tuple(map(str, range(len(known))))
    numbered = known == tuple(f"LABEL_{number}" for number in numbers)  # what Hugging Face calls classes without names
    for names in (known, numbers if numbered else known):
        if found <= set(names):
            return names, False
    return tuple(sorted(found)), True
