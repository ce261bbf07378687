"""Runs with changes: each against `patch`, against the arithmetic of every step, and against the run without them."""

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from glassformer.equation import reference_mode
from glassformer.errors import TapeError
from glassformer.probes.attention_steps import attention_steps
from glassformer.probes.changes import apply_changes
from glassformer.probes.edits import (
    Edit,
    HeadOff,
    ModuleOff,
    NewValue,
    Patched,
    RunChange,
    TokenOff,
    edits_of,
    read_changes,
)
from glassformer.probes.inputs import ModelInputs, TextModel, Tokens
from glassformer.probes.interventions import Change, head_attribution, on_head, patch
from glassformer.probes.trace import Trace, trace
from glassformer.steps import tensors_in
from tests.models.zoo import Specimen, specimen

MODELS = ["gpt", "llama-grouped", "encoder-masked", "seq2seq"]
EVERY = pytest.mark.parametrize("name", MODELS)


class Letters(TextModel):
    """A model that reads letters: `a` is token 0."""

    def __init__(self, case: Specimen) -> None:
        self.case = case

    @property
    def model(self) -> torch.nn.Module:
        return self.case.model

    def inputs(self, text: Tokens, second: Tokens | None = None) -> ModelInputs:
        rows = {"ids": text} if "ids" in self.case.inputs else {"source": text, "target": second or text}
        ids = {name: torch.tensor([[ord(letter) - ord("a") for letter in row]]) for name, row in rows.items()}
        return ModelInputs(self.model, ids, {name: list(row) for name, row in rows.items()})


def as_patches(loaded: TextModel, base: Trace, change: RunChange) -> dict[str, Change]:
    """A change in the form that `patch` takes: functions of values by the names of their steps."""
    edits = edits_of(base, change, lambda *texts: trace(loaded.model, loaded.inputs(*texts).values))

    def patched(edit: Edit) -> Change:
        return lambda value: torch.where(*edit(value), value)

    return {base.names[path]: patched(edit) for path, edit in edits}


def some_change(base: Trace, draw: st.DrawFn) -> RunChange:
    """Any change of a run."""
    modules = {base.names.modules[step.module]: step.output.shape[1] for step in attention_steps(base.tape.steps)}
    module = draw(st.sampled_from(sorted(modules)))
    steps = [step for step in base.steps if step.output.is_floating_point() and step.output.dim() > 2]
    step = draw(st.sampled_from(steps))
    index = tuple(draw(st.integers(0, size - 1)) for size in step.shape)
    tokens = draw(st.sampled_from(sorted(base.tokens)))
    return draw(
        st.sampled_from(
            [
                HeadOff(module, draw(st.integers(0, modules[module] - 1))),
                ModuleOff(draw(st.sampled_from([module, module.rpartition(".")[0]]))),
                TokenOff(draw(st.integers(0, len(base.tokens[tokens]) - 1)), tokens),
                NewValue(step.name, index, draw(st.floats(-3, 3))),
                Patched(step.name, "hgfedcb", "badce"),
            ]
        )
    )


@EVERY
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_a_change_gives_the_bits_of_a_patch_and_every_step_computes_what_it_shows(
    name: str, data: st.DataObject
) -> None:
    loaded = Letters(specimen(name))
    inputs = loaded.inputs("abcdefg", "dabec")
    base = trace(loaded.model, inputs.values).labeled(**inputs.tokens)
    change = data.draw(st.composite(lambda draw: some_change(base, draw))())
    found = apply_changes(loaded, inputs, [change])
    patches = as_patches(loaded, base, change)
    if not isinstance(change, ModuleOff | TokenOff):  # those change several steps, one downstream of another
        assert torch.equal(found.output, patch(base, patches))
    for step in (step.step for step in found.steps if not step.step.children):
        with reference_mode():
            assert torch.equal(tensors_in([step.equation.fn(**step.inputs)])[0], step.output), step.path
    assert set(base.names) <= set(found.names), "every step keeps its name"
    for step in patches:
        assert found[step].axes == base[step].axes and found[step].equation.name == "intervene"
    assert read_changes(msgspec.json.encode([change])) == (change,)


@EVERY
def test_without_changes_a_run_has_the_bits_of_a_trace(name: str) -> None:
    case = specimen(name)
    base = trace(case.model, case.inputs)
    module = base.names.modules[attention_steps(base.tape.steps)[0].module]
    apply_changes(case.model, case.inputs, [HeadOff(module, 1)])
    again = apply_changes(case.model, case.inputs, [])
    assert list(again.names) == list(base.names)
    for step, old in zip(again.steps, base.steps, strict=True):
        assert torch.equal(step.step.output, old.step.output), step.name


@EVERY
def test_changes_upstream_are_seen_by_changes_downstream(name: str) -> None:
    """Two heads of two layers: the second change starts from the run with the first."""
    case = specimen(name)
    base = trace(case.model, case.inputs)
    first, *_, last = [base.names.modules[step.module] for step in attention_steps(base.tape.steps)]
    one = apply_changes(case.model, case.inputs, [HeadOff(first, 0)])
    both = apply_changes(case.model, case.inputs, [HeadOff(first, 0), HeadOff(last, 1)])
    assert torch.equal(both.output, patch(one, {f"{last}.outputs": on_head(1, torch.zeros_like)}))
    assert not both[f"{first}.outputs"].value[:, 0].any() and not both[f"{last}.outputs"].value[:, 1].any()


@pytest.mark.parametrize("name", ["gpt", "llama-grouped", "seq2seq"])
def test_gradients_are_those_of_the_changed_run(name: str) -> None:
    case = specimen(name)
    base = trace(case.model, case.inputs)
    attention = attention_steps(base.tape.steps)[-2]
    step, module = base.names[attention.path], base.names.modules[attention.module]
    found = apply_changes(case.model, case.inputs, [HeadOff(module, 1)], "next")
    assert found.loss is not None and not found[f"{step}.before"].gradient[:, 1].any()
    assert found[step].gradient[:, 1].any(), "how the loss would answer to other numbers there"
    start = next(s.name for s in found.steps if s.name.endswith("embedding"))
    way = torch.randn(found[start].shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    at = [float(patch(found, {start: lambda x, e=e: x + e * way}, of=found.loss)) for e in (1e-6, -1e-6)]
    assert float((found[start].gradient * way).sum()) == pytest.approx((at[0] - at[1]) / 2e-6, rel=1e-5)
    assert all(rise[1] == 0 for key, rise in head_attribution(found).items() if key == f"{step}.before")


def test_a_layer_switched_off_leaves_the_stream_as_it_is() -> None:
    case = specimen("gpt")
    found = apply_changes(case.model, case.inputs, [ModuleOff("layers.0")])
    assert torch.equal(
        found["layers.0.feed_forward_residual"].value, found["layers.0.attention_residual"].step.inputs["h"]
    )


@EVERY
def test_a_token_switched_off_reaches_no_other_position(name: str) -> None:
    loaded = Letters(specimen(name))
    text, which = "abcdefg", "source" if name == "seq2seq" else "ids"
    change = TokenOff(2, which)
    runs = [apply_changes(loaded, loaded.inputs(each, "dabec"), [change]) for each in (text, "abmdefg")]
    rows = torch.arange(5 if name == "seq2seq" else 7)
    others = rows[rows != 2] if which == "ids" else rows
    assert torch.equal(runs[0].output[:, others], runs[1].output[:, others])
    seen = [trace(loaded.model, loaded.inputs(each, "dabec").values).output for each in (text, "abmdefg")]
    assert not torch.allclose(seen[0][:, -1], seen[1][:, -1])
    weights = next(step for step in runs[0].steps if step.name.endswith("attention.weights")).value
    assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))


def test_a_token_taken_from_another_text_leaves_the_others() -> None:
    loaded = Letters(specimen("gpt"))
    base = trace(loaded.model, loaded.inputs("abcdefg").values)
    found = apply_changes(loaded, "abcdefg", [Patched("layers.0.attention_residual", "hgfedcb", token=4)])
    other = trace(loaded.model, loaded.inputs("hgfedcb").values)["layers.0.attention_residual"].value
    now, old = found["layers.0.attention_residual"].value, base["layers.0.attention_residual"].value
    assert torch.equal(now[:, 4], other[:, 4]) and torch.equal(now[:, :4], old[:, :4])
    assert torch.equal(found.output[:, :4], base.output[:, :4]) and not torch.equal(found.output, base.output)


BAD = {
    "no attention is called 'layers.0.atention'; did you mean layers.0.attention": HeadOff("layers.0.atention", 0),
    "layers.0.attention has no head 2; there are heads 0 to 1": HeadOff("layers.0.attention", 2),
    "'embedding' adds nothing to a residual stream": ModuleOff("embedding"),
    "ids has no token 7; there are tokens 0 to 6": TokenOff(7),
    "the model reads no tokens called 'source'": TokenOff(0, "source"),
    "no step is called 'embeding'": NewValue("embeding", (0, 0, 0), 1.0),
    "0 is not on axis|give 3 numbers, not 1": NewValue("embedding", (0,), 1.0),
    r"embedding has shape \[1, 7, 8\], and \[1, 2, 8\] in the run of 'ab': take": Patched("embedding", "ab"),
    "embedding has no token 9": Patched("embedding", "hgfedcb", token=9),
}


@pytest.mark.parametrize("words", BAD)
def test_what_cannot_be_changed_is_named(words: str) -> None:
    with pytest.raises(TapeError, match=words):
        apply_changes(Letters(specimen("gpt")), "abcdefg", [BAD[words]])


def test_a_bare_model_has_no_second_text_and_broken_json_is_said() -> None:
    case = specimen("gpt")
    with pytest.raises(TapeError, match="is a bare model and reads no text"):
        apply_changes(case.model, case.inputs, [Patched("embedding", "ab")])
    with pytest.raises(TapeError, match="the changes cannot be read: .*other"):
        read_changes('[{"kind": "other"}]')
    assert read_changes("") == ()
