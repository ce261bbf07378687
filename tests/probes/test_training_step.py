"""A step of training by equations, against what torch's optimizers do."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.optim import SGD, Adagrad, Adam, AdamW, Muon, Optimizer

from glassformer.equations.losses import cross_entropy
from glassformer.errors import TapeError
from glassformer.probes.training_step import training_step
from tests.models.zoo import Specimen, specimen
from tests.probes.intervals import work_out

WEIGHT = "stack.blocks.0.attention.qkv.weight"
KINDS: dict[str, Callable[[list[Tensor]], Optimizer]] = {
    "adamw": lambda p: AdamW(p, 1e-2, weight_decay=0.1),
    "adamw-other-epsilon": lambda p: AdamW(p, 1e-2, (0.8, 0.95), eps=1e-4, weight_decay=0.0),
    "adam": lambda p: Adam(p, 1e-2),
    "sgd": lambda p: SGD(p, 0.1),
    "momentum": lambda p: SGD(p, 0.1, momentum=0.9),
    "nesterov": lambda p: SGD(p, 0.1, momentum=0.9, nesterov=True),
}


def loss_of(case: Specimen) -> Callable[[], Tensor]:
    ids = case.inputs["ids"]
    return lambda: cross_entropy(case.model(ids[:, :-1].contiguous()), ids[:, 1:].contiguous())


@pytest.mark.parametrize("clip", [None, 0.1, 100.0])
@pytest.mark.parametrize("kind", KINDS)
def test_the_equations_give_the_weight_that_torch_gives(kind: str, clip: float | None) -> None:
    case = specimen("gpt")
    optimizer = KINDS[kind](list(case.model.parameters()))
    for _ in range(3):  # the moments of later steps are not zero
        step = training_step(case.model, optimizer, loss_of(case), WEIGHT, clip)
        assert not torch.equal(step.before, step.actual)
        assert step.difference < 1e-12 * (1e3 if clip else 1)
        assert torch.equal(step.actual, case.model.get_parameter(WEIGHT))
        again = step.trace.tape.replay()
        assert torch.equal(again[0] if isinstance(again, tuple) else again, step.shown)
        assert torch.equal(step.trace["layers.0.attention.qkv"].step.inputs["W"], step.before)
    names = [shown.name for shown in step.trace.steps]
    assert names[:2] == ["layers.0.attention.qkv", "cross_entropy"]
    assert ("clip_gradient" in names) == (clip is not None)


@pytest.mark.parametrize("way", ["original", "match_rms_adamw"])
def test_muon_agrees_as_far_as_its_half_precision_lets_it(way: str) -> None:
    case = specimen("gpt", torch.float32)
    matrices = [p for n, p in case.model.named_parameters() if p.dim() == 2 and "blocks" in n]
    optimizer = Muon(matrices, 1e-2, 0.1, adjust_lr_fn=way)
    for name in (WEIGHT, "stack.blocks.1.feed_forward.up.weight", "stack.blocks.1.feed_forward.down.weight"):
        step = training_step(case.model, optimizer, loss_of(case), name, 1.0)
        moved = (step.actual - step.before).abs().max()
        assert step.difference < 0.2 * moved, "torch rounds each round to bfloat16"


def test_every_stage_of_one_weight_is_there_with_its_arithmetic() -> None:
    case = specimen("gpt")
    optimizer = KINDS["adamw"](list(case.model.parameters()))
    for _ in range(2):
        step = training_step(case.model, optimizer, loss_of(case), WEIGHT, 0.5)
    names = [shown.name for shown in step.trace.steps]
    assert names == [
        "layers.0.attention.qkv", "cross_entropy", "global_norm", "clip_gradient", "weight_decay", "adam",
        "exponential_moving_average", "moving_mean_square", "bias_correction", "bias_correction.2",
        "normalized_descent",
    ]  # fmt: skip
    for name in names[3:5] + names[6:]:
        written, _, result = step.trace.cell(name, 2, 3).rpartition(" = ")
        value = float(step.trace[name].step.output[2, 3])
        reach = work_out(written)
        assert reach.low - 1e-9 <= value <= reach.high + 1e-9, f"{name}: {written} = {result}"
    assert torch.equal(step.trace["normalized_descent"].step.output, step.shown)
    assert torch.equal(step.trace["clip_gradient"].step.inputs["g"], step.gradient)
    chain = str(step.trace.explain("normalized_descent", 2, 3, depth=6, width=2))
    assert "clip_gradient[2, 3]" in chain


def test_dropout_is_the_same_in_both() -> None:
    import dataclasses

    from glassformer.models.registry import build
    from tests.models.zoo import ZOO

    case = Specimen(build(dataclasses.replace(ZOO["gpt"], dropout=0.3)).double().train(), specimen("gpt").inputs)
    optimizer = KINDS["adam"](list(case.model.parameters()))
    assert training_step(case.model, optimizer, loss_of(case), WEIGHT, 1.0).difference < 1e-9


def test_what_it_cannot_do_it_says() -> None:
    case = specimen("gpt")
    parameters = list(case.model.parameters())
    ask = loss_of(case)
    before = [p.detach().clone() for p in parameters]
    with pytest.raises(TapeError, match=r"no parameter is called 'qkv.weight'; did you mean .*qkv.weight"):
        training_step(case.model, Adam(parameters), ask, "qkv.weight")
    with pytest.raises(TapeError, match="no equation for Adagrad; wanted Adam, AdamW, SGD, RMSprop or Muon"):
        training_step(case.model, Adagrad(parameters), ask, WEIGHT)
    with pytest.raises(TapeError, match="with weight decay in the gradient"):
        training_step(case.model, Adam(parameters, weight_decay=0.1), ask, WEIGHT)
    with pytest.raises(TapeError, match="SGD with weight decay or dampening"):
        training_step(case.model, SGD(parameters, 0.1, weight_decay=0.1), ask, WEIGHT)
    with pytest.raises(TapeError, match="does not hold this weight"):
        training_step(case.model, SGD(parameters[:1], 0.1), ask, WEIGHT)
    assert all(torch.equal(a, b) for a, b in zip(before, parameters, strict=True)), "nothing was updated"
