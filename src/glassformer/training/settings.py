"""Everything one decides before a run, as plain data: what to learn from, with which model, and how.

Data held out is in files of its own (`validation`), or a `validation_fraction` of the data. What `test` names is
looked at once, at the end, by a beam search over `num_beams` translations where it is pairs.
"""

from dataclasses import dataclass
from typing import Literal

from glassformer.models.encoder import EncoderConfig
from glassformer.models.gpt import GPTConfig
from glassformer.models.llama import LlamaConfig
from glassformer.models.modern import ModernConfig
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.models.t5 import T5Config
from glassformer.text.learn_tokenizer import TokenizerKind
from glassformer.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class PairData:
    """Sentence pairs: a .tsv, .jsonl or .parquet file, two files line by line, or the built-in phrasebook.

    `extra` is learnt from as well, `extra_times` over: a file, or the built-in courtesies.
    """

    path: str = "phrasebook"
    target_path: str = ""
    extra: str = ""
    extra_times: int = 1
    validation: str = ""
    validation_target_path: str = ""
    test: str = ""
    test_target_path: str = ""
    num_beams: int = 4
    validation_fraction: float = 0.02
    fields: tuple[str, str] = ("source", "target")
    max_length: int = 128
    tokens_per_batch: int = 4096


@dataclass(frozen=True, kw_only=True)
class TextData:
    """Running text: a .txt, .jsonl or .parquet file, a folder of .txt files, or the built-in stdlib."""

    path: str = "stdlib"
    validation: str = ""
    test: str = ""
    validation_fraction: float = 0.02
    field: str = "text"
    batch_size: int = 32
    sequence_length: int = 128


@dataclass(frozen=True, kw_only=True)
class LabelledData:
    """Texts with their classes: a .tsv, .jsonl or .parquet file, or the built-in stdlib."""

    path: str = "stdlib"
    validation: str = ""
    test: str = ""
    validation_fraction: float = 0.1
    fields: tuple[str, str] = ("label", "text")
    max_length: int = 128
    batch_size: int = 64


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """A tokenizer to learn from the data, or the file of one that exists."""

    kind: TokenizerKind = "bpe"
    vocab_size: int = 8000
    lowercase: bool = False
    file: str = ""


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Where to start and how the arithmetic is done; but for `init`, results differ by rounding at most."""

    init: str = ""
    device: str = "auto"
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    compile: Literal["auto", "yes", "no"] = "auto"
    strategy: Literal["ddp", "fsdp"] = "ddp"
    keep_checkpoints: int = 2


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What all tasks have; each adds its data and its model, whose vocabulary and classes follow from the data."""

    data: PairData | TextData | LabelledData
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: Seq2SeqConfig | T5Config | GPTConfig | LlamaConfig | ModernConfig | EncoderConfig
    recipe: Recipe = Recipe()
    run: RunSettings = RunSettings()


@dataclass(frozen=True, kw_only=True)
class TranslateSettings(Settings):
    """A translator from sentence pairs."""

    data: PairData = PairData()
    model: Seq2SeqConfig | T5Config = Seq2SeqConfig(
        dim=128, layers=2, heads=4, ffn_dim=512, context=256, norm_first=True
    )


@dataclass(frozen=True, kw_only=True)
class GPTSettings(Settings):
    """A language model from running text."""

    data: TextData = TextData()
    model: GPTConfig | LlamaConfig | ModernConfig = GPTConfig(dim=128, layers=4, heads=4, context=128)


@dataclass(frozen=True, kw_only=True)
class MaskedSettings(Settings):
    """An encoder that fills in hidden tokens, from running text."""

    data: TextData = TextData()
    model: EncoderConfig = EncoderConfig(head="masked", dim=128, layers=4, heads=4, ffn_dim=512, context=128)


@dataclass(frozen=True, kw_only=True)
class ClassifySettings(Settings):
    """An encoder that tells classes of text apart."""

    data: LabelledData = LabelledData()
    model: EncoderConfig = EncoderConfig(head="classifier", dim=128, layers=2, heads=4, ffn_dim=512, context=128)


TASKS: dict[str, type[Settings]] = {
    "translate": TranslateSettings,
    "gpt": GPTSettings,
    "masked": MaskedSettings,
    "classify": ClassifySettings,
}
