"""Our models against Hugging Face transformers, random weights, every configuration field we honour."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.testing import assert_close

from glassformer.checkpoints.names.bert import BERT, BERT_CLASSES, BERT_MASKED, BERT_POOLER
from glassformer.checkpoints.names.gpt2 import GPT2
from glassformer.checkpoints.names.llama import LLAMA, LLAMA_BIASES, LLAMA_TIED, LLAMA_UNTIED
from glassformer.checkpoints.names.marian import MARIAN
from glassformer.checkpoints.names.t5 import T5_GATED, T5_PLAIN, T5_SHARED, T5_TIED, T5_UNTIED
from glassformer.checkpoints.naming import Row, expand, to_ours, to_theirs
from glassformer.equations.positions import sinusoidal_positions
from glassformer.layers.model import Model
from glassformer.layers.rotary import LinearScaling, Llama3Scaling, YarnScaling
from glassformer.models.build import build
from glassformer.models.encoder import EncoderConfig
from glassformer.models.gpt import GPTConfig
from glassformer.models.llama import LlamaConfig
from glassformer.models.presets import Config
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.models.t5 import T5Config

transformers = pytest.importorskip("transformers", reason="parity needs transformers")


class InFloat64(TorchFunctionMode):
    """Compute in float64 where transformers says float32: it does inside norms, rotary tables and softmax,

    whatever the model's type, so that its float64 models are right to seven digits only.
    """

    def __torch_function__(
        self, func: Callable[..., object], types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        """Run the same function with float64 in place of float32."""
        wide = {torch.float32: torch.float64}
        swap = lambda value: wide.get(value, value) if isinstance(value, torch.dtype) else value  # noqa: E731
        func = Tensor.double if func is Tensor.float else func
        return func(*map(swap, args), **{key: swap(value) for key, value in (kwargs or {}).items()})


def shaken(kind: type, config: object, **settings: bool) -> nn.Module:
    """One of their models with every parameter moved, so that none is zero or one, and tables in float64."""
    torch.manual_seed(0)
    with InFloat64():
        model = kind(config, **settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.double().eval()


def carried(config: Config, rows: list[Row], theirs: nn.Module) -> Model:
    """Our model with their weights, and the way back checked to the bit."""
    model = build(config).double().eval()
    counts = {"layers": config.layers, "decoder_layers": getattr(config, "decoder_layers", None) or config.layers}
    table = list(expand(rows, counts))
    state = theirs.state_dict()
    sizes = {name: parameter.shape for name, parameter in model.named_parameters()}
    ours = to_ours(table, state, sizes)
    model.load_state_dict(ours)
    back = to_theirs(table, model.state_dict())
    assert all(torch.equal(back[name], state[name]) for name in back)
    assert {row.theirs for row in table if not row.same_as} == back.keys()
    return model


def outputs(theirs: nn.Module, inputs: Mapping[str, Tensor], key: str, dtype: torch.dtype) -> Tensor:
    """What transformers computes in this type."""
    with torch.no_grad(), InFloat64() if dtype == torch.float64 else nullcontext():
        return getattr(theirs.to(dtype)(**inputs), key)


def assert_agrees(
    ours: Model, theirs: nn.Module, mine: Mapping[str, Tensor], their: Mapping[str, Tensor], key: str
) -> None:
    """Equal to 1e-10 in float64 and to 1e-5 in float32, relative to the largest output."""
    for dtype, room in {torch.float64: 1e-10, torch.float32: 1e-5}.items():
        wanted, got = outputs(theirs, their, key, dtype), ours.to(dtype)(**mine)
        assert_close(got, wanted, rtol=room, atol=room * max(1.0, wanted.abs().max().item()))


IDS = torch.randint(29, (2, 7), generator=torch.Generator().manual_seed(3))
KEEP = torch.tensor([[True] * 7, [True] * 5 + [False] * 2])


def test_gpt2() -> None:
    theirs = shaken(
        transformers.GPT2LMHeadModel,
        transformers.GPT2Config(vocab_size=29, n_positions=16, n_embd=12, n_layer=2, n_head=3, n_inner=20),
    )
    config = GPTConfig(vocab=29, context=16, dim=12, layers=2, heads=3, hidden=20)
    assert_agrees(carried(config, GPT2, theirs), theirs, {"ids": IDS}, {"input_ids": IDS}, "logits")


SCALINGS = {
    "none": (None, {"rope_type": "default"}),
    "linear": (LinearScaling(factor=2.0), {"rope_type": "linear", "factor": 2.0}),
    "yarn": (
        YarnScaling(factor=4.0, original_length=8),
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8},
    ),
    "llama3": (
        Llama3Scaling(factor=8.0, original_length=8),
        {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8,
        },
    ),
}  # fmt: skip
THEIR_LLAMA = {"vocab_size": 29, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2}
OUR_LLAMA = {"vocab": 29, "context": 32, "dim": 16, "hidden": 20, "layers": 2, "heads": 4}


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("tied", [False, True])
def test_llama(scaling: str, tied: bool) -> None:
    ours, rope = SCALINGS[scaling]
    their_config = transformers.LlamaConfig(
        **THEIR_LLAMA, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32,
        rope_parameters={"rope_theta": 5000.0, **rope}, tie_word_embeddings=tied, rms_norm_eps=1e-4,
    )  # fmt: skip
    theirs = shaken(transformers.LlamaForCausalLM, their_config)
    config = LlamaConfig(**OUR_LLAMA, kv_heads=2, base=5000.0, scaling=ours, tied=tied, eps=1e-4)
    rows = LLAMA + (LLAMA_TIED if tied else LLAMA_UNTIED)
    assert_agrees(carried(config, rows, theirs), theirs, {"ids": IDS}, {"input_ids": IDS}, "logits")


def test_mistral_with_a_window() -> None:
    their_config = transformers.MistralConfig(
        **THEIR_LLAMA, num_attention_heads=4, num_key_value_heads=2, sliding_window=3, head_dim=6, rms_norm_eps=1e-5,
    )  # fmt: skip
    theirs = shaken(transformers.MistralForCausalLM, their_config)
    config = LlamaConfig(**OUR_LLAMA, kv_heads=2, head_dim=6, window=3)
    rows = LLAMA + LLAMA_UNTIED
    assert_agrees(carried(config, rows, theirs), theirs, {"ids": IDS}, {"input_ids": IDS}, "logits")


def test_qwen2_with_biases() -> None:
    their_config = transformers.Qwen2Config(
        **THEIR_LLAMA, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True, rms_norm_eps=1e-6
    )
    theirs = shaken(transformers.Qwen2ForCausalLM, their_config)
    config = LlamaConfig(**OUR_LLAMA, kv_heads=2, qkv_bias=True, tied=True, eps=1e-6)
    rows = LLAMA + LLAMA_BIASES + LLAMA_TIED
    assert_agrees(carried(config, rows, theirs), theirs, {"ids": IDS}, {"input_ids": IDS}, "logits")


THEIR_BERT = {
    "vocab_size": 29, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20,
    "max_position_embeddings": 16,
}  # fmt: skip
OUR_BERT = {"vocab": 29, "context": 16, "dim": 12, "layers": 2, "heads": 3, "hidden": 20}
SEGMENTS = (torch.arange(7) > 3).long().expand(2, 7)


@pytest.mark.parametrize("head", ["rows", "first", "classes", "masked"])
def test_bert(head: str) -> None:
    kinds = {
        "rows": (transformers.BertModel, {"add_pooling_layer": False}, [], "last_hidden_state"),
        "first": (transformers.BertModel, {}, BERT_POOLER, "pooler_output"),
        "classes": (transformers.BertForSequenceClassification, {}, BERT_POOLER + BERT_CLASSES, "logits"),
        "masked": (transformers.BertForMaskedLM, {}, BERT_MASKED, "logits"),
    }
    kind, extra, rows, key = kinds[head]
    theirs = shaken(kind, transformers.BertConfig(**THEIR_BERT, num_labels=3), **extra)
    bare = {} if head in ("classes", "masked") else {"bert.": ""}  # the encoder alone has no prefix
    table = [replace(row, theirs=row.theirs.removeprefix(next(iter(bare), ""))) for row in BERT + rows]
    ours = carried(EncoderConfig(**OUR_BERT, head=head, classes=3), table, theirs)
    mine = {"ids": IDS, "keep": KEEP, "segments": SEGMENTS}
    their = {"input_ids": IDS, "attention_mask": KEEP.long(), "token_type_ids": SEGMENTS}
    for dtype, room in {torch.float64: 1e-10, torch.float32: 1e-5}.items():
        wanted, got = outputs(theirs, their, key, dtype), ours.to(dtype)(**mine)
        real = KEEP if wanted.dim() == 3 else slice(None)
        assert_close(got[real], wanted[real], rtol=room, atol=room * max(1.0, wanted.abs().max().item()))


@pytest.mark.parametrize("gated", [False, True])
def test_t5(gated: bool) -> None:
    their_config = transformers.T5Config(
        vocab_size=29, d_model=12, d_kv=5, d_ff=20, num_layers=2, num_decoder_layers=3, num_heads=3,
        feed_forward_proj="gated-gelu" if gated else "relu", tie_word_embeddings=not gated,
        relative_attention_num_buckets=8, relative_attention_max_distance=10, decoder_start_token_id=0,
    )  # fmt: skip
    theirs = shaken(transformers.T5ForConditionalGeneration, their_config)
    config = T5Config(
        vocab=29, dim=12, layers=2, decoder_layers=3, heads=3, head_dim=5, hidden=20, gated=gated, tied=not gated,
        buckets=8, max_distance=10,
    )  # fmt: skip
    rows = T5_SHARED + (T5_GATED + T5_UNTIED if gated else T5_PLAIN + T5_TIED)
    target = IDS[:, :4]
    mine = {"source": IDS, "target": target, "keep": KEEP}
    their = {"input_ids": IDS, "decoder_input_ids": target, "attention_mask": KEEP.long()}
    assert_agrees(carried(config, rows, theirs), theirs, mine, their, "logits")


@pytest.mark.parametrize("activation", ["relu", "silu", "gelu"])
def test_marian(activation: str) -> None:
    their_config = transformers.MarianConfig(
        vocab_size=29, d_model=12, encoder_layers=2, decoder_layers=1, encoder_attention_heads=3,
        decoder_attention_heads=3, encoder_ffn_dim=20, decoder_ffn_dim=20, max_position_embeddings=16,
        activation_function=activation, scale_embedding=True, pad_token_id=28, decoder_start_token_id=28,
    )  # fmt: skip
    theirs = shaken(transformers.MarianMTModel, their_config)
    theirs.final_logits_bias.normal_()
    config = Seq2SeqConfig(
        vocab=29, context=16, dim=12, layers=2, decoder_layers=1, heads=3, hidden=20, activation=activation,
        positions="halves", output_bias=True,
    )  # fmt: skip
    state = {name: tensor for name, tensor in theirs.state_dict().items() if "embed_positions" not in name}
    model = build(config).double().eval()
    table = list(expand(MARIAN, {"layers": 2, "decoder_layers": 1}))
    bias = state.pop("final_logits_bias")
    sizes = {n: p.shape for n, p in model.named_parameters() if n != "output_bias"}
    model.load_state_dict(to_ours(table, state, sizes) | {"output_bias": bias[0]})
    target = IDS[:, :4]
    mine = {"source": IDS, "target": target, "keep": KEEP}
    their = {"input_ids": IDS, "decoder_input_ids": target, "attention_mask": KEEP.long()}
    with torch.no_grad():  # their waves are a float32 table whatever the model's type
        waves = sinusoidal_positions(16, 12, layout="halves", dtype=torch.float64)
        fresh = transformers.MarianMTModel(their_config).model
        for side, unshaken in ((theirs.model.encoder, fresh.encoder), (theirs.model.decoder, fresh.decoder)):
            assert_close(unshaken.embed_positions.weight.data.double(), waves, rtol=1e-6, atol=1e-6)
            side.embed_positions.weight.data = waves
    assert_agrees(model, theirs, mine, their, "logits")
