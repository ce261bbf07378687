"""What the tasks on running text share: data settings, encoding, splitting, and windows of tokens."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar, get_args

import numpy as np
from jaxtyping import Integer

from glassformer.data.batches import PackedBatches
from glassformer.data.files import Document, read_texts
from glassformer.data.python_source import stdlib_text
from glassformer.data.shards import TokenShard, token_shard
from glassformer.data.splitting import split_tokens
from glassformer.errors import DataError
from glassformer.layers.config import Size
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.settings import DataSettings, Settings
from glassformer.training.task import (
    DataContext,
    EvaluatedModel,
    EvaluationSet,
    Part,
    Task,
    TaskData,
    cache_folder,
    require_context,
    require_two,
)


@dataclass(frozen=True, kw_only=True)
class TextData(DataSettings):
    """Running text: a .txt, .jsonl or .parquet file, a folder of .txt files, or the built-in stdlib."""

    path: str = "stdlib"
    field: str = "text"
    batch_size: Size = 32
    sequence_length: Size = 128


@dataclass(frozen=True, kw_only=True)
class TextSettings(Settings):
    """The settings of a task on running text."""

    data: TextData = TextData()


S = TypeVar("S", bound=TextSettings)
PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True)
class Windows:
    """Tokens to cut into windows, and how."""

    tokens: Integer[np.ndarray, " tokens"]
    rows: int
    length: int
    seed: int = 0
    rank: int = 0
    world: int = 1


class RunningText(Task[S], Generic[S]):
    """A task on windows of running text; a subclass makes batches of them, and evaluates a model."""

    built_in = "stdlib"

    @abstractmethod
    def for_model(self, tokenizer: Tokenizer) -> Tokenizer:
        """The tokenizer as the models of this task use it."""

    @abstractmethod
    def batches(self, tokenizer: Tokenizer, windows: Windows) -> PackedBatches:
        """Batches of windows."""

    @abstractmethod
    def text_set(self, batches: PackedBatches, text_bytes: Callable[[], int]) -> EvaluationSet:
        """Batches to evaluate a model on, of a text with so many bytes after its first token."""

    def read(self, settings: S, part: Part) -> Iterator[Document]:
        """The documents of a part of the data."""
        path = vars(settings.data)[part]
        return stdlib_text() if path == self.built_in else read_texts(path, settings.data.field)

    def _texts(self, settings: S, part: Part) -> Iterator[str]:
        return (document.text for document in self.read(settings, part))

    def prepare(self, settings: S, context: DataContext) -> TaskData:
        """Encode the text once, split it, and cut it into windows."""
        data = settings.data
        require_context(settings.model, "data.sequence_length", data.sequence_length)
        tokenizer = context.tokenizer(settings.tokenizer, lambda: self._texts(settings, "path"))
        tokenizer = self.for_model(tokenizer).with_use(max_length=data.sequence_length)
        context.report("encoding the text")
        used: list[Part] = [part for part in PARTS if vars(data)[part]]
        shards = {part: self._encoded(settings, part, tokenizer) for part in used}
        shard, last = shards["path"], used[-1]
        if data.validation:
            train, validation = shard.tokens, shards["validation"].tokens
        else:
            require_two(data.path, len(shard.tokens), "tokens")
            train, validation = split_tokens(shard.tokens, data.validation_fraction, tokenizer.eos)
            if copies := len(shard.tokens) - len(train) - len(validation):
                context.report(f"{copies:,} tokens are not trained on: copies of documents in the validation data")
        test = shards["test"].tokens if data.test else validation

        def made(tokens: Integer[np.ndarray, " tokens"], name: str) -> PackedBatches:
            length = min(data.sequence_length, len(tokens) - 1)
            count = (len(tokens) - 1) // length if length else 0
            process = context.shard(count, name, "windows")
            rows = min(data.batch_size, count)
            return self.batches(tokenizer, Windows(tokens, rows, length, settings.recipe.seed, *process))

        def text_bytes() -> int:
            first = len(shards[last].tokens) - len(test) + 1
            return tokenizer.text_bytes(self._texts(settings, last), shards[last].portions, first)

        train_batches, validation_batches = made(train, "training"), made(validation, "validation")
        return TaskData(tokenizer, train_batches, validation_batches, self.text_set(made(test, "test"), text_bytes))

    def _encoded(self, settings: S, part: Part, tokenizer: Tokenizer) -> TokenShard:
        return token_shard(lambda: self._texts(settings, part), tokenizer, cache_folder())

    def evaluation_set(self, subject: EvaluatedModel, settings: S) -> EvaluationSet:
        """Windows as long as the model was trained on."""
        tokenizer, path = subject.tokenizer, settings.data.path
        portions = [np.array(part, dtype=np.int64) for part in tokenizer.encode_stream(self._texts(settings, "path"))]
        everything = np.concatenate(portions)
        fraction = settings.data.validation_fraction
        ids = split_tokens(everything, fraction)[1] if path == self.built_in else everything
        if len(ids) < 2:
            raise DataError(f"{path}: has {len(ids)} tokens, wanted at least 2")
        length = min(subject.max_length or len(ids), len(ids) - 1)
        rows = max(min(subject.tokens_at_once, len(ids) - 1) // length, 1)

        def text_bytes() -> int:
            first = len(everything) - len(ids) + 1
            return tokenizer.text_bytes(self._texts(settings, "path"), [*map(len, portions)], first)

        return self.text_set(self.batches(tokenizer, Windows(ids, rows, length)), text_bytes)
