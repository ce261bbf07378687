"""Kernels for one row a text against the same written out in float64; steps captured from them against the model."""

import copy
import dataclasses
import os
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import generate
from glassformer.errors import NonFiniteError
from glassformer.inference.compiled_step import CompiledStep, programs, static_cache
from glassformer.inference.prepare import Form, for_inference
from glassformer.inference.triton_decoder import TritonBatchDecoder, triton_decoder
from glassformer.models.build import build
from glassformer.models.gpt import GPTConfig
from tests.decoding.tiny_generators import PROMPTS, words, writer

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available() and not INTERPRETED, reason="needs a GPU"),
    pytest.mark.skipif(find_spec("triton") is None, reason="needs triton"),
]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)


def near(found: Tensor, wanted: Tensor) -> None:
    """Within the rounding of float32 sums, or of the type found."""
    error = (found.double() - wanted).norm() / wanted.norm().clamp_min(1e-30)
    assert error < (1e-5 if found.dtype == torch.float32 else 1e-2)


BENT = {
    0: lambda z: z,
    1: functional.gelu,
    2: lambda z: functional.gelu(z, approximate="tanh"),
    3: functional.silu,
    4: functional.relu,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("inputs", "outputs"), [(768, 50), (100, 7), (3072, 33), (4096, 12), (1, 1), (1030, 257)])
@pytest.mark.parametrize("activation", [0, 1, 2, 3, 4])
def test_a_product_with_all_around_it(inputs: int, outputs: int, activation: int, dtype: torch.dtype) -> None:
    from glassformer.inference.triton_kernels import Norm, Weights, product

    for texts in (1, 3):
        x, w, u = (draw(n, inputs, seed=n, dtype=dtype) for n in (texts, outputs, outputs + 9))
        u = u[:outputs]
        b, past = draw(outputs, dtype=dtype), draw(texts, outputs, seed=5, dtype=dtype)
        gamma, beta = draw(inputs, seed=6, dtype=dtype), draw(inputs, seed=7, dtype=dtype)
        wide = [t.double() for t in (x, w, u, b, past, gamma, beta)]
        X, W, U, B, P, G, H = wide
        bent = BENT[activation]
        near(product(x, Weights(w, None, None)), X @ W.T)
        found = product(x, Weights(w, None, b), Norm(gamma, beta, 1e-5), activation, past=past)
        centred = functional.layer_norm(X, (inputs,), G, H, 1e-5)
        near(found, P + bent(centred @ W.T + B))
        scaled = functional.rms_norm(X, (inputs,), G, 1e-6)
        found = product(x, Weights(w, None, None), Norm(gamma, None, 1e-6), activation, Weights(u, None, None))
        near(found, bent(scaled @ W.T) * (scaled @ U.T))


def test_a_product_with_weights_of_eight_bits() -> None:
    from glassformer.equations.quantization import quantize_rows
    from glassformer.inference.triton_kernels import Weights, product

    x, w, b = draw(2, 300), draw(40, 300, seed=1), draw(40, seed=2)
    q, s = quantize_rows(w, 127)
    near(product(x, Weights(q, s.squeeze(-1), b)), x.double() @ (q.double() * s.double()).T + b.double())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dim", [1, 100, 768, 4096])
def test_what_is_added_is_normed(dim: int, dtype: torch.dtype) -> None:
    from glassformer.inference.triton_kernels import Norm, add_normed

    x, change = draw(5, dim, dtype=dtype), draw(5, dim, seed=1, dtype=dtype)
    bias, gamma, beta = (draw(dim, seed=n, dtype=dtype) for n in (2, 3, 4))
    y, h = add_normed(x, change, bias, Norm(gamma, beta, 1e-5))
    near(y, x.double() + change.double() + bias.double())
    near(h, functional.layer_norm(y.double(), (dim,), gamma.double(), beta.double(), 1e-5))
    y, h = add_normed(x, change, None, Norm(gamma, None, 1e-6))
    near(y, x.double() + change.double())
    near(h, functional.rms_norm(y.double(), (dim,), gamma.double(), 1e-6))


@pytest.mark.parametrize("splits", [1, 8])
@pytest.mark.parametrize("groups", [4, 1, 2])
@pytest.mark.parametrize("turned", [None, "halves", "adjacent"])
@pytest.mark.parametrize("padded", [False, True])
def test_attention_keeps_the_new_row_and_sees_all(
    splits: int, groups: int, turned: str | None, padded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from glassformer.equations.rotary import rotary, rotary_frequencies
    from glassformer.inference import triton_kernels
    from glassformer.inference.triton_kernels import Attend, Turn

    texts, heads, width, slots = 3, 4, 64, 160
    monkeypatch.setattr(triton_kernels, "PROGRAMS", splits * texts * heads)
    attend = Attend(texts, heads, width, torch.device(DEVICE))
    assert attend.splits == splits
    for count in (0, 5, 63, 64, 130):
        every = draw(texts, (heads + 2 * groups) * width, seed=count)
        keys, values = draw(texts, groups, slots, width, seed=1), draw(texts, groups, slots, width, seed=2)
        old_keys, old_values = keys.clone(), values.clone()
        padding = torch.tensor([0, min(3, count), count], device=DEVICE) if padded else None
        turn = None
        q, k, v = every.view(texts, -1, 1, width).double().split([heads, groups, groups], 1)
        if turned is not None:
            frequencies = rotary_frequencies(width, 10000.0, dtype=torch.float32, device=torch.device(DEVICE))
            turn = Turn(frequencies, turned == "adjacent", 1.2)
            empty = torch.zeros(texts, 1, dtype=torch.long, device=DEVICE) if padding is None else padding[:, None]
            places = (count - empty)[:, None]
            q, k = (1.2 * rotary(part, places, 10000.0, frequencies.double(), turned) for part in (q, k))
        found = attend(every, keys, values, torch.tensor(count, device=DEVICE), padding, 0.3, turn)
        assert_close(keys[:, :, count].double(), k[:, :, 0], rtol=1e-5, atol=1e-5)
        assert torch.equal(values[:, :, count].double(), v[:, :, 0])
        for new, old in ((keys, old_keys), (values, old_values)):
            kept = torch.arange(slots, device=DEVICE) != count
            assert torch.equal(new[:, :, kept], old[:, :, kept])
        all_k, all_v = (
            part.double()[:, :, : count + 1].repeat_interleave(heads // groups, 1) for part in (keys, values)
        )
        scores = 0.3 * q @ all_k.mT
        if padding is not None:
            hidden = torch.arange(count + 1, device=DEVICE) < padding[:, None]
            scores = scores.masked_fill(hidden[:, None, None], -torch.inf)
        near(found, (scores.softmax(-1) @ all_v).reshape(texts, -1))


def test_the_choice_is_the_first_of_the_likeliest_and_is_written_down() -> None:
    from glassformer.inference.triton_kernels import write_likeliest

    for vocab in (1, 7, 2048, 5000):
        scores = draw(3, vocab + 5, seed=vocab)[:, :vocab]  # as a product that ends in empty outputs gives them
        scores[:, vocab // 2 :: max(1, vocab // 3)] = scores.max() + 1
        step, following = torch.tensor([2], device=DEVICE), torch.zeros(3, 1, dtype=torch.long, device=DEVICE)
        ids, seen = (torch.full((3, n), -1, device=DEVICE) for n in (4, 9))
        log_p = torch.zeros(3, 4, device=DEVICE)
        write_likeliest(scores, step, following, ids, log_p, seen)
        chosen, none = scores.argmax(-1).tolist(), [-1] * 3
        assert following[:, 0].tolist() == chosen and step.tolist() == [3]
        assert ids.T.tolist() == [none, none, chosen, none]
        assert seen.T.tolist() == [*[none] * 7, chosen, none]
        assert_close(log_p[:, 2], scores.log_softmax(-1).amax(-1), rtol=1e-5, atol=1e-5)
        assert log_p[:, [0, 1, 3]].count_nonzero() == 0


@pytest.mark.skipif(INTERPRETED, reason="the interpreter refuses a maximum of nothing but NaN")
def test_a_choice_among_what_is_not_a_number_is_still_a_token() -> None:
    from glassformer.inference.triton_kernels import write_likeliest

    following, step, ids, seen = (
        torch.zeros(shape, dtype=torch.long, device=DEVICE) for shape in ((2, 1), (1,), (2, 4), (2, 5))
    )
    log_p = torch.zeros(2, 4, device=DEVICE)
    write_likeliest(torch.full((2, 2100), torch.nan, device=DEVICE), step, following, ids, log_p, seen)
    assert ((following >= 0) & (following < 2100)).all()


CONFIGS = {
    "greedy": GenerationConfig(max_new_tokens=20),
    "drawn": GenerationConfig(
        max_new_tokens=20, temperature=0.9, top_p=0.9, repetition_penalty=1.2, min_new_tokens=3, n=2
    ),
    "long": GenerationConfig(max_new_tokens=60, min_new_tokens=60),
}


@pytest.mark.skipif(INTERPRETED, reason="needs a GPU to capture a graph on")
@pytest.mark.parametrize("form", ["packed", "int8"])
@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("gpt", "greedy"), ("gpt", "drawn"), ("gpt", "long"), ("llama", "greedy"), ("llama-yarn", "drawn"),
        ("llama-multi-query-tied", "greedy"), ("llama-3", "long"), ("qwen2", "greedy"),
    ],
)  # fmt: skip
def test_captured_steps_write_what_the_model_writes(name: str, config: str, form: Form) -> None:
    model = for_inference(copy.deepcopy(writer(name, context=40)).cuda(), form)
    many = [PROMPTS, PROMPTS[::-1]] if form == "packed" else []
    for prompts in (PROMPTS[:1], PROMPTS[:2], PROMPTS[2:1:-1], *many):
        plain = generate(model, words(), prompts, CONFIGS[config])
        for _ in range(2):  # made, and used again
            found = generate(model, words(), prompts, dataclasses.replace(CONFIGS[config], compile=True))
            assert [(text.ids, text.finish_reason) for text in found] == [
                (text.ids, text.finish_reason) for text in plain
            ]
        for one, other in zip(found, plain, strict=True):
            assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-4)
    assert all(steps.kernels is not None for steps in programs(model).values() if isinstance(steps, CompiledStep))


@pytest.mark.skipif(INTERPRETED, reason="needs a GPU to capture a graph on")
def test_half_precision_scores_are_as_near_as_the_models_own() -> None:
    """Against float64, a step by kernels is off by no more than a step by the model in the same type."""
    exact = build(GPTConfig(vocab=499, context=64, dim=256, layers=4, heads=4)).cuda().double().eval()
    half = for_inference(copy.deepcopy(exact).bfloat16(), "packed")
    for texts in (1, 4, 5, 70):
        ids = torch.randint(499, (texts, 40), device="cuda", generator=torch.Generator("cuda").manual_seed(texts))
        found = []
        with torch.no_grad():
            rows = triton_decoder(half, static_cache(half.new_cache(texts, 48), 48, 0))
            assert rows is not None and isinstance(rows, TritonBatchDecoder) == (texts > 4)
            for place in range(40):
                found.append(rows.logits(ids[:, place : place + 1]))
            wanted, own = exact(ids), half(ids)
        error, usual = ((one.double() - wanted).norm() / wanted.norm() for one in (torch.stack(found, 1), own))
        assert error < 1.1 * usual < 0.1


@pytest.mark.skipif(INTERPRETED, reason="needs a GPU to capture a graph on")
def test_what_the_kernels_cannot_do_is_left_to_the_compiler() -> None:
    for name in ("mistral", "modern", "llama-grouped"):  # a window, norms of queries, heads of six numbers
        model = for_inference(copy.deepcopy(writer(name)).cuda(), "packed")
        assert triton_decoder(model, static_cache(model.new_cache(1, 32), 32, 0)) is None
    gpt = for_inference(copy.deepcopy(writer("gpt")).cuda(), "int8")
    assert triton_decoder(gpt, static_cache(gpt.new_cache(5, 32), 32, 0)) is None
    assert triton_decoder(copy.deepcopy(writer("gpt")).cuda(), static_cache(gpt.new_cache(1, 32), 32, 0)) is None


@pytest.mark.skipif(INTERPRETED, reason="needs a GPU to capture a graph on")
@pytest.mark.parametrize("form", ["packed", "int8"])
@pytest.mark.parametrize("spare", [5, 5000])  # more than a portion of nothing else
def test_a_row_without_a_token_is_never_chosen(spare: int, form: Form) -> None:
    rows = words().vocab_size + spare
    unused = words().unused_ids(rows)
    config = GPTConfig(vocab=rows, context=64, dim=64, layers=2, heads=2, tie_embeddings=False)
    model = build(config, 0).cuda().eval().requires_grad_(False)
    barred = copy.deepcopy(model)
    for one in (model, barred):
        one.stack.norm.bias.fill_(1.0)  # the last hidden states have a part that is the same everywhere
    model.output.weight[:, unused] = 1.0
    barred.output.weight[:, unused] = -9.0
    for config in (CONFIGS["greedy"], CONFIGS["drawn"]):
        for prompts in (PROMPTS[:1], PROMPTS):
            found, wanted = (
                generate(
                    for_inference(copy.deepcopy(one), form),
                    words(),
                    prompts,
                    dataclasses.replace(config, compile=fast),
                )
                for one, fast in ((model, True), (barred, False))
            )
            assert not {id for text in found for id in text.ids} & set(unused)
            if form == "packed":
                assert [text.ids for text in found] == [text.ids for text in wanted]


@pytest.mark.skipif(INTERPRETED, reason="needs a GPU to capture a graph on")
def test_logits_that_are_not_finite_are_an_error() -> None:
    for value in (torch.nan, torch.inf):
        model = copy.deepcopy(writer("gpt")).cuda()
        model.embedding.weight[words().encode("one")] = value
        for form in ("packed", "int8"):
            with pytest.raises(NonFiniteError):
                generate(
                    for_inference(copy.deepcopy(model), form),
                    words(),
                    "one",
                    GenerationConfig(max_new_tokens=3, compile=True),
                )
