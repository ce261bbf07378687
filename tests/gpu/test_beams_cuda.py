"""Beams on an accelerator: eager and captured as a graph, the texts and scores of the CPU."""

import copy

import pytest
import torch

from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import generate
from glassformer.inference.prepare import for_inference
from tests.decoding.tiny_generators import PROMPTS, words, writer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("default"),  # torch gives hints about float32 speed
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize(
    ("name", "compiled"),
    [*((name, False) for name in ("gpt", "mistral", "lstm", "marian", "t5")), ("mistral", True), ("marian", True)],
)
def test_beams_on_cuda(name: str, compiled: bool) -> None:
    """Prompts of unequal length, then others of the same shapes, which meet the program that is there already."""
    ours = copy.deepcopy(writer(name)).cuda()
    ours = ours if name == "lstm" else for_inference(ours, "packed")
    for prompts in (PROMPTS[:3], PROMPTS[2::-1]):
        plain = generate(writer(name), words(), prompts, GenerationConfig(max_new_tokens=6, num_beams=3, n=3))
        found = generate(ours, words(), prompts, GenerationConfig(max_new_tokens=6, num_beams=3, n=3, compile=compiled))
        assert [(text.ids, text.finish_reason) for text in found] == [(text.ids, text.finish_reason) for text in plain]
        for one, other in zip(found, plain, strict=True):
            assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-3)
