"""Public config.json files as they are published, shapes made small: we load them and agree with transformers.

A missing field means what it means in transformers, a null the same or nothing, and what it cannot run we refuse.
"""

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from glassformer.errors import GlassformerError

transformers = pytest.importorskip("transformers", reason="parity needs transformers")

from tests.parity.small import PUBLISHED, kind_of, of_ours, of_theirs, shrunk, stored, write_fields  # noqa: E402

WHOLE = {"BartModel": "BartForConditionalGeneration"}  # published without the head that everybody uses it with


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_fields_load_and_agree(name: str, tmp_path: Path) -> None:
    table = shrunk(PUBLISHED[name])
    theirs = stored(table, tmp_path)
    if whole := WHOLE.get(table["architectures"][0]):
        theirs = getattr(transformers, whole).from_pretrained(tmp_path).eval()
    wanted, got = of_theirs(theirs), of_ours(tmp_path)
    assert_close(got.values, wanted.values, rtol=0, atol=1e-5)
    assert got.labels is None or got.labels == wanted.labels


def test_there_are_many_families_and_checkpoints() -> None:
    assert len(PUBLISHED) >= 25 and len({table["model_type"] for table in PUBLISHED.values()}) == 11


# Every field that a family reads; where the file allows it, with another value than a missing field has.
_LLAMA = {
    "vocab_size": 29, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-3, "tie_word_embeddings": False,
    "rope_theta": 5000.0, "hidden_act": "silu", "head_dim": 6,
}  # fmt: skip
_LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 2.0, "high_freq_factor": 5.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
_YARN = {
    "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 6.0, "beta_slow": 2.0,
    "rope_theta": 500.0,
}  # fmt: skip
_BERT = {
    "vocab_size": 29, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20,
    "max_position_embeddings": 16, "type_vocab_size": 3, "hidden_act": "relu", "layer_norm_eps": 1e-3,
    "tie_word_embeddings": True,
}  # fmt: skip
_SEQ2SEQ = {
    "vocab_size": 29, "d_model": 12, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 3,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "max_position_embeddings": 16,
    "activation_function": "relu", "scale_embedding": True, "pad_token_id": 1, "decoder_start_token_id": 2,
    "tie_word_embeddings": True,
}  # fmt: skip
CHOSEN: dict[str, dict[str, object]] = {
    "GPT2LMHeadModel": {
        "model_type": "gpt2", "vocab_size": 29, "n_positions": 16, "n_embd": 12, "n_layer": 2, "n_head": 3,
        "n_inner": 20, "activation_function": "relu", "layer_norm_epsilon": 1e-3, "tie_word_embeddings": True,
        "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "reorder_and_upcast_attn": False,
    },
    "LlamaForCausalLM": {
        "model_type": "llama", **_LLAMA, "rope_scaling": _LLAMA3, "attention_bias": True, "mlp_bias": True,
    },
    "MistralForCausalLM": {"model_type": "mistral", **_LLAMA, "sliding_window": 3},
    "Qwen2ForCausalLM": {
        "model_type": "qwen2", **_LLAMA, "rope_parameters": _YARN, "rope_theta": 500.0, "use_sliding_window": True,
        "sliding_window": 3, "max_window_layers": 0,
    },
    "BertForSequenceClassification": {"model_type": "bert", **_BERT, "num_labels": 3},
    "RobertaForMaskedLM": {"model_type": "roberta", **(_BERT | {"hidden_act": "gelu"}), "pad_token_id": 2},
    "AlbertForMaskedLM": {
        "model_type": "albert", **_BERT, "embedding_size": 6, "num_hidden_groups": 1, "inner_group_num": 1,
    },
    "DistilBertForMaskedLM": {
        "model_type": "distilbert", "vocab_size": 29, "dim": 12, "n_layers": 2, "n_heads": 3, "hidden_dim": 20,
        "max_position_embeddings": 16, "activation": "relu", "sinusoidal_pos_embds": False,
        "tie_word_embeddings": True,
    },
    "T5ForConditionalGeneration": {
        "model_type": "t5", "vocab_size": 29, "d_model": 12, "d_kv": 5, "d_ff": 20, "num_layers": 1,
        "num_decoder_layers": 2, "num_heads": 3, "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 5, "layer_norm_epsilon": 1e-3, "feed_forward_proj": "gated-gelu",
        "scale_decoder_outputs": False,
    },
    "MarianMTModel": {"model_type": "marian", **_SEQ2SEQ, "share_encoder_decoder_embeddings": True},
    "BartForConditionalGeneration": {"model_type": "bart", **_SEQ2SEQ},
}  # fmt: skip


def changed(table: dict[str, object]) -> Iterator[tuple[str, dict[str, object]]]:
    """The fields with each one missing and with each one null, in tables inside the table too."""
    for name, value in table.items():
        tokens = name.endswith("_token_id") and table["model_type"] != "roberta"  # no number depends on them
        if name in ("architectures", "model_type") or tokens:
            continue
        rest = {key: item for key, item in table.items() if key != name}
        yield f"without {name}", rest
        yield f"{name} is null", {**rest, name: None}
        if isinstance(value, dict):
            for words, inner in changed(value):
                yield f"{name}: {words}", {**rest, name: inner}


def kept(model: nn.Module) -> dict[str, Tensor]:
    """The tensors that a file holds: Marian's waves are worked out."""
    waves = "embed_positions" if model.config.model_type == "marian" else "\0"
    return {name: tensor for name, tensor in model.state_dict().items() if waves not in name}


def as_transformers(table: dict[str, object], state: dict[str, Tensor]) -> Tensor | None:
    """What comes out there, or None where the fields or the file are refused."""
    kind = kind_of(table)
    try:
        config = kind.config_class(**copy.deepcopy(table))
        with torch.device("meta"):
            shapes = {name: tensor.shape for name, tensor in kept(kind(config)).items()}
        if shapes != {name: tensor.shape for name, tensor in state.items()}:
            return None
        model: nn.Module = kind(config)
        model.load_state_dict(state, strict=False)
        return of_theirs(model.eval()).values
    except Exception:  # each of their classes raises errors of another kind
        return None


@pytest.mark.parametrize("kind", CHOSEN)
def test_missing_and_null_fields_mean_what_they_mean_in_transformers(kind: str, tmp_path: Path) -> None:
    table = {**CHOSEN[kind], "architectures": [kind]}
    state = kept(stored(table, tmp_path))
    for words, fields in [("as it is", table), *changed(table)]:
        wanted = as_transformers(fields, state)
        write_fields(tmp_path, fields)
        try:
            got = of_ours(tmp_path).values
        except GlassformerError as error:
            assert wanted is None or words.endswith("is null"), f"{words}: {error}"
        else:
            assert wanted is not None, f"{words}: transformers refuses this"
            assert_close(got, wanted, rtol=0, atol=1e-5, msg=f"{words}: the two differ")


ROPES = [
    {"rope_scaling": {**_YARN, "beta_fast": 0, "beta_slow": 0}},
    {"rope_scaling": {**_YARN, "factor": None}},
    {"rope_scaling": {**_YARN, "mscale": 0.5}},
    {"rope_scaling": _YARN, "rope_parameters": {"rope_type": "linear", "factor": 2.0}},
    {"rope_scaling": {}, "rope_parameters": {"rope_type": "linear", "factor": 0.5}},
    {"rope_scaling": {"type": "linear", "factor": 2.0, "original_max_position_embeddings": 8, "beta_fast": 3.0}},
    {"rope_scaling": {"rope_type": "default", "factor": 2.0}},
    {"rope_scaling": _LLAMA3, "original_max_position_embeddings": 12},
]


@pytest.mark.parametrize("ropes", ROPES, ids=str)
def test_rotary_parameters_are_found_where_transformers_finds_them(ropes: dict[str, object], tmp_path: Path) -> None:
    fields = {name: value for name, value in _LLAMA.items() if name != "rope_theta"}
    table = {"model_type": "llama", **fields, **ropes, "architectures": ["LlamaForCausalLM"]}
    theirs = stored(table, tmp_path)
    assert_close(of_ours(tmp_path).values, of_theirs(theirs).values, rtol=0, atol=1e-5)
