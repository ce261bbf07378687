"""Models converted for inference: packed weights compute the same, quantized ones nearly; none is held twice."""

import copy
import gc
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import generate
from glassformer.equation import no_checks
from glassformer.equations.losses import cross_entropy
from glassformer.equations.quantization import pack_nibbles, quantize_rows, unpack_nibbles
from glassformer.errors import DecodingError
from glassformer.inference import linear as linear_module
from glassformer.inference.fused_attention import FusedAttention
from glassformer.inference.linear import Int4Linear, Int8Linear, PackedLinear
from glassformer.inference.prepare import FORMS, for_inference, inference_mode
from glassformer.onednn import ONEDNN_LINEAR, onednn_linear
from glassformer.recording import Tape
from tests.decoding.tiny_generators import DECODING, PROMPTS, words, writer
from tests.models.zoo import TRANSLATORS

NEAR = {"packed": 1e-5, "int8": 0.03, "int4": 0.25}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [1, 2, 7, 64, 65])
@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_map_stays_near(form: str, rows: int, bias: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(64, 40, generator=generator)
    shift = torch.randn(40, generator=generator) if bias else None
    x = torch.randn(1, rows, 64, generator=generator)
    exact = x @ weight + (0 if shift is None else shift)
    linear = FORMS[form](weight, shift)
    assert ((linear(x) - exact).norm() / exact.norm()).item() < NEAR[form]
    with Tape() as tape:
        shown = linear(x)
    assert ((shown - exact).norm() / exact.norm()).item() < NEAR[form]
    assert torch.equal(tape.replay(), shown)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("inputs", [1, 7, 33, 64])
def test_a_row_does_not_depend_on_the_rest_of_its_batch(form: str, inputs: int) -> None:
    generator = torch.Generator().manual_seed(inputs)
    linear = FORMS[form](torch.randn(inputs, 24, generator=generator), None)
    x = torch.randn(3, 5, inputs, generator=generator) * torch.logspace(-4, 4, 15).view(3, 5, 1)
    x[1, 2] = 0
    with no_checks():  # as in decoding, where kernels run
        together, alone = linear(x), torch.stack([torch.stack([linear(row[None])[0] for row in rows]) for rows in x])
    within = 1e-6 * x.norm(dim=-1, keepdim=True) * inputs**0.5
    assert ((together - alone).abs() <= within).all(), "apart by more than the rounding of a sum"
    assert form != "int8" or linear._packed is not None, "the kernel was not used"
    if inputs % 2:
        with Tape() as tape:
            shown = linear(x)
        assert torch.equal(tape.replay(), shown)


def test_four_bits_are_packed_two_to_a_byte() -> None:
    q = torch.randint(-8, 8, (5, 12), generator=torch.Generator().manual_seed(0)).to(torch.int8)
    packed = pack_nibbles(q)
    assert packed.shape == (5, 6) and packed.dtype == torch.int8
    assert torch.equal(unpack_nibbles(packed), q)


def test_whole_numbers_are_kept_exactly() -> None:
    W = torch.tensor([[1.0, -127.0, 5.0], [0.0, 0.0, 0.0]])
    q, s = quantize_rows(W, 127)
    assert_close(q * s, W)


@pytest.mark.parametrize("name", [n for n in DECODING if n not in ("rnn", "lstm")])
def test_every_model_has_a_packed_form_that_writes_the_same(name: str) -> None:
    model = writer(name)
    packed = for_inference(model, "packed")
    assert any(isinstance(part, PackedLinear) for part in packed.modules())
    config = GenerationConfig(max_new_tokens=6)
    assert [w.ids for w in generate(packed, words(), PROMPTS, config)] == [
        w.ids for w in generate(model, words(), PROMPTS, config)
    ]
    assert not any(isinstance(part, PackedLinear) for part in model.modules()), "the original was changed"


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", [n for n in DECODING if n not in ("rnn", "lstm")])
def test_fused_attention_equals_attention(name: str, beam: int) -> None:
    """One prompt at a time, so that nothing is padded."""
    model = writer(name)
    packed = for_inference(model, "packed")
    for prompt in PROMPTS:
        for one, other in zip(
            *(
                generate(of, words(), prompt, GenerationConfig(max_new_tokens=6, num_beams=beam, n=beam))
                for of in (packed, model)
            ),
            strict=True,
        ):
            assert one.ids == other.ids
            assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-5)


FUSED = {
    "gpt": True,
    "llama-grouped": True,
    "modern": True,
    "seq2seq": True,
    "marian": True,
    "mistral": False,
    "t5": False,
}


@pytest.mark.parametrize("name", FUSED)
def test_plain_self_attention_is_fused_and_a_tape_sees_its_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[int] = set()
    attend = FusedAttention._self_attention

    def counted(attention: FusedAttention, x: torch.Tensor, *others: object) -> torch.Tensor:
        taken.add(x.shape[1])
        return attend(attention, x, *others)

    monkeypatch.setattr(FusedAttention, "_self_attention", counted)
    packed = for_inference(writer(name), "packed")
    read = len(words().encode(PROMPTS[0])) - (name not in TRANSLATORS)  # the last token of a prompt is a step
    generate(packed, words(), PROMPTS[0], GenerationConfig(max_new_tokens=3))
    assert taken == ({1, read} if FUSED[name] else set())
    taken.clear()
    with Tape():
        generate(packed, words(), PROMPTS[0], GenerationConfig(max_new_tokens=3))
    assert not taken


@pytest.mark.parametrize("name", [n for n in DECODING if n not in ("rnn", "lstm")])
def test_a_prompt_in_chunks_attends_to_the_chunks_before(name: str) -> None:
    packed = for_inference(writer(name), "packed")
    whole, parts = (
        generate(packed, words(), PROMPTS[2], GenerationConfig(max_new_tokens=6, prefill_chunk=chunk))
        for chunk in (64, 2)
    )
    assert parts[0].ids == whole[0].ids
    assert parts[0].log_probabilities == pytest.approx(whole[0].log_probabilities, abs=1e-5)


@pytest.mark.parametrize("name", TRANSLATORS)
def test_fused_attention_takes_padded_sources(name: str) -> None:
    models = for_inference(writer(name), "packed"), writer(name)
    found, wanted = (generate(model, words(), PROMPTS, GenerationConfig(max_new_tokens=6)) for model in models)
    assert [text.ids for text in found] == [text.ids for text in wanted]


def test_the_loss_in_perplexity_is_small_on_a_trained_model() -> None:
    """A model that has learned to count: its perplexity with coarser weights over that with its own."""
    from glassformer.models.gpt import GPTConfig
    from glassformer.models.registry import build

    model = build(GPTConfig(vocab=16, context=32, dim=64, layers=2, heads=4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(0)

    def batch() -> torch.Tensor:
        starts = torch.randint(16, (16, 1), generator=generator)
        counted = (starts + torch.arange(17)) % 16
        noise = torch.rand(counted.shape, generator=generator) < 0.1
        return torch.where(noise, torch.randint(16, counted.shape, generator=generator), counted)

    def loss(of: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
        return cross_entropy(of(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    for _ in range(80):
        optimizer.zero_grad()
        loss(model, batch()).backward()
        optimizer.step()
    model.eval()
    ids = batch()
    for form, kind, most in (("int8", Int8Linear, 1.02), ("int4", Int4Linear, 1.3)):
        coarse = for_inference(model, form)
        assert any(isinstance(part, kind) for part in coarse.modules())
        with torch.no_grad():
            before, after = loss(model, ids).exp().item(), loss(coarse, ids).exp().item()
        assert before < 6, "the model has learned nothing"
        assert after / before < most


def test_what_has_no_other_form_is_refused() -> None:
    with pytest.raises(DecodingError, match="RNN has no blocks to convert"):
        for_inference(writer("lstm"), "int8")
    with pytest.raises(DecodingError, match="form is 'int3', wanted packed, int8, int4"):
        for_inference(writer("gpt"), "int3")


@pytest.fixture
def only_new() -> Iterator[None]:
    """Hide what is there already from the list of objects, which is long after other tests."""
    gc.freeze()
    yield
    gc.unfreeze()


def live_bytes() -> int:
    """Memory of all tensors made since `only_new`, each storage counted once."""
    tensors = [each for each in gc.get_objects() if type(each) in (torch.Tensor, torch.nn.Parameter) and each.is_cpu]
    storages = [each.untyped_storage() for each in tensors if torch._C._has_storage(each)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


@pytest.mark.usefixtures("only_new")
@pytest.mark.parametrize("form", FORMS)
def test_weights_are_converted_in_place_without_a_second_copy(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from glassformer.models.gpt import GPTConfig
    from glassformer.models.registry import build

    model = build(GPTConfig(vocab=64, context=16, dim=256, layers=4, heads=4))
    ids, block = torch.arange(8)[None], 4 * sum(p.numel() for p in model.stack.blocks[0].parameters())
    wanted, before, peaks = for_inference(model, form)(ids), live_bytes(), []
    kind = FORMS[form]

    class Measured(kind):
        def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
            super().__init__(weight, bias)
            peaks.append(live_bytes())

    monkeypatch.setitem(FORMS, form, Measured)
    converted = for_inference(model, form, copy=False)
    assert converted is model and len(peaks) == 4 * 4 + 1
    assert max(peaks) - before < block, "more than one block of weights is held twice"
    assert live_bytes() - before < {"packed": block / 4, "int8": -2 * block, "int4": -3 * block}[form]
    assert torch.equal(model(ids), wanted)


def test_a_converted_model_uses_a_part_that_is_replaced_copied_or_moved() -> None:
    """Children are plain attributes too, which must not go stale."""
    packed, ids = for_inference(writer("gpt"), "packed"), torch.arange(4)[None]
    wanted = packed(ids)
    other = copy.deepcopy(packed)
    other.stack.blocks[0].attention.output.weight.zero_()
    assert_close(packed(ids), wanted)
    assert not torch.allclose(other(ids), wanted)
    packed.stack.blocks[0].attention.output = other.stack.blocks[0].attention.output
    assert_close(packed(ids), other(ids))
    assert packed.double()(ids).dtype == torch.float64


def test_inference_mode_restores_every_module() -> None:
    model = copy.deepcopy(writer("gpt")).train()
    model.stack.eval()
    before = [module.training for module in model.modules()]
    with inference_mode(model):
        assert not any(module.training for module in model.modules()) and not torch.is_grad_enabled()
    assert [module.training for module in model.modules()] == before


@pytest.mark.skipif(not hasattr(torch.ops.mkldnn, ONEDNN_LINEAR), reason="torch without the linear layer of oneDNN")
@given(st.integers(1, 9), st.integers(1, 40), st.integers(1, 40), st.booleans())
def test_onednn_takes_over_where_it_is_faster(rows: int, inputs: int, outputs: int, biased: bool) -> None:
    calls = []

    def noted(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        calls.append(len(x))
        return onednn_linear(x, weight, bias)

    x, weight = torch.randn(rows, inputs), torch.randn(inputs, outputs)
    bias = torch.randn(outputs) if biased else None
    with pytest.MonkeyPatch.context() as patch, torch.no_grad(), no_checks():
        patch.setattr(linear_module, "LEAST_WEIGHTS", 0)
        patch.setattr(linear_module, "onednn_is_faster", lambda: True)
        patch.setattr(linear_module, "onednn_linear", noted)
        layer = PackedLinear(weight, bias)
        found = [layer(x) for _ in range(3)]
    assert calls == [rows, rows], "the first call with a number of rows, as of a prompt, keeps no kernel"
    for each in found:
        assert_close(each, torch.nn.functional.linear(x, weight.T, bias), rtol=1e-5, atol=1e-5)
