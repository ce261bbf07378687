"""Traces: names, replay, gradients, selection, memory, and agreement with the run itself."""

import copy
import dataclasses
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from glassformer.equation import catalog
from glassformer.equations.algebra import add
from glassformer.equations.losses import cross_entropy, mean_squared_error
from glassformer.errors import TapeError
from glassformer.layers.basic import Linear
from glassformer.models.registry import build
from glassformer.probes.trace import sketch, trace, value_bytes
from tests.models.zoo import CAUSAL, TRANSLATORS, ZOO, specimen

EVERY = pytest.mark.parametrize("name", ZOO)
SOME = pytest.mark.parametrize(
    "name", ["gpt", "llama-yarn", "modern", "lstm", "seq2seq-pre", "encoder-classifier", "t5-gated", "mlp"]
)


def picture_loss(output: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    return mean_squared_error(output, inputs["pixel_values"])


def span_loss(output: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    return cross_entropy(output, torch.ones(output.shape[:2], dtype=torch.int64))


def aim_of(name: str) -> str | Callable[[Tensor, dict[str, Tensor]], Tensor]:
    if name == "image-autoencoder":
        return picture_loss
    if name == "encoder-span":
        return span_loss
    if name in CAUSAL or name in TRANSLATORS:
        return "next"
    return {
        "encoder-masked": "token:3@2",
        "encoder-sentence": "pair",
        "encoder": "token:2",
        "vit-hidden": "token:2",
    }.get(name, "class:1")


def loss_of(name: str, output: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    """The same losses, by torch itself."""
    from torch.nn import functional

    aim = aim_of(name)
    if aim is span_loss:
        return functional.cross_entropy(output.flatten(0, 1), torch.ones(output.shape[:2]).long().flatten())
    if not isinstance(aim, str):
        return (output - inputs["pixel_values"]).square().sum() / output[..., 0].numel()
    if aim == "next":
        ids = inputs.get("target", inputs.get("ids"))
        return functional.cross_entropy(output[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    if aim == "pair":
        return functional.cosine_similarity(output[0], output[1], dim=0)
    if aim.startswith("token"):
        row = output[:, 2] if "@" in aim else output[:, -1]
        return functional.cross_entropy(row, torch.full((len(row),), 3 if "@" in aim else 2))
    return functional.cross_entropy(output, torch.ones(len(output)).long())


@EVERY
def test_it_replays_exactly_and_its_gradients_are_autograds(name: str) -> None:
    case = specimen(name)
    found = trace(case.model, case.inputs, aim_of(name))
    assert found.tape.replay() == found.loss and found.tape.replay(deep=True) == found.loss
    loss = loss_of(name, case(), case.inputs)
    assert_close(found.loss, loss.detach(), rtol=1e-9, atol=1e-11)
    parameters = [parameter for parameter in case.model.parameters() if parameter.requires_grad]
    for parameter, wanted in zip(parameters, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True):
        by_rule = found.gradient_of(parameter)
        if by_rule is None:
            assert wanted is None or not wanted.any()
        else:
            assert_close(by_rule, wanted, rtol=1e-8, atol=1e-10)


@EVERY
def test_every_step_has_one_name_and_is_found_by_it(name: str) -> None:
    case = specimen(name)
    found = trace(case.model, case.inputs)
    names = [step.name for step in found.steps]
    assert len(set(names)) == len(names)
    for step in found.steps:
        assert found[step.name].step is step.step and found[step.path].step is step.step
        assert step.equation.latex and step.cost.bytes >= 0 and len(step.axes) == len(step.shape)
        for bound in step.symbols:
            if isinstance(bound.value, Tensor) and bound.value.is_floating_point():
                assert bound.source, f"{step.name}: nobody knows where {bound.symbol.name} came from"
    if name not in ("mlp", "rnn", "lstm", "cnn", "image-mlp", "image-autoencoder", "skip-gram", "linear"):
        module = "decoder.layers.1.cross_attention" if name in ("seq2seq", "t5") else None
        module = module or next(n for n in names if n.endswith("attention.weights")).removesuffix(".weights")
        for word in ("queries", "keys", "values", "scores", "weights", "outputs"):
            assert found[f"{module}.{word}"].shape[1] in (1, 2, 4), f"{word} has heads"
        weights = found[f"{module}.weights"].value
        assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


@pytest.mark.parametrize("name", ["gpt", "encoder", "t5"])
def test_slices_of_a_fused_projection_are_named_as_separate_projections_are(name: str) -> None:
    found = trace(specimen(name).model, specimen(name).inputs)
    fused = name == "gpt"
    module = "layers.0.attention" if name in CAUSAL or name == "encoder" else "encoder.layers.0.attention"
    for one, several in (("query", "queries"), ("key", "keys"), ("value", "values")):
        assert found[f"{module}.{one}"].equation.name == ("slice_axis" if fused else "linear")
        assert found[f"{module}.{several}"].step.inputs["x"] is found[f"{module}.{one}"].output
    assert fused == (f"{module}.qkv" in list(found.names))
    assert not any("slice_axis" in step.name for step in found.steps if module in step.name)


@SOME
def test_step_names_are_declared_and_not_read_from_prose(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = specimen(name)
    before = trace(case.model, case.inputs)
    for equation in catalog().values():
        assert set(equation.step_names) <= {symbol.name for symbol in equation.symbols}
        assert all(word.isidentifier() for word in equation.step_names.values())
        monkeypatch.setattr(equation, "meaning", "Reworded.")
        monkeypatch.setattr(equation, "_words", dict.fromkeys(equation._words, ("reworded", "")))
    after = trace(case.model, case.inputs)
    assert after.steps[0].equation.symbols[0].meaning == "reworded"
    assert list(after.names) == list(before.names)


@SOME
def test_one_layer_is_the_same_as_in_the_whole_and_keeps_no_more(name: str) -> None:
    case = specimen(name)
    whole, part = trace(case.model, case.inputs), trace(case.model, case.inputs, layer=0)
    assert [step.name for step in part.steps] == [step.name for step in whole.select(layer=0).steps]
    for step in part.steps:
        assert_close(step.output, whole[step.name].output, rtol=0, atol=0)
    kept = {id(t) for top in part.tape.steps for step in top.walk() for t in step.output_tensors}
    assert kept == {id(t) for step in part.steps for t in step.step.output_tensors}
    part.tape.replay()
    elsewhere = next(n for n in part.names if n not in {step.name for step in part.steps})
    with pytest.raises(TapeError, match="were not kept"):
        part[elsewhere]


@SOME
def test_the_size_is_known_before_it_starts(name: str) -> None:
    case = specimen(name)
    outline = sketch(case.model, case.inputs)
    found = trace(case.model, case.inputs)
    assert [step.path for step in outline.steps] == [step.path for step in found.tape.steps]
    walked = [step for top in found.tape.steps for step in top.walk()]
    made = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for s in walked for t in s.output_tensors}
    weights = {p.untyped_storage().data_ptr() for p in case.model.parameters()}  # a view of one takes nothing more
    really = sum(size for storage, size in made.items() if storage not in weights)
    assert really <= value_bytes(s for top in outline.steps for s in top.walk()) <= sum(made.values()) * 1.05 + 64


def test_a_trace_too_large_says_how_large_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    case = specimen("gpt")
    monkeypatch.setattr(type(case.model), "forward", lambda *a, **k: pytest.fail("it ran"), raising=True)
    monkeypatch.setattr(sys.modules["glassformer.probes.trace"], "sketch", lambda *a: SKETCH)
    with pytest.raises(TapeError, match=r"would keep 0\.\d+ GB .* room for 0\.00 GB; narrow it to a layer"):
        trace(case.model, case.inputs, limit=1000)


def test_a_sketch_leaves_the_model_as_it_is_meanwhile() -> None:
    """Another thread may be running it."""
    case = copy.deepcopy(specimen("gpt"))
    seen: list[str] = []
    case.model.register_forward_pre_hook(lambda *_: seen.append(next(case.model.parameters()).device.type))
    sketch(case.model, case.inputs)
    assert seen == ["cpu"]


SKETCH = sketch(specimen("gpt").model, specimen("gpt").inputs)


def test_a_layer_fits_where_the_whole_does_not() -> None:
    case = specimen("gpt")
    whole = value_bytes(step for top in SKETCH.steps for step in top.walk())
    with pytest.raises(TapeError, match="would keep"):
        trace(case.model, case.inputs, limit=whole // 2)
    assert trace(case.model, case.inputs, layer=1, limit=whole // 2).steps
    with pytest.raises(TapeError, match="leave the backward pass out"):
        trace(case.model, case.inputs, "next", layer=1, limit=whole)


def test_heads_and_tokens_are_cut_out() -> None:
    case = specimen("seq2seq")
    whole = trace(case.model, case.inputs, "next")
    part = whole.select(layer=1, head=1, token=2)
    assert all(step.name.split(".")[1:3] == ["layers", "1"] for step in part.steps)
    weights = next(step for step in part.steps if step.name == "decoder.layers.1.cross_attention.weights")
    assert torch.equal(weights.value, whole["decoder.layers.1.cross_attention.weights"].value[:, 1:2, 2:3])
    assert torch.equal(weights.gradient, whole["decoder.layers.1.cross_attention.weights"].gradient[:, 1:2, 2:3])
    assert not any(step.equation.name == "linear" for step in part.steps), "a step without heads is not in focus"
    assert {s.equation.name for s in whole.select(equation="soft*").steps} == {"softmax"}
    assert {s.name for s in whole.select(equation="decoder.*.cross_attention.weights").steps} == {
        "decoder.layers.0.cross_attention.weights", "decoder.layers.1.cross_attention.weights",
    }  # fmt: skip
    assert [s.equation.name for s in whole.select(equation="cross_entropy").steps] == ["cross_entropy"]


@pytest.mark.parametrize("name", ["llama-grouped", "modern", "gpt"])
def test_the_keys_and_values_of_a_head_are_those_it_looks_at(name: str) -> None:
    """Of grouped heads too: what is shown of one head is enough to work out its outputs."""
    case = specimen(name)
    whole = trace(case.model, case.inputs)
    attention = whole.model.get_submodule("stack.blocks.1.attention")
    groups = {attention.shape.heads, attention.shape.kv_heads}
    for head in (*range(attention.shape.heads), -1):
        found = whole.select(layer=1, head=head)
        of_head = {step.name: step.value for step in found.steps}
        assert {step.shape[1] for step in found.steps} == groups
        keys, values = (
            next(step.value for step in found.steps if step.step.output is whole[f"layers.1.attention.{what}"].output)
            for what in ("keys", "values")
        )
        shared = [step for step in found.steps if step.equation.name == "repeat_kv"]
        for mine, repeated in zip((keys, values), shared, strict=False):
            assert torch.equal(mine, repeated.value)
        mixed = of_head["layers.1.attention.weights"] @ values
        assert_close(mixed, of_head["layers.1.attention.outputs"])
    with pytest.raises(
        TapeError, match=r"there is no head 4; there are heads 0 to 3|no head 2; there are heads 0 to 1"
    ):
        whole.select(head=attention.shape.heads)


BAD = [
    ({"layer": 2}, r"there is no layer 2; the model has layers 0 to 1"),
    ({"head": 2}, r"there is no head 2; there are heads 0 to 1"),
    ({"token": 7}, r"there is no token 7; there are tokens 0 to 6"),
    ({"equation": "sofmax"}, r"no equation or step is called 'sofmax'; did you mean softmax"),
    ({"equation": "linear", "head": 0}, r"there is no head 0; no step here has heads"),
    ({"backward": "nxt"}, r"'nxt' is not a loss; wanted next, token:ID"),
    ({"backward": "token:x"}, r"'token:x' is not a loss"),
    ({"backward": "token:13"}, r"token: there is no token 13, wanted 0 to 12"),
    ({"backward": "token:1@9"}, r"no logits at position 9"),
    ({"backward": "class:1"}, r"class: the model gives \[3, 7, 13\]"),
    ({"backward": "pair"}, r"pair: the model gives \[3, 7, 13\]"),
    ({"backward": lambda output, inputs: output}, r"the loss has shape \[3, 7, 13\], wanted a single number"),
]


@pytest.mark.parametrize(("asked", "message"), BAD, ids=[message for _, message in BAD])
def test_what_is_not_there_is_named_with_what_is(asked: dict, message: str) -> None:
    case = specimen("gpt")
    with pytest.raises(TapeError, match=message):
        trace(case.model, case.inputs, **asked)


def test_a_loss_of_ones_own() -> None:
    case = specimen("gpt")
    targets = case.inputs["ids"].roll(1, 1)
    found = trace(case.model, case.inputs["ids"], lambda scores, _: cross_entropy(scores, targets))
    loss = torch.nn.functional.cross_entropy(case().flatten(0, 1), targets.flatten())
    (wanted,) = torch.autograd.grad(loss, [case.model.embedding.weight])
    assert_close(found.gradient_of(case.model.embedding.weight), wanted)


def test_a_loss_of_plain_torch_operations() -> None:
    case = specimen("gpt")
    weight = case.model.embedding.weight

    def loss(scores: Tensor, inputs: dict[str, Tensor]) -> Tensor:
        """A penalty on a weight, a step of equations and steps of torch."""
        return cross_entropy(scores * 2, inputs["ids"]) + scores[0, -1, 3] + weight.square().sum()

    found = trace(case.model, case.inputs, loss)
    wanted = torch.autograd.grad(loss(case(), case.inputs), list(case.model.parameters()))
    for parameter, gradient in zip(case.model.parameters(), wanted, strict=True):
        assert_close(found.gradient_of(parameter), gradient)
    assert found["layers.0.attention.weights"].gradient is not None
    with torch.inference_mode():
        assert trace(case.model, case.inputs, lambda scores, _: scores.mean()).gradients
    with pytest.raises(TapeError, match="the loss does not depend on the model's output"):
        trace(case.model, case.inputs, lambda scores, _: torch.ones(()))


def test_a_plain_operation_inside_a_model_loses_no_gradient_in_silence() -> None:
    class Bent(nn.Module):
        """A model that runs through a plain torch operation."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Linear(3, 4), Linear(4, 2)
            for parameter in self.parameters():
                nn.init.normal_(parameter)

        def forward(self, x: Tensor) -> Tensor:
            h = self.first(x)
            return self.second(add(h, torch.relu(h)))

    for backward in ("class:1", lambda scores, _: scores.mean()):
        with pytest.raises(TapeError, match=r"cannot go back through torch\.relu; it is not an equation"):
            trace(Bent(), torch.randn(2, 3), backward)


def test_the_difference_to_the_fast_run_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from glassformer.equations.attention import attention

    case = specimen("gpt")
    assert trace(case.model, case.inputs).difference.difference < 1e-12
    right = attention.kernel
    monkeypatch.setattr(attention, "kernel", lambda *args: right(*args) * 1.1)
    assert trace(case.model, case.inputs).difference.difference > 1e-3


def test_half_precision_is_traced_as_it_is() -> None:
    case = specimen("llama", torch.bfloat16)
    found = trace(case.model, case.inputs, "next")
    assert found["layers.0.attention.weights"].value.dtype == torch.bfloat16
    assert 0 < found.difference.relative < 0.06
    assert found.gradient_of(case.model.embedding.weight).isfinite().all()


def test_dropout_draws_the_same_numbers_in_both_runs_and_the_generator_goes_on_once() -> None:
    model = build(dataclasses.replace(ZOO["gpt"], dropout=0.5)).train()
    torch.manual_seed(0)
    found = trace(model, specimen("gpt").inputs)
    assert found.difference.difference < 1e-5
    after = torch.rand(1)
    torch.manual_seed(0)
    model(**specimen("gpt").inputs)
    assert torch.equal(after, torch.rand(1)), "a trace takes as many random numbers as a run"


def test_a_cached_step_is_traced_and_the_cache_left_alone() -> None:
    case = specimen("llama-grouped")
    ids = case.inputs["ids"]
    cache = case.model.new_cache(3, 16)
    with torch.no_grad():
        case.model(ids[:, :5], cache=cache)
    before = copy.deepcopy(cache)
    found = trace(case.model, {"ids": ids[:, 5:6], "cache": cache}, "token:4")
    assert cache.count == before.count == 5 and torch.equal(cache.self_kv[0].keys, before.self_kv[0].keys)
    assert found.difference.difference < 1e-12
    whole = trace(case.model, ids[:, :6])
    assert_close(found.output[:, -1], whole.output[:, -1])
    assert_close(found["layers.1.attention.weights"].value, whole["layers.1.attention.weights"].value[:, :, 5:6])


def test_nothing_is_left_behind_in_the_model() -> None:
    case = specimen("gpt")
    before = {name: value.clone() for name, value in case.model.state_dict().items()}
    trace(case.model, case.inputs, "next")
    assert all(p.grad is None for p in case.model.parameters())
    assert all(torch.equal(before[name], value) for name, value in case.model.state_dict().items())
    assert not case.model._forward_hooks and not case.model._forward_pre_hooks


def test_one_weight_changes_what_stands_behind_it_and_nothing_before() -> None:
    case = specimen("llama")
    before = trace(case.model, case.inputs)
    with torch.no_grad():
        case.model.stack.blocks[1].attention.value.weight.add_(0.1)
    after = trace(case.model, case.inputs)
    changed = [s.name for s in after.steps if not torch.equal(s.value, before[s.name].value)]
    names = [step.name for step in after.steps]
    first = names.index("layers.1.attention.value")
    words = ("scores", "causal_mask", "apply_mask", "weights", "rotary.rotary", "rotary.rotary_frequencies")
    quiet = {f"layers.1.attention.{word}{more}" for word in words for more in ("", ".2")}
    assert set(changed) == set(names[first:]) - quiet


def test_a_block_that_is_used_many_times_is_left_as_it_was() -> None:
    """ALBERT runs one block in every layer; looking at shapes alone must not put shapes in its place."""
    config = dataclasses.replace(ZOO["encoder"], share_layers=True)
    model, inputs = build(config).double().eval(), specimen("encoder").inputs
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = trace(model, inputs, "token:2")
    assert_close(found.output, model(**inputs), rtol=1e-10, atol=1e-10)
    assert {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])} == set()


def test_padding_is_no_target() -> None:
    from torch.nn import functional

    case = specimen("gpt")
    keep = torch.ones_like(case.inputs["ids"]).bool()
    keep[1, 3:] = False
    found = trace(case.model, {**case.inputs, "attention_mask": keep}, "next")
    scores, ids = case.model(case.inputs["ids"], keep), case.inputs["ids"]
    targets = ids[:, 1:].masked_fill(~keep[:, 1:], -100)
    assert_close(found.loss, functional.cross_entropy(scores[:, :-1].flatten(0, 1), targets.flatten()))
