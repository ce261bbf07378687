"""Our models against Hugging Face transformers: files in and out, random weights, every field we read."""

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from glassformer.checkpoints.load import load
from glassformer.checkpoints.save import save
from glassformer.equations.positions import sinusoidal_positions

transformers = pytest.importorskip("transformers", reason="parity needs transformers")

from glassformer.checkpoints.parity import InFloat64  # noqa: E402 - it imports transformers

transformers.logging.disable_progress_bar()
transformers.logging.set_verbosity_error()

IDS = torch.randint(2, 29, (2, 7), generator=torch.Generator().manual_seed(3))
KEEP = torch.tensor([[True] * 7, [True] * 5 + [False] * 2])
SEGMENTS = (torch.arange(7) > 3).long().expand(2, 7)
BOUNDS = {torch.float64: 1e-9, torch.float32: 1e-4}


def shaken(kind: str, config: object, **settings: bool) -> nn.Module:
    """One of their models with every parameter moved, so that none is zero or one, and tables in float64."""
    torch.manual_seed(0)
    with InFloat64():
        model = getattr(transformers, kind)(config, **settings)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if "embed_positions" not in name or "marian" not in model.config.model_type:
                tensor.add_(0.1 * torch.randn_like(tensor.double()))
    return model.double().eval()


def there_and_back(theirs: nn.Module, folder: Path) -> nn.Module:
    """Our model from their files, and their model from ours, equal to the bit."""
    theirs.save_pretrained(folder / "theirs")
    loaded = load(folder / "theirs")
    save(loaded.model, folder / "ours", format="hf", like=loaded.hf_model)
    again = type(theirs).from_pretrained(folder / "ours", dtype=torch.float64)
    before, after = theirs.state_dict(), again.state_dict()
    assert before.keys() == after.keys()
    waves = {name for name in before if "marian" in theirs.config.model_type and "embed_positions" in name}
    assert [name for name in before if name not in waves and not torch.equal(before[name], after[name])] == []
    return loaded.model


def assert_agrees(
    ours: nn.Module, theirs: nn.Module, mine: Mapping[str, Tensor], their: Mapping[str, Tensor], key: str = "logits"
) -> None:
    """Equal to 1e-9 in float64 and to 1e-4 in float32 wherever there is no padding."""
    for dtype, room in BOUNDS.items():
        with torch.no_grad(), InFloat64() if dtype == torch.float64 else nullcontext():
            wanted = getattr(theirs.to(dtype)(**their), key)
        with torch.no_grad():
            got = ours.to(dtype)(**mine)
        real = mine["attention_mask"] if "ids" in mine and "attention_mask" in mine and got.dim() == 3 else slice(None)
        assert_close(got[real], wanted[real], rtol=0, atol=room)


def causal(kind: str, config: object, folder: Path) -> None:
    theirs = shaken(kind, config)
    ours = there_and_back(theirs, folder)
    assert_agrees(ours, theirs, {"ids": IDS}, {"input_ids": IDS})


def translator(kind: str, config: object, folder: Path) -> None:
    theirs = shaken(kind, config)
    ours = there_and_back(theirs, folder)
    target = IDS[:, :4]
    if kind == "MarianMTModel":
        with_exact_waves(theirs)
    mine = {"source": IDS, "target": target, "attention_mask": KEEP}
    assert_agrees(ours, theirs, mine, {"input_ids": IDS, "decoder_input_ids": target, "attention_mask": KEEP.long()})


def with_exact_waves(theirs: nn.Module) -> None:
    """Their waves are a float32 table whatever the model's type."""
    for side in (theirs.model.encoder, theirs.model.decoder):
        table = side.embed_positions.weight
        waves = sinusoidal_positions(*table.shape, layout="halves", dtype=torch.float64)
        assert_close(table.data.double(), waves, rtol=0, atol=1e-6)
        table.data = waves


def encoder(kind: str, config: object, folder: Path, key: str = "logits", **settings: bool) -> None:
    theirs = shaken(kind, config, **settings)
    ours = there_and_back(theirs, folder) if not settings else bare(theirs, folder)
    mine, their = {"ids": IDS, "attention_mask": KEEP}, {"input_ids": IDS, "attention_mask": KEEP.long()}
    if getattr(config, "type_vocab_size", 1) > 1:
        mine["token_types"] = their["token_type_ids"] = SEGMENTS
    assert_agrees(ours, theirs, mine, their, key)


def bare(theirs: nn.Module, folder: Path) -> nn.Module:
    theirs.save_pretrained(folder)
    return load(folder).model


FEW = settings(max_examples=6, phases=[Phase.generate])
SCALINGS = [
    {"rope_type": "default"},
    {"rope_type": "linear", "factor": 2.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, "beta_fast": 16.0},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 8},
]  # fmt: skip
ACTIVATION = st.sampled_from(["gelu", "gelu_new", "relu", "silu", "swish", "gelu_pytorch_tanh"])
EPS = st.sampled_from([1e-12, 1e-5, 1e-3])


@FEW
@given(st.data(), st.booleans(), ACTIVATION, EPS, st.sampled_from([None, 20]))
def test_gpt2(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, tied: bool, activation: str, eps: float,
    inner: int | None,
) -> None:  # fmt: skip
    config = transformers.GPT2Config(
        vocab_size=29, n_positions=data.draw(st.integers(7, 16)), n_embd=12, n_layer=data.draw(st.integers(1, 2)),
        n_head=data.draw(st.sampled_from([1, 2, 3])), n_inner=inner, activation_function=activation,
        layer_norm_epsilon=eps, tie_word_embeddings=tied, bos_token_id=1, eos_token_id=1,
    )  # fmt: skip
    causal("GPT2LMHeadModel", config, tmp_path_factory.mktemp("gpt2"))


def llama_fields(data: st.DataObject) -> dict[str, object]:
    heads = data.draw(st.sampled_from([2, 4]))
    return {
        "vocab_size": 29, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2,
        "num_attention_heads": heads, "num_key_value_heads": data.draw(st.sampled_from([1, 2, heads])),
        "max_position_embeddings": 32,
        "head_dim": data.draw(st.sampled_from([4, 6])), "rms_norm_eps": data.draw(EPS),
        "tie_word_embeddings": data.draw(st.booleans()),
        "rope_parameters": {"rope_theta": 5000.0, **data.draw(st.sampled_from(SCALINGS))},
    }  # fmt: skip


@settings(max_examples=12, phases=[Phase.generate])
@given(st.data(), st.booleans(), st.booleans())
def test_llama(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, bias: bool, mlp_bias: bool) -> None:
    config = transformers.LlamaConfig(**llama_fields(data), attention_bias=bias, mlp_bias=mlp_bias)
    causal("LlamaForCausalLM", config, tmp_path_factory.mktemp("llama"))


@FEW
@given(st.data(), st.sampled_from([None, 1, 3]))
def test_mistral(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, window: int | None) -> None:
    config = transformers.MistralConfig(**llama_fields(data), sliding_window=window)
    causal("MistralForCausalLM", config, tmp_path_factory.mktemp("mistral"))


@FEW
@given(st.data(), st.booleans())
def test_qwen2(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, slides: bool) -> None:
    fields = llama_fields(data)
    del fields["head_dim"]  # always the width over the heads there
    config = transformers.Qwen2Config(
        **fields, use_sliding_window=slides, sliding_window=3, max_window_layers=0 if slides else 28
    )
    causal("Qwen2ForCausalLM", config, tmp_path_factory.mktemp("qwen2"))


BERT = {
    "vocab_size": 29, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20,
    "max_position_embeddings": 16, "num_labels": 3,
}  # fmt: skip
HEADS = ["Model", "ForMaskedLM", "ForSequenceClassification"]


@pytest.mark.parametrize("head", HEADS)
@FEW
@given(activation=ACTIVATION, eps=EPS, segments=st.integers(2, 3))
def test_bert(tmp_path_factory: pytest.TempPathFactory, head: str, activation: str, eps: float, segments: int) -> None:
    config = transformers.BertConfig(**BERT, hidden_act=activation, layer_norm_eps=eps, type_vocab_size=segments)
    key = "pooler_output" if head == "Model" else "logits"
    encoder(f"Bert{head}", config, tmp_path_factory.mktemp("bert"), key)


def test_bert_without_its_pooler(tmp_path: Path) -> None:
    config = transformers.BertConfig(**BERT)
    encoder("BertModel", config, tmp_path, "last_hidden_state", add_pooling_layer=False)


@pytest.mark.parametrize("head", HEADS)
@FEW
@given(activation=st.sampled_from(["gelu", "relu"]), eps=EPS, segments=st.integers(1, 2), pad=st.integers(0, 1))
def test_roberta(
    tmp_path_factory: pytest.TempPathFactory, head: str, activation: str, eps: float, segments: int, pad: int
) -> None:
    config = transformers.RobertaConfig(
        **BERT, hidden_act="gelu" if head == "ForMaskedLM" else activation, layer_norm_eps=eps,
        type_vocab_size=segments, pad_token_id=pad,
    )  # fmt: skip
    key = "pooler_output" if head == "Model" else "logits"
    encoder(f"Roberta{head}", config, tmp_path_factory.mktemp("roberta"), key)


@pytest.mark.parametrize("head", HEADS)
@FEW
@given(activation=ACTIVATION, eps=EPS, width=st.sampled_from([6, 12]), layers=st.integers(1, 3))
def test_albert(
    tmp_path_factory: pytest.TempPathFactory, head: str, activation: str, eps: float, width: int, layers: int
) -> None:
    config = transformers.AlbertConfig(
        **(BERT | {"num_hidden_layers": layers}), hidden_act=activation, layer_norm_eps=eps, embedding_size=width
    )
    key = "pooler_output" if head == "Model" else "logits"
    encoder(f"Albert{head}", config, tmp_path_factory.mktemp("albert"), key)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_distilbert(head: str, activation: str, tmp_path: Path) -> None:
    config = transformers.DistilBertConfig(
        vocab_size=29, dim=12, n_layers=2, n_heads=3, hidden_dim=20, max_position_embeddings=16, activation=activation,
        num_labels=3,
    )  # fmt: skip
    encoder(f"DistilBert{head}", config, tmp_path, "last_hidden_state" if head == "Model" else "logits")


@FEW
@given(st.data(), st.booleans(), st.booleans(), EPS)
def test_t5(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, gated: bool, tied: bool, eps: float) -> None:
    config = transformers.T5Config(
        vocab_size=29, d_model=12, d_kv=5, d_ff=20, num_layers=data.draw(st.integers(1, 2)),
        num_decoder_layers=data.draw(st.integers(1, 3)), num_heads=3, tie_word_embeddings=tied, layer_norm_epsilon=eps,
        feed_forward_proj="gated-gelu" if gated else "relu", decoder_start_token_id=0,
        relative_attention_num_buckets=8, relative_attention_max_distance=10,
    )  # fmt: skip
    translator("T5ForConditionalGeneration", config, tmp_path_factory.mktemp("t5"))


@pytest.mark.parametrize("kind", ["Marian", "Bart"])
@FEW
@given(st.data(), ACTIVATION, st.booleans())
def test_marian_and_bart(
    tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject, activation: str, scaled: bool
) -> None:
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=29, d_model=12, encoder_layers=data.draw(st.integers(1, 2)), encoder_attention_heads=3,
        decoder_layers=data.draw(st.integers(1, 2)), decoder_attention_heads=3, encoder_ffn_dim=20, decoder_ffn_dim=20,
        max_position_embeddings=16, activation_function=activation, scale_embedding=scaled, pad_token_id=28,
        decoder_start_token_id=28, eos_token_id=0, bos_token_id=1, forced_eos_token_id=None,
    )  # fmt: skip
    model = {"Marian": "MarianMTModel", "Bart": "BartForConditionalGeneration"}[kind]
    translator(model, config, tmp_path_factory.mktemp("translator"))
