"""What each device holds with FSDP, what an exchange of gradients needs, and what an update by Muon takes."""

from dataclasses import replace

import pytest

from glassformer.errors import ConfigError
from glassformer.planning.devices import find_device
from glassformer.planning.figures import Memory, Workload
from glassformer.planning.kernel_data import Lifetimes
from glassformer.planning.memory import as_run, required
from glassformer.planning.plan import Planning, plan, what_is
from glassformer.planning.timeline import peak
from glassformer.training.recipe import MOMENTS

FSDP = Workload(batch=1, length=2048, dtype="bfloat16", strategy="fsdp", devices=8)


def planning(workload: Workload = FSDP, name: str = "llama-7b") -> Planning:
    return Planning(what_is(name), find_device("a100"), workload)


def memory_of(made: Planning) -> Memory:
    return made.memory_of(made.workload, made.record(made.workload))


def peak_without_gradients(made: Planning) -> int:
    """Bytes of the step, of which those that die with it are left out."""
    step = made.record(made.workload)
    found = as_run(step, made.planned.objective, made.device)[1]
    kept = [number for number, died in enumerate(found.died) if died < len(step.calls)]
    columns = (found.numbers, found.sizes, found.born, found.died)
    return peak(step, Lifetimes(*([column[number] for number in kept] for column in columns)))


def test_a_shard_has_room_for_the_end_of_the_forward_pass() -> None:
    made, devices = planning(), FSDP.devices
    held = made.weights.whole + made.weights.trained * (1 + MOMENTS["adamw"])
    least, gathered = held / devices + peak_without_gradients(made), made.weights.outside + 2 * made.weights.block
    found = memory_of(made).sharded
    assert least + gathered <= found <= least + gathered + 0.1 * least
    assert found > 2 * held / devices  # most of it is what is not sharded


def test_shards_fall_with_the_devices_to_what_is_not_sharded() -> None:
    sizes = [memory_of(planning(replace(FSDP, devices=devices))).sharded for devices in (2, 8, 64, 2**20)]
    assert sizes == sorted(sizes, reverse=True) and len({*sizes}) == len(sizes)
    made = planning()
    whole = peak_without_gradients(made) + made.weights.outside + 2 * made.weights.block
    assert sizes[-1] == pytest.approx(whole, rel=0.05)


def test_one_device_shards_nothing() -> None:
    found = memory_of(planning(replace(FSDP, devices=1)))
    assert found.sharded == found.replicated == found.peak


def test_activation_checkpointing_saves_in_shards_what_a_plan_with_it_takes_less() -> None:
    kept, again = (memory_of(planning(replace(FSDP, activation_checkpointing=each))) for each in (False, True))
    assert required(kept, FSDP, checkpointed=True) == required(again, FSDP) == required(again, FSDP, checkpointed=True)
    assert kept.sharded > again.sharded and kept.peak_checkpointed == again.peak
    held = kept.weights + kept.gradients + kept.optimizer
    assert again.sharded < held < kept.peak_checkpointed, "on a single device nothing is sharded"


def test_whole_gradients_of_blocks_do_not_exist_with_fsdp() -> None:
    made = planning(replace(FSDP, activation_checkpointing=True))
    assert memory_of(made).sharded < made.weights.trained


def test_several_devices_need_an_interconnect() -> None:
    with pytest.raises(ConfigError, match="Apple M1.* has no interconnect .* set `interconnect` in a file of devices"):
        plan("mlp-xor", device="m1", devices=2)
    assert plan("mlp-xor", device="m1").time.communication == 0
    with_one = replace(find_device("m1"), interconnect=1e10)
    assert plan("mlp-xor", device=with_one, devices=2).time.communication >= 0


def test_muon_takes_the_products_that_orthogonalize() -> None:
    adamw, muon = (
        plan("gpt2", device="h200", batch=8, length=64, optimizer=name).time.update for name in ("adamw", "muon")
    )
    dim, steps, blocks = 768, 5, 12
    square, oblong = (steps * (4 * dim * dim * columns + 2 * dim**3) for columns in (dim, 4 * dim))
    products = blocks * (4 * square + 2 * oblong)  # query, key, value and output; both of the feed-forward layer
    assert muon - adamw == pytest.approx(products / find_device("h200").matmul_rate("bfloat16"), rel=0.01)
