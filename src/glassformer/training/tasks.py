"""What each task makes of its data: a tokenizer, batches to learn from and batches held out, and an objective."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from glassformer.checkpoints.huggingface import numbered_labels
from glassformer.data.batches import Batches, LabelledBatches, MaskedBatches, Masking, PackedBatches, PairBatches
from glassformer.data.files import LabelledText, read_labelled, read_pairs, read_texts
from glassformer.data.phrase_book import split_phrase_book
from glassformer.data.phrases.courtesy import courtesies
from glassformer.data.python_source import stdlib_labelled, stdlib_text
from glassformer.data.shards import TokenShard, token_shard
from glassformer.data.splitting import split, split_labelled, split_tokens
from glassformer.errors import ConfigError, DataError
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.distributed import ProcessGroup
from glassformer.training.objective import CLASSES, HIDDEN_TOKENS, NEXT_TARGET_TOKEN, NEXT_TOKEN, Objective
from glassformer.training.settings import (
    ClassifySettings,
    GPTSettings,
    LabelledData,
    MaskedSettings,
    PairData,
    Settings,
    TextData,
    TokenizerSettings,
    TranslateSettings,
)

PHRASES, PHRASES_HELD_OUT = 60_000, 500  # of the built-in phrase book
MORE = {
    "training": "learn from more (data.path)",
    "validation": "hold out more (data.validation_fraction or data.validation)",
    "test": "test on more (data.test)",
}
Say = Callable[[str], None]
TwoTexts = tuple[str, str]


@dataclass(frozen=True)
class TaskData:
    """Everything a run learns from, is judged by while it learns, and is tested on at its end."""

    tokenizer: Tokenizer
    objective: Objective
    batches: Batches
    validation: Batches
    test: Batches
    labels: tuple[str, ...] | None = None
    pairs: Sequence[TwoTexts] = ()  # to be translated in the end
    test_bytes: Callable[[], int] = int  # of running text, behind the first token of the test
    fresh_head: bool = False  # whether the classes are others than those of the model to start from


@dataclass(frozen=True)
class DataContext:
    """What all tasks prepare their data with: a tokenizer if there is one, the place among processes, a voice."""

    known: Tokenizer | None
    processes: ProcessGroup
    say: Say
    labels: tuple[str, ...] | None = None  # of the model to start from, in the order of its head

    def tokenizer(self, settings: TokenizerSettings, texts: Callable[[], Iterable[str]]) -> Tokenizer:
        """The tokenizer that is known, the one of a file, or one learnt from the texts."""
        if self.known is not None:
            return self.known
        if settings.file:
            return Tokenizer.load(settings.file)
        self.say(f"learning a tokenizer ({settings.kind})")
        return learn_tokenizer(texts(), settings.kind, settings.vocab_size, lowercase=settings.lowercase)

    def place(self, count: int, part: str, things: str) -> tuple[int, int]:
        """Which of a part's rows are ours, and of how many processes; one alone does the test at the end.

        A part that would leave a process without work is refused.
        """
        rank, world = (0, 1) if part == "test" else (self.processes.rank, self.processes.world_size)
        if count < world:
            fewer = ", or start fewer processes" if count else ""
            wanted = f"wanted at least {world}, one for each process"
            raise DataError(f"{count} {part} {things}, {wanted}: {MORE[part]}{fewer}")
        return rank, world


def prepare_data(settings: Settings, preparing: DataContext) -> TaskData:
    """Read the data of a task and make batches of it."""
    _look_into_held_out_files(settings)
    match settings:
        case TranslateSettings():
            return _translation(settings, preparing)
        case GPTSettings() | MaskedSettings():
            return _running_text(settings, preparing)
        case ClassifySettings():
            return _classes(settings, preparing)
    raise ConfigError(f"no task has the settings {type(settings).__name__}")


def _look_into_held_out_files(settings: Settings) -> None:
    """Read the first row of the files that are needed last: one that cannot be read is refused before the work."""
    data = settings.data
    for path, second in ((data.validation, "validation_target_path"), (data.test, "test_target_path")):
        if path and path != "stdlib":
            match data:
                case TextData():
                    rows = iter(read_texts(path, data.field))
                case PairData():
                    rows = iter(read_pairs(path, getattr(data, second) or None, data.fields))
                case _:
                    rows = iter(read_labelled(path, data.fields))
            next(rows, None)


def _translation(settings: TranslateSettings, preparing: DataContext) -> TaskData:
    data, seed, processes = settings.data, settings.recipe.seed, preparing.processes
    context = settings.model.context
    if context is not None and context < data.max_length:
        raise ConfigError(f"model.context is {context}, wanted at least data.max_length, which is {data.max_length}")
    learn, held = _pairs(data, seed)
    if data.extra:
        more = courtesies() if data.extra == "courtesies" else _pair_file(data, data.extra, "")
        unseen = set() if data.validation else set(held)
        learn = learn + [pair for pair in more if pair not in unseen] * data.extra_times
    tokenizer = preparing.tokenizer(settings.tokenizer, lambda: (side for pair in learn for side in pair))
    pad, end, start = tokenizer.required("pad"), tokenizer.required("end"), tokenizer.decoder_start

    def batches(pairs: Sequence[TwoTexts], name: str) -> tuple[PairBatches, list[TwoTexts]]:
        """Batches of the pairs that are not too long, and these pairs."""
        sides = encode_pairs(tokenizer, pairs)
        fits = range(1, data.max_length)
        kept = [
            (row, pair)
            for row, pair in zip(zip(*sides, strict=True), pairs, strict=True)
            if len(row[0]) in fits and len(row[1]) in fits
        ]
        if len(kept) < len(pairs):
            left_out = f"{len(pairs) - len(kept)} of {len(pairs)} {name} pairs"
            preparing.say(
                f"{left_out} are left out: without tokens, or with data.max_length ({data.max_length}) or more"
            )
        rows, place = [row for row, _ in kept], preparing.place(len(kept), name, "pairs")
        return PairBatches(rows, data.tokens_per_batch, pad, start, end, seed, *place), [pair for _, pair in kept]

    validation, judged = batches(held, "validation")
    test = validation
    if data.test or processes.world_size > 1:
        test, judged = batches(_pair_file(data, data.test, data.test_target_path) if data.test else held, "test")
    return TaskData(tokenizer, NEXT_TARGET_TOKEN, batches(learn, "training")[0], validation, test, pairs=judged)


def _pairs(data: PairData, seed: int) -> tuple[list[TwoTexts], list[TwoTexts]]:
    if data.path == "phrasebook":
        learn, held = split_phrase_book(PHRASES, PHRASES_HELD_OUT, seed)
    elif data.validation:
        learn, held = _pair_file(data, data.path, data.target_path), []
    else:
        pairs = _pair_file(data, data.path, data.target_path)
        _require_two(data.path, len(set(pairs)), "different pairs")
        learn, held = split(pairs, data.validation_fraction, seed)
    return learn, _pair_file(data, data.validation, data.validation_target_path) if data.validation else held


def _require_two(path: str, count: int, things: str) -> None:
    """Refuse data of which nothing can be held out."""
    if count < 2:
        raise DataError(
            f"{path}: has {count} {things}, wanted at least 2, to hold one out: add more, or name data.validation"
        )


def _pair_file(data: PairData, path: str, second: str) -> list[TwoTexts]:
    return [(pair.first, pair.second) for pair in read_pairs(path, second or None, data.fields)]


def _running_text(settings: GPTSettings | MaskedSettings, preparing: DataContext) -> TaskData:
    data, context = settings.data, settings.model.context
    if context < data.sequence_length:
        raise ConfigError(
            f"model.context is {context}, wanted at least data.sequence_length, which is {data.sequence_length}"
        )
    tokenizer = preparing.tokenizer(settings.tokenizer, _texts(data, data.path))
    tokenizer = tokenizer.for_encoder() if isinstance(settings, MaskedSettings) else tokenizer.for_decoder()
    tokenizer = tokenizer.with_use(max_length=data.sequence_length)
    preparing.say("encoding the text")

    def encoded(path: str) -> TokenShard:
        return token_shard(_texts(data, path), tokenizer, cache_folder())

    shard = encoded(data.path)
    last = encoded(data.validation) if data.validation else shard
    if data.validation:
        learn, held = shard.tokens, last.tokens
    else:
        _require_two(data.path, len(shard.tokens), "tokens")
        learn, held = split_tokens(shard.tokens, data.validation_fraction, tokenizer.eos)
        if copies := len(shard.tokens) - len(learn) - len(held):
            preparing.say(f"{copies:,} tokens are not learnt from: copies of documents that are held out")
    last = encoded(data.test) if data.test else last
    test = last.tokens if data.test else held
    masking = None
    if isinstance(settings, MaskedSettings):
        masking = Masking(mask=tokenizer.required("mask"), vocab=tokenizer.vocab_size, specials=tokenizer.specials)
    seed, made = settings.recipe.seed, []
    for name, tokens in (("training", learn), ("validation", held), ("test", test)):
        length = min(data.sequence_length, len(tokens) - 1)
        windows = (len(tokens) - 1) // length if length else 0
        place = preparing.place(windows, name, "windows")
        rows = min(data.batch_size, windows)
        if masking is None:
            made.append(PackedBatches(tokens, rows, length, seed, *place))
        else:
            made.append(MaskedBatches(tokens, rows, length, masking, seed, *place))
    tested, before = _texts(data, data.test or data.validation or data.path), len(last.tokens) - len(test)

    def test_bytes() -> int:
        return tokenizer.text_bytes(tested(), last.portions, before + 1)

    return TaskData(tokenizer, NEXT_TOKEN if masking is None else HIDDEN_TOKENS, *made, test_bytes=test_bytes)


def _texts(data: TextData, path: str) -> Callable[[], Iterable[str]]:
    """The corpus from its beginning, as often as it is asked for."""
    if path == "stdlib":
        return lambda: (document.text for document in stdlib_text())
    return lambda: (document.text for document in read_texts(path, data.field))


def _classes(settings: ClassifySettings, preparing: DataContext) -> TaskData:
    data, seed = settings.data, settings.recipe.seed
    if settings.model.context < data.max_length:
        raise ConfigError(
            f"model.context is {settings.model.context}, wanted at least data.max_length, {data.max_length}"
        )
    learn, held = _labelled(data, data.path), _labelled(data, data.validation) if data.validation else []
    if not held:
        _require_two(data.path, len({text.text for text in learn}), "different texts")
        learn, held = split_labelled(learn, data.validation_fraction, seed)
    labels, fresh_head = class_labels({text.label for text in learn}, preparing.labels)
    if fresh_head:
        preparing.say(
            f"a new classification head: the model to start from has other labels ({_some(preparing.labels)})"
        )
    tokenizer = preparing.tokenizer(settings.tokenizer, lambda: (text.text for text in learn))
    tokenizer = tokenizer.for_encoder().with_use(max_length=data.max_length)

    def batches(texts: Sequence[LabelledText], name: str) -> LabelledBatches:
        place = preparing.place(len(texts), name, "texts")
        for text in texts:
            if text.label not in labels:
                raise DataError(f"{text.source}: the label {text.label!r} is not among those learnt from")
        rows = tokenizer.encode_inputs([text.text for text in texts], data.max_length)
        answers = [labels.index(text.label) for text in texts]
        return LabelledBatches(rows, answers, data.batch_size, tokenizer.required("pad"), seed, *place)

    validation = batches(held, "validation")
    test = validation
    if data.test or preparing.processes.world_size > 1:
        test = batches(_labelled(data, data.test) if data.test else held, "test")
    return TaskData(tokenizer, CLASSES, batches(learn, "training"), validation, test, labels, fresh_head=fresh_head)


def _labelled(data: LabelledData, path: str) -> list[LabelledText]:
    return stdlib_labelled() if path == "stdlib" else list(read_labelled(path, data.fields))


def class_labels(found: set[str], known: tuple[str, ...] | None) -> tuple[tuple[str, ...], bool]:
    """The labels in the order of the head, and whether it must be a new one.

    A head that knows all labels is kept, and so is its order; one whose classes are only numbered knows numbers.
    """
    if known is None:
        return tuple(sorted(found)), False
    numbers = tuple(map(str, range(len(known))))
    for names in (known, numbers if known == numbered_labels(len(known)) else known):
        if found <= set(names):
            return names, False
    return tuple(sorted(found)), True


def _some(labels: tuple[str, ...] | None) -> str:
    """A few labels, for a message."""
    shown = ", ".join((labels or ())[:5])
    return f"{shown}, ..." if len(labels or ()) > 5 else shown


def encode_pairs(tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]]) -> tuple[list[list[int]], list[list[int]]]:
    """The ids of sources as an encoder reads them, and of targets as a decoder should write them."""
    return (
        tokenizer.encode_inputs([source for source, _ in pairs]),
        tokenizer.encode_targets([target for _, target in pairs]),
    )


def cache_folder() -> Path:
    """Where encoded texts are kept from run to run: $GLASSFORMER_CACHE, or the usual place for such files."""
    place = os.environ.get("GLASSFORMER_CACHE")
    return Path(place) if place else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "glassformer"
