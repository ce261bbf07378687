"""`gf.load` and what a loaded model does: the plain functions, one set of weights, errors that say what to do."""

import gc
import math
import weakref
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.decoding.generate import stream
from glassformer.inference.linear import PackedLinear
from glassformer.models.encoder import EncoderConfig
from glassformer.models.mlp import MLPConfig
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.text.tokenizer import Tokenizer
from tests.decoding.tiny_generators import PROMPTS, WORDS, words, writer

SETTINGS: dict[str, object] = {"max_new_tokens": 6, "temperature": 0.8, "seed": 3}


@cache
def readers() -> Tokenizer:
    """The tokenizer of an encoder: every text between a start and an end token."""
    return learn_tokenizer([WORDS], "words", 40).for_encoder().with_use(max_length=12)


def saved(folder: Path, name: str) -> Path:
    """A folder with a model that generates."""
    gf.save(writer(name), folder, words())
    return folder


def encoder(folder: Path, head: str, labels: tuple[str, ...] | None = None) -> Path:
    """A folder with an encoder whose weights are far from even."""
    tokenizer = readers()
    config = EncoderConfig(
        vocab=tokenizer.vocab_size, context=16, dim=8, layers=1, heads=2, ffn_dim=16, head=head, classes=3
    )
    model = gf.build(config, 0)
    generator = torch.Generator().manual_seed(5)  # with which texts get different labels
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator))
    gf.save(model, folder, tokenizer, labels)
    return folder


def is_converted(model: gf.LoadedModel) -> bool:
    return any(isinstance(module, PackedLinear) for module in model._model.modules())


def test_generate_and_stream_are_the_plain_functions(tmp_path: Path) -> None:
    model = gf.load(saved(tmp_path, "gpt"))
    config = gf.GenerationConfig(**SETTINGS)
    wanted = gf.generate(writer("gpt"), words(), PROMPTS, config)
    found = model.generate(PROMPTS, **SETTINGS)
    assert [one.ids for one in found] == [one.ids for one in wanted]
    assert [one.ids for one in model.generate(PROMPTS, config)] == [one.ids for one in wanted]
    assert model.generate(PROMPTS[1], config=config).text == wanted[1].text
    assert [chunk.text for chunk in model.stream(PROMPTS[0], **SETTINGS)] == [
        chunk.text for chunk in stream(writer("gpt"), words(), PROMPTS[0], config)
    ]
    assert len(model.generate(PROMPTS[:2], config, n=3)) == 6, "keywords stand in place of what the config says"
    assert model.generate([]) == []


def test_translate_is_the_plain_function(tmp_path: Path) -> None:
    model = gf.load(saved(tmp_path, "seq2seq"))
    wanted = gf.translate(writer("seq2seq"), words(), [*PROMPTS, ""], config=gf.GenerationConfig(max_new_tokens=6))
    assert model.translate([*PROMPTS, ""], max_new_tokens=6) == wanted
    assert model.translate(PROMPTS[2], max_new_tokens=6) == wanted[2]
    with pytest.raises(gf.GlassformerError, match="GPT does not translate"):
        gf.load(saved(tmp_path / "gpt", "gpt")).translate("one")


def test_the_weights_are_converted_once_and_only_while_no_one_else_holds_them(tmp_path: Path) -> None:
    model = gf.load(saved(tmp_path, "gpt"))
    stored = weakref.ref(model._model)
    text = model.generate("one two", max_new_tokens=4).text
    gc.collect()
    assert is_converted(model) and stored() in (None, model._model), "the weights are in memory once"
    fast = model._model
    model.generate("one two")
    assert model._model is fast
    plain = model.model
    assert (
        not is_converted(model)
        and {n for n, _ in plain.named_parameters()} == dict(writer("gpt").named_parameters()).keys()
    )
    assert model.generate("one two", max_new_tokens=4).text == text and model.model is plain, "it may be in training"
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.zero_()
    zeros = model.generate("one two", max_new_tokens=2)
    assert zeros.log_probabilities[0] == pytest.approx(-torch.tensor(float(words().vocab_size)).log().item(), abs=1e-5)
    recurrent = gf.load(saved(tmp_path / "lstm", "lstm"))
    assert recurrent.generate("one").ids == gf.generate(writer("lstm"), words(), "one")[0].ids


def test_a_model_from_memory_is_never_changed() -> None:
    model = gf.LoadedModel(writer("gpt"), words())
    before = list(writer("gpt").modules())
    assert model.generate("one").ids == gf.generate(writer("gpt"), words(), "one")[0].ids
    assert list(writer("gpt").modules()) == before and model.model is writer("gpt")


def test_it_saves_what_it_loaded_before_and_after_generating(tmp_path: Path) -> None:
    model = gf.load(saved(tmp_path / "one", "gpt"))
    model.generate("one", max_new_tokens=2)
    model.save(tmp_path / "two")
    for name, parameter in gf.load(tmp_path / "two").model.named_parameters():
        assert torch.equal(parameter, writer("gpt").get_parameter(name))
    assert gf.load(tmp_path / "two").generate("one").ids == model.generate("one").ids
    model.save(tmp_path / "three", format="native")
    assert "architectures" not in (tmp_path / "three" / "config.json").read_text()


def test_quantized_weights_generate_and_are_not_saved(tmp_path: Path) -> None:
    model = gf.load(saved(tmp_path, "gpt"), quantization="int8")
    assert len(model.generate("one two", max_new_tokens=3).ids) == 3
    assert "int8_linear" in {step.equation.name for step in model.trace("one two").steps}
    with pytest.raises(gf.GlassformerError, match="load it without quantization"):
        model.save(tmp_path / "two")


def test_labels_are_those_that_evaluation_counts(tmp_path: Path) -> None:
    labels = ("odd", "even", "none")
    model = gf.load(encoder(tmp_path / "model", "classifier", labels))
    texts = [*PROMPTS, "one" + 30 * " two", "ten"] * 60  # two batches, and texts that are cut
    found = model.classify(texts)
    data = tmp_path / "data.tsv"
    data.write_text("".join(f"{one.label}\t{text}\n" for one, text in zip(found, texts, strict=True)))
    metrics = gf.evaluate(tmp_path / "model", str(data))
    assert metrics.accuracy == 1.0 and metrics.examples == len(texts)
    assert metrics.loss == pytest.approx(-sum(math.log(one.probability) for one in found) / len(found), rel=1e-5)
    assert {one.label for one in found} == set(labels)
    for one in found[:7]:
        assert list(one.probabilities) == list(labels) and sum(one.probabilities.values()) == pytest.approx(1)
        assert one.probability == max(one.probabilities.values()) == one.probabilities[one.label]
    alone = model.classify(texts[2])
    assert alone.label == found[2].label and alone.probability == pytest.approx(found[2].probability, abs=1e-5)
    assert model.classify([]) == []


def test_classes_without_names_are_numbers_and_training_goes_on(tmp_path: Path) -> None:
    model = gf.load(encoder(tmp_path, "classifier"))
    model.model.train()
    names = model.labels or ("0", "1", "2")
    assert model.classify("one").label in names
    assert model.model.training


@pytest.mark.parametrize("head", ["sentence", "pooled", "hidden"])
def test_vectors_of_texts(tmp_path: Path, head: str) -> None:
    model = gf.load(encoder(tmp_path, head))
    found = model.embed(PROMPTS)
    assert found.shape == (len(PROMPTS), 8) and not found.requires_grad
    (ids,) = readers().encode_inputs([PROMPTS[0]])
    with torch.no_grad():
        alone = model.model(torch.tensor([ids]))[0]
    torch.testing.assert_close(found[0], alone.mean(0) if head == "hidden" else alone)
    torch.testing.assert_close(model.embed(PROMPTS[0]), found[0])
    assert model.embed([]).shape == (0, 8)


@pytest.mark.parametrize("head", ["masked", "classifier"])
def test_vectors_of_texts_from_an_encoder_that_pools_nothing(tmp_path: Path, head: str) -> None:
    """The mean of the last hidden states, which an encoder with the same weights and no head returns."""
    model = gf.load(encoder(tmp_path, head))
    bare = gf.build(replace(model.model.config, head="hidden"))
    bare.load_state_dict(model.model.state_dict(), strict=False)
    wanted = gf.LoadedModel(bare, model.tokenizer).embed(PROMPTS)
    assert wanted.shape == (len(PROMPTS), 8)
    torch.testing.assert_close(model.embed(PROMPTS), wanted)


@pytest.mark.parametrize("name", ["gpt", "llama", "seq2seq", "t5"])
def test_vectors_of_texts_from_a_generator(name: str) -> None:
    """The mean of what the last block that reads the text gives, alone as in a batch, before and after generating."""
    model = gf.LoadedModel(writer(name), words())
    found, kept = model.embed(PROMPTS), []
    assert found.shape == (len(PROMPTS), writer(name).config.dim) and found.isfinite().all()
    stack = writer(name).encoder if name in ("seq2seq", "t5") else writer(name).stack
    handle = stack.register_forward_hook(lambda module, given, output: kept.append(output))
    alone = model.embed(PROMPTS[1])
    handle.remove()
    torch.testing.assert_close(alone, found[1], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(alone, kept[0][0].mean(0))
    assert model.embed("one " * 500).shape == alone.shape, "a long text is cut"


def test_a_recurrent_network_does_not_embed() -> None:
    with pytest.raises(gf.GlassformerError, match="RNN does not embed: it has no blocks that read a text"):
        gf.LoadedModel(writer("lstm"), words()).embed("one")


def test_masks_are_filled(tmp_path: Path) -> None:
    model = gf.load(encoder(tmp_path, "masked"))
    mask = readers().roles["mask"]
    first, second = model.fill(f"one {mask} three {mask}", top_k=3)
    ids = readers().encode_masked(f"one {mask} three {mask}")
    assert ids.count(readers().required("mask")) == 2 and [*map(readers().token, ids)][2] == mask
    logits = model.model(torch.tensor([ids]))[0, 2].detach()
    assert first.label == readers().token(int(logits.argmax())) and len(first.probabilities) == 3
    assert first.probability == pytest.approx(float(logits.softmax(-1).max())) and second.label
    with pytest.raises(gf.GlassformerError, match="no mask to fill, wanted at least one"):
        model.fill("one two")


def test_a_trace_is_the_plain_one_with_its_tokens(tmp_path: Path) -> None:
    model = gf.load(saved(tmp_path / "gpt", "gpt"))
    model.generate("one", max_new_tokens=2)
    found = model.trace("one two three", backward="next", layer=0)
    wanted = gf.trace(writer("gpt"), torch.tensor(words().encode_prompts(["one two three"])), "next", layer=0)
    assert [step.name for step in found.steps] == [step.name for step in wanted.steps]
    assert torch.equal(found.output, wanted.output) and float(found.loss) == float(wanted.loss)
    assert found.tokens == {"ids": [" one", " two", " three"]}
    ids = model.trace(words().encode("one two three"))
    assert torch.equal(ids.output, found.output) and ids.tokens == found.tokens
    translator = gf.load(saved(tmp_path / "seq2seq", "seq2seq"))
    own = translator.trace("one two")
    (written,) = gf.generate(writer("seq2seq"), words(), "one two")
    assert own.inputs["target"][0, 1:].tolist() == [id for id in written.ids if id not in words().ends]
    given = translator.trace("one two", "six seven")
    assert given.tokens["target"][1:] == [" six", " seven"]


def test_two_texts_are_traced_together(tmp_path: Path) -> None:
    found = gf.load(encoder(tmp_path, "sentence")).trace("one two three", "four", backward="pair")
    assert found.inputs["attention_mask"].tolist() == [[True] * 5, [True] * 3 + [False] * 2]


ERRORS = [
    (lambda model: model.generate("one", max_tokens=3), "no generation setting 'max_tokens'; did you mean max_new"),
    (lambda model: model.generate("one", temprature=1), "did you mean temperature?"),
    (lambda model: model.generate("one", top_k=0), "top_k is 0, wanted a whole number, at least 1"),
    (lambda model: model.generate("one", n=2, temperature=1.0), "n is 2, wanted 1 for a single prompt: pass a list"),
    (lambda model: next(model.stream("one", num_beams=2)), "num_beams is 2, wanted 1 to stream"),
    (lambda model: model.classify("one"), "GPT does not classify, wanted an encoder with a classifier head"),
    (lambda model: model.trace([]), "the text is empty, wanted at least one token"),
]  # fmt: skip


@pytest.mark.parametrize(("ask", "message"), ERRORS, ids=[message for _, message in ERRORS])
def test_what_is_refused(ask: object, message: str) -> None:
    with pytest.raises(gf.GlassformerError, match=message):
        ask(gf.LoadedModel(writer("gpt"), words()))


def test_what_is_refused_without_a_tokenizer_or_with_another_head(tmp_path: Path) -> None:
    gf.save(writer("gpt"), tmp_path / "bare")
    with pytest.raises(gf.GlassformerError, match="bare: has no tokenizer, so it cannot read or write text"):
        gf.load(tmp_path / "bare").generate("one")
    with pytest.raises(gf.GlassformerError, match="head is hidden, wanted classifier to classify"):
        gf.load(encoder(tmp_path / "encoder", "hidden")).classify("one")
    with pytest.raises(gf.GlassformerError, match="MLP does not read text: trace it with gf.trace"):
        gf.LoadedModel(gf.build(MLPConfig()), words()).trace("one")
    with pytest.raises(gf.GlassformerError, match="has 2 labels for 3 classes"):
        gf.LoadedModel(gf.load(encoder(tmp_path / "c", "classifier")).model, readers(), ["a", "b"]).classify("one")
