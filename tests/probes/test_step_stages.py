"""The stages of a training step: each number follows from those before it, and the last is the optimizer's."""

import math

import pytest
import torch
from torch import Tensor
from torch.optim import Optimizer

from glassformer.errors import TapeError
from glassformer.probes.step_stages import Stage, require_entry, stages
from glassformer.probes.training_step import TrainingStep, training_step
from tests.models.zoo import specimen
from tests.probes.intervals import work_out
from tests.probes.test_training_step import KINDS, WEIGHT, loss_of

INDEX = (2, 3)


def taken(kind: str = "adamw", weight: str = WEIGHT, clip: float | None = 0.5) -> tuple[TrainingStep, Optimizer]:
    case = specimen("gpt")
    optimizer = KINDS[kind](list(case.model.parameters()))
    for _ in range(2):  # so that the moments are not zero
        step = training_step(case.model, optimizer, loss_of(case), weight, clip)
    return step, optimizer


def numbers(step: TrainingStep) -> dict[str, float]:
    return {stage.title: stage.at(INDEX) for stage in stages(step)}


def test_the_chain_of_adamw_follows_from_its_first_numbers() -> None:
    step, optimizer = taken()
    found = numbers(step)
    clipped = found["Gradient"] * min(1, 0.5 / (found["Norm of all gradients"] + 1e-6))
    assert found["Clipped gradient"] == pytest.approx(clipped) and found["Norm of all gradients"] > 0.5
    assert found["Weight decay"] == pytest.approx((1 - 0.01 * 0.1) * float(step.before[INDEX]))
    corrected = found["First moment"] / (1 - 0.9**2), found["Second moment"] / (1 - 0.999**2)
    assert (found["Corrected first moment"], found["Corrected second moment"]) == pytest.approx(corrected)
    new = found["Weight decay"] - 0.01 * corrected[0] / (math.sqrt(corrected[1]) + 1e-8)
    assert found["New weight"] == pytest.approx(new)
    assert found["New weight"] == pytest.approx(float(step.actual[INDEX]), abs=step.difference + 1e-15)
    parameter = next(p for p in optimizer.state if p.shape == step.before.shape and torch.equal(p, step.actual))
    assert isinstance(parameter, Tensor)
    assert found["First moment"] == pytest.approx(float(optimizer.state[parameter]["exp_avg"][INDEX]))
    assert found["Second moment"] == pytest.approx(float(optimizer.state[parameter]["exp_avg_sq"][INDEX]))


@pytest.mark.parametrize("kind", KINDS)
def test_every_optimizer_goes_from_the_loss_to_the_new_weight(kind: str) -> None:
    step, _ = taken(kind)
    found = stages(step)
    assert [stage.title for stage in found[:4]] == ["Loss", "Gradient", "Norm of all gradients", "Clipped gradient"]
    assert found[-1].title == "New weight" and torch.equal(found[-1].value, step.shown)
    assert found[0].at(()) == float(step.trace.loss), "one number for every entry"


def test_no_clipping_no_stage_for_it() -> None:
    step, _ = taken(clip=None)
    assert "Clipped gradient" not in numbers(step)


def arithmetic_of(stage: Stage) -> tuple[str, float]:
    text, _, result = stage.arithmetic(INDEX).rpartition(" = ")
    return text, float(result.replace("−", "-"))


def test_arithmetic_evaluates_to_the_number() -> None:
    step, _ = taken()
    for stage in stages(step):
        text, result = arithmetic_of(stage)
        assert result == pytest.approx(stage.at(INDEX), rel=1e-3), stage.title
        if stage.title not in ("Norm of all gradients", "Loss"):
            reach = work_out(text)
            assert reach.low - 1e-9 <= stage.at(INDEX) <= reach.high + 1e-9, f"{stage.title}: {text}"
    norm = next(stage for stage in stages(step) if stage.title == "Norm of all gradients")
    assert norm.arithmetic(INDEX).startswith("√(the sum of the squares of 1,992 gradients)")


def test_letters_have_their_numbers() -> None:
    step, _ = taken()
    found = {stage.title: stage for stage in stages(step)}
    last = found["New weight"].operands(INDEX)
    assert last["theta"] == found["Weight decay"].at(INDEX) and last["rate"] == 0.01 and last["eps"] == 1e-8
    assert last["m"] == found["Corrected first moment"].at(INDEX)
    clip = found["Clipped gradient"].operands(INDEX)
    assert clip["norm"] == found["Norm of all gradients"].at(INDEX) and clip["limit"] == 0.5
    assert found["Loss"].operands(INDEX).keys() <= {"label_smoothing", "ignore_index"}


def test_a_weight_that_is_read_twice_gets_no_arithmetic_of_one_of_its_parts() -> None:
    step, _ = taken(weight="embedding.weight")  # which is also the output layer
    gradient = stages(step)[1]
    assert gradient.title == "Gradient" and gradient.arithmetic((1, 2)) == ""
    assert gradient.at((1, 2)) == float(step.gradient[1, 2])


def test_an_entry_that_is_not_there_is_refused() -> None:
    step, _ = taken()
    for index in ((2,), (2, 3, 0), (-1, 0), (0, 10**6)):
        with pytest.raises(TapeError, match=r"has shape \[\d+, \d+\]: there is no entry"):
            require_entry(step, index)
    assert require_entry(step, INDEX) == INDEX
