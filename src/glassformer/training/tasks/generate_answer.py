"""Question answering in words: an encoder-decoder reads a question with its context and writes the answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from glassformer.data.files import TextPair
from glassformer.data.hints import example_hints
from glassformer.data.questions import Question, read_questions
from glassformer.data.stories import stories
from glassformer.decoding.answers import question_prompt
from glassformer.errors import DataError
from glassformer.layers.config import setting
from glassformer.training import task
from glassformer.training.settings import FilePath
from glassformer.training.task import Metrics, Predictions
from glassformer.training.text_pairs import GeneratedData, PairSet, PairSettings, PairTask, Split, TwoTexts
from glassformer.training.text_scores import AnswerScores, answer_scores, commonest_answer


@dataclass(frozen=True, kw_only=True)
class GeneratedAnswerData(GeneratedData):
    """Questions with context and answer: a .tsv, .csv, .jsonl or .parquet file, SQuAD's .json, or the built-in stories.

    A question that has no answer is left out.
    """

    path: FilePath = "stories"
    fields: tuple[str, str, str] = setting(
        ("question", "context", "answer"), "Fields or columns that hold question, context and answer.",
        ("query", "passage", "response"),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GenerateAnswerSettings(PairSettings):
    """A model that writes answers."""

    data: GeneratedAnswerData = GeneratedAnswerData()


@dataclass(frozen=True, kw_only=True)
class GeneratedAnswerMetrics(Metrics):
    """A model on questions: its loss on the references, and the scores of its answers and of the commonest answer."""

    perplexity: float
    tokens: int
    questions: int
    scores: tuple[AnswerScores, ...]
    num_beams: int = 1


class GeneratedAnswerSet(PairSet):
    """Questions with their contexts, as the model reads them, and their answers."""

    written = "answer"

    def metrics(self, found: Predictions, texts: Sequence[str]) -> GeneratedAnswerMetrics:
        """Exact match and F1 of the answers, beside those of the commonest answer."""
        references = [(reference,) for _, reference in self.pairs]
        usual = [commonest_answer(references)] * len(texts)
        return GeneratedAnswerMetrics(
            loss=found.loss,
            perplexity=found.perplexity,
            tokens=len(found.losses),
            questions=len(self.pairs),
            scores=(answer_scores("model", texts, references), answer_scores("commonest answer", usual, references)),
            num_beams=self.generation.num_beams,
        )


class GenerateAnswerTask(PairTask[GenerateAnswerSettings]):
    """Train an encoder-decoder to answer questions about a context."""

    settings = GenerateAnswerSettings
    built_in = "stories"
    pair_set = GeneratedAnswerSet

    def read(self, settings: GenerateAnswerSettings, part: task.Part) -> Iterator[TextPair]:
        """The questions of a part of the data that have an answer, with their answers."""
        path, left = vars(settings.data)[part], 0
        for question in read_questions(path, settings.data.fields):
            if question.answers:
                left += 1
                yield _pair(question)
        if not left:
            raise DataError(f"{path}: has no question with an answer")

    def built_in_split(self, seed: int) -> Split:
        """Questions on stories for training, validation and test."""
        train, validation, test = (
            [(pair.first, pair.second) for pair in map(_pair, stories(part, seed))]
            for part in ("train", "validation", "test")
        )
        return train, validation, test

    def hints(self, train: Sequence[TwoTexts], validation: Sequence[TwoTexts]) -> Iterator[str]:
        """Hints about questions."""
        return example_hints(train, validation, "questions")


def _pair(question: Question) -> TextPair:
    return TextPair(question_prompt(question.question, question.context), question.answers[0], question.source)
