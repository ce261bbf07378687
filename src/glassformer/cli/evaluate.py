"""`glassformer evaluate`: how good a model is on data, in the figures that suit its kind."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from glassformer.cli.report import Json, UsageError, talk, write_json, write_table

if TYPE_CHECKING:
    import numpy as np

    from glassformer.layers.model import Model
    from glassformer.text.tokenizer import Tokenizer
    from glassformer.training.evaluation import ClassifierFigures, LanguageFigures, MaskedFigures, TranslatorFigures

    Figures = LanguageFigures | MaskedFigures | ClassifierFigures | TranslatorFigures

Task = Literal["translate", "gpt", "masked", "classify"]
T = TypeVar("T")

BUILT_IN = {"translate": "phrasebook", "gpt": "stdlib", "masked": "stdlib", "classify": "stdlib"}
QUIET_SECONDS = 2.0  # seconds before anything is said of progress
SCORES_AT_ONCE = 2**26  # numbers that a model may put out at once
TOKENS_AT_ONCE = 8192  # of a batch
SENTENCES = 256  # translated or classified together
TEXTS = 1000  # encoded together
SPARE_ROWS = 512  # tokens that a model's vocabulary may be rounded up by, to a multiple of eight


@dataclass(frozen=True)
class Subject:
    """The model to be measured, and what has to be known of it."""

    path: str
    task: Task
    model: "Model"
    tokenizer: "Tokenizer"
    vocab: int
    context: int | None
    labels: Sequence[str] = ()


def evaluate(
    model: str,
    /,
    *,
    data: str | None = None,
    second: str | None = None,
    task: Task | None = None,
    beam: int = 1,
    json: Json = False,
) -> None:
    """Measure a model on data: loss, perplexity, bits per byte, BLEU and chrF, accuracy and F1.

    Parameters
    ----------
    model
        The folder of a model.
    data
        A file or folder as for training, or phrasebook or stdlib, of which the part is taken that is not
        trained on; the one that suits the task if left out.
    second
        The other language, line by line, of sentence pairs in two files.
    task
        What the model has to be for; it knows by itself, this only makes sure.
    beam
        Translations to weigh at a time; 1 takes the likeliest token at every step.
    """
    subject = _subject(model, task)
    if subject.task != "translate" and (second or beam != 1):
        raise UsageError(f"{'--second' if second else '--beam'} is for translators, and {model} is for {subject.task}")
    if beam < 1:
        raise UsageError(f"--beam is {beam}, wanted at least 1")
    data = data or BUILT_IN[subject.task]
    talk(f"measuring {model} on {data}")
    figures = _measure(subject, data, second, beam)
    if json:
        write_json({"model": model, "task": subject.task, "data": data, "figures": figures})
    else:
        _show_figures(subject.task, figures)


def _subject(path: str, wanted: Task | None) -> Subject:
    """Load a model and find out what it is for."""
    from glassformer.checkpoints.load import load
    from glassformer.errors import TokenizerError
    from glassformer.models.encoder import Encoder
    from glassformer.models.gpt import GPT
    from glassformer.models.llama import Llama
    from glassformer.models.modern import Modern
    from glassformer.models.seq2seq import Seq2Seq
    from glassformer.models.t5 import T5
    from glassformer.training.hardware import choose_hardware

    loaded = load(path)
    model, tokenizer = loaded.model, loaded.tokenizer
    task: Task | None = None
    if isinstance(model, (Seq2Seq, T5)):
        task = "translate"
    elif isinstance(model, (GPT, Llama, Modern)):
        task = "gpt"
    elif isinstance(model, Encoder) and model.config.head in ("masked", "classes"):
        task = "masked" if model.config.head == "masked" else "classify"
    if task is None:
        raise UsageError(f"{path}: is a {type(model).__name__} without a head that could be measured")
    if wanted not in (None, task):
        raise UsageError(f"{path}: is for {task}, and --task is {wanted}")
    if tokenizer is None:
        raise TokenizerError(f"{path}: has no tokenizer, so it cannot read text")
    config = model.config
    _require_own_tokenizer(path, config.vocab, tokenizer.vocab)
    labels = _labels(path, config.classes, loaded.labels) if task == "classify" else ()
    model.to(choose_hardware("auto", "fp32", "no").device)
    return Subject(path, task, model, tokenizer, config.vocab, config.context, labels)


def _require_own_tokenizer(path: str, rows: int, tokens: int) -> None:
    """Refuse a tokenizer that is not the model's own; public models often have a few rows more, for speed."""
    from glassformer.errors import TokenizerError

    if rows != tokens and not (0 < rows - tokens < SPARE_ROWS and rows % 8 == 0):
        raise TokenizerError(f"{path}: the tokenizer has {tokens:,} tokens and the model {rows:,}, wanted as many")


def _labels(path: str, classes: int, names: Sequence[str] | None) -> Sequence[str]:
    from glassformer.errors import CheckpointError

    names = names or [str(number) for number in range(classes)]
    if len(names) != classes:
        raise CheckpointError(f"{path}: has names for {len(names)} classes and a model of {classes}, wanted as many")
    return names


def _measure(subject: Subject, data: str, second: str | None, beam: int) -> "Figures":
    match subject.task:
        case "translate":
            return _measure_translator(subject, data, second, beam)
        case "gpt":
            return _measure_language(subject, data)
        case "masked":
            return _measure_masked(subject, data)
        case "classify":
            return _measure_classifier(subject, data)


def _measure_translator(subject: Subject, data: str, second: str | None, beam: int) -> "TranslatorFigures":
    from glassformer.data.batches import PairBatches
    from glassformer.errors import DataError
    from glassformer.training.evaluation import evaluate_translator

    pairs, tokenizer, context = _read_pairs(subject, data, second), subject.tokenizer, subject.context
    sides = [_all_ids(tokenizer, [pair[side] for pair in pairs]) for side in (0, 1)]
    lengths = [max(len(source), len(target) + 1) for source, target in zip(*sides, strict=True)]
    longest = max(lengths, default=0)
    if context is not None and longest > context:
        place = pairs[lengths.index(longest)][2]
        raise DataError(f"{place}: has {longest} tokens, wanted at most {context}, the model's context")
    ends = [tokenizer.required(role) for role in ("pad", "start", "end")]
    tokens = max(longest, min(TOKENS_AT_ONCE, SCORES_AT_ONCE // subject.vocab))
    limit = min(2 * longest, context or 2 * longest)
    return evaluate_translator(
        subject.model,
        PairBatches(list(zip(*sides, strict=True)), tokens, *ends, seed=0),
        [(one, other) for one, other, _ in pairs],
        lambda texts: _translated(subject, texts, limit, beam),
        _telling("batches read"),
    )


def _read_pairs(subject: Subject, data: str, second: str | None) -> list[tuple[str, str, str]]:
    """Both sides of each pair, and where it stands."""
    from glassformer.data.files import read_pairs
    from glassformer.data.phrase_book import split_phrase_book
    from glassformer.training.tasks import PHRASES, PHRASES_HELD_OUT

    if data == "phrasebook":
        held = split_phrase_book(PHRASES, PHRASES_HELD_OUT, _seed(subject))[1]
        return [(one, other, f"phrasebook:{number}") for number, (one, other) in enumerate(held, start=1)]
    return [(pair.first, pair.second, pair.source) for pair in read_pairs(data, second)]


def _translated(subject: Subject, texts: Sequence[str], limit: int, beam: int) -> list[str]:
    from glassformer.decoding.translate import translate

    portions = [texts[at : at + SENTENCES] for at in range(0, len(texts), SENTENCES)]
    following = _telling(f"of {len(portions):,} portions translated")(iter(portions))
    model, tokenizer = subject.model, subject.tokenizer
    return [text for portion in following for text in translate(model, tokenizer, portion, limit, beam=beam)]


def _measure_language(subject: Subject, data: str) -> "LanguageFigures":
    from glassformer.data.batches import PackedBatches
    from glassformer.training.evaluation import evaluate_language

    batches = PackedBatches(*_windows(subject, data), seed=0)
    return evaluate_language(subject.model, batches, subject.tokenizer, _telling("batches read"))


def _measure_masked(subject: Subject, data: str) -> "MaskedFigures":
    from glassformer.data.batches import MaskedBatches, Masking
    from glassformer.training.evaluation import evaluate_masked

    tokenizer = subject.tokenizer
    masking = Masking(mask=tokenizer.required("mask"), vocab=tokenizer.vocab, specials=tokenizer.specials)
    batches = MaskedBatches(*_windows(subject, data), masking, seed=0)
    return evaluate_masked(subject.model, batches, _telling("batches read"))


def _windows(subject: Subject, data: str) -> "tuple[np.ndarray, int, int]":
    """All texts as one row of ids, and how many windows to read at once, of what length."""
    import numpy as np

    from glassformer.data.files import read_texts
    from glassformer.data.python_source import stdlib_text
    from glassformer.data.shards import split_tokens
    from glassformer.errors import DataError
    from glassformer.training.settings import TextData

    documents = stdlib_text() if data == "stdlib" else read_texts(data)
    portions = subject.tokenizer.encode_stream(document.text for document in documents)
    ids = np.concatenate([np.array(portion, dtype=np.int64) for portion in portions])
    ids = split_tokens(ids, TextData().share)[1] if data == "stdlib" else ids
    if len(ids) < 2:
        raise DataError(f"{data}: has {len(ids)} tokens, wanted at least 2")
    length = min(subject.context or len(ids), len(ids) - 1)
    rows = min(SCORES_AT_ONCE // subject.vocab, TOKENS_AT_ONCE, len(ids) - 1) // length
    return ids, max(rows, 1), length


def _measure_classifier(subject: Subject, data: str) -> "ClassifierFigures":
    from glassformer.data.batches import LabelledBatches
    from glassformer.data.files import read_labelled
    from glassformer.data.python_source import stdlib_labelled
    from glassformer.data.shards import split
    from glassformer.errors import DataError
    from glassformer.training.evaluation import evaluate_classifier
    from glassformer.training.settings import LabelledData
    from glassformer.training.tasks import class_rows

    if data == "stdlib":
        texts = split(stdlib_labelled(), LabelledData().share, _seed(subject))[1]
    else:
        texts = list(read_labelled(data))
    for text in texts:
        if text.label not in subject.labels:
            wanted = ", ".join(subject.labels)
            raise DataError(f"{text.source}: is labelled {text.label!r}, wanted one of {wanted}")
    encoded = _all_ids(subject.tokenizer, [text.text for text in texts])
    rows = class_rows(subject.tokenizer, encoded, subject.context or max(map(len, encoded)) + 1)
    labels = [subject.labels.index(text.label) for text in texts]
    batches = LabelledBatches(rows, labels, SENTENCES, subject.tokenizer.required("pad"), seed=0)
    return evaluate_classifier(subject.model, batches, subject.labels, _telling("batches read"))


def _seed(subject: Subject) -> int:
    """The seed that says which built-in data a run did not learn from."""
    from glassformer.training.resolve import resolve

    config = Path(subject.path) / "config.toml"
    return resolve(file=config).settings.recipe.seed if config.is_file() else 0


def _all_ids(tokenizer: "Tokenizer", texts: Sequence[str]) -> list[list[int]]:
    portions = (texts[at : at + TEXTS] for at in range(0, len(texts), TEXTS))
    return [ids for portion in portions for ids in tokenizer.encode_batch(portion)]


def _telling(what: str) -> Callable[[Iterator[T]], Iterator[T]]:
    """Go along with work that takes long, and say how far it is: after two seconds, four, eight and so on."""

    def follow(items: Iterator[T]) -> Iterator[T]:
        began, pause = time.monotonic(), QUIET_SECONDS
        for number, item in enumerate(items):
            if time.monotonic() - began >= pause:
                talk(f"{number:,} {what} in {time.monotonic() - began:.0f} s")
                pause *= 2
            yield item

    return follow


def _show_figures(task: Task, figures: "Figures") -> None:
    from glassformer.training.evaluation import ClassifierFigures, Score, TranslatorFigures

    values = dict(vars(figures))
    if isinstance(figures, TranslatorFigures):
        values |= vars(values.pop("scores"))
    classes = values.pop("classes", ())
    rows = [
        (
            name.replace("_", " "),
            f"{value.score:.2f}   {value.signature}" if isinstance(value, Score) else _figure(value),
        )
        for name, value in values.items()
    ]
    write_table((task, "value"), rows)
    if isinstance(figures, ClassifierFigures):
        write_table(("class", "F1", "texts"), [(c.name, _figure(c.f1), _figure(c.texts)) for c in classes])


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
