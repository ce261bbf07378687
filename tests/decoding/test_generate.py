"""Texts: the same whichever way they are run, chosen as the settings say, ended as they should be."""

import copy
import dataclasses
import math
from contextlib import nullcontext

import pytest
import tokenizers
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models

from glassformer.decoding.config import COLDEST, GenerationConfig
from glassformer.decoding.few_shot import Example, few_shot_prompt, few_shot_stops
from glassformer.decoding.generate import batches_by_tokens, generate, stream
from glassformer.decoding.sampling import filtered, log_probability, next_token, random_numbers
from glassformer.equation import no_checks
from glassformer.errors import DecodingError, GlassformerError, NonFiniteError, TokenizerError
from glassformer.layers.model import Model
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.modern import ModernConfig
from glassformer.models.registry import build
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.text.tokenizer import Tokenizer
from tests.decoding.tiny_generators import DECODING, PROMPTS, biased, logits_after, words, writer
from tests.models.zoo import CAUSAL, TRANSLATORS

EACH = pytest.mark.parametrize("name", DECODING)


@EACH
def test_greedy_is_the_likeliest_token_of_a_whole_run(name: str) -> None:
    model = writer(name)
    for prompt in PROMPTS[:2]:
        (written,) = generate(model, words(), prompt, GenerationConfig(max_new_tokens=5))
        logits = logits_after(model, words().encode(prompt), written.ids, name)
        assert written.ids == logits.argmax(-1).tolist()
        true = logits.log_softmax(-1).gather(1, torch.tensor(written.ids)[:, None])[:, 0]
        assert written.log_probabilities == pytest.approx(true.tolist(), abs=1e-5)
        assert written.score == pytest.approx(true.sum().item(), abs=1e-4)


@pytest.mark.parametrize("beams", [1, 3])
def test_a_model_without_blocks_writes_by_its_last_token(beams: int) -> None:
    model = build(GPTConfig(vocab=words().vocab_size, context=16, dim=8, layers=0, heads=2, dropout=0.0), 0).eval()
    found = generate(model, words(), PROMPTS[:2], GenerationConfig(max_new_tokens=4, num_beams=beams))
    for prompt, text in zip(PROMPTS[:2], found, strict=True):
        logits = logits_after(model, words().encode(prompt), text.ids, "gpt")
        true = logits.log_softmax(-1).gather(1, torch.tensor(text.ids)[:, None])[:, 0]
        assert text.log_probabilities == pytest.approx(true.tolist(), abs=1e-5)
        assert beams > 1 or text.ids == logits.argmax(-1).tolist()


@EACH
def test_other_texts_chunks_and_number_do_not_matter(name: str) -> None:
    model = writer(name)
    for config in (
        GenerationConfig(max_new_tokens=5),
        GenerationConfig(max_new_tokens=5, temperature=0.9, top_p=0.9, repetition_penalty=1.3, seed=3),
    ):
        alone = [generate(model, words(), prompt, config)[0].ids for prompt in PROMPTS]
        parts = dataclasses.replace(config, prefill_chunk=2, batch_tokens=25)
        assert [w.ids for w in generate(model, words(), PROMPTS[::-1], parts)] == alone[::-1]
        if config.temperature:
            several = generate(model, words(), PROMPTS, dataclasses.replace(config, n=2))
            assert [w.ids for w in several[::2]] == alone
            assert [w.ids for w in several[1::2]] != alone, "the second sample is the first again"


@pytest.mark.parametrize("name", ["gpt", "seq2seq", "lstm"])
def test_where_torch_puts_new_tensors_does_not_matter(name: str) -> None:
    for config in (
        GenerationConfig(max_new_tokens=5, temperature=1.0, n=2, repetition_penalty=1.2),
        GenerationConfig(max_new_tokens=5, num_beams=2),
    ):
        wanted = [written.ids for written in generate(writer(name), words(), PROMPTS[:2], config)]
        with torch.device("meta"):
            assert [written.ids for written in generate(writer(name), words(), PROMPTS[:2], config)] == wanted


@pytest.mark.parametrize("name", ["gpt", "seq2seq", "lstm"])
def test_streamed_pieces_make_the_text(name: str) -> None:
    config = GenerationConfig(max_new_tokens=12, temperature=1.0, n=2, stop=("three",))
    whole = generate(writer(name), words(), PROMPTS[0], config)
    pieces = list(stream(writer(name), words(), PROMPTS[0], config))
    for number, text in enumerate(whole):
        mine = [piece for piece in pieces if piece.index == number]
        assert "".join(piece.text for piece in mine) == text.text
        assert [piece.finish_reason for piece in mine][-1] == text.finish_reason
        assert all(piece.finish_reason is None for piece in mine[:-1])


def test_bytes_of_one_character_come_out_together() -> None:
    """A stream never shows half a character, nor what may turn out to be the beginning of a stop."""
    tokenizer = learn_tokenizer(["aé日"], "bpe", 270)
    model = scripted(tokenizer.encode("a日é stop here"), tokenizer.vocab_size)
    pieces = [
        piece.text for piece in stream(model, tokenizer, "a", GenerationConfig(max_new_tokens=30, stop=("stop",)))
    ]
    assert "".join(pieces) == "a日é "
    assert "日" in pieces and not any("\N{REPLACEMENT CHARACTER}" in piece for piece in pieces)


def scripted(ids: list[int], vocab: int) -> GPT:
    """A model that says these tokens, whatever it is asked."""
    model = writer("gpt", vocab=vocab)
    said = iter(ids)
    model = type("Scripted", (GPT,), {"forward": lambda self, ids, keep=None, cache=None: speak(self, ids, cache)})(
        model.config
    )

    def speak(_model: GPT, given: torch.Tensor, cache: object) -> torch.Tensor:
        cache.advance(given.shape[1])
        return torch.nn.functional.one_hot(torch.tensor([[next(said)]]), vocab).float()

    return model


def test_ends() -> None:
    tokenizer = words()
    two, three, end = *tokenizer.encode("two three"), tokenizer.eos

    def say(ids: list[int], **config: object) -> tuple[str, list[int], str]:
        (written,) = generate(
            scripted(ids, tokenizer.vocab_size), tokenizer, "one", GenerationConfig(**{"max_new_tokens": 4, **config})
        )
        return written.text.strip(), written.ids, written.finish_reason

    assert say([two, end, two, two]) == ("two", [two, end], "stop")
    assert say([two] * 9) == ("two two two two", [two] * 4, "length")
    assert say([two, three, two, two], stop=[three]) == ("two three", [two, three], "stop")
    assert say([two, three, two, two], stop=["three"]) == ("two", [two, three], "stop")
    assert say([two, three, two, two], stop=["o th"]) == ("tw", [two, three], "stop")
    assert say([two, end, two, two], min_new_tokens=2)[1][1] != end, "an end before the least length"


@pytest.mark.parametrize("name", [n for n in TRANSLATORS if n not in ("t5", "t5-gated")])
def test_the_context_ends_a_translation_and_says_so(name: str) -> None:
    model = writer(name, context=16)
    config = GenerationConfig(max_new_tokens=20, temperature=1.0, min_new_tokens=20)
    for text in generate(model, words(), PROMPTS[1:3], config):
        assert (len(text.ids), text.finish_reason) == (15, "context")
    with pytest.raises(DecodingError, match="the prompt has 17 tokens, wanted at most 16, the model's context"):
        generate(model, words(), " ".join(["one"] * 17))


def cropped(model: Model, prompt: list[int], count: int, context: int) -> list[int]:
    """The most likely tokens one by one, each after the last tokens that fit: nanoGPT's loop."""
    ids = list(prompt)
    unused = [*words().unused_ids(model.config.vocab), *words().ends]
    for _ in range(count):
        logits = model(torch.tensor([ids[-context:]]))[0, -1].clone()
        logits[unused] = -torch.inf
        ids.append(int(logits.argmax()))
    return ids[len(prompt) :]


def alibi() -> Model:
    """A model without a window whose attention fades with distance."""
    model = build(ModernConfig(vocab=words().vocab_size, context=12, dim=8, layers=2, heads=2, positions="alibi"))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    return model.eval().requires_grad_(False)


@pytest.mark.parametrize("name", ["alibi", *(n for n in CAUSAL if n not in ("rnn", "lstm"))])
def test_a_text_goes_on_past_the_context(name: str) -> None:
    model = alibi() if name == "alibi" else writer(name, context=12)
    config = GenerationConfig(max_new_tokens=20, min_new_tokens=20)
    found = generate(model, words(), PROMPTS, config)
    too_long = r"a prompt has 18 tokens, and the model's context is 12: only its last 12 are read"
    with nullcontext() if model.reads_past_context else pytest.warns(UserWarning, match=too_long):
        long = generate(model, words(), " ".join(["one two four"] * 6), config)
    assert {(len(text.ids), text.finish_reason) for text in (*found, *long)} == {(20, "length")}
    assert "".join(chunk.text for chunk in stream(model, words(), PROMPTS[0], config)) == found[0].text
    context = 99 if model.reads_past_context else 12
    with no_checks():  # which refuse a run over more than the context
        for prompt, text in zip([*PROMPTS, " ".join(["one two four"] * 6)], (*found, *long), strict=True):
            assert text.ids == cropped(model, words().encode(prompt), 20, context)


def test_past_the_context_a_text_does_not_depend_on_its_batch_nor_on_how_many_are_drawn() -> None:
    model = writer("gpt", context=12)
    config = GenerationConfig(max_new_tokens=30, temperature=1.0, n=2, repetition_penalty=1.2)
    together = [text.ids for text in generate(model, words(), PROMPTS, config)]
    apart = [text.ids for prompt in PROMPTS for text in generate(model, words(), prompt, config)]
    assert together == apart
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("glassformer.decoding.loop.NUMBERS_AT_ONCE", 3)
        assert [text.ids for text in generate(model, words(), PROMPTS, config)] == together


def test_dropout_is_off_and_training_goes_on_after() -> None:
    model = writer("gpt")
    noisy = type(model)(dataclasses.replace(model.config, dropout=0.5))
    noisy.load_state_dict(model.state_dict())
    noisy.train()
    assert generate(noisy, words(), "one")[0].ids == generate(model, words(), "one")[0].ids
    assert noisy.training


FILTERS = {
    "plain": {},
    "cold": {"temperature": 0.5},
    "top_k": {"top_k": 4},
    "top_p": {"top_p": 0.7},
    "min_p": {"min_p": 0.2},
    "repetition_penalty": {"repetition_penalty": 1.5},
    "all": {"temperature": 1.3, "top_k": 9, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 1.1},
}


def expected(logits: torch.Tensor, config: GenerationConfig, seen: list[int]) -> torch.Tensor:
    """The distribution to draw from, worked out one token after another, in plain Python."""
    z = [float(s) for s in logits]
    z = [
        (v * config.repetition_penalty if v < 0 else v / config.repetition_penalty) if i in seen else v
        for i, v in enumerate(z)
    ]
    z = [v / config.temperature for v in z]
    order = sorted(range(len(z)), key=lambda i: (-z[i], i))
    if config.top_k is not None:
        order = order[: config.top_k]
    if config.top_p is not None:
        probabilities = [math.exp(z[i] - z[order[0]]) for i in order]
        reached, kept = 0.0, []
        for i, probability in zip(order, probabilities, strict=True):
            if not kept or reached < config.top_p * sum(probabilities):
                kept.append(i)
            reached += probability
        order = kept
    if config.min_p is not None:
        order = [i for i in order if math.exp(z[i] - z[order[0]]) >= config.min_p]
    probabilities = torch.zeros(len(z), dtype=torch.float64)
    for i in order:
        probabilities[i] = math.exp(z[i] - z[order[0]])
    return probabilities / probabilities.sum()


@pytest.mark.parametrize("name", FILTERS)
def test_draws_have_the_true_distribution(name: str) -> None:
    """Chi-square of 20,000 draws against probabilities worked out by hand; never anything that was cut off."""
    config = GenerationConfig(**{"temperature": 1.0, **FILTERS[name]})
    logits = 2 * torch.randn(12, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    seen = [1, 3, 3]
    p = expected(logits, config, seen)
    draws = 20_000
    u = torch.rand(draws, dtype=torch.float64, generator=torch.Generator().manual_seed(11))
    ids = next_token(logits.expand(draws, -1), config, u, torch.tensor([seen]).expand(draws, -1))
    counts = torch.bincount(ids, minlength=12).double()
    assert counts[p == 0].sum() == 0
    live = p > 0
    chi = ((counts[live] - draws * p[live]) ** 2 / (draws * p[live])).sum().item()
    freedom = int(live.sum()) - 1
    assert chi < freedom + 4 * math.sqrt(2 * freedom) + 8, "p below about one in 10,000"


def chi_square(ids: list[int], p: torch.Tensor) -> tuple[float, int]:
    counts = torch.bincount(torch.tensor(ids), minlength=len(p)).double()
    assert counts[p == 0].sum() == 0
    live = p > 0
    return ((counts[live] - len(ids) * p[live]) ** 2 / (len(ids) * p[live])).sum().item(), int(live.sum()) - 1


@pytest.mark.parametrize("name", ["plain", "top_k", "all"])
def test_generated_samples_have_the_true_distribution(name: str) -> None:
    """The first token of 4,000 samples through the whole path, against the model's logits."""
    config = GenerationConfig(
        **{"temperature": 1.0, **FILTERS[name], "n": 4000, "max_new_tokens": 1, "batch_tokens": 10**6}
    )
    model, prompt = writer("gpt"), words().encode("one two three")
    ids = [written.ids[0] for written in generate(model, words(), "one two three", config)]
    logits = model(torch.tensor([prompt]))[0, -1].double()
    chi, freedom = chi_square(ids, expected(logits, config, prompt))
    assert chi < freedom + 4 * math.sqrt(2 * freedom) + 8


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**40), sample=st.integers(0, 9), prompt=st.lists(st.integers(0, 99), max_size=5))
def test_random_numbers_depend_on_seed_prompt_and_sample_alone(seed: int, sample: int, prompt: list[int]) -> None:
    config = GenerationConfig(seed=seed, max_new_tokens=4)
    numbers = random_numbers(prompt, sample, config)
    assert torch.equal(numbers, random_numbers(prompt, sample, config))
    assert ((numbers >= 0) & (numbers < 1)).all()
    assert not torch.equal(numbers, random_numbers(prompt, sample + 1, config))
    assert not torch.equal(numbers, random_numbers([*prompt, 1], sample, config))
    assert not torch.equal(numbers, random_numbers(prompt, sample, dataclasses.replace(config, seed=seed + 1)))


def test_log_probabilities_are_the_models_own() -> None:
    logits = torch.randn(3, 8)
    ids = torch.tensor([1, 5, 2])
    assert torch.allclose(log_probability(logits, ids), logits.log_softmax(-1)[torch.arange(3), ids])
    assert filtered(logits, GenerationConfig(temperature=1.0)).equal(logits)


BAD = [
    ({"max_new_tokens": 0}, "max_new_tokens is 0, wanted a whole number, at least 1"),
    ({"n": 0}, "n is 0, wanted a whole number, at least 1"),
    ({"n": True}, "n is True"),
    ({"temperature": -1.0}, "temperature is -1.0, wanted a number of at least 0"),
    ({"temperature": math.nan}, "temperature is nan"),
    ({"temperature": 1e-40}, "temperature is 1e-40, wanted 0 or at least 1e-06"),
    ({"temperature": 1e-320}, "temperature is 1e-320, wanted 0 or at least 1e-06"),
    ({"top_k": 0}, "top_k is 0"),
    ({"top_p": 0.0}, "top_p is 0.0, wanted a number above 0"),
    ({"top_p": 1.5}, "top_p is 1.5, wanted a probability of at most 1"),
    ({"min_p": -0.1}, "min_p is -0.1"),
    ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0"),
    ({"stop": "text"}, "stop is 'text', wanted a list of texts"),
    ({"stop": ("",)}, "stop is"),
    ({"num_beams": 2, "temperature": 0.5}, "num_beams is 2, wanted 1 with a temperature"),
    ({"num_beams": 2, "repetition_penalty": 1.2}, "repetition_penalty is 1.2, wanted 1 with a beam"),
    ({"top_k": 3}, "top_k is 3, wanted a temperature above 0 with it: greedy decoding does not sample"),
    ({"top_p": 0.5}, "top_p is 0.5, wanted a temperature above 0 with it"),
    ({"min_p": 0.5, "num_beams": 2}, "min_p is 0.5, wanted a temperature above 0 with it"),
    ({"n": 2}, "n is 2, wanted a temperature above 0 or num_beams with it: greedy decoding has one text"),
    ({"num_beams": 2, "n": 3}, "n is 3, wanted at most num_beams, 2"),
    ({"num_beams": 2, "stop": ["x"]}, r"stop is \['x'\], wanted no texts with a beam, which ranks whole ones"),
    ({"min_new_tokens": 9, "max_new_tokens": 3}, "min_new_tokens is 9, wanted at most max_new_tokens, 3"),
    ({"length_penalty": math.inf}, "length_penalty is inf"),
]


@pytest.mark.parametrize(("config", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_settings_are_named(config: dict, message: str) -> None:
    with pytest.raises(DecodingError, match=message):
        GenerationConfig(**config)


def test_bad_input_is_named() -> None:
    model = writer("gpt")
    with pytest.raises(DecodingError, match="top_k is 99, wanted at most 15, the vocabulary"):
        generate(model, words(), "one", GenerationConfig(temperature=1.0, top_k=99))
    with pytest.raises(DecodingError, match="stop is"):
        generate(model, words(), "one", GenerationConfig(stop=(99,)))
    with pytest.raises(DecodingError, match="Encoder does not write text"):
        generate(writer("encoder"), words(), "one")
    with pytest.raises(DecodingError, match="MLP does not write text"):
        generate(writer_mlp(), words(), "one")
    with pytest.raises(DecodingError, match="num_beams is 2, wanted 1 to stream"):
        list(stream(model, words(), "one", GenerationConfig(num_beams=2)))
    with pytest.raises(DecodingError, match="the tokenizer gives the id 12, wanted ids below 9"):
        generate(writer("gpt", vocab=9), words(), WORD_BEYOND)
    assert generate(model, words(), []) == []


WORD_BEYOND = " ".join(words().token(id) for id in (12,))


def writer_mlp() -> object:
    from glassformer.models.registry import build

    return build("mlp-xor")


def test_an_empty_prompt_begins_as_a_document_does_in_training() -> None:
    model = writer("gpt")
    (written,) = generate(model, words(), "", GenerationConfig(max_new_tokens=3))
    assert written.ids[0] == int(model(torch.tensor([[words().eos]]))[0, -1].argmax()), "documents follow an end token"
    from glassformer.text.tokenizer import Tokenizer

    bare = Tokenizer(words()._inner, {})
    with pytest.raises(TokenizerError, match="prompt 1 is empty, and the tokenizer has no EOS or BOS token"):
        generate(model, bare, ["one", ""])
    assert issubclass(DecodingError, GlassformerError)


@settings(max_examples=50, deadline=None)
@given(lengths=st.lists(st.integers(0, 50), max_size=30), most=st.integers(1, 300))
def test_batches_keep_within_their_tokens_and_lose_nothing(lengths: list[int], most: int) -> None:
    config = GenerationConfig(max_new_tokens=5, batch_tokens=most)
    batches = list(batches_by_tokens([[0] * n for n in lengths], config))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * (max(lengths[i] for i in batch) + 5) <= most


def test_few_shot_prompts_show_and_ask() -> None:
    shots = [Example("2 + 2", "4"), Example("3 + 3", "6", wrong="33")]
    prompt = few_shot_prompt(shots, "1 + 1", "Add.")
    assert (
        prompt
        == "Add.\n\nQuestion: 2 + 2\nAnswer: 4\n\nQuestion: 3 + 3\nNot: 33\nAnswer: 6\n\nQuestion: 1 + 1\nAnswer:"
    )
    assert all(stop in prompt for stop in few_shot_stops())
    assert few_shot_prompt([], "why?") == "Question: why?\nAnswer:"
    with pytest.raises(DecodingError, match="the question is empty"):
        few_shot_prompt(shots, " ")
    with pytest.raises(DecodingError, match="example 1 has an empty question or answer"):
        few_shot_prompt([shots[0], Example("", "x")], "why?")


def test_the_coldest_temperature_is_the_greedy_choice() -> None:
    """Logits from tiny to far apart, by the lowest temperature that is taken."""
    logits = torch.randn(6, 9, generator=torch.Generator().manual_seed(0)) * torch.tensor(
        [[1e-3], [1], [10], [1e3], [1e4], [1e5]]
    )
    u = torch.full((6,), 0.999999, dtype=torch.float64)
    assert next_token(logits, GenerationConfig(temperature=COLDEST), u).tolist() == logits.argmax(-1).tolist()


WAYS = {
    "greedy": GenerationConfig(max_new_tokens=4),
    "drawn": GenerationConfig(max_new_tokens=4, temperature=1.5, top_k=14, n=3),
    "num_beams": GenerationConfig(max_new_tokens=4, num_beams=3, n=2),
    "held back": GenerationConfig(max_new_tokens=4, min_new_tokens=3, repetition_penalty=1.2),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["gpt", "seq2seq", "lstm"])
def test_logits_that_are_not_finite_are_an_error(name: str, way: str) -> None:
    """One NaN, one infinity, or nothing but NaN: no text is made up from them."""
    for row, value in ((3, math.nan), (3, math.inf), (slice(None), math.nan)):
        model = copy.deepcopy(writer(name))
        model.embedding.weight[row] = value
        with pytest.raises(NonFiniteError, match=r"the logits of token \d are not finite numbers"):
            generate(model, words(), words().token(3), WAYS[way])
    if WAYS[way].num_beams == 1:
        with pytest.raises(NonFiniteError):
            list(stream(model, words(), "one two", WAYS[way]))
    assert NonFiniteError.status == 1


def with_gaps() -> Tokenizer:
    """The words as a tokenizer that leaves out the ids 6 and 9."""
    ids = [id for id in range(words().vocab_size + 2) if id not in (6, 9)]
    vocab = {words()._inner.id_to_token(number): id for number, id in enumerate(ids)}
    inner = tokenizers.Tokenizer.from_str(words()._inner.to_str())
    inner.model = models.WordLevel(vocab, unk_token=words().roles["unk"])
    return Tokenizer(inner, words().roles)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["gpt", "llama", "lstm", "seq2seq"])
def test_an_id_that_is_no_token_is_never_chosen(name: str, way: str) -> None:
    """Rows beyond the tokenizer and gaps in it, all of them likelier than any token; as if they were impossible."""
    for tokenizer in (words(), with_gaps()):
        rows = tokenizer.vocab_size + 7
        unused = tokenizer.unused_ids(rows)
        assert unused == [
            id
            for id in range(rows)
            if (id in (6, 9) and tokenizer.vocab_size > words().vocab_size) or id >= tokenizer.vocab_size
        ]
        likely, barred = (biased(name, rows, unused, by) for by in (50.0, -1e9))
        found = generate(likely, tokenizer, PROMPTS[:3], WAYS[way])
        wanted = generate(barred, tokenizer, PROMPTS[:3], WAYS[way])
        assert [text.ids for text in found] == [text.ids for text in wanted]
        assert not {id for text in found for id in text.ids} & set(unused)
        for one, other in zip(found, wanted, strict=True):
            assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-4)
        if WAYS[way].num_beams == 1:
            pieces = [piece for piece in stream(likely, tokenizer, PROMPTS[0], WAYS[way]) if piece.index == 0]
            assert "".join(piece.text for piece in pieces) == found[0].text


@pytest.mark.parametrize("name", ["seq2seq", "t5"])
def test_a_blank_source_is_streamed_as_it_is_generated(name: str) -> None:
    for blank in ("", " \n"):
        for n in (1, 2):
            config = GenerationConfig(max_new_tokens=3, temperature=1.0, n=n)
            assert [piece.text for piece in stream(writer(name), words(), blank, config)] == [""] * n
            assert [text.text for text in generate(writer(name), words(), blank, config)] == [""] * n


@pytest.mark.parametrize(
    "config",
    [GenerationConfig(max_new_tokens=10**12, temperature=1.0), GenerationConfig(max_new_tokens=10**12, num_beams=2)],
)
def test_a_limit_beyond_all_reach_takes_no_room(config: GenerationConfig) -> None:
    (found,) = generate(writer("gpt", context=12), words(), "one two", config)
    assert len(found.ids) <= 10 or (config.num_beams == 1 and found.finish_reason == "stop")
    near = generate(writer("gpt", context=12), words(), "one two", dataclasses.replace(config, max_new_tokens=10))
    assert found.ids[:10] == near[0].ids
