"""What a task is: settings, data as batches, an objective, and an evaluation with its metrics."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Generic, Literal, Protocol, TypeVar, get_args

import torch
from torch import Tensor

from glassformer.data.batches import IGNORE, Batches
from glassformer.decoding.completion import Completion
from glassformer.decoding.config import GenerationConfig
from glassformer.equation import no_checks
from glassformer.equations.losses import cross_entropy, perplexity
from glassformer.equations.sampling import greedy
from glassformer.errors import ConfigError, DataError, ModelError, NonFiniteError, PathError, TokenizerSettingError
from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.device import Device
from glassformer.training.distributed import ProcessGroup
from glassformer.training.objective import Objective
from glassformer.training.recipe import Recipe
from glassformer.training.settings import Settings, TokenizerSettings

S = TypeVar("S", bound=Settings)
T = TypeVar("T")
Part = Literal["path", "validation", "test"]  # of the data, by the setting that names its file
PARTS: tuple[Part, ...] = get_args(Part)
Report = Callable[[str], None]
Record = Callable[[Mapping[str, object]], None]
StageLog = Callable[[int, float], None]  # gets steps and validation losses
FirstStage = Callable[
    [Model, tuple[Batches, Batches], Objective, Recipe, Device, Path | None, StageLog], Model
]  # trains a model on batches for training and validation
Prompts = Sequence[str] | Sequence[Sequence[int]]  # as texts or as token ids
Generate = Callable[[Model, Tokenizer, Prompts, GenerationConfig], list[Completion]]

TOKENS_AT_ONCE = 8192  # of a batch in an evaluation
LOGITS_AT_ONCE = 2**26  # of a batch in an evaluation
MORE = {
    "training": "add training data (data.path)",
    "validation": "add validation data (data.validation_fraction or data.validation)",
    "test": "add test data (data.test)",
}


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """The metrics of a model on data; a task adds its own. The loss is in nats per target."""

    loss: float


class Progress(Protocol):
    """Passes the items of long work through, and reports how many there were."""

    def __call__(self, items: Iterator[T], what: str) -> Iterator[T]:
        """The same items; `what` says what has been done with them."""
        ...


def silent(items: Iterator[T], what: str) -> Iterator[T]:
    """Report nothing."""
    del what
    return items


@dataclass(frozen=True)
class EvaluationSet(ABC):
    """Data to evaluate a model on."""

    batches: Batches

    @abstractmethod
    def evaluate(
        self, model: Model, generate: Generate, progress: Progress = silent, record: Record | None = None
    ) -> Metrics:
        """The metrics of a model; `generate` is for tasks that evaluate generated text.

        `record` gets each example in the order of the data: what was read, what was expected, what came out.
        """

    def hints(self) -> Iterator[str]:
        """What makes the metrics on this data misleading, one sentence each."""
        return iter(())


@dataclass(frozen=True)
class TaskData:
    """The data of a run as batches, with the tokenizer and the labels that belong to them.

    A task that reads no text has no tokenizer. `config_values` are fields of the model's configuration that follow
    from the data. `fresh` is the prefix of parameters that are not taken over from the model to start from, because
    they belong to other labels. `sample` describes what a model does with one example, where text cannot.
    `weights` are parameters of a new model that were trained before.
    """

    tokenizer: Tokenizer | None
    batches: Batches
    validation: Batches
    test: EvaluationSet
    labels: tuple[str, ...] | None = None
    config_values: Mapping[str, object] = field(default_factory=dict)
    fresh: str | None = None
    sample: Callable[[Model], str | None] | None = None
    weights: Mapping[str, Tensor] = field(default_factory=dict)

    def required_tokenizer(self) -> Tokenizer:
        """The tokenizer of a task that reads text."""
        if self.tokenizer is None:
            raise ModelError("this task reads no text, so it has no tokenizer")
        return self.tokenizer


def no_first_stage(*_: object) -> Model:
    """Refuse to train where data is only read."""
    raise ModelError("a first stage is trained by a run, not where its data is read again")


@dataclass(frozen=True)
class DataContext:
    """What every task prepares its data with.

    The tokenizer, labels and configuration are those of the model to start from, or of the run to resume; `model` is
    the one to start from, or to evaluate. A task that trains in two stages keeps the first in a part of the `folder`
    of the run; a dry run trains nothing.
    """

    known: Tokenizer | None
    process_group: ProcessGroup
    report: Report
    labels: tuple[str, ...] | None = None
    config: Config | None = None
    model: Model | None = None
    folder: Path | None = None
    dry_run: bool = False
    train_first_stage: FirstStage = no_first_stage
    load_model: Callable[[str | Path], Model] = no_first_stage

    def tokenizer(self, settings: TokenizerSettings, texts: Callable[[], Iterable[str]]) -> Tokenizer:
        """The known tokenizer, the one of a file, or one trained on the texts."""
        if self.known is not None:
            return self.known
        if settings.file:
            return Tokenizer.load(settings.file)
        self.report(f"training a tokenizer ({settings.kind})")
        try:
            return learn_tokenizer(texts(), settings.kind, settings.vocab_size, lowercase=settings.lowercase)
        except TokenizerSettingError as error:
            raise ConfigError(f"tokenizer.{error}") from None

    def shard(self, count: int, part: str, rows: str) -> tuple[int, int]:
        """Rank and world size for the batches of a part of the data; only the first process reads test data.

        Raises on a part that would leave a process without a row.
        """
        alone = part == "test"
        rank, world = (0, 1) if alone else (self.process_group.rank, self.process_group.world_size)
        if count < world:
            fewer = ", or start fewer processes" if count else ""
            wanted = f"wanted at least {world}, one for each process"
            raise DataError(f"{count} {part} {rows}, {wanted}: {MORE[part]}{fewer}")
        return rank, world


@dataclass(frozen=True)
class EvaluatedModel:
    """A trained model to evaluate, with its labels, and its tokenizer if it reads text."""

    path: str
    task: str
    model: Model
    tokenizer: Tokenizer | None
    labels: tuple[str, ...] | None = None
    batch_size: int | None = None  # examples of a batch; as many as fit if left out
    report: Report = field(default=lambda text: None)  # gets what is left out of the data

    def required_tokenizer(self) -> Tokenizer:
        """The tokenizer, or an error where the model came without one."""
        if self.tokenizer is None:
            raise PathError(f"{self.path}: has no tokenizer, so it cannot read text")
        return self.tokenizer

    @property
    def max_length(self) -> int | None:
        """The longest input the model was trained on, which may be less than it can read."""
        sizes = (vars(self.model.config).get("context"), self.required_tokenizer().use.max_length)
        return min((size for size in sizes if size is not None), default=None)

    @property
    def tokens_at_once(self) -> int:
        """Tokens of a batch whose logits fit into memory."""
        return min(LOGITS_AT_ONCE // self.model.config.vocab, TOKENS_AT_ONCE)


class Task(ABC, Generic[S]):
    """Something to train a model for. One file defines it, and one line of `training.registry` adds it.

    `protocol` is the class that a model has to be of, or several. `config_values` are the fields of its configuration
    that follow from the task. `built_in` is the name of the built-in data; where `always_split`, some of it is left out
    of training even if `data.validation` names a file. `parts` are the parts of the data that it reads; a setting for
    another is refused. A task that does not read text (`reads_text`) has no tokenizer and no settings for one; the
    defaults of one that `grows` follow from the machine. `follows` says of keys that cannot be set what they follow
    from.
    """

    settings: type[S]
    protocol: type[Model] | tuple[type[Model], ...]
    objective: Objective
    built_in: str
    always_split = False
    reads_text = True
    grows = True
    parts: tuple[Part, ...] = PARTS
    config_values: Mapping[str, object] = MappingProxyType({})
    follows: Mapping[str, str] = MappingProxyType({})

    @abstractmethod
    def read(self, settings: S, part: Part) -> Iterator[object]:
        """The rows of a part of the data, one at a time."""

    @abstractmethod
    def prepare(self, settings: S, context: DataContext) -> TaskData:
        """Read the data and make batches of it."""

    @abstractmethod
    def evaluation_set(self, evaluated: EvaluatedModel, settings: S) -> EvaluationSet:
        """All of `data.path`, or of the built-in data the part that the settings leave out of training."""

    def decided(self, settings: S, device: Device, report: Report) -> S:
        """The settings with what follows from the device of a fresh run, which a resumed one keeps."""
        del device, report
        return settings

    def check_files(self, settings: S) -> None:
        """Read the first row of the validation and test data, so that a bad file is refused before any work."""
        for part in PARTS[1:]:
            if vars(settings.data)[part] and part not in self.parts:
                raise ConfigError(f"data.{part} is {vars(settings.data)[part]}, which this task does not read")
            if vars(settings.data)[part] not in ("", self.built_in):
                next(self.read(settings, part), None)


def require_context(config: Config, setting: str, length: int) -> None:
    """Refuse a model that cannot read sequences of this length."""
    context = vars(config).get("context")  # a recurrent model has none: it reads sequences of any length
    if context is not None and context < length:
        raise ConfigError(f"model.context is {context}, wanted at least {setting}, which is {length}")


def require_two(path: str, count: int, rows: str) -> None:
    """Refuse data that cannot be split into training and validation data."""
    if count < 2:
        wanted = "wanted at least 2, one for training and one for validation: add more, or name data.validation"
        raise DataError(f"{path}: has {count} {rows}, {wanted}")


@dataclass(frozen=True)
class Predictions:
    """Every target that counts: its loss in nats, in double precision, the most likely class, and its example."""

    losses: Tensor
    guesses: Tensor
    targets: Tensor
    examples: Tensor

    @property
    def loss(self) -> float:
        """The mean loss."""
        return float(self.losses.mean())

    def by_example(self) -> "Iterator[Predictions]":
        """The predictions of each row of the data, in order."""
        counts = torch.bincount(self.examples).tolist()
        parts = (self.losses, self.guesses, self.targets, self.examples)
        return map(Predictions, *(part.split(counts) for part in parts))

    @property
    def perplexity(self) -> float:
        """The perplexity, e to the mean loss."""
        return float(perplexity(-self.losses))


@torch.no_grad()
def predict(model: Model, batches: Batches, objective: Objective, progress: Progress) -> Predictions:
    """Predict every target of the data, in order; results stay on the device until the end, so that it never waits."""
    device = next(model.parameters()).device
    before = model.training
    model.eval()
    found: list[tuple[Tensor, ...]] = []
    rows = 0
    try:
        for batch in progress(batches.once(), "batches evaluated"):
            objective.check(model, batch)
            here = {name: part.to(device, non_blocking=True) for name, part in batch.items()}
            targets = here[objective.targets]
            with no_checks():
                logits = model(*(here[name] for name in objective.inputs))
                losses = cross_entropy(logits.float(), targets, ignore_index=IGNORE, reduction="none")
                example = torch.arange(rows, rows + len(targets), device=device).view(-1, *[1] * (targets.dim() - 1))
                parts = losses, greedy(logits), targets, example.expand_as(targets)
                found.append(tuple(part.flatten() for part in parts))
            rows += len(targets)
    finally:
        model.train(before)
    losses, guesses, targets, examples = (torch.cat(parts).cpu() for parts in zip(*found, strict=True))
    counted = targets != IGNORE
    losses = losses[counted].double().clamp_min(0)  # rounding may put a certain token slightly below
    if not losses.numel():
        raise ModelError("no token of the data counts, so there is no loss")
    if not losses.isfinite().all():
        raise NonFiniteError(f"the loss is not finite on {int((~losses.isfinite()).sum())} of {len(losses):,} targets")
    return Predictions(losses, guesses[counted], targets[counted], examples[counted])
