"""Translation: an encoder-decoder trained on sentence pairs, evaluated by loss, BLEU and chrF."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

from glassformer.data.files import TextPair, read_pairs
from glassformer.data.hints import pair_hints
from glassformer.data.padded_batches import PairBatches
from glassformer.data.phrase_book import courtesies, split_phrase_book
from glassformer.data.splitting import split
from glassformer.decoding.config import GenerationConfig
from glassformer.errors import DataError, MissingExtraError
from glassformer.layers.config import Config, Size, setting
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.model import Model
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.text.tokenizer import Tokenizer
from glassformer.training import task
from glassformer.training.objective import Objective
from glassformer.training.recipe import TINY_RECIPE, Recipe
from glassformer.training.settings import DataSettings, FilePath, Settings
from glassformer.training.task import DataContext, EvaluatedModel, EvaluationSet, Metrics, Task, TaskData

NEXT_TARGET_TOKEN = Objective(inputs=("source", "target", "attention_mask"), targets="targets")
PHRASES, VALIDATION_PHRASES = 60_000, 500  # of the built-in phrase book
SENTENCES_AT_ONCE = 256  # translated together
LENGTH_PENALTY = 1.0
TwoTexts = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class PairData(DataSettings):
    """Sentence pairs: a .tsv, .jsonl or .parquet file, two files line by line, or the built-in phrasebook.

    `extra` is trained on as well, `extra_times` over: a file, or the built-in courtesies. Test data is translated by
    beam search with `num_beams`.
    """

    path: FilePath = "phrasebook"
    target_path: FilePath = setting("", "Target sentences, line by line, if the pairs are in two files.", "train.de")
    extra: str = setting("", "More pairs to train on: a file, or the built-in courtesies.", "courtesies")
    extra_times: Size = setting(1, "How often the extra pairs are repeated.", 10)
    validation_target_path: FilePath = setting(
        "", "Target sentences of the validation data, if it is in two files.", "valid.de"
    )
    test_target_path: FilePath = setting("", "Target sentences of the test data, if it is in two files.", "test.de")
    num_beams: Size = setting(4, "Beams of the search that translates the test data.", 1)
    fields: tuple[str, str] = setting(
        ("source", "target"), "Fields or columns that hold the source and the target.", ("en", "de")
    )
    max_length: Size = setting(128, "Tokens of a sentence from which its pair is left out.", 64)
    tokens_per_batch: Size = setting(2048, "Tokens in a batch, padding included.", 1024)


@dataclass(frozen=True, kw_only=True)
class TranslateSettings(Settings):
    """A translator from sentence pairs."""

    data: PairData = PairData()
    recipe: Recipe = TINY_RECIPE
    model: Config = Seq2SeqConfig(dim=128, layers=2, heads=4, ffn_dim=512, context=256, norm_first=True)


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


@dataclass(frozen=True)
class PairSet(EvaluationSet):
    """Sentence pairs as token ids and as text, and how their sources are translated."""

    batches: PairBatches
    pairs: Sequence[TwoTexts]
    tokenizer: Tokenizer
    num_beams: int = 1
    batch_size: int | None = None  # sentences translated together

    def evaluate(
        self,
        model: Model,
        generate: task.Generate,
        progress: task.Progress = task.silent,
        record: task.Record | None = None,
    ) -> TranslationMetrics:
        """Loss on the references, and scores of translations at most twice as long as the longest side."""
        _sacrebleu("bleu")  # before the work, not after it
        found = task.predict(model, self.batches, NEXT_TARGET_TOKEN, progress)
        longest = 2 * max(max(len(source), len(target) + 1) for source, target in self.batches.pairs)
        config = GenerationConfig(
            max_new_tokens=min(longest, model.config.context or longest),
            num_beams=self.num_beams,
            length_penalty=LENGTH_PENALTY,
        )
        sources = [source for source, _ in self.pairs]
        size = self.batch_size or SENTENCES_AT_ONCE
        portions = [sources[at : at + size] for at in range(0, len(sources), size)]
        following = progress(iter(portions), f"of {len(portions):,} portions translated")
        written = [text.text for part in following for text in generate(model, self.tokenizer, part, config)]
        if record is not None:
            for pair, text, of_pair in zip(self.pairs, written, found.by_example(), strict=True):
                record({"source": pair[0], "reference": pair[1], "translation": text, "loss": of_pair.loss})
        return TranslationMetrics(
            loss=found.loss,
            perplexity=found.perplexity,
            tokens=len(found.losses),
            pairs=len(self.pairs),
            scores=score_translations(written, [reference for _, reference in self.pairs]),
            num_beams=self.num_beams,
        )


class TranslateTask(Task[TranslateSettings]):
    """Train an encoder-decoder to translate."""

    settings = TranslateSettings
    protocol = EncoderDecoder
    objective = NEXT_TARGET_TOKEN
    built_in = "phrasebook"
    always_split = True

    def read(self, settings: TranslateSettings, part: task.Part) -> Iterator[TextPair]:
        """The pairs of a part of the data; the phrasebook is split by `split_phrase_book` instead."""
        data = settings.data
        second = {"path": data.target_path, "validation": data.validation_target_path, "test": data.test_target_path}
        return read_pairs(vars(data)[part], second[part] or None, data.fields)

    def _pairs(self, settings: TranslateSettings, part: task.Part) -> list[TwoTexts]:
        return [(pair.first, pair.second) for pair in self.read(settings, part)]

    def _split(self, settings: TranslateSettings) -> tuple[list[TwoTexts], list[TwoTexts]]:
        """Pairs for training and for validation."""
        data, seed = settings.data, settings.recipe.seed
        if data.path == self.built_in:
            train, validation = split_phrase_book(PHRASES, VALIDATION_PHRASES, seed)
        else:
            train, validation = self._pairs(settings, "path"), []
            if not data.validation:
                task.require_two(data.path, len(set(train)), "different pairs")
                train, validation = split(train, data.validation_fraction, seed)
        validation = self._pairs(settings, "validation") if data.validation else validation
        if data.extra:
            pairs = read_pairs(data.extra, None, data.fields)
            extra = courtesies() if data.extra == "courtesies" else [(pair.first, pair.second) for pair in pairs]
            unseen = set() if data.validation else set(validation)
            train = train + [pair for pair in extra if pair not in unseen] * data.extra_times
        return train, validation

    def prepare(self, settings: TranslateSettings, context: DataContext) -> TaskData:
        """Split the pairs, encode them, and leave out those that are too long."""
        data, seed = settings.data, settings.recipe.seed
        task.require_context(settings.model, "data.max_length", data.max_length)
        train, validation = self._split(settings)
        for hint in pair_hints(train, validation) if data.path != self.built_in else ():
            context.report(hint)
        tokenizer = context.tokenizer(settings.tokenizer, lambda: (side for pair in train for side in pair))

        def made(pairs: Sequence[TwoTexts], name: str) -> tuple[PairBatches, list[TwoTexts]]:
            """Batches of the pairs that are not too long, and these pairs."""
            ids, fits = encode_pairs(tokenizer, pairs), range(1, data.max_length)
            kept = [at for at, (source, target) in enumerate(ids) if len(source) in fits and len(target) in fits]
            if left_out := len(pairs) - len(kept):
                limit = f"without tokens, or with data.max_length ({data.max_length}) or more"
                context.report(f"{left_out} of {len(pairs)} {name} pairs are left out: {limit}")
            shard, rows = context.shard(len(kept), name, "pairs"), [ids[at] for at in kept]
            return pair_batches(tokenizer, rows, data.tokens_per_batch, seed, *shard), [pairs[at] for at in kept]

        batches, pairs = made(validation, "validation")
        test = batches
        if data.test or context.process_group.world_size > 1:
            test, pairs = made(self._pairs(settings, "test") if data.test else validation, "test")
        test_set = PairSet(test, pairs, tokenizer, data.num_beams)
        return TaskData(tokenizer, made(train, "training")[0], batches, test_set)

    def evaluation_set(self, evaluated: EvaluatedModel, settings: TranslateSettings) -> PairSet:
        """All pairs; one that is longer than the model can read is an error."""
        data, context = settings.data, evaluated.model.config.context
        if data.path == self.built_in:
            held_out = split_phrase_book(PHRASES, VALIDATION_PHRASES, settings.recipe.seed)[1]
            rows = [TextPair(*pair, f"{self.built_in}:{number}") for number, pair in enumerate(held_out, start=1)]
        else:
            rows = list(self.read(settings, "path"))
        pairs = [(row.first, row.second) for row in rows]
        tokenizer = evaluated.required_tokenizer()
        ids = encode_pairs(tokenizer, pairs)
        lengths = [max(len(source), len(target) + 1) for source, target in ids]
        longest = max(lengths, default=0)
        if context is not None and longest > context:
            where = rows[lengths.index(longest)].source
            raise DataError(f"{where}: has {longest} tokens, wanted at most {context}, the model's context")
        size = evaluated.batch_size
        tokens = max(longest, evaluated.tokens_at_once) if size is None else size * longest
        batches = pair_batches(tokenizer, ids, tokens)
        return PairSet(batches, pairs, tokenizer, data.num_beams, size)


def encode_pairs(tokenizer: Tokenizer, pairs: Sequence[TwoTexts]) -> list[tuple[list[int], list[int]]]:
    """The ids of each source as an encoder reads it, and of each target as a decoder should write it."""
    sources = tokenizer.encode_inputs([source for source, _ in pairs])
    return list(zip(sources, tokenizer.encode_targets([target for _, target in pairs]), strict=True))


def pair_batches(
    tokenizer: Tokenizer,
    ids: Sequence[tuple[Sequence[int], Sequence[int]]],
    tokens_per_batch: int,
    seed: int = 0,
    rank: int = 0,
    world: int = 1,
) -> PairBatches:
    """Batches of encoded pairs with the special tokens of a tokenizer."""
    pad, eos = tokenizer.required("pad"), tokenizer.required("eos")
    return PairBatches(ids, tokens_per_batch, pad, tokenizer.decoder_start, eos, seed, rank, world)


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
