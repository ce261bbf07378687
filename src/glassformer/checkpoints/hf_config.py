"""Read a Hugging Face config.json strictly: every field by name and type, and an unknown field is an error."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import TypeVar

from glassformer.errors import CheckpointError, ConfigError
from glassformer.layers.config import MOST_LAYERS, Config, Size, as_declared

T = TypeVar("T")

MOST_WIDTH = 2**20
MOST_TOKENS = 10_000_000
MOST_POSITIONS = 2**27

# Fields without effect on a forward pass, kept as data; many are notes of the program that wrote the file.
HARMLESS = {
    "_num_labels", "_commit_hash", "_attn_implementation_autoset", "_from_auto", "xla_device",
    "unsloth_version", "unsloth_fixed", "is_llama_config", "max_sequence_length", "save_step", "author",
    "force_bos_token_to_be_generated", "max_new_tokens", "predict_special_tokens", "n_special", "model_max_length",
    "_name_or_path", "architectures", "transformers_version", "torch_dtype", "dtype", "return_dict",
    "output_hidden_states", "output_attentions", "output_past", "use_cache", "chunk_size_feed_forward", "torchscript",
    "use_bfloat16", "problem_type", "initializer_range", "initializer_factor", "init_std", "gradient_checkpointing",
    "finetuning_task", "task_specific_params", "prefix", "tokenizer_class", "label2id", "num_labels", "bos_token_id",
    "eos_token_id", "eos_token_ids", "pad_token_id", "sep_token_id", "unk_token_id", "decoder_start_token_id",
    "forced_bos_token_id", "forced_eos_token_id", "is_encoder_decoder", "attention_dropout", "activation_dropout",
    "classifier_dropout", "classifier_dropout_prob", "attention_probs_dropout_prob", "attn_pdrop", "embd_pdrop",
    "seq_classif_dropout", "qa_dropout", "classif_dropout", "summary_type", "summary_use_proj", "summary_activation",
    "summary_proj_to_labels", "summary_first_dropout", "encoder_layerdrop", "decoder_layerdrop", "max_length",
    "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty", "temperature",
    "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "output_scores",
    "return_dict_in_generate", "remove_invalid_values", "suppress_tokens", "begin_suppress_tokens",
    "exponential_decay_length_penalty", "cross_attention_hidden_size",
}  # fmt: skip


def require_sane(config: Config, tensors: int, where: str) -> None:
    """Refuse absurd sizes, and more layers than the file has tensors, before anything is built from them."""
    for name, value in _whole_numbers(config):
        most = MOST_POSITIONS
        if name.endswith("layers"):
            most = MOST_LAYERS if vars(config).get("share_layers") else min(tensors, MOST_LAYERS)
        if not 0 <= value <= most:
            raise CheckpointError(f"{where}: {name} is {value}, wanted at most {most} beside {tensors} tensors")


def _whole_numbers(value: object, name: str = "") -> Iterator[tuple[str, int]]:
    """Every whole number in a configuration, with its field."""
    if type(value) is int:
        yield name, value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _whole_numbers(item, name)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _whole_numbers(vars(value)[field.name], field.name)


class HFConfig:
    """The fields of a config.json; `where` is what errors name."""

    def __init__(self, table: Mapping[str, object], where: str, synonyms: Mapping[str, str] | None = None) -> None:
        self._table = dict(table)
        for other, name in (synonyms or {}).items():
            if other in self._table:
                value = self._table.pop(other)
                if self._table.setdefault(name, value) != value:
                    raise CheckpointError(f"{where}: {other} is {value!r}, but {name} is {self._table[name]!r}")
        self._asked: set[str] = set()
        self.where = where

    def __contains__(self, name: str) -> bool:
        return name in self._table

    def get(self, name: str, kind: object, *default: object) -> object:
        """A field of this type and range, required unless it has a default; null is a value too."""
        value = self._ask(name, *default)
        try:
            return as_declared(name, value, kind)
        except ConfigError as error:
            raise CheckpointError(f"{self.where}: {error}") from None

    def whole(self, name: str, default: int, kind: object = Size) -> int:
        """A whole number."""
        value = self.get(name, kind, default)
        assert isinstance(value, int)
        return value

    def word(self, name: str, meanings: Mapping[str, T], *default: object) -> T:
        """The meaning of one of several words."""
        value = self._ask(name, *default)
        if not isinstance(value, str) or value not in meanings:
            raise self._wrong(name, value, " or ".join(meanings))
        return meanings[value]

    def table(self, name: str) -> "HFConfig | None":
        """A table inside the table, or None where it is null, empty or missing."""
        value = self._ask(name, None)
        if value is None or value == {}:
            return None
        if not isinstance(value, dict):
            raise self._wrong(name, value, "a table")
        return HFConfig(value, f"{self.where}: {name}")

    def strings(self, name: str) -> list[str]:
        """A list of strings, empty where it is null or missing."""
        value = self._ask(name, None) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(name, value, "a list of strings")
        return value

    def must(self, name: str, *allowed: object) -> None:
        """Raise unless a field is missing or has a value that changes nothing."""
        value = self._ask(name, allowed[0])
        if not any(value == item and type(value) is type(item) for item in allowed):
            raise self._wrong(name, value, " or ".join(map(repr, allowed)) + ", the only one this version supports")

    def classes(self) -> int:
        """The number of classes, by their names or by their count."""
        names = self.labels()
        count = self.whole("num_labels", 2 if names is None else len(names))
        if names is not None and count != len(names):
            raise self._wrong("num_labels", count, f"{len(names)}, as many as id2label has")
        return count

    def labels(self) -> tuple[str, ...] | None:
        """The names of the classes in order; None where there are none."""
        value = self._ask("id2label", None)
        if value is None:
            return None
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value.values()):
            raise self._wrong("id2label", value, "a table from numbers to names")
        if set(value) != {str(i) for i in range(len(value))}:
            raise self._wrong("id2label", list(value)[:5], "the numbers from 0 on")
        return tuple(value[str(i)] for i in range(len(value)))

    def rest(self, harmless: Collection[str] = ()) -> dict[str, object]:
        """The fields that were not asked for and change no number; any other is an error that names it."""
        known = {*HARMLESS, *harmless, *self._asked}
        for name, value in sorted(self._table.items()):
            off = value is None or value is False or value in ({}, [])
            if name not in known and not off:
                field = f"the field {name[:80]!r}, here {repr(value)[:60]}"
                remedy = "remove it if it changes no number of the model"
                raise CheckpointError(f"{self.where}: {field}, is not one this version supports; {remedy}")
        return {name: value for name, value in self._table.items() if name not in self._asked}

    def _wrong(self, name: str, value: object, wanted: str) -> CheckpointError:
        shown = repr(value)
        return CheckpointError(f"{self.where}: {name} is {shown[:60]}{'…' * (len(shown) > 60)}, wanted {wanted}")

    def _ask(self, name: str, *default: object) -> object:
        self._asked.add(name)
        if name not in self._table and not default:
            raise CheckpointError(f"{self.where}: the field {name} is missing")
        return self._table.get(name, *default)
