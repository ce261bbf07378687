"""The tape: record, replay and reverse any straight-line run."""

import threading

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from glassformer.equation import CHECKS, MODE
from glassformer.equations.activations import relu, tanh
from glassformer.equations.algebra import add, linear, multiply
from glassformer.equations.heads import merge_heads, split_heads
from glassformer.equations.matrices import matmul
from glassformer.equations.sequences import concat
from glassformer.errors import EquationError, TapeError
from glassformer.recording import Tape


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64).requires_grad_()


def assert_agrees(tape: Tape, output: Tensor, leaves: list[Tensor], deep: bool = False) -> None:
    seed = torch.randn_like(output)
    found = tape.reverse(seed, of=output, deep=deep)
    for leaf, wanted in zip(leaves, torch.autograd.grad(output, leaves, seed, retain_graph=True), strict=True):
        assert_close(found[leaf], wanted, rtol=1e-9, atol=1e-11)


def test_values_used_twice_get_both_gradients() -> None:
    x, W = normal(3, 4), normal(4, 4)
    with Tape() as tape:
        y = linear(x, W)
        z = add(multiply(y, y), linear(y, W))
    assert_agrees(tape, z, [x, W])
    assert torch.equal(tape.replay(), z)


def test_one_tensor_in_both_places_of_one_step() -> None:
    x = normal(3)
    with Tape() as tape:
        y = multiply(x, x)
    assert_agrees(tape, y, [x])


def test_broadcast_axes_are_summed() -> None:
    x, b, column = normal(2, 3, 4), normal(4), normal(3, 1)
    with Tape() as tape:
        y = multiply(add(x, b), column)
    assert_agrees(tape, y, [x, b, column])


def test_sequences_of_tensors() -> None:
    a, b = normal(2, 3), normal(2, 1)
    with Tape() as tape:
        y = tanh(concat([a, b, a]))
    assert_agrees(tape, y, [a, b])
    assert torch.equal(tape.replay(), y)


def test_a_middle_value_can_be_differentiated_and_its_gradient_read() -> None:
    x = normal(3)
    with Tape() as tape:
        y = tanh(x)
        z = relu(y)
    assert_agrees(tape, y, [x])
    found = tape.reverse(torch.ones_like(z))
    assert_close(found[y], (y > 0).to(y.dtype))


def test_leaves_are_what_no_step_made() -> None:
    x, W = normal(2, 3), normal(3, 3)
    with Tape() as tape:
        linear(linear(x, W), W)
    assert [id(leaf) for leaf in tape.leaves] == [id(x), id(W)]


def test_an_equation_that_returns_its_input_keeps_the_tape_straight() -> None:
    x = normal(2, 3, 4)
    with Tape() as tape:
        y = split_heads(x, 1)
        z = add(merge_heads(y), x)
    assert_agrees(tape, z, [x])


def test_places_name_modules_and_repeated_steps() -> None:
    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return relu(relu(x))

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Inner(), Inner()])

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x)
            return tanh(x)

    with Tape() as tape:
        Outer()(normal(2))
    assert [step.path for step in tape.steps] == [
        "layers.0.relu", "layers.0.relu.2", "layers.1.relu", "layers.1.relu.2", "tanh",
    ]  # fmt: skip
    with Tape() as again:
        relu(normal(2))
    assert [step.path for step in again.steps] == ["relu"], "the first tape's hooks are gone"


def test_a_block_that_runs_as_several_layers_has_their_places() -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bend = nn.Module()
            self.bend.forward = relu

        def forward(self, x: Tensor) -> Tensor:
            return self.bend(tanh(x))

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Inner()] * 2)

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x)
            return x

    model = Outer()
    with Tape() as tape:
        model(normal(2))
        model(normal(2))
    once = ["layers.0.tanh", "layers.0.bend.relu", "layers.1.tanh", "layers.1.bend.relu"]
    assert [step.path for step in tape.steps] == [*once, *(f"{path}.2" for path in once)]
    assert tape.calls["layers.1"] == 2


def test_a_tape_and_its_steps_are_printed_in_a_line() -> None:
    with Tape(lambda path: path != "relu") as tape:
        assert repr(tape) == "<Tape: empty>"
        tanh(torch.ones(2, 3))
        assert repr(tape) == "<Tape: 1 step, tanh>"
        relu(torch.ones(2))
    assert repr(tape) == "<Tape: 2 steps, tanh to relu>"
    assert repr(tape.steps) == "[<Step tanh: tanh, [2, 3] float32>, <Step relu: relu, values not kept>]"
    with Tape() as tape:
        tanh(torch.ones(()))
    assert repr(tape.reverse()) == "<Gradients of 2 tensors>"


def test_a_module_that_fails_leaves_no_place_behind() -> None:
    class Fails(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("on purpose")

    with Tape() as tape:
        with pytest.raises(RuntimeError, match="on purpose"):
            Fails()(normal(2))
        relu(normal(2))
    assert tape.steps[0].path == "relu"
    assert MODE.dispatcher is CHECKS


def test_a_failed_equation_does_not_stay_open() -> None:
    with Tape() as tape:
        with pytest.raises(EquationError):
            matmul(normal(2, 3), normal(2, 3))
        relu(normal(2))
    assert [step.path for step in tape.steps] == ["relu"]


def test_in_place_changes_after_recording_are_refused() -> None:
    x = normal(3)
    with Tape() as tape:
        relu(x)
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(TapeError, match=r"relu.*changed in place"):
        tape.replay()
    with pytest.raises(TapeError, match="changed in place"):
        tape.reverse(torch.ones(3, dtype=torch.float64))


def test_what_reverse_cannot_do_it_says() -> None:
    with Tape() as tape:
        pass
    with pytest.raises(TapeError, match="empty"):
        tape.reverse()
    x, other = normal(3), normal(3)
    with Tape() as tape:
        relu(x)
    with pytest.raises(TapeError, match=r"seed of that shape"):
        tape.reverse()
    with pytest.raises(TapeError, match=r"seed has shape \[2\], wanted \[3\]"):
        tape.reverse(torch.ones(2))
    with pytest.raises(TapeError, match="never met the tape"):
        tape.reverse(torch.ones(3, dtype=torch.float64))[other]


def test_two_threads_have_two_tapes() -> None:
    seen: list[int] = []

    def elsewhere() -> None:
        relu(torch.ones(2))
        with Tape() as other:
            relu(torch.ones(2))
        seen.append(len(other.steps))

    with Tape() as tape:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        tanh(torch.ones(2))
    assert seen == [1]
    assert [step.path for step in tape.steps] == ["tanh"]


def test_tapes_nest() -> None:
    with Tape() as outer:
        relu(torch.ones(2))
        with Tape() as inner:
            tanh(torch.ones(2))
        relu(torch.ones(2))
    assert [s.path for s in outer.steps] == ["relu", "relu.2"]
    assert [s.path for s in inner.steps] == ["tanh"]


def test_inference_mode_can_be_replayed() -> None:
    with torch.inference_mode(), Tape() as tape:
        y = relu(torch.randn(3))
    assert torch.equal(tape.replay(), y)


def test_a_tape_keeps_what_it_is_told_to() -> None:
    x, W = normal(2, 3), normal(3, 3)
    with Tape(lambda path: path == "tanh") as tape:
        y = relu(tanh(linear(x, W)))
    assert [(step.path, step.kept) for step in tape.steps] == [("linear", False), ("tanh", True), ("relu", False)]
    assert tape.steps[0].inputs == {} and tape.steps[2].outputs == ()
    assert torch.equal(tape.replay(), tape.steps[1].output)
    assert torch.equal(y, relu(tape.steps[1].output))
    with pytest.raises(TapeError, match="kept only some values"):
        tape.reverse(torch.ones_like(y))
    with pytest.raises(TapeError, match="kept only some values, and replays a change only when it kept all"):
        tape.replay(changes=[(tape.steps[1].output, torch.zeros_like(y))])


def test_a_replay_with_a_change_goes_on_from_it() -> None:
    x, W = normal(2, 3), normal(3, 3)
    with Tape() as tape:
        y = linear(x, W)
        z = add(tanh(y), relu(x))
    new = torch.zeros_like(y)
    assert torch.equal(tape.replay(changes=[(y, new)]), relu(x)), "what was changed stays changed"
    assert torch.equal(tape.replay(changes=[(z, new)]), new)
    assert tape.replay(changes=[(y, new)], of=y) is new
    bent = tape.steps[1].output
    assert torch.equal(tape.replay(changes=[(y, new), (bent, new + 1)]), relu(x) + 1), "the later change wins"
    assert torch.equal(tape.replay(of=y), y)


def test_a_replay_with_a_change_runs_only_what_depends_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    x = normal(2, 3)
    with Tape() as tape:
        y = add(tanh(x), relu(x))
    monkeypatch.setattr(tanh, "fn", lambda *_: pytest.fail("it does not depend on the change"))
    assert torch.equal(tape.replay(changes=[(tape.steps[1].output, torch.zeros(2, 3))]), tape.steps[0].output)
    assert y is tape.steps[-1].output
