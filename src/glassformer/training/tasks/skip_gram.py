"""Word vectors by skip-gram with negative sampling; evaluated by the loss and, if one is named, a similarity set."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Integer
from torch import Tensor

from glassformer.checkpoints.word_tests import (
    RatedPair,
    is_similarity_set,
    read_rated_pairs,
    similarity_score,
    word_vectors,
)
from glassformer.data.files import Document, read_texts
from glassformer.data.hints import text_hints
from glassformer.data.python_source import stdlib_text
from glassformer.data.shards import token_shard
from glassformer.data.skip_gram_batches import NegativeSampling, SkipGramBatches
from glassformer.data.splitting import split_tokens
from glassformer.durable import cache_folder
from glassformer.equation import no_checks
from glassformer.equations.similarity import inner_product
from glassformer.equations.skip_gram import keep_probability, negative_sampling_loss, noise_distribution
from glassformer.errors import ConfigError, DataError, NonFiniteError
from glassformer.layers.config import Config, NotNegative, Size, setting
from glassformer.layers.model import Model
from glassformer.models.word2vec import SkipGram, SkipGramConfig
from glassformer.text.tokenizer import Tokenizer
from glassformer.training import task
from glassformer.training.objective import Objective
from glassformer.training.recipe import Recipe
from glassformer.training.settings import DataSettings, FilePath, Settings, TokenizerSettings
from glassformer.training.task import DataContext, EvaluatedModel, EvaluationSet, Metrics, Task, TaskData

Tokens = Integer[np.ndarray, " tokens"]
PAIRS_AT_ONCE = 8192  # in an evaluation


@dataclass(frozen=True, kw_only=True)
class SkipGramData(DataSettings):
    """Running text: a .txt, .jsonl or .parquet file, a folder of .txt files, or the built-in stdlib."""

    path: FilePath = "stdlib"
    field: str = setting("text", "Field of a .jsonl or .parquet file that holds the text.", "content")
    window: Size = setting(5, "Most words to either side that count as near; each window draws its own size.", 10)
    negatives: Size = setting(5, "Noise words drawn for each pair of words.", 15)
    subsample: NotNegative = setting(
        1e-3, "Frequency from which occurrences of a word are left out at random; 0 keeps all.", 1e-4
    )
    pairs_per_batch: Size = setting(4096, "Pairs of words in a batch.", 16384)
    similarity: FilePath = setting(
        "", "Pairs of words with people's ratings, to evaluate the vectors by rank correlation.", "wordsim353.txt"
    )


@dataclass(frozen=True, kw_only=True)
class SkipGramSettings(Settings):
    """Word vectors from running text."""

    data: SkipGramData = SkipGramData()
    tokenizer: TokenizerSettings = TokenizerSettings(kind="plain_words", vocab_size=5000)
    model: Config = SkipGramConfig(dim=100)
    recipe: Recipe = Recipe(
        steps=1000, learning_rate=1e-2, warmup_steps=100, schedule="linear", max_grad_norm=0.0, evaluate_every=500
    )


@dataclass(frozen=True, kw_only=True)
class SkipGramMetrics(Metrics):
    """Scores of word vectors on held-out pairs of words and on a similarity set; None where there is no such set.

    `similarity` is the rank correlation with people's ratings over the `covered` of the set's `rated` pairs.
    """

    pairs: int
    similarity: float | None = None
    covered: int | None = None
    rated: int | None = None


@dataclass(frozen=True, kw_only=True)
class SimilarityMetrics(Metrics):
    """Scores of word vectors on a similarity set alone; there is no loss."""

    loss: float = math.nan
    similarity: float | None
    covered: int
    rated: int


def negative_sampling(
    model: Model,
    inputs: Sequence[Tensor],
    targets: Tensor,
    weights: Tensor | None,
    label_smoothing: float,
    r_drop: float,
) -> tuple[Tensor, Tensor]:
    """The summed loss of pairs of words, and their number."""
    del weights, label_smoothing, r_drop
    logits = model(*inputs)
    each = negative_sampling_loss(logits.to(torch.promote_types(logits.dtype, torch.float32)))
    return inner_product(each, torch.ones_like(each)), torch.tensor(len(targets), device=each.device)


NEIGHBORS = Objective(
    inputs=("centers", "candidates"), targets="candidates", loss=negative_sampling, baseline=None
)  # the loss of a guess depends on the number of negatives, which is a setting of the data


@dataclass(frozen=True)
class SkipGramSet(EvaluationSet):
    """Held-out pairs of words, whose negatives depend only on the seed, and rated pairs for the vectors."""

    batches: SkipGramBatches
    tokenizer: Tokenizer
    rated: Sequence[RatedPair] = ()

    def evaluate(
        self,
        model: Model,
        generate: task.Generate,
        progress: task.Progress = task.silent,
        record: task.Record | None = None,
    ) -> SkipGramMetrics | SimilarityMetrics:
        """Loss of each pair, and the rank correlation of cosines with ratings; without words, the latter alone."""
        losses = _losses(model, self.batches, progress) if len(self.batches.tokens) else None
        vectors = word_vectors(model, self.tokenizer)
        found = similarity_score(vectors, self.rated)
        if record is not None:
            for pair in self.rated:
                known = pair.first in vectors and pair.second in vectors
                rows = [vectors.row(word) for word in (pair.first, pair.second)] if known else []
                cosine = float(inner_product(*vectors.directions[rows])) if known else None
                record({"words": [pair.first, pair.second], "rating": pair.rating, "cosine": cosine})
        if losses is None:
            return SimilarityMetrics(similarity=found.correlation, covered=found.covered, rated=found.pairs)
        return SkipGramMetrics(
            loss=float(losses.mean()),
            pairs=len(losses),
            similarity=found.correlation,
            covered=found.covered if self.rated else None,
            rated=found.pairs if self.rated else None,
        )


@torch.no_grad()
def _losses(model: Model, batches: SkipGramBatches, progress: task.Progress) -> Tensor:
    """The loss of each pair, in double precision."""
    device = next(model.parameters()).device
    found = []
    for batch in progress(batches.once(), "batches evaluated"):
        NEIGHBORS.check(model, batch)
        with no_checks():
            logits = model(*(batch[name].to(device) for name in NEIGHBORS.inputs))
            found.append(negative_sampling_loss(logits.double()).cpu())
    losses = torch.cat(found)
    if not losses.isfinite().all():
        raise NonFiniteError(f"the loss is not finite on {int((~losses.isfinite()).sum())} of {len(losses):,} pairs")
    return losses


class SkipGramTask(Task[SkipGramSettings]):
    """Train word vectors that tell the neighbors of a word from other words (Mikolov et al., 2013)."""

    settings = SkipGramSettings
    protocol = SkipGram
    objective = NEIGHBORS
    built_in = "stdlib"

    def read(self, settings: SkipGramSettings, part: task.Part) -> Iterator[Document]:
        """The documents of a part of the data."""
        path = vars(settings.data)[part]
        return stdlib_text() if path == self.built_in else read_texts(path, settings.data.field)

    def check_files(self, settings: SkipGramSettings) -> None:
        """Also read the similarity set, and refuse what this loss has no use for."""
        super().check_files(settings)
        for name in ("label_smoothing", "r_drop"):
            if value := vars(settings.recipe)[name]:
                raise ConfigError(f"recipe.{name} is {value}, which skip-gram does not use: leave it out")
        _rated(settings)

    def prepare(self, settings: SkipGramSettings, context: DataContext) -> TaskData:
        """Encode the text once, split it, and count its words."""
        data, seed = settings.data, settings.recipe.seed
        tokenizer = context.tokenizer(settings.tokenizer, lambda: self._texts(settings, "path"))
        context.report("encoding the text")
        used: list[task.Part] = [part for part in task.PARTS if vars(data)[part]]
        parts = {part: self._encoded(settings, part, tokenizer) for part in used}
        train, validation = parts["path"], parts.get("validation")
        if validation is None:
            task.require_two(data.path, len(train), "tokens")
            train, validation = split_tokens(train, data.validation_fraction, tokenizer.eos)
        for hint in text_hints(self.read(settings, "path"), len(train)) if data.path != self.built_in else ():
            context.report(hint)
        sampling = negative_samples(train, tokenizer, data)

        def made(tokens: Tokens, name: str) -> SkipGramBatches:
            shard = context.shard(len(tokens), name, "words")
            batches = SkipGramBatches(tokens, data.pairs_per_batch, sampling, seed, *shard)
            _require_pairs(batches, data, name)
            return batches

        batches = made(train, "training"), made(validation, "validation")
        test = SkipGramSet(made(parts.get("test", validation), "test"), tokenizer, _rated(settings))
        return TaskData(tokenizer, *batches, test)

    def _texts(self, settings: SkipGramSettings, part: task.Part) -> Iterator[str]:
        return (document.text for document in self.read(settings, part))

    def _encoded(self, settings: SkipGramSettings, part: task.Part, tokenizer: Tokenizer) -> Tokens:
        return token_shard(lambda: self._texts(settings, part), tokenizer, cache_folder()).tokens

    def evaluation_set(self, evaluated: EvaluatedModel, settings: SkipGramSettings) -> SkipGramSet:
        """Pairs of all words of the data, with noise words by their counts in it; or a similarity set alone."""
        tokenizer, data = evaluated.required_tokenizer(), settings.data
        if data.path != self.built_in and is_similarity_set(data.path):
            even = np.full(tokenizer.vocab_size, 1 / tokenizer.vocab_size)
            sampling = NegativeSampling(window=data.window, negatives=data.negatives, keep=even, noise=even, end=None)
            batches = SkipGramBatches(np.zeros(0, dtype=np.int64), 1, sampling, 0)
            return SkipGramSet(batches, tokenizer, read_rated_pairs(data.path))
        tokens = self._encoded(settings, "path", tokenizer)
        if data.path == self.built_in:
            tokens = split_tokens(tokens, data.validation_fraction)[1]
        sampling = negative_samples(tokens, tokenizer, data)
        batches = SkipGramBatches(tokens, evaluated.batch_size or PAIRS_AT_ONCE, sampling, 0)
        _require_pairs(batches, data, "test")
        return SkipGramSet(batches, tokenizer, _rated(settings))


def negative_samples(tokens: Tokens, tokenizer: Tokenizer, data: SkipGramData) -> NegativeSampling:
    """How pairs and negatives are drawn from a text; special tokens are neither words nor negatives."""
    counts = torch.from_numpy(np.bincount(tokens, minlength=tokenizer.vocab_size))
    counts[list(tokenizer.specials)] = 0
    if not counts.any():
        raise DataError(f"{data.path}: has no word that the tokenizer knows: add text, or raise tokenizer.vocab_size")
    keep = keep_probability(counts, data.subsample).numpy() if data.subsample else np.ones(len(counts))
    keep[list(tokenizer.specials)] = 0
    noise = noise_distribution(counts).numpy()
    return NegativeSampling(
        window=data.window, negatives=data.negatives, keep=keep, noise=noise, end=tokenizer.eos
    )  # fmt: skip


def _rated(settings: SkipGramSettings) -> list[RatedPair]:
    return read_rated_pairs(settings.data.similarity) if settings.data.similarity else []


def _require_pairs(batches: SkipGramBatches, data: SkipGramData, part: str) -> None:
    """Refuse a part of the text in which no word has a neighbor."""
    try:
        next(batches.once())
    except DataError as error:
        file = {"training": data.path, "validation": data.validation, "test": data.test or data.validation}[part]
        where = file or f"{data.path}, of which {data.validation_fraction:.0%} is held out"
        raise DataError(f"{where}: is too short for {part}: {error}") from None
