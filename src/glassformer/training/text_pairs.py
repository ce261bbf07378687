"""What the tasks on pairs of texts share: settings, batches, and an evaluation of the texts that a model writes."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from glassformer.data.files import TextPair, read_pairs
from glassformer.data.hints import pair_hints
from glassformer.data.packed_pairs import PackedPairBatches
from glassformer.data.padded_batches import PairBatches
from glassformer.data.splitting import split
from glassformer.decoding.config import GenerationConfig
from glassformer.errors import ConfigError, DataError
from glassformer.layers.config import Config, Size, setting
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.model import Model
from glassformer.layers.packing import PackedPairs
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.text.tokenizer import Tokenizer
from glassformer.training import task
from glassformer.training.device import Device
from glassformer.training.objective import Objective
from glassformer.training.recipe import TINY_RECIPE, Recipe
from glassformer.training.settings import DataSettings, FilePath, Settings
from glassformer.training.task import DataContext, EvaluatedModel, EvaluationSet, Metrics, Predictions, Task, TaskData

NEXT_TARGET_TOKEN = Objective(inputs=("source", "target", "attention_mask"), targets="targets", packing=PackedPairs)
TEXTS_AT_ONCE = 256  # generated together
BEST_TEXT = GenerationConfig(length_penalty=1.0)
TwoTexts = tuple[str, str]
Split = tuple[list[TwoTexts], list[TwoTexts], list[TwoTexts]]  # training, validation and test pairs


@dataclass(frozen=True, kw_only=True)
class GeneratedData(DataSettings):
    """Data of models that read a text and write another; test data is written by beam search with `num_beams`."""

    num_beams: Size = setting(4, "Beams of the search that writes texts for the test data.", 1)
    max_length: Size = setting(128, "Tokens of a text from which its pair is left out.", 64)
    tokens_per_batch: Size = setting(2048, "Tokens in a batch, padding included.", 1024)
    packing: Literal["auto", "yes", "no"] = setting(
        "auto", "Whether pairs share rows of one length, without padding; auto packs on a GPU in bfloat16.", "no"
    )


@dataclass(frozen=True, kw_only=True)
class TwoSidedData(GeneratedData):
    """Pairs of texts: a .tsv, .jsonl or .parquet file, or two files line by line."""

    target_path: FilePath = setting("", "Target texts, line by line, if the pairs are in two files.", "train.de")
    validation_target_path: FilePath = setting(
        "", "Target texts of the validation data, if it is in two files.", "valid.de"
    )
    test_target_path: FilePath = setting("", "Target texts of the test data, if it is in two files.", "test.de")
    fields: tuple[str, str] = setting(
        ("source", "target"), "Fields or columns that hold the source and the target.", ("en", "de")
    )


@dataclass(frozen=True, kw_only=True)
class PairSettings(Settings):
    """An encoder-decoder on pairs of texts."""

    data: GeneratedData
    recipe: Recipe = TINY_RECIPE
    model: Config = Seq2SeqConfig(dim=128, layers=2, heads=4, ffn_dim=512, context=256, norm_first=True)


P = TypeVar("P", bound=PairSettings)


@dataclass(frozen=True)
class PairSet(EvaluationSet):
    """Pairs of texts as token ids and as text, and how texts are written for their sources."""

    batches: PairBatches
    pairs: Sequence[TwoTexts]
    tokenizer: Tokenizer
    generation: GenerationConfig = BEST_TEXT
    batch_size: int | None = None  # texts generated together

    written = "text"  # what the model writes
    as_long_as_sources = False  # whether texts are about as long as their sources, as translations are

    def require_packages(self) -> None:
        """Raise if a package that the metrics need is missing."""

    @abstractmethod
    def metrics(self, found: Predictions, texts: Sequence[str]) -> Metrics:
        """The metrics of the texts that a model wrote, and of its predictions on the references."""

    def evaluate(
        self,
        model: Model,
        generate: task.Generate,
        progress: task.Progress = task.silent,
        record: task.Record | None = None,
    ) -> Metrics:
        """Loss on the references, and scores of texts at most twice as long as the longest."""
        self.require_packages()  # before the work, not after it
        found = task.predict(model, self.batches, NEXT_TARGET_TOKEN, progress)
        compared = self.batches.pairs if self.as_long_as_sources else [((), target) for _, target in self.batches.pairs]
        longest = 2 * max(max(len(source), len(target) + 1) for source, target in compared)
        config = replace(self.generation, max_new_tokens=min(longest, model.config.context or longest))
        sources = [source for source, _ in self.pairs]
        size = self.batch_size or TEXTS_AT_ONCE
        portions = [sources[at : at + size] for at in range(0, len(sources), size)]
        following = progress(iter(portions), f"of {len(portions):,} portions of {self.written}s written")
        texts = [text.text for part in following for text in generate(model, self.tokenizer, part, config)]
        if record is not None:
            for pair, text, of_pair in zip(self.pairs, texts, found.by_example(), strict=True):
                record({"source": pair[0], "reference": pair[1], self.written: text, "loss": of_pair.loss})
        return self.metrics(found, texts)


class PairTask(Task[P]):
    """Train an encoder-decoder on pairs of texts; `pair_set` evaluates what it writes."""

    protocol = EncoderDecoder
    objective = NEXT_TARGET_TOKEN
    always_split = True
    pair_set: type[PairSet]

    @abstractmethod
    def built_in_split(self, seed: int) -> Split:
        """The pairs of the built-in data for training, validation and test."""

    @abstractmethod
    def read(self, settings: P, part: task.Part) -> Iterator[TextPair]:
        """The pairs of a part of the data; the built-in data is split by `built_in_split` instead."""

    def hints(self, train: Sequence[TwoTexts], validation: Sequence[TwoTexts]) -> Iterator[str]:
        """What is odd about the data, one sentence each."""
        return pair_hints(train, validation)

    def generation(self, data: GeneratedData) -> GenerationConfig:
        """How test data is written."""
        return replace(BEST_TEXT, num_beams=data.num_beams)

    def decided(self, settings: P, device: Device, report: task.Report) -> P:
        """The settings with `data.packing` set to yes where pairs are packed: on a GPU, whose kernels know how to."""
        asked, can = settings.data.packing, isinstance(settings.model, Seq2SeqConfig)
        if asked == "yes" and not can:
            wanted = "wanted no: positions enter attention in this family, one text to a row"
            raise ConfigError(f"data.packing is yes for a model that cannot read packed pairs, {wanted}")
        if asked != "auto" or device.device.type == "cpu":
            return settings
        if can and device.bf16:
            return replace(settings, data=replace(settings.data, packing="yes"))
        why = "run.precision is not bfloat16" if can else "this model family cannot read packed pairs"
        report(f"pairs are padded, not packed, which is slower: {why}")
        return settings

    def _pairs(self, settings: P, part: task.Part) -> list[TwoTexts]:
        return [(pair.first, pair.second) for pair in self.read(settings, part)]

    def split(self, settings: P) -> Split:
        """Pairs for training, validation and test; without test data, those for validation."""
        data, seed = settings.data, settings.recipe.seed
        test: list[TwoTexts] = []
        if data.path == self.built_in:
            train, validation, test = self.built_in_split(seed)
        else:
            train, validation = self._pairs(settings, "path"), []
            if not data.validation:
                task.require_two(data.path, len(set(train)), "different pairs")
                train, validation = split(train, data.validation_fraction, seed)
        if data.validation:
            validation, test = self._pairs(settings, "validation"), []
        return train, validation, self._pairs(settings, "test") if data.test else test or validation

    def prepare(self, settings: P, context: DataContext) -> TaskData:
        """Split the pairs, encode them, and leave out those that are too long."""
        data, seed = settings.data, settings.recipe.seed
        task.require_context(settings.model, "data.max_length", data.max_length)
        train, validation, test = self.split(settings)
        for hint in self.hints(train, validation) if data.path != self.built_in else ():
            context.report(hint)
        tokenizer = context.tokenizer(settings.tokenizer, lambda: (side for pair in train for side in pair))

        def made(pairs: Sequence[TwoTexts], name: str) -> tuple[PairBatches, list[TwoTexts]]:
            """Batches of the pairs that are not too long, and these pairs; only those for training are packed."""
            ids, fits = encode_pairs(tokenizer, pairs), range(1, data.max_length)
            kept = [at for at, (source, target) in enumerate(ids) if len(source) in fits and len(target) in fits]
            if left_out := len(pairs) - len(kept):
                limit = f"without tokens, or with data.max_length ({data.max_length}) or more"
                context.report(f"{left_out} of {len(pairs)} {name} pairs are left out: {limit}")
            shard, rows = context.shard(len(kept), name, "pairs"), [ids[at] for at in kept]
            kind = PackedPairBatches if data.packing == "yes" and name == "training" else PairBatches
            batches = pair_batches(tokenizer, rows, data.tokens_per_batch, seed, *shard, kind=kind)
            return batches, [pairs[at] for at in kept]

        batches, pairs = made(validation, "validation")
        test_batches = batches
        if test is not validation or context.process_group.world_size > 1:
            test_batches, pairs = made(test, "test")
        test_set = self.pair_set(test_batches, pairs, tokenizer, self.generation(data))
        return TaskData(tokenizer, made(train, "training")[0], batches, test_set)

    def evaluation_set(self, evaluated: EvaluatedModel, settings: P) -> PairSet:
        """All pairs; one that is longer than the model can read is an error."""
        data, context = settings.data, evaluated.model.config.context
        if data.path == self.built_in:
            held_out = self.built_in_split(settings.recipe.seed)
            pairs = held_out[2] or held_out[1]
            rows = [TextPair(*pair, f"{self.built_in}:{number}") for number, pair in enumerate(pairs, start=1)]
        else:
            rows = list(self.read(settings, "path"))
        pairs = [(row.first, row.second) for row in rows]
        ids = encode_pairs(evaluated.required_tokenizer(), pairs)
        lengths = [max(len(source), len(target) + 1) for source, target in ids]
        longest = max(lengths, default=0)
        if context is not None and longest > context:
            where = rows[lengths.index(longest)].source
            raise DataError(f"{where}: has {longest} tokens, wanted at most {context}, the model's context")
        size = evaluated.batch_size
        tokens = max(longest, evaluated.tokens_at_once) if size is None else size * longest
        batches = pair_batches(evaluated.required_tokenizer(), ids, tokens)
        return self.pair_set(batches, pairs, evaluated.required_tokenizer(), self.generation(data), size)


def read_two_sided(data: TwoSidedData, part: task.Part) -> Iterator[TextPair]:
    """The pairs of a part of the data, in one file or in two."""
    second = {"path": data.target_path, "validation": data.validation_target_path, "test": data.test_target_path}
    return read_pairs(vars(data)[part], second[part] or None, data.fields)


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
    kind: type[PairBatches] = PairBatches,
) -> PairBatches:
    """Batches of encoded pairs with the special tokens of a tokenizer."""
    pad, eos = tokenizer.required("pad"), tokenizer.required("eos")
    return kind(ids, tokens_per_batch, pad, tokenizer.decoder_start, eos, seed, rank, world)
