"""What the tasks on running text share: data settings, encoding, splitting, and windows of tokens."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from jaxtyping import Integer

from glassformer.data.files import Document, read_texts
from glassformer.data.hints import text_hints, unknown_hints
from glassformer.data.packed_batches import PackedBatches
from glassformer.data.python_source import stdlib_text
from glassformer.data.shards import TokenShard, token_shard
from glassformer.data.splitting import split_tokens
from glassformer.durable import cache_folder
from glassformer.errors import DataError
from glassformer.layers.config import Config, Size, setting
from glassformer.text.tokenizer import Tokenizer
from glassformer.training import task
from glassformer.training.recipe import TINY_RECIPE, Recipe
from glassformer.training.settings import DataSettings, FilePath, Settings
from glassformer.training.task import DataContext, EvaluatedModel, EvaluationSet, Task, TaskData


@dataclass(frozen=True, kw_only=True)
class TextData(DataSettings):
    """Running text: a .txt, .jsonl or .parquet file, a folder of .txt files, or the built-in stdlib."""

    path: FilePath = "stdlib"
    field: str = setting("text", "Field of a .jsonl or .parquet file that holds the text.", "content")
    batch_size: Size = setting(16, "Windows of text in a batch.", 32)
    max_length: Size = setting(128, "Tokens of a window of text; the model's context must hold them.", 64)


@dataclass(frozen=True, kw_only=True)
class TextSettings(Settings):
    """The settings of a task on running text."""

    data: TextData = TextData()
    recipe: Recipe = TINY_RECIPE


@dataclass(frozen=True)
class TextSet(EvaluationSet):
    """Running text as batches of windows, and the number of its bytes after the first token.

    Its tokenizer, if known, tells how ids become text, and which of them stand for what it does not know.
    """

    batches: PackedBatches
    text_bytes: Callable[[], int] = int
    tokenizer: Tokenizer | None = None

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, or the ids where there is no tokenizer."""
        return repr(ids) if self.tokenizer is None else self.tokenizer.decode(ids)

    def hints(self) -> Iterator[str]:
        """Whether many tokens are unknown."""
        tokens, tokenizer = self.batches.tokens, self.tokenizer
        if tokenizer is not None and tokenizer.unk is not None:
            yield from unknown_hints(int((tokens == tokenizer.unk).sum()), len(tokens), tokenizer.roles["unk"])


S = TypeVar("S", bound=TextSettings)


class RunningText(Task[S], Generic[S]):
    """A task on windows of running text; a subclass makes batches of them, and has a set that evaluates a model.

    `for_model` returns a tokenizer as the models of the task use it.
    """

    built_in = "stdlib"
    text_set: type[TextSet]
    for_model: Callable[[Tokenizer], Tokenizer]

    @abstractmethod
    def batches(
        self, tokenizer: Tokenizer, tokens: Integer[np.ndarray, " tokens"], rows: int, length: int, *shard: int
    ) -> PackedBatches:
        """Batches of windows; `shard` is the seed, the rank and the world size."""

    def read(self, settings: S, part: task.Part) -> Iterator[Document]:
        """The documents of a part of the data."""
        path = vars(settings.data)[part]
        return stdlib_text() if path == self.built_in else read_texts(path, settings.data.field)

    def _texts(self, settings: S, part: task.Part) -> Iterator[str]:
        return (document.text for document in self.read(settings, part))

    def prepare(self, settings: S, context: DataContext) -> TaskData:
        """Encode the text once, split it, and cut it into windows."""
        data = settings.data
        task.require_context(settings.model, "data.max_length", data.max_length)
        for hint in pattern_hints(settings.model, data.max_length):
            context.report(hint)
        tokenizer = context.tokenizer(settings.tokenizer, lambda: self._texts(settings, "path"))
        tokenizer = self.for_model(tokenizer).with_use(max_length=data.max_length)
        context.report("encoding the text")
        used: list[task.Part] = [part for part in task.PARTS if vars(data)[part]]
        shards = {part: self._encoded(settings, part, tokenizer) for part in used}
        everything, last = shards["path"].tokens, used[-1]
        for hint in text_hints(self.read(settings, "path"), len(everything)) if data.path != self.built_in else ():
            context.report(hint)
        if data.validation:
            train, validation = everything, shards["validation"].tokens
        else:
            task.require_two(data.path, len(everything), "tokens")
            train, validation = split_tokens(everything, data.validation_fraction, tokenizer.eos)
            if copies := len(everything) - len(train) - len(validation):
                context.report(f"{copies:,} tokens are not trained on: copies of documents in the validation data")
        test = shards["test"].tokens if data.test else validation
        if data.validation and np.array_equal(train, validation):
            context.report("the validation data is the training data: its loss will look better than it is")

        def made(tokens: Integer[np.ndarray, " tokens"], name: str) -> PackedBatches:
            _require_window(data, name, len(tokens))
            length = min(data.max_length, len(tokens) - 1)
            count = (len(tokens) - 1) // length
            shard = context.shard(count, name, "windows")
            return self.batches(tokenizer, tokens, min(data.batch_size, count), length, settings.recipe.seed, *shard)

        def text_bytes() -> int:
            first = len(shards[last].tokens) - len(test) + 1
            return tokenizer.text_bytes(self._texts(settings, last), shards[last].portions, first)

        batches = made(train, "training"), made(validation, "validation")
        examples = self.text_set(made(test, "test"), text_bytes, tokenizer)
        for hint in examples.hints():
            context.report(hint)
        return TaskData(tokenizer, *batches, examples)

    def _encoded(self, settings: S, part: task.Part, tokenizer: Tokenizer) -> TokenShard:
        return token_shard(lambda: self._texts(settings, part), tokenizer, cache_folder())

    def evaluation_set(self, evaluated: EvaluatedModel, settings: S) -> TextSet:
        """Windows as long as those the model was trained on."""
        tokenizer, data = evaluated.required_tokenizer(), settings.data
        portions = [np.array(part, dtype=np.int64) for part in tokenizer.encode_stream(self._texts(settings, "path"))]
        everything = np.concatenate(portions)
        ids = split_tokens(everything, data.validation_fraction)[1] if data.path == self.built_in else everything
        if len(ids) < 2:
            raise DataError(f"{data.path}: has {len(ids)} tokens, wanted at least 2")
        length = min(evaluated.max_length or len(ids), len(ids) - 1)
        size = evaluated.tokens_at_once if evaluated.batch_size is None else evaluated.batch_size * length
        rows = max(min(size, len(ids) - 1) // length, 1)

        def text_bytes() -> int:
            first = len(everything) - len(ids) + 1
            return tokenizer.text_bytes(self._texts(settings, "path"), [*map(len, portions)], first)

        return self.text_set(self.batches(tokenizer, ids, rows, length, 0), text_bytes, tokenizer)


def pattern_hints(config: Config, length: int) -> Iterator[str]:
    """What an attention pattern that does not fit the length of the texts amounts to, one sentence."""
    values = vars(config)
    kind = values.get("attention", "sliding_window" if values.get("window") is not None else "causal")
    size = {"sliding_window": "window", "dilated": "dilation", "block_sparse": "block_size"}.get(kind)
    if size is None or values[size] < length:
        return
    amounts = "only to itself" if kind == "dilated" else "to all before it, as without the pattern"
    yield f"model.{size} is {values[size]}, and texts have at most {length} tokens: each attends {amounts}"


def _require_window(data: TextData, part: str, tokens: int) -> None:
    """Refuse a part of the text in which no token follows another."""
    if tokens >= 2:
        return
    file = {"training": data.path, "validation": data.validation, "test": data.test or data.validation}[part]
    if file:
        raise DataError(f"{file}: is too short: it has {tokens} tokens, wanted at least 2 for {part}: add text")
    how = "add text, raise data.validation_fraction, or name a file (data.validation)"
    raise DataError(f"{data.path}: is too short: {tokens} of its tokens are for {part}, wanted at least 2: {how}")
