"""Public config.json files made small, and what transformers and we make of one and the same folder."""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from torch import Tensor, nn

from glassformer.checkpoints.load import load
from glassformer.models.encoder import EncoderConfig
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.models.t5 import T5Config

transformers.logging.disable_progress_bar()
transformers.logging.set_verbosity_error()

PUBLISHED: dict[str, dict[str, object]] = json.loads(Path(__file__).with_name("published_configs.json").read_text())
VOCAB, LENGTH = 29, 7
IDS = torch.randint(5, 24, (2, LENGTH), generator=torch.Generator().manual_seed(3))
_LLAMA = {
    "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 4,
    "max_position_embeddings": 32, "sliding_window": 3, "max_window_layers": 2,
}  # fmt: skip
_BERT = {
    "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20,
    "max_position_embeddings": 16, "embedding_size": 6,
}  # fmt: skip
_SEQ2SEQ = {
    "d_model": 12, "encoder_layers": 2, "decoder_layers": 2, "num_hidden_layers": 2, "encoder_attention_heads": 3,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "max_position_embeddings": 16,
    "decoder_vocab_size": VOCAB,
}  # fmt: skip
SMALL: dict[str, dict[str, object]] = {
    "gpt2": {"n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 16, "n_ctx": 16},
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": _LLAMA,
    "bert": _BERT,
    "roberta": _BERT,
    "albert": _BERT,
    "distilbert": {"dim": 12, "n_layers": 2, "n_heads": 3, "hidden_dim": 20, "max_position_embeddings": 16},
    "t5": {"d_model": 12, "d_ff": 20, "d_kv": 5, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 3},
    "marian": _SEQ2SEQ,
    "bart": _SEQ2SEQ,
}


def shrunk(published: Mapping[str, object]) -> dict[str, object]:
    """The same fields with small shapes; token ids stay inside the vocabulary, and grouped queries stay grouped."""
    small = SMALL[str(published["model_type"])] | {"vocab_size": VOCAB}
    table = {name: small[name] if name in small and value is not None else value for name, value in published.items()}
    for name, value in table.items():
        if name.endswith("_token_id") and isinstance(value, int):
            table[name] = min(value, VOCAB - 1)
    if "num_key_value_heads" in table:
        grouped = published["num_key_value_heads"] != published["num_attention_heads"]
        table["num_key_value_heads"] = 2 if grouped else 4
    if isinstance(table.get("rope_scaling"), dict):
        table["rope_scaling"] = {**published["rope_scaling"], "original_max_position_embeddings": 8}
    return table


def kind_of(table: Mapping[str, object]) -> type:
    """Their class for a config.json."""
    return getattr(transformers, table["architectures"][0])


def stored(table: Mapping[str, object], folder: Path) -> nn.Module:
    """A model that transformers makes of the fields, every parameter moved, with these very fields beside it."""
    kind = kind_of(table)
    torch.manual_seed(0)
    model = kind(kind.config_class(**copy.deepcopy(dict(table)))).eval()  # which writes into tables inside the table
    if table["model_type"] == "t5" and table.get("tie_word_embeddings") is False:  # tied here, whatever the file says
        model.lm_head.weight = nn.Parameter(model.lm_head.weight.clone())
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if "embed_positions" not in name or table["model_type"] != "marian":
                tensor.add_(0.1 * torch.randn_like(tensor))
    model.save_pretrained(folder)
    write_fields(folder, table)
    return model


def write_fields(folder: Path, table: Mapping[str, object]) -> None:
    (folder / "config.json").write_text(json.dumps(table))


@dataclass
class Outputs:
    """What came out, and the labels."""

    values: Tensor
    labels: list[str] | None = None


def of_theirs(model: nn.Module, ids: Tensor = IDS) -> Outputs:
    """Logits, else the pooled row, else the rows, as transformers gives them."""
    sides = {"input_ids": ids}
    if model.config.is_encoder_decoder:
        sides["decoder_input_ids"] = ids[:, :4]
    with torch.no_grad():
        out = model(**sides)
    values = next(out[key] for key in ("logits", "pooler_output", "last_hidden_state") if out.get(key) is not None)
    return Outputs(values, list((model.config.id2label or {}).values()))


def of_ours(folder: Path, ids: Tensor = IDS) -> Outputs:
    """The same as we give them."""
    loaded = load(folder)
    config = loaded.model.config
    with torch.no_grad():
        if isinstance(config, (Seq2SeqConfig, T5Config)):
            return Outputs(loaded.model(ids, ids[:, :4]))
        values = loaded.model(ids)
    classes = isinstance(config, EncoderConfig) and config.head == "classifier"
    return Outputs(values, list(loaded.labels) if classes and loaded.labels else None)
