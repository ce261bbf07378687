"""Decoding in steps of fixed shape, compiled whole: the same texts as in the ordinary way."""

import copy
import dataclasses
import gc
import weakref

import pytest
import torch

from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import generate, stream
from glassformer.errors import DecodingError, NonFiniteError
from glassformer.inference.compiled_step import STEPS_PER_SYNC, programs
from glassformer.inference.prepare import for_inference
from glassformer.layers.sparse_attention import SlidingWindow
from tests.compiled.kernels import makes_kernels
from tests.decoding.tiny_generators import PROMPTS, WORDS, biased, words, writer

CONFIGS = {
    "greedy": GenerationConfig(max_new_tokens=6),
    "drawn": GenerationConfig(
        max_new_tokens=6, temperature=0.9, top_p=0.9, repetition_penalty=1.2, min_new_tokens=3, n=2
    ),
    "num_beams": GenerationConfig(max_new_tokens=6, num_beams=3, n=2),
}


@pytest.fixture(autouse=True)
def fresh_compiler() -> None:
    torch._dynamo.reset()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Capture the same graphs, and run them without building kernels."""
    real = torch.compile
    monkeypatch.setattr(torch, "compile", lambda fn, fullgraph, options: real(fn, fullgraph=fullgraph, backend="eager"))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("name", "config"),
    [("gpt", "drawn"), ("gpt", "num_beams"), ("mistral", "greedy"), ("seq2seq-learned", "drawn"), ("t5", "num_beams")],
)
def test_compiled_equals_eager(name: str, config: str) -> None:
    model, choice = writer(name), dataclasses.replace(CONFIGS[config], compile=True)
    plain = generate(model, words(), PROMPTS, CONFIGS[config])
    for _ in range(2):  # made, and used again
        found = generate(model, words(), PROMPTS, choice)
        assert [written.ids for written in found] == [written.ids for written in plain]
        assert [written.finish_reason for written in found] == [written.finish_reason for written in plain]
    for one, other in zip(found, plain, strict=True):
        assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-4)
    other = [text.ids for text in generate(model, words(), PROMPTS[::-1], CONFIGS[config])]
    assert [text.ids for text in generate(model, words(), PROMPTS[::-1], choice)] == other


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("name", "config"), [("gpt", "greedy"), ("seq2seq", "num_beams")])
def test_a_converted_model_compiles(name: str, config: str) -> None:
    model = for_inference(writer(name), "packed")
    plain = generate(model, words(), PROMPTS, CONFIGS[config])
    found = generate(model, words(), PROMPTS, dataclasses.replace(CONFIGS[config], compile=True))
    assert [text.ids for text in found] == [text.ids for text in plain]


@pytest.mark.usefixtures("quick")
def test_texts_longer_than_the_steps_per_sync_and_up_to_the_context() -> None:
    model = writer("gpt", context=40)
    config = GenerationConfig(max_new_tokens=2 * STEPS_PER_SYNC + 3, min_new_tokens=2 * STEPS_PER_SYNC + 3)
    compiled = dataclasses.replace(config, compile=True)
    plain = generate(model, words(), PROMPTS[:1], config)
    assert [w.ids for w in generate(model, words(), PROMPTS[:1], compiled)] == [w.ids for w in plain]
    pieces = "".join(piece.text for piece in stream(model, words(), PROMPTS[0], compiled))
    assert pieces == plain[0].text
    over = dataclasses.replace(config, max_new_tokens=60, min_new_tokens=60)
    found = generate(model, words(), PROMPTS[:2], dataclasses.replace(over, compile=True))
    assert [(w.ids, w.finish_reason) for w in found] == [
        (w.ids, w.finish_reason) for w in generate(model, words(), PROMPTS[:2], over)
    ]
    assert {w.finish_reason for w in found} == {"length"}, "past the context too"


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("window", [3, 24])
def test_a_window_whose_ring_is_another_size_has_a_program_of_its_own(window: int) -> None:
    """A longer prompt, another limit, prompts read in other parts: the same texts as in the ordinary way."""
    model = copy.deepcopy(writer("mistral"))
    for block in model.stack.blocks:
        block.attention.pattern = SlidingWindow(causal=True, window=window)
    whole = " ".join([WORDS] * 2)
    for prompt, limit, chunk in (("one two", 8, 512), (WORDS, 8, 512), ("one", 2, 512), (whole, 8, 512), (whole, 8, 2)):
        config = GenerationConfig(max_new_tokens=limit, prefill_chunk=chunk)
        (plain,), (found,) = (
            generate(model, words(), prompt, dataclasses.replace(config, compile=compiled))
            for compiled in (False, True)
        )
        assert found.ids == plain.ids
        assert found.log_probabilities == pytest.approx(plain.log_probabilities, abs=1e-4)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("beam", [1, 2])
def test_a_program_forgets_what_was_no_number_and_follows_its_model(beam: int) -> None:
    model = copy.deepcopy(writer("gpt"))
    (bad,) = words().encode("ten")
    model.embedding.weight[bad] = torch.inf
    model.output = torch.nn.Linear(model.config.dim, words().vocab_size)  # it is met in prompts alone
    model.output.bias.data[bad] = -1e4
    config = GenerationConfig(max_new_tokens=4, num_beams=beam, compile=True)
    before = generate(model, words(), "one two", config)[0]
    with pytest.raises(NonFiniteError):
        generate(model, words(), "two ten ten ten ten", config)
    after = generate(model, words(), "one two", config)[0]
    assert after.log_probabilities == before.log_probabilities
    float64 = generate(model.double(), words(), "one two", config)[0]
    assert float64.log_probabilities == pytest.approx(before.log_probabilities, abs=1e-4)


@makes_kernels
def test_compiled_kernels_equal_eager() -> None:
    """The same through the code generator, with real kernels built."""
    plain = generate(writer("gpt"), words(), PROMPTS[:2], CONFIGS["drawn"])
    found = generate(writer("gpt"), words(), PROMPTS[:2], dataclasses.replace(CONFIGS["drawn"], compile=True))
    assert [written.ids for written in found] == [written.ids for written in plain]


def test_a_recurrent_network_is_refused() -> None:
    with pytest.raises(DecodingError, match="RNN cannot be run compiled"):
        generate(writer("lstm"), words(), "one", GenerationConfig(compile=True))


@pytest.mark.usefixtures("quick")
def test_programs_go_with_their_model() -> None:
    model = copy.deepcopy(writer("gpt"))
    generate(model, words(), PROMPTS[:1], dataclasses.replace(CONFIGS["greedy"], compile=True))
    assert len(programs(model)) == 1 and not programs(copy.deepcopy(model))
    gone = weakref.ref(model)
    torch._dynamo.reset()
    del model
    gc.collect()
    assert gone() is None


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("config", ["greedy", "num_beams"])
def test_a_row_without_a_token_is_never_chosen(config: str) -> None:
    rows = words().vocab_size + 5
    unused, choice = words().unused_ids(rows), dataclasses.replace(CONFIGS[config], compile=True)
    likely, barred = (biased("gpt", rows, unused, by) for by in (50.0, -1e9))
    wanted = generate(barred, words(), PROMPTS, CONFIGS[config])
    found = generate(likely, words(), PROMPTS, choice)
    assert [text.ids for text in found] == [text.ids for text in wanted]
    likely.embedding.weight.fill_(torch.nan)
    with pytest.raises(NonFiniteError):
        generate(likely, words(), PROMPTS, choice)
