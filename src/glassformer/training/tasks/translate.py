"""Translation: an encoder-decoder trained on sentence pairs, evaluated by loss, BLEU and chrF."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

from glassformer.data.files import TextPair, read_pairs
from glassformer.data.phrase_book import courtesies, split_phrase_book
from glassformer.errors import MissingExtraError
from glassformer.layers.config import Size, setting
from glassformer.training import task
from glassformer.training.settings import FilePath
from glassformer.training.task import Metrics, Predictions
from glassformer.training.text_pairs import PairSet, PairSettings, PairTask, Split, TwoSidedData, read_two_sided

PHRASES, VALIDATION_PHRASES = 60_000, 500  # of the built-in phrase book


@dataclass(frozen=True, kw_only=True)
class PairData(TwoSidedData):
    """Sentence pairs: a .tsv, .jsonl or .parquet file, two files line by line, or the built-in phrasebook.

    `extra` is trained on as well, `extra_times` over: a file, or the built-in courtesies. Test data is translated by
    beam search with `num_beams`.
    """

    path: FilePath = "phrasebook"
    extra: str = setting("", "More pairs to train on: a file, or the built-in courtesies.", "courtesies")
    extra_times: Size = setting(1, "How often the extra pairs are repeated.", 10)


@dataclass(frozen=True, kw_only=True)
class TranslateSettings(PairSettings):
    """A translator from sentence pairs."""

    data: PairData = PairData()


@dataclass(frozen=True, kw_only=True)
class Score:
    """A score from 0 to 100, and the signature that says how it was computed."""

    score: float
    signature: str


@dataclass(frozen=True, kw_only=True)
class TranslationScores:
    """Translations compared with references; `exact` is the fraction that is equal to the letter."""

    bleu: Score
    bleu_lowercase: Score
    chrf: Score
    exact: float


@dataclass(frozen=True, kw_only=True)
class TranslationMetrics(Metrics):
    """A translator on pairs: its loss on the references, and the scores of its own translations."""

    perplexity: float
    tokens: int
    pairs: int
    scores: TranslationScores
    num_beams: int = 1


class TranslationSet(PairSet):
    """Sentence pairs, and how their sources are translated."""

    written = "translation"
    as_long_as_sources = True

    def require_packages(self) -> None:
        """Raise if sacreBLEU is missing."""
        _sacrebleu("bleu")

    def metrics(self, found: Predictions, texts: Sequence[str]) -> TranslationMetrics:
        """BLEU, chrF and exact matches of translations."""
        return TranslationMetrics(
            loss=found.loss,
            perplexity=found.perplexity,
            tokens=len(found.losses),
            pairs=len(self.pairs),
            scores=score_translations(texts, [reference for _, reference in self.pairs]),
            num_beams=self.generation.num_beams,
        )


class TranslateTask(PairTask[TranslateSettings]):
    """Train an encoder-decoder to translate."""

    settings = TranslateSettings
    built_in = "phrasebook"
    pair_set = TranslationSet

    def read(self, settings: TranslateSettings, part: task.Part) -> Iterator[TextPair]:
        """The pairs of a part of the data."""
        return read_two_sided(settings.data, part)

    def built_in_split(self, seed: int) -> Split:
        """Pairs of the phrasebook; its validation pairs are its test pairs."""
        train, validation = split_phrase_book(PHRASES, VALIDATION_PHRASES, seed)
        return train, validation, []

    def split(self, settings: TranslateSettings) -> Split:
        """The same with the extra pairs among those for training, without those held out."""
        data, (train, validation, test) = settings.data, super().split(settings)
        if data.extra:
            pairs = read_pairs(data.extra, None, data.fields)
            extra = courtesies() if data.extra == "courtesies" else [(pair.first, pair.second) for pair in pairs]
            unseen = set() if data.validation else set(validation)
            train = train + [pair for pair in extra if pair not in unseen] * data.extra_times
        return train, validation, test


def score_translations(translations: Sequence[str], references: Sequence[str]) -> TranslationScores:
    """BLEU, chrF and exact matches.

    `bleu` is cased, as sacreBLEU advises. `bleu_lowercase` is comparable with results published for Multi30k
    in German, which are over text lower-cased and cut by the Moses tokenizer, without smoothing: 13a cuts 996
    of the 1,000 sentences of its test of 2016 the same way.
    """
    bleu, chrf = _sacrebleu("bleu").BLEU, _sacrebleu("chrf").CHRF

    def score(metric: Callable[..., object], **settings: object) -> Score:
        made = metric(**settings)
        value = made.corpus_score(list(translations), [list(references)]).score  # pyright: ignore - an extra
        return Score(score=float(value), signature=str(made.get_signature()))  # pyright: ignore - an extra

    same = sum(one == other for one, other in zip(translations, references, strict=True))
    return TranslationScores(
        bleu=score(bleu),
        bleu_lowercase=score(bleu, lowercase=True, tokenize="13a", smooth_method="none", force=True),
        chrf=score(chrf),
        exact=same / max(len(references), 1),
    )


def _sacrebleu(name: str) -> ModuleType:
    try:
        return importlib.import_module(f"sacrebleu.metrics.{name}")
    except ModuleNotFoundError:
        raise MissingExtraError("scoring translations needs sacrebleu: pip install sacrebleu") from None
