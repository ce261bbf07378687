"""A model in a folder, measured on data in the figures that suit its kind."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol, TypeVar, cast

import numpy as np
from jaxtyping import Int64

from glassformer.checkpoints.load import load
from glassformer.data.batches import LabelledBatches, MaskedBatches, Masking, PackedBatches, PairBatches
from glassformer.data.files import read_labelled, read_pairs, read_texts
from glassformer.data.phrase_book import split_phrase_book
from glassformer.data.python_source import stdlib_labelled, stdlib_text
from glassformer.data.splitting import split_labelled, split_tokens
from glassformer.decoding.generate import translate
from glassformer.errors import CheckpointError, ConfigError, DataError, PathError, TokenizerError
from glassformer.layers.model import Model
from glassformer.models.encoder import Encoder
from glassformer.models.gpt import GPT
from glassformer.models.llama import Llama
from glassformer.models.modern import Modern
from glassformer.models.seq2seq import Seq2Seq
from glassformer.models.t5 import T5
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.config import resolve
from glassformer.training.device import choose_device
from glassformer.training.metrics import (
    ClassifierMetrics,
    LanguageModelMetrics,
    MaskedMetrics,
    TranslationMetrics,
    evaluate_classifier,
    evaluate_language,
    evaluate_masked,
    evaluate_translator,
)
from glassformer.training.schema import defaults
from glassformer.training.settings import LabelledData, PairData, Settings, TextData
from glassformer.training.tasks import PHRASES, PHRASES_HELD_OUT, class_labels, encode_pairs

Task = Literal["translate", "gpt", "masked", "classify"]
Metrics = LanguageModelMetrics | MaskedMetrics | ClassifierMetrics | TranslationMetrics
T = TypeVar("T")

BUILT_IN = {"translate": "phrasebook", "gpt": "stdlib", "masked": "stdlib", "classify": "stdlib"}
SCORES_AT_ONCE = 2**26  # numbers that a model may put out at once
TOKENS_AT_ONCE = 8192  # of a batch
SENTENCES = 256  # translated or classified together
LENGTH_PENALTY = 1.0  # of translations that are scored
SPARE_ROWS = 512  # tokens that a model's vocabulary may be rounded up by, to a multiple of eight


class Tell(Protocol):
    """Goes along with long work, to say how far it is."""

    def __call__(self, what: str) -> Callable[[Iterator[T]], Iterator[T]]:
        """Something to send the items of the work through."""
        ...


def silently(what: str) -> Callable[[Iterator[T]], Iterator[T]]:
    """Say nothing of how far it is."""
    del what
    return iter


@dataclass(frozen=True)
class LoadedModel:
    """The model to be measured, and what has to be known of it."""

    path: str
    task: Task
    model: Model
    tokenizer: Tokenizer
    vocab: int
    context: int | None
    labels: Sequence[str] = ()

    @property
    def longest(self) -> int | None:
        """The longest input the model was trained on, which may be less than it can read."""
        return min((size for size in (self.context, self.tokenizer.use.max_length) if size is not None), default=None)


def evaluate(
    path: Path | str,
    data: str | None = None,
    target_path: str | None = None,
    num_beams: int = 1,
    tell: Tell = silently,
    step: int | None = None,
) -> Metrics:
    """Measure the model in a folder on data; if none is given, on what is built in and was not trained on.

    `step` chooses a checkpoint of a run.
    """
    subject = load_model(str(path), step=step)
    return evaluate_model(subject, data or BUILT_IN[subject.task], target_path, num_beams, tell)


def load_model(path: str, wanted: Task | None = None, step: int | None = None) -> LoadedModel:
    """Load a model and find out what it is for; `wanted` makes sure."""
    loaded = load(path, step=step)
    model, tokenizer = loaded.model, loaded.tokenizer
    task = _task_of(model)
    if task is None:
        raise ConfigError(f"{path}: {type(model).__name__} has no head that could be measured")
    if wanted not in (None, task):
        raise ConfigError(f"{path}: is for {task}, and the task asked for is {wanted}")
    if tokenizer is None:
        raise PathError(f"{path}: has no tokenizer, so it cannot read text")
    config = model.config
    _require_own_tokenizer(path, config.vocab, tokenizer.vocab_size)
    labels = _labels(path, config.classes, loaded.labels) if task == "classify" else ()
    model.to(choose_device("auto", "fp32", "no").device)
    return LoadedModel(path, task, model, tokenizer, config.vocab, config.context, labels)


def _task_of(model: Model) -> Task | None:
    if isinstance(model, (Seq2Seq, T5)):
        return "translate"
    if isinstance(model, (GPT, Llama, Modern)):
        return "gpt"
    if isinstance(model, Encoder) and model.config.head in ("masked", "classifier"):
        return "masked" if model.config.head == "masked" else "classify"
    return None


def _require_own_tokenizer(path: str, rows: int, tokens: int) -> None:
    """Refuse a tokenizer that is not the model's own; public models often have a few rows more, for speed."""
    if rows != tokens and not (0 < rows - tokens < SPARE_ROWS and rows % 8 == 0):
        raise TokenizerError(f"{path}: the tokenizer has {tokens:,} tokens and the model {rows:,}, wanted as many")


def _labels(path: str, classes: int, names: Sequence[str] | None) -> Sequence[str]:
    names = names or [str(number) for number in range(classes)]
    if len(names) != classes:
        raise CheckpointError(f"{path}: has names for {len(names)} classes and a model of {classes}, wanted as many")
    return names


def evaluate_model(subject: LoadedModel, data: str, target_path: str | None, num_beams: int, tell: Tell) -> Metrics:
    """The figures of a model on data."""
    if subject.task != "translate" and (target_path or num_beams != 1):
        what = "target_path" if target_path else "num_beams"
        raise ConfigError(f"{what} is for translators, and {subject.path} is for {subject.task}")
    if num_beams < 1:
        raise ConfigError(f"num_beams is {num_beams}, wanted at least 1")
    match subject.task:
        case "translate":
            return _evaluate_translator(subject, _read_pairs(subject, data, target_path), num_beams, tell)
        case "gpt":
            ids, rows, length, text_bytes = _windows(subject, data)
            batches = PackedBatches(ids, rows, length, seed=0)
            return evaluate_language(subject.model, batches, text_bytes, tell("batches read"))
        case "masked":
            return _evaluate_masked(subject, data, tell)
        case "classify":
            return _evaluate_classifier(subject, data, tell)


def _evaluate_translator(
    subject: LoadedModel, pairs: Sequence[tuple[str, str, str]], num_beams: int, tell: Tell
) -> TranslationMetrics:
    tokenizer, context = subject.tokenizer, subject.context
    sides = encode_pairs(tokenizer, [pair[:2] for pair in pairs])
    lengths = [max(len(source), len(target) + 1) for source, target in zip(*sides, strict=True)]
    longest = max(lengths, default=0)
    if context is not None and longest > context:
        place = pairs[lengths.index(longest)][2]
        raise DataError(f"{place}: has {longest} tokens, wanted at most {context}, the model's context")
    pad, end, start = tokenizer.required("pad"), tokenizer.required("end"), tokenizer.decoder_start
    tokens = max(longest, min(TOKENS_AT_ONCE, SCORES_AT_ONCE // subject.vocab))
    batches = PairBatches(list(zip(*sides, strict=True)), tokens, pad, start, end, seed=0)
    return evaluate_pairs(subject.model, tokenizer, batches, [pair[:2] for pair in pairs], num_beams, tell)


def evaluate_pairs(
    model: Model,
    tokenizer: Tokenizer,
    batches: PairBatches,
    pairs: Sequence[tuple[str, str]],
    num_beams: int,
    tell: Tell = silently,
) -> TranslationMetrics:
    """The figures of a translator on pairs and their tokens; no translation gets twice as long as the longest side."""
    limit = 2 * max(max(len(source), len(target) + 1) for source, target in batches.pairs)
    limit = min(limit, model.config.context or limit)

    def translated(texts: Sequence[str]) -> list[str]:
        portions = [texts[at : at + SENTENCES] for at in range(0, len(texts), SENTENCES)]
        following = tell(f"of {len(portions):,} portions translated")(iter(portions))
        config = {"num_beams": num_beams, "length_penalty": LENGTH_PENALTY}
        return [text for portion in following for text in translate(model, tokenizer, portion, limit, **config)]

    return replace(evaluate_translator(model, batches, pairs, translated, tell("batches read")), num_beams=num_beams)


def _read_pairs(subject: LoadedModel, data: str, second: str | None) -> list[tuple[str, str, str]]:
    """Both sides of each pair, and where it stands."""
    if data == "phrasebook":
        held = split_phrase_book(PHRASES, PHRASES_HELD_OUT, _splitting(subject, data).recipe.seed)[1]
        return [(one, other, f"phrasebook:{number}") for number, (one, other) in enumerate(held, start=1)]
    fields = cast(PairData, _run_settings(subject).data).fields
    return [(pair.first, pair.second, pair.source) for pair in read_pairs(data, second, fields)]


def _evaluate_masked(subject: LoadedModel, data: str, tell: Tell) -> MaskedMetrics:
    tokenizer = subject.tokenizer
    masking = Masking(mask=tokenizer.required("mask"), vocab=tokenizer.vocab_size, specials=tokenizer.specials)
    ids, rows, length, _ = _windows(subject, data)
    batches = MaskedBatches(ids, rows, length, masking, seed=0)
    return evaluate_masked(subject.model, batches, tell("batches read"))


def _windows(subject: LoadedModel, data: str) -> tuple[Int64[np.ndarray, " ids"], int, int, int]:
    """All texts as one row of ids, how many windows to read at once, of what length, and the bytes of the text."""
    share = _splitting(subject, data).data.validation_fraction if data == "stdlib" else None
    field = cast(TextData, _run_settings(subject).data).field

    def texts() -> Iterator[str]:
        return (document.text for document in (read_texts(data, field) if share is None else stdlib_text()))

    portions = [np.array(portion, dtype=np.int64) for portion in subject.tokenizer.encode_stream(texts())]
    everything = np.concatenate(portions)
    ids = everything if share is None else split_tokens(everything, share)[1]
    if len(ids) < 2:
        raise DataError(f"{data}: has {len(ids)} tokens, wanted at least 2")
    length = min(subject.longest or len(ids), len(ids) - 1)
    rows = min(SCORES_AT_ONCE // subject.vocab, TOKENS_AT_ONCE, len(ids) - 1) // length
    text_bytes = subject.tokenizer.text_bytes(texts(), [*map(len, portions)], len(everything) - len(ids) + 1)
    return ids, max(rows, 1), length, text_bytes


def _evaluate_classifier(subject: LoadedModel, data: str, tell: Tell) -> ClassifierMetrics:
    if data == "stdlib":
        settings = _splitting(subject, data)
        texts = split_labelled(stdlib_labelled(), settings.data.validation_fraction, settings.recipe.seed)[1]
    else:
        texts = list(read_labelled(data, cast(LabelledData, _run_settings(subject).data).fields))
    names, unknown = class_labels({text.label for text in texts}, tuple(subject.labels))
    if unknown:
        text = next(text for text in texts if text.label not in subject.labels)
        raise DataError(f"{text.source}: is labelled {text.label!r}, wanted one of {', '.join(subject.labels)}")
    rows = subject.tokenizer.encode_inputs([text.text for text in texts], subject.longest)
    labels = [names.index(text.label) for text in texts]
    batches = LabelledBatches(rows, labels, SENTENCES, subject.tokenizer.required("pad"), seed=0)
    return evaluate_classifier(subject.model, batches, names, tell("batches read"))


def _run_settings(subject: LoadedModel) -> Settings:
    """The settings of the run that a model comes from, or the usual ones."""
    config = Path(subject.path) / "config.toml"
    return resolve(subject.task, file=config).settings if config.is_file() else defaults(subject.task)


def _splitting(subject: LoadedModel, built_in: str) -> Settings:
    """The settings that say which built-in data a model did not learn from: those of its run, or the usual ones."""
    settings = _run_settings(subject)
    data = settings.data
    if data.path != built_in:
        return defaults(subject.task)
    if data.validation and not isinstance(data, PairData):  # of the phrase book some is held out even so
        raise ConfigError(
            f"{subject.path}: learnt from all of {built_in} (its data.validation is {data.validation}), "
            "so name other data to judge it by"
        )
    return settings
