"""Summarization: an encoder-decoder trained on documents and their summaries, evaluated by ROUGE."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from glassformer.data.files import TextPair
from glassformer.data.hints import summary_hints
from glassformer.data.reports import reports
from glassformer.decoding.config import GenerationConfig
from glassformer.layers.config import Config, Count, setting
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.training import task
from glassformer.training.recipe import Recipe
from glassformer.training.settings import FilePath
from glassformer.training.task import Metrics, Predictions
from glassformer.training.text_pairs import (
    GeneratedData,
    PairSet,
    PairSettings,
    PairTask,
    Split,
    TwoSidedData,
    TwoTexts,
    read_two_sided,
)
from glassformer.training.text_scores import SummaryScores, first_sentence, summary_scores


@dataclass(frozen=True, kw_only=True)
class SummaryData(TwoSidedData):
    """Documents with their summaries: a .tsv, .jsonl or .parquet file, two files line by line, or the built-in reports.

    Test data is summarized by beam search with `num_beams`, at least `min_new_tokens` and without repeated n-grams.
    """

    path: FilePath = "reports"
    fields: tuple[str, str] = setting(
        ("document", "summary"), "Fields or columns that hold the document and its summary.", ("article", "highlights")
    )
    min_new_tokens: Count = setting(0, "Least tokens of a summary of the test data.", 10)
    no_repeat_ngram_size: Count = setting(
        0, "Block n-grams: no run of this many tokens occurs twice in a summary; 0 blocks none.", 3
    )


@dataclass(frozen=True, kw_only=True)
class SummarizeSettings(PairSettings):
    """A model that summarizes documents."""

    data: SummaryData = SummaryData()
    recipe: Recipe = Recipe(steps=800, learning_rate=2e-3, warmup_steps=80, evaluate_every=400, save_every=400)
    model: Config = Seq2SeqConfig(dim=128, layers=2, heads=4, ffn_dim=512, context=256, norm_first=True)


@dataclass(frozen=True, kw_only=True)
class SummaryMetrics(Metrics):
    """A model on documents: its loss on the references, and ROUGE of its summaries and of the first sentences."""

    perplexity: float
    tokens: int
    documents: int
    scores: tuple[SummaryScores, ...]
    num_beams: int = 1


class SummarySet(PairSet):
    """Documents with their summaries."""

    written = "summary"

    def metrics(self, found: Predictions, texts: Sequence[str]) -> SummaryMetrics:
        """ROUGE of the summaries, beside that of the first sentence of each document."""
        references = [reference for _, reference in self.pairs]
        lead = [first_sentence(document) for document, _ in self.pairs]
        return SummaryMetrics(
            loss=found.loss,
            perplexity=found.perplexity,
            tokens=len(found.losses),
            documents=len(self.pairs),
            scores=(summary_scores("model", texts, references), summary_scores("first sentence", lead, references)),
            num_beams=self.generation.num_beams,
        )


class SummarizeTask(PairTask[SummarizeSettings]):
    """Train an encoder-decoder to summarize."""

    settings = SummarizeSettings
    built_in = "reports"
    pair_set = SummarySet

    def read(self, settings: SummarizeSettings, part: task.Part) -> Iterator[TextPair]:
        """The documents of a part of the data with their summaries."""
        return read_two_sided(settings.data, part)

    def built_in_split(self, seed: int) -> Split:
        """Reports for training, validation and test."""
        return reports("train", seed), reports("validation", seed), reports("test", seed)

    def hints(self, train: Sequence[TwoTexts], validation: Sequence[TwoTexts]) -> Iterator[str]:
        """Hints about documents and summaries."""
        yield from summary_hints(train)
        yield from super().hints(train, validation)

    def generation(self, data: GeneratedData) -> GenerationConfig:
        """Beam search with a least length and blocked n-grams."""
        assert isinstance(data, SummaryData)
        found = super().generation(data)
        found = replace(found, max_new_tokens=max(found.max_new_tokens, data.min_new_tokens))
        return replace(found, min_new_tokens=data.min_new_tokens, no_repeat_ngram_size=data.no_repeat_ngram_size)
