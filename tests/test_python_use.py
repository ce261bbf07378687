"""Python as people type it: text into the probes, short `repr`s, notebook views, one line for a wrong type."""

import base64
import gzip
import html
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.decoding.config import GenerationConfig
from glassformer.errors import ConfigError, DecodingError, EquationError, GlassformerError, ModelError, TapeError
from glassformer.interface import LoadedModel
from tests.decoding.tiny_generators import PROMPTS, words, writer


@cache
def loaded(name: str = "gpt") -> LoadedModel:
    """A tiny model with its tokenizer, as `gf.load` gives it."""
    assert gf.load  # once it has been read, a notebook shows what it gives
    return LoadedModel(writer(name), words())


def test_a_text_goes_straight_into_the_probes() -> None:
    model = loaded()
    trace = gf.trace(model, PROMPTS[2], layer=0)
    assert [step.name for step in trace.steps] == [step.name for step in model.trace(PROMPTS[2], layer=0).steps]
    assert trace.tokens == model.trace(PROMPTS[2]).tokens and len(trace.tokens["ids"]) > 1
    whole = gf.trace(model, PROMPTS[2])
    assert torch.equal(gf.probes.logit_lens(model, PROMPTS[2]), gf.probes.logit_lens(whole))
    maps = gf.probes.attention_maps(model, PROMPTS[2])
    assert maps.keys() == gf.probes.attention_maps(model.model, whole.inputs).keys()
    ids = whole.inputs["ids"]
    assert isinstance(ids, torch.Tensor)
    assert torch.equal(gf.trace(model, ids[0].tolist()).output, whole.output)
    assert torch.equal(gf.trace(model, ids).output, whole.output), "tensors are taken as before"


def test_a_translator_is_traced_with_its_own_translation() -> None:
    maps = gf.probes.attention_maps(loaded("seq2seq"), PROMPTS[0])
    cross = next(name for name in maps if "cross" in name)
    assert maps[cross].shape[-2:] == (len(maps.tokens["target"]), len(maps.tokens["source"]))


def test_a_bare_model_says_to_load_one() -> None:
    for probe in (gf.trace, gf.probes.attention_maps, gf.probes.logit_lens):
        with pytest.raises(ModelError, match="bare model and reads no text: use what gf.load returns"):
            probe(writer("gpt"), "To be")
    with pytest.raises(GlassformerError, match="^logit_lens got GPT alone, wanted a trace, or a model and its inputs"):
        gf.probes.logit_lens(writer("gpt"))


def test_evaluate_takes_a_loaded_model(tmp_path: Path) -> None:
    text = tmp_path / "notes"
    text.write_text(" ".join(PROMPTS) * 20, encoding="utf-8")
    gf.save(writer("gpt"), tmp_path / "model", words())
    assert gf.evaluate(gf.load(tmp_path / "model"), str(text)) == gf.evaluate(tmp_path / "model", str(text))
    with pytest.raises(ConfigError, match="of the type GPT, wanted a folder or what gf.load returns"):
        gf.evaluate(writer("gpt"), str(text))
    with pytest.raises(ConfigError, match="step is 3, and the model is loaded already"):
        gf.evaluate(loaded(), str(text), step=3)


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda: gf.equations.softmax.cell(0, torch.ones(2, 3)), EquationError, "index is 0, wanted 2 whole numbers"),
        (lambda: gf.equations.softmax.cell((0, 3), torch.ones(2, 3)), EquationError, r"within the output \[2, 3\]"),
        (lambda: gf.equations.softmax.cell(None, torch.ones(2)), EquationError, "index is None, wanted 1 whole"),
        (lambda: gf.equations.softmax.cell((0, 0), [[1.0]]), EquationError, "z is a list, wanted a tensor"),
        (gf.equations.softmax, EquationError, "missing a required argument: 'z'"),
        (lambda: gf.equations.softmax.cost((2, -3)), EquationError, "z is a tuple, wanted a tensor"),
        (lambda: gf.equations.attention.cost((3, 4), (3, 5), (3, 4)), EquationError, r"k has shape \[3, 5\]"),
        (lambda: gf.load(3), GlassformerError, "path is of the type int"),
        (lambda: gf.save(loaded(), "nowhere"), GlassformerError, r"its own method: \.save\(folder\)"),
        (lambda: gf.generate(loaded(), words(), "To"), DecodingError, r"its own method: \.generate\(prompt\)"),
        (lambda: gf.generate(writer("gpt"), words(), 3), DecodingError, "a prompt is of the type int"),
        (lambda: loaded().generate([3]), ModelError, "a text is of the type int"),
        (lambda: loaded().stream(None), DecodingError, "prompt is of the type NoneType"),
        (lambda: gf.trace(loaded(), 3), ModelError, "text is of the type int"),
        (lambda: gf.trace("model", "text"), ModelError, "model is of the type str"),
        (lambda: gf.trace(writer("gpt"), [1, 2]), ModelError, "inputs are of the type list"),
        (lambda: GenerationConfig(beams=3), DecodingError, "no generation setting 'beams'; did you mean num_beams?"),
        (lambda: GenerationConfig(3), DecodingError, "3 has no name, wanted settings such as temperature=0.8"),
        (lambda: GenerationConfig(stop=3), DecodingError, "stop is 3, wanted a list of texts and token ids"),
        (lambda: GenerationConfig(stop=[None]), DecodingError, r"stop is \[None\], wanted a list of texts and token"),
        (lambda: GenerationConfig(length_penalty="x"), DecodingError, "length_penalty is 'x', wanted a number"),
        (lambda: GenerationConfig(seed="x"), DecodingError, "seed is 'x', wanted a whole number"),
        (lambda: GenerationConfig(compile="yes"), DecodingError, "compile is 'yes', wanted true or false"),
        (lambda: loaded().generate("To", top_k=3), DecodingError, "top_k is 3, wanted a temperature above 0 with it"),
        (lambda: loaded().generate(["To"], n=3), DecodingError, "n is 3, wanted a temperature above 0 or num_beams"),
        (lambda: loaded().generate("To", {"n": 1}), DecodingError, "config is of the type dict, wanted a Generation"),
        (lambda: gf.generate(writer("gpt"), words(), "To", 3), DecodingError, "config is of the type int, wanted a"),
        (lambda: gf.generate(writer("gpt"), None, "To"), DecodingError, "tokenizer is of the type NoneType"),
        (lambda: gf.translate(writer("seq2seq"), None, ["To"]), DecodingError, "tokenizer is of the type NoneType"),
        (lambda: loaded().trace(None), ModelError, "text is of the type NoneType, wanted a text or a list of token"),
        (lambda: loaded("seq2seq").trace("one", 3), ModelError, "text is of the type int, wanted a text or a list"),
        (lambda: loaded().trace("one", layer="x"), TapeError, "layer is of the type str, wanted a whole number"),
        (lambda: loaded().trace("one", head="x"), TapeError, "head is of the type str, wanted a whole number"),
        (lambda: loaded().trace("one", equation=3), TapeError, "equation is of the type int, wanted the name"),
        (lambda: loaded().trace("one", backward=3), TapeError, "backward is of the type int, wanted the name of a"),
        (lambda: loaded().save(3), GlassformerError, "folder is of the type int, wanted the path of a folder"),
        (lambda: gf.load("x", device="tpu"), ConfigError, "device is 'tpu', wanted auto, cpu, cuda or cuda:1"),
        (lambda: gf.load("x", device="cuda:99"), ConfigError, "device is 'cuda:99', and this machine has"),
        (lambda: gf.load("x", device=3.5), ConfigError, "device is of the type float, wanted cpu, cuda or cuda:1"),
        (lambda: gf.load("x", dtype="float32"), ConfigError, "dtype is of the type str, wanted a torch.dtype"),
        (lambda: gf.load("x", step="best"), GlassformerError, "step is of the type str, wanted a whole number"),
        (lambda: gf.load("x", adapter=3), GlassformerError, "adapter is of the type int, wanted the path of a folder"),
        (lambda: gf.train(3), ConfigError, "task is of the type int, wanted a name"),
        (lambda: gf.train("gpt", ["recipe.steps=3"]), ConfigError, "settings is of the type list, wanted a mapping"),
    ],
)
def test_a_wrong_type_is_answered_in_one_line(call: object, kind: type[GlassformerError], said: str) -> None:
    assert callable(call)
    with pytest.raises(kind, match=said) as found:
        call()
    assert "\n" not in str(found.value)


def test_a_cost_needs_no_more_than_shapes() -> None:
    x = torch.ones(2, 3, 4)
    assert gf.equations.softmax.cost((2, 3, 4)) == gf.equations.softmax.cost(x)
    assert gf.equations.attention.cost((2, 3, 4), (2, 5, 4), [2, 5, 4]).flops > 0
    embedded = gf.equations.embed.cost((10, 4), torch.Size([3]))
    assert embedded == gf.equations.embed.cost(torch.ones(10, 4), torch.zeros(3, dtype=torch.int64))
    assert gf.equations.global_norm.cost([(2, 3), (4,)]) == gf.equations.global_norm.cost(
        [torch.ones(2, 3), torch.ones(4)]
    )
    assert gf.equations.softmax.cell(1, torch.zeros(2)).endswith("= 0.5")


def test_reprs_are_one_short_line() -> None:
    model = loaded()
    trace = gf.trace(model, PROMPTS[2])
    found = model.generate(PROMPTS[2], max_new_tokens=4)
    maps = gf.probes.attention_maps(model, PROMPTS[2])
    for each in (trace, trace.steps[0], trace.tape, trace.tape.steps[3], found, maps, gf.equations.softmax):
        assert (
            len(repr(each)) < 200 and "\n" not in repr(each) and "tensor(" not in repr(each) and "0x" not in repr(each)
        )
    assert repr(trace) == f"<Trace GPT: {len(trace.steps)} steps>"
    assert re.fullmatch(r"<Completion '.*': 4 tokens, length>", repr(found))


def test_notebook_views() -> None:
    model = loaded()
    trace = gf.trace(model, PROMPTS[2])
    softmax = gf.equations.softmax
    assert softmax._repr_latex_() == rf"$\displaystyle {softmax.latex}$"
    table = trace.tape._repr_markdown_().splitlines()
    assert table[0].startswith("| step | equation") and all(line.count("|") == 5 for line in table)
    assert len(table) == 2 + len(trace.tape.steps)
    step = trace.tape.steps[0]._repr_markdown_()
    assert trace.tape.steps[0].equation.latex in step and "| E | [" in step and "float32" in step
    text = model.generate(PROMPTS[2], max_new_tokens=4)
    assert f"{len(text.ids)} tokens" in text._repr_html_() and text.text.replace("<", "&lt;")[:4] in text._repr_html_()


def framed(shown: str) -> str:
    """The page in the iframe that a notebook shows."""
    found = re.fullmatch(
        r'<iframe sandbox="allow-scripts" srcdoc="([^"]*)" title="[^"]*" style="[^"]*"></iframe>', shown
    )
    assert found
    return html.unescape(found[1])


def block(page: str, name: str) -> bytes:
    """A block of data of a page."""
    found = re.search(rf'id="{name}">([^<]*)<', page)
    assert found
    return gzip.decompress(base64.b64decode(found[1]))


def test_attention_maps_are_drawn_with_their_tokens() -> None:
    maps = gf.probes.attention_maps(loaded(), PROMPTS[2])
    page = framed(maps._repr_html_())
    data = json.loads(block(page, "run"))
    assert [each["step"] for each in data["sheet"]["maps"]] == list(maps)
    assert data["run"]["tokens"] == {"ids": list(maps.tokens["ids"])}
    assert all(step["labels"] == ["ids", "ids"] for step in data["run"]["steps"])
    numbers = np.ascontiguousarray(np.frombuffer(block(page, "numbers"), np.uint8).reshape(4, -1).T).view("<f4").ravel()
    wanted = torch.cat([weights.float().flatten() for weights in maps.values()])
    assert torch.equal(torch.tensor(numbers), wanted)


def test_small_objects_are_small_in_a_notebook() -> None:
    with gf.tape() as tape:
        gf.equations.softmax(torch.randn(3, 5))
    model = loaded()
    shown = {"equation": (gf.equations.softmax, 60_000), "tape": (tape, 120_000), "model": (model.model, 400_000)}
    for name, (each, most) in shown.items():
        page = framed(each._repr_html_())
        assert len(page) < most, f"{name} takes {len(page)}"
        assert "default-src 'none'" in page and "unsafe" not in page
    assert json.loads(block(framed(gf.equations.softmax._repr_html_()), "run"))[0] == "softmax"
    (step,) = json.loads(block(framed(tape._repr_html_()), "run"))["steps"]
    assert (step["path"], step["output"]) == ("softmax", 0)
    parameters = json.loads(block(framed(model.model._repr_html_()), "run"))["parameters"]
    assert [each["name"] for each in parameters] == [name for name, _ in model.model.named_parameters()]


def test_hostile_tokens_are_text_in_the_views() -> None:
    assert gf.load
    weights = {"x": torch.ones(1, 1, 1, 1)}
    drawn = gf.probes.AttentionMaps(weights, {"ids": ["</script><b>"]})._repr_html_()
    assert "<b>" not in framed(drawn)
