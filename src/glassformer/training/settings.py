"""The settings that every task has, as plain data; a task adds its own data settings and its default model."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from glassformer.layers.config import LARGEST_WHOLE, Config, Count, Fraction, Positive, Probability, Size
from glassformer.text.tokenizer import TokenizerKind
from glassformer.training.recipe import Recipe

FilePath = Annotated[str, Meta(title="a file or a folder")]
CheckpointCount = Annotated[int, Meta(ge=2, le=LARGEST_WHOLE)]  # one checkpoint may turn out broken


@dataclass(frozen=True, kw_only=True)
class DataSettings(Config):
    """Training data, and the data it is evaluated on.

    Validation data is in a separate file (`validation`), or a `validation_fraction` of the training data. Test data
    is evaluated once, at the end of a run; without it, validation data is.
    """

    path: FilePath
    validation: FilePath = ""
    test: FilePath = ""
    validation_fraction: Fraction = 0.02


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings(Config):
    """A tokenizer to train on the data, or the file of one that exists."""

    kind: TokenizerKind = "bpe"
    vocab_size: Size = 8000
    lowercase: bool = False
    file: FilePath = ""


@dataclass(frozen=True, kw_only=True)
class RunSettings(Config):
    """The model to start from, and how a run computes; except for `init` and `freeze`, results differ by rounding.

    `freeze` names the parameters that stay as `init` has them, by patterns such as "embedding, blocks.0".
    """

    init: FilePath = ""
    freeze: str = ""
    device: str = "auto"
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    compile: Literal["auto", "yes", "no"] = "auto"
    strategy: Literal["ddp", "fsdp"] = "ddp"
    keep_checkpoints: CheckpointCount = 2


@dataclass(frozen=True, kw_only=True)
class LoRASettings(Config):
    """Fine-tune low-rank updates of linear layers beside frozen weights (LoRA: Hu et al., 2021).

    `rank` is that of the updates, 0 for none; each is multiplied by `alpha` / `rank`. `dropout` is for their inputs.
    `targets` are patterns for the names of linear layers. Parameters that match `modules_to_save` are trained in full;
    a head that the model to start from does not have is always among them. The run ends with a merged model, or with
    an adapter in PEFT's format (`save`).
    """

    rank: Count = 0
    alpha: Positive = 16.0
    dropout: Probability = 0.0
    targets: str = "*attention"
    modules_to_save: str = ""
    save: Literal["merged", "adapter"] = "merged"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a run; the model's vocabulary and classes follow from the data."""

    data: DataSettings
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: Config
    recipe: Recipe = Recipe()
    lora: LoRASettings = LoRASettings()
    run: RunSettings = RunSettings()
