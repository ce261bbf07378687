"""Every printed cell arithmetic evaluates to the printed number, over every step of every model."""

import math
import random
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor

from glassformer.errors import TapeError
from glassformer.probes.trace import Trace, trace
from tests.models.zoo import ZOO, specimen
from tests.probes.intervals import Interval, printed, work_out

STORIES = Path(__file__).parents[2] / "../shared/data/stories260k/stories260K.bin"


def assert_adds_up(found: Trace, cells: int, chance: random.Random) -> int:
    """Parse and work out the arithmetic of random numbers of every step; how many had arithmetic at all."""
    count = 0
    for step in found.steps:
        if not isinstance(step.output, Tensor) or not step.output.is_floating_point():
            continue
        for _ in range(cells):
            index = [chance.randrange(size) for size in step.shape]
            text = found.cell(step.name, *index)
            value = float(step.output.detach()[tuple(index)])
            written, _, result = text.rpartition(" = ")
            told = printed(result.replace("−", "-").replace("∞", "inf"))
            assert value in Interval(told.low - 1e-12, told.high + 1e-12), f"{step.name}{index}: {text} is {value}"
            if written:
                count += 1
                reach = work_out(written)
                room = 1e-6 * max(1.0, abs(value)) if math.isfinite(value) else 0.0
                assert value in Interval(reach.low - room, reach.high + room), f"{step.name}{index}: {text} is {value}"
    return count


@pytest.mark.parametrize("name", ZOO)
def test_arithmetic_evaluates_to_the_number(name: str) -> None:
    case = specimen(name)
    inputs = {key: value[:2] for key, value in case.inputs.items()}
    assert assert_adds_up(trace(case.model, inputs), 2, random.Random(name)) > (1 if name == "skip-gram" else 5)


@pytest.mark.skipif(not STORIES.exists(), reason="the real checkpoint is not here")
def test_arithmetic_of_a_real_checkpoint() -> None:
    from glassformer.checkpoints.load import load

    loaded = load(STORIES)
    assert loaded.tokenizer is not None
    ids = torch.tensor([loaded.tokenizer.encode("Once upon a time there was a little girl")])
    assert assert_adds_up(trace(loaded.model, ids), 5, random.Random(0)) > 400


def test_a_wrong_number_would_be_seen() -> None:
    assert 0.5 in work_out("1.5·2 − 2.5") and 0.52 not in work_out("1.5·2 − 2.5")
    assert 3.0 in work_out("√(9) + e^(−∞ + 2) + max(0, −1)") and 3.01 not in work_out("√(9)")
    assert 8.0 in work_out("−2·(−4)") and 4.0 in work_out("(−2)^2") and -4.0 in work_out("−(1 + (3 from 7 more))")


def test_a_number_is_followed_down_to_the_embeddings() -> None:
    case = specimen("llama-grouped")
    found = trace(case.model, {"ids": case.inputs["ids"][:1]})
    weights = {found.source_of(p): p for p in case.model.parameters()}
    cell = found.explain("layers.1.attention.scores", 0, 3, 2, depth=60, width=1)
    names = []
    while True:
        tensor = weights[cell.name] if cell.name in weights else found[cell.name].step.output
        assert float(tensor.detach()[cell.index]) == cell.value, "each number is the one of the run"
        names.append(cell.name)
        if not cell.parts:
            break
        (cell,) = cell.parts
    assert names[-2:] == ["embedding", "embedding.weight"]
    assert cell.index[0] in case.inputs["ids"][0]
    assert len(names) > 10


def test_a_number_met_twice_is_followed_once() -> None:
    case = specimen("gpt")
    found = trace(case.model, {"ids": case.inputs["ids"][:1]})
    lines = str(found.explain("layers.1.attention.scores", 0, 3, 2, depth=12, width=2)).splitlines()
    followed = [
        a.split(" = ")[0].strip() for a, b in pairwise(lines) if len(b) - len(b.lstrip()) > len(a) - len(a.lstrip())
    ]
    assert len(followed) == len(set(followed)) > 20


def test_depth_is_a_limit() -> None:
    case = specimen("gpt")
    found = trace(case.model, case.inputs)
    assert found.explain("unembed", 0, 0, 0).parts == ()
    two = found.explain("unembed", 0, 0, 0, depth=2, width=1)
    assert two.parts[0].name == "stack.norm" and two.parts[0].parts[0].parts == ()


def test_a_place_that_is_not_there_is_named() -> None:
    case = specimen("gpt")
    found = trace(case.model, case.inputs)
    with pytest.raises(
        TapeError, match=r"no step is called 'layers.0.attention.wieghts'; .*layers.0.attention.weights"
    ):
        found.cell("layers.0.attention.wieghts", 0, 0, 0)
    with pytest.raises(TapeError, match=r"has shape \[3, 2, 7, 7\]: give 4 numbers, not 3"):
        found.cell("layers.0.attention.weights", 0, 0, 0)
    with pytest.raises(TapeError, match=r"7 is not on axis 3, wanted 0 to 6"):
        found.cell("layers.0.attention.weights", 0, 0, 0, 7)
    alone = trace(case.model, {"ids": case.inputs["ids"][:1]})
    assert alone.cell("layers.0.attention.weights", 0, 1, 1) == alone.cell("layers.0.attention.weights", 0, 0, 1, 1)
