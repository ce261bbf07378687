"""Metrics on an accelerator: those of the CPU, and nothing waits for the device before the end."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from glassformer.data.batches import Batch
from glassformer.data.packed_batches import PackedBatches
from glassformer.decoding.generate import generate
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.training.tasks.gpt import LanguageModelSet

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def test_metrics_are_those_of_the_cpu_and_batches_do_not_wait() -> None:
    tokenizer = learn_tokenizer(["the cat sat on the mat", "añb€"], "bpe", 270)
    tokens = np.array([id for part in tokenizer.encode_stream(["the cat sat", "on añb€"] * 20) for id in part])
    model = build(GPTConfig(vocab=tokenizer.vocab_size, context=16, dim=16, layers=1, heads=2))
    batches = PackedBatches(tokens, 3, 16, seed=0)
    data = LanguageModelSet(batches, lambda: 400)
    here = data.evaluate(model, generate)
    model.cuda()
    data.evaluate(model, generate)  # what is loaded at the first use may wait

    def watched(each: Iterator[Batch], what: str) -> Iterator[Batch]:
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield from each
        finally:
            torch.cuda.set_sync_debug_mode("default")

    there = data.evaluate(model, generate, watched)
    assert there.loss == pytest.approx(here.loss, rel=1e-4)
    assert (there.tokens, there.bytes) == (here.tokens, here.bytes)
