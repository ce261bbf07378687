"""Extractive question answering: an encoder marks the start and the end of the answer in the context."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from glassformer.data.hints import example_hints
from glassformer.data.padded_batches import SpanBatches
from glassformer.data.questions import Question, read_questions
from glassformer.data.splitting import split
from glassformer.data.stories import stories
from glassformer.decoding.answers import WINDOWS_AT_ONCE, span_answers, span_batches
from glassformer.errors import ConfigError, DataError, TokenizerError
from glassformer.layers.config import Config, Fraction, Size, setting
from glassformer.layers.model import Model
from glassformer.models.encoder import Encoder, EncoderConfig
from glassformer.text.questions import Window, encode_question
from glassformer.text.tokenizer import Tokenizer
from glassformer.training import task
from glassformer.training.objective import Objective
from glassformer.training.recipe import Recipe
from glassformer.training.settings import DataSettings, FilePath, Settings
from glassformer.training.task import DataContext, EvaluatedModel, EvaluationSet, Metrics, Task, TaskData
from glassformer.training.text_scores import AnswerScores, answer_scores, commonest_answer

SPANS = Objective(
    inputs=("ids", "attention_mask", "token_types"),
    targets="labels",
    baseline=lambda model: math.log(model.config.context),
)
NO_ANSWER = (0, 0)  # the span of a window that does not hold the answer: the first token


@dataclass(frozen=True, kw_only=True)
class AnswerData(DataSettings):
    """Questions with context and answer: a .tsv, .csv, .jsonl or .parquet file, SQuAD's .json, or the built-in stories.

    A context that is longer than `max_length` is read in windows that overlap. A question whose answer is not in its
    context is left out, which is reported.
    """

    path: FilePath = "stories"
    validation_fraction: Fraction = 0.1
    fields: tuple[str, str, str] = setting(
        ("question", "context", "answer"), "Fields or columns that hold question, context and answer.",
        ("query", "passage", "response"),
    )  # fmt: skip
    max_length: Size = setting(
        128, "Tokens of a question with a window of its context; model.context must hold them.", 384
    )
    batch_size: Size = setting(32, "Windows in a batch.", 16)


@dataclass(frozen=True, kw_only=True)
class AnswerSettings(Settings):
    """An encoder that finds answers."""

    data: AnswerData = AnswerData()
    recipe: Recipe = Recipe(steps=1500, learning_rate=1e-3, warmup_steps=100, evaluate_every=500, save_every=500)
    model: Config = EncoderConfig(head="span", dim=128, layers=3, heads=4, ffn_dim=256, context=128)


@dataclass(frozen=True, kw_only=True)
class AnswerMetrics(Metrics):
    """A model on questions: the loss of its spans, and the scores of its answers and of the commonest answer."""

    questions: int
    windows: int
    scores: tuple[AnswerScores, ...]


@dataclass(frozen=True)
class QuestionSet(EvaluationSet):
    """Questions, and the windows of their contexts as token ids."""

    batches: SpanBatches
    questions: Sequence[Question]
    tokenizer: Tokenizer
    batch_size: int | None = None
    left_out: int = 0

    def hints(self) -> Iterator[str]:
        """Which questions are not evaluated."""
        if self.left_out:
            yield _left_out(self.left_out, self.left_out + len(self.questions), "")

    def evaluate(
        self,
        model: Model,
        generate: task.Generate,
        progress: task.Progress = task.silent,
        record: task.Record | None = None,
    ) -> AnswerMetrics:
        """The loss of starts and ends, and exact match and F1 of the best spans, as in SQuAD."""
        assert isinstance(model, Encoder)
        found = task.predict(model, self.batches, SPANS, progress)
        asked = [(each.question, each.context) for each in self.questions]
        size = self.batch_size or WINDOWS_AT_ONCE
        answers = span_answers(model, self.tokenizer, asked, size, lambda parts: progress(parts, "batches answered"))
        if record is not None:
            for each, answer in zip(self.questions, answers, strict=True):
                shown = {"question": each.question, "context": each.context, "references": each.answers}
                record({**shown, **vars(answer)})
        references = [each.answers for each in self.questions]
        texts, usual = [answer.answer for answer in answers], [commonest_answer(references)] * len(answers)
        return AnswerMetrics(
            loss=found.loss,
            questions=len(self.questions),
            windows=len(self.batches.texts),
            scores=(answer_scores("model", texts, references), answer_scores("commonest answer", usual, references)),
        )


class AnswerTask(Task[AnswerSettings]):
    """Train an encoder to find the answer to a question in a context."""

    settings = AnswerSettings
    protocol = Encoder
    objective = SPANS
    built_in = "stories"
    config_values = {"head": "span"}  # noqa: RUF012 - never changed

    def read(self, settings: AnswerSettings, part: task.Part) -> Iterator[Question]:
        """The questions of a part of the data."""
        path = vars(settings.data)[part]
        if path == self.built_in:
            return iter(stories("train", settings.recipe.seed))
        return read_questions(path, settings.data.fields)

    def _split(self, settings: AnswerSettings) -> tuple[list[Question], list[Question], list[Question]]:
        """Questions for training, validation and test; the last are those for validation where there are no others."""
        data, seed = settings.data, settings.recipe.seed
        train = list(self.read(settings, "path"))
        test: list[Question] = []
        if data.validation:
            validation = list(self.read(settings, "validation"))
        elif data.path == self.built_in:
            validation, test = stories("validation", seed), stories("test", seed)
        else:
            contexts = list(dict.fromkeys(each.context for each in train))
            task.require_two(data.path, len(contexts), "different contexts")
            held_out = set(split(contexts, data.validation_fraction, seed)[1])
            validation = [each for each in train if each.context in held_out]
            train = [each for each in train if each.context not in held_out]
        return train, validation, list(self.read(settings, "test")) if data.test else test or validation

    def prepare(self, settings: AnswerSettings, context: DataContext) -> TaskData:
        """Split the questions by contexts, and encode them in windows with the positions of their answers."""
        data, seed = settings.data, settings.recipe.seed
        task.require_context(settings.model, "data.max_length", data.max_length)
        for name in ("label_smoothing", "r_drop"):
            if value := vars(settings.recipe)[name]:
                raise ConfigError(
                    f"recipe.{name} is {value}, wanted 0: padding can be no start and no end of an answer"
                )
        train, validation, test = self._split(settings)
        if data.path != self.built_in:
            examples = [[(each.question, each.context) for each in part] for part in (train, validation)]
            for hint in example_hints(examples[0], examples[1], "questions"):
                context.report(hint)
        texts = [text for each in train for text in (each.question, each.context)]
        tokenizer = context.tokenizer(settings.tokenizer, lambda: iter(dict.fromkeys(texts)))
        types = vars(settings.model).get("token_types", 2)
        tokenizer = tokenizer.for_encoder().with_use(max_length=data.max_length, token_types=types > 1)

        def made(questions: Sequence[Question], name: str) -> tuple[SpanBatches, list[Question]]:
            kept = [each for each in questions if each.start is not None]
            if len(kept) < len(questions):
                context.report(_left_out(len(questions) - len(kept), len(questions), f"{name} "))
            if not kept:
                raise DataError(f"no {name} question has its answer in its context")
            windows, spans = question_windows(tokenizer, kept, data.max_length, types)
            shard = context.shard(len(windows), name, "windows")
            return span_batches(tokenizer, windows, spans, data.batch_size, seed, *shard), kept

        batches, questions = made(validation, "validation")
        test_batches = batches
        if test is not validation or context.process_group.world_size > 1:
            test_batches, questions = made(test, "test")
        test_set = QuestionSet(test_batches, questions, tokenizer)
        return TaskData(tokenizer, made(train, "training")[0], batches, test_set)

    def evaluation_set(self, evaluated: EvaluatedModel, settings: AnswerSettings) -> QuestionSet:
        """All questions whose answer is in their context."""
        built_in = settings.data.path == self.built_in
        questions = stories("test", settings.recipe.seed) if built_in else list(self.read(settings, "path"))
        kept = [each for each in questions if each.start is not None]
        if not kept:
            raise DataError(f"{settings.data.path}: no question has its answer in its context")
        tokenizer, size = evaluated.required_tokenizer(), evaluated.batch_size
        windows, spans = question_windows(tokenizer, kept, evaluated.max_length, evaluated.model.config.token_types)
        batches = span_batches(tokenizer, windows, spans, size or WINDOWS_AT_ONCE)
        return QuestionSet(batches, kept, tokenizer, size, len(questions) - len(kept))


def question_windows(
    tokenizer: Tokenizer, questions: Sequence[Question], max_length: int | None, token_types: int
) -> tuple[list[Window], list[tuple[int, int]]]:
    """The windows of questions, and in each the first and the last position of the answer."""
    windows: list[Window] = []
    spans: list[tuple[int, int]] = []
    for each in questions:
        try:
            found = encode_question(tokenizer, each.question, each.context, max_length, token_types)
        except TokenizerError as error:
            raise DataError(f"{each.source}: {error}") from None
        assert each.start is not None
        windows += found
        spans += [window.positions(each.start, each.start + len(each.answers[0])) or NO_ANSWER for window in found]
    return windows, spans


def _left_out(count: int, total: int, name: str) -> str:
    return f"{count:,} of {total:,} {name}questions are left out: their answers are not in their contexts"
