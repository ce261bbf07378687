"""Steps of Triton kernels, captured as CUDA graphs, against the model itself."""

import copy
import dataclasses
from importlib.util import find_spec

import pytest
import torch

from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import generate
from glassformer.errors import NonFiniteError
from glassformer.inference.compiled_step import CompiledStep, programs, static_cache
from glassformer.inference.prepare import Form, for_inference
from glassformer.inference.triton_decoder import TritonBatchDecoder, triton_decoder
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from tests.decoding.tiny_generators import PROMPTS, words, writer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device to capture a graph on"),
    pytest.mark.skipif(find_spec("triton") is None, reason="needs triton"),
]


CONFIGS = {
    "greedy": GenerationConfig(max_new_tokens=20),
    "drawn": GenerationConfig(
        max_new_tokens=20, temperature=0.9, top_p=0.9, repetition_penalty=1.2, min_new_tokens=3, n=2
    ),
    "long": GenerationConfig(max_new_tokens=60, min_new_tokens=60),
}


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
            for position in range(40):
                found.append(rows.logits(ids[:, position : position + 1]))
            wanted, own = exact(ids), half(ids)
        error, usual = ((one.double() - wanted).norm() / wanted.norm() for one in (torch.stack(found, 1), own))
        assert error < 1.1 * usual < 0.1


def test_what_the_kernels_cannot_do_is_left_to_the_compiler() -> None:
    for name in ("mistral", "modern", "llama-grouped"):  # a window, norms of queries, heads of six numbers
        model = for_inference(copy.deepcopy(writer(name)).cuda(), "packed")
        assert triton_decoder(model, static_cache(model.new_cache(1, 32), 32, 0)) is None
    gpt = for_inference(copy.deepcopy(writer("gpt")).cuda(), "int8")
    assert triton_decoder(gpt, static_cache(gpt.new_cache(5, 32), 32, 0)) is None
    assert triton_decoder(copy.deepcopy(writer("gpt")).cuda(), static_cache(gpt.new_cache(1, 32), 32, 0)) is None


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
