"""The settings that every task has, as plain data; a task adds its own data settings and its default model."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from glassformer.layers.config import LARGEST_WHOLE, Config, Count, Fraction, Positive, Probability, Size, setting
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

    path: FilePath = setting("", "Training data: a file, a folder, or the name of built-in data.", "notes.txt")
    validation: FilePath = setting("", "Validation data; if empty, a part of the training data.", "valid.txt")
    test: FilePath = setting("", "Test data, evaluated once at the end; if empty, the validation data is.", "test.txt")
    validation_fraction: Fraction = setting(0.02, "Fraction of the training data that is held out for validation.", 0.1)


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings(Config):
    """A tokenizer to train on the data, or the file of one that exists."""

    kind: TokenizerKind = setting("bpe", "Kind of tokenizer to train on the data.", "characters")
    vocab_size: Size = setting(2000, "Most tokens of the tokenizer to train.", 1000)
    lowercase: bool = setting(False, "Whether text is lowercased first.")
    file: FilePath = setting(
        "", "A tokenizer to read instead: tokenizer.json, a SentencePiece model or vocab.txt.", "tokenizer.json"
    )


@dataclass(frozen=True, kw_only=True)
class RunSettings(Config):
    """What to start from, and how a run computes; except for `init`, `vectors`, `freeze`, results differ by rounding.

    `vectors` is a file of word vectors for the token embeddings of a fresh model. `freeze` names the parameters that
    stay as `init` or `vectors` has them, by patterns such as "embedding, blocks.0".
    """

    init: FilePath = setting("", "Model to start from (fine-tuning); its shape and tokenizer are kept.", "runs/gpt-1")
    vectors: FilePath = setting(
        "", "Word vectors that the token embeddings start from: GloVe, fastText or word2vec.", "glove.6B.100d.txt"
    )
    freeze: str = setting(
        "", "Parameters that stay as they start, by patterns of their names; embedding, say.", "embedding, blocks.0"
    )
    device: str = setting(
        "auto", "Where to compute: auto, cpu, cuda or cuda:1; auto takes a GPU if there is one.", "cpu"
    )
    precision: Literal["auto", "float32", "bfloat16", "float8"] = setting(
        "auto",
        "Precision of the computation; float8 is for linear layers, auto is bfloat16 where that is fast.",
        "float32",
    )
    compile: Literal["auto", "yes", "no"] = setting(
        "auto", "Whether the model is compiled; auto compiles long runs on a GPU.", "no"
    )
    activation_checkpointing: bool = setting(
        False, "Whether activations of blocks are recomputed in the backward pass: less memory, more time."
    )
    strategy: Literal["ddp", "fsdp"] = setting(
        "ddp", "What several processes share: ddp copies the weights, fsdp shards them."
    )
    keep_checkpoints: CheckpointCount = setting(2, "Newest checkpoints to keep, besides the best.", 5)


@dataclass(frozen=True, kw_only=True)
class LoRASettings(Config):
    """Fine-tune low-rank updates of linear layers beside frozen weights (LoRA: Hu et al., 2021).

    `rank` is that of the updates, 0 for none; each is multiplied by `alpha` / `rank`. `dropout` is for their inputs.
    `targets` are patterns for the names of linear layers. Parameters that match `modules_to_save` are trained in full;
    a head that the model to start from does not have is always among them. The run ends with a merged model, or with
    an adapter in PEFT's format (`save`).
    """

    rank: Count = setting(0, "Rank of the low-rank updates; 0 trains without LoRA.", 8)
    alpha: Positive = setting(16.0, "Scale of the updates: each is multiplied by alpha / rank.", 32.0)
    dropout: Probability = setting(0.0, "Dropout on the inputs of the updates.", 0.1)
    targets: str = setting(
        "*attention", "Linear layers that get an update, by patterns of their names.", "*query, *value"
    )
    modules_to_save: str = setting("", "Parameters trained in full beside the updates, by patterns.", "embedding")
    save: Literal["merged", "adapter"] = setting(
        "merged", "A merged model at the end, or an adapter for PEFT.", "adapter"
    )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a run; the model's vocabulary and classes follow from the data."""

    data: DataSettings
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: Config
    recipe: Recipe = Recipe()
    lora: LoRASettings = LoRASettings()
    run: RunSettings = RunSettings()
