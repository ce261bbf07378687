"""Each change is the same plan of another configuration, and the one that saves most comes first."""

from collections.abc import Callable

import pytest

from glassformer.layers.config import Config
from glassformer.models.gpt import GPTConfig
from glassformer.models.llama import LlamaConfig
from glassformer.models.modern import ModernConfig
from glassformer.models.vit import ViTConfig
from glassformer.planning.figures import Plan
from glassformer.planning.what_if import what_if
from tests.planning.made_plans import made_plan

LLAMA = LlamaConfig(vocab=1000, context=64, dim=64, layers=4, heads=8, ffn_dim=128)


def recorder(seen: list[tuple[Config, int]]) -> Callable[[Config, int], Plan]:
    """A planner whose figures grow with the fields, and that notes what it was asked."""

    def plan(config: Config, length: int) -> Plan:
        seen.append((config, length))
        values = vars(config)
        groups, heads = values.get("kv_heads"), values.get("heads", 1)
        cache = values.get("layers", 1) * (groups or heads) * min(length, values.get("window") or length)
        size = values.get("dim", 1) * values.get("layers", 1) * 10 + (0 if values.get("tie_embeddings") else 100)
        return made_plan(parameters=size, peak=100 * size + length, kv_cache=16 * cache, seconds=1e-3 * size)

    return plan


def test_every_change_is_planned_with_the_configuration_it_names() -> None:
    seen: list[tuple[Config, int]] = []
    found = {each.change: each for each in what_if(LLAMA, 64, recorder(seen))}
    asked = [(vars(config), length) for config, length in seen]
    assert asked[0] == (vars(LLAMA), 64)
    assert any(values["dim"] == 32 and values["heads"] == 4 and values["ffn_dim"] == 64 for values, _ in asked)
    assert any(values["layers"] == 2 for values, _ in asked)
    assert any(values["kv_heads"] == 2 for values, _ in asked)
    assert any(values["window"] == 16 for values, _ in asked)
    assert any(values["tie_embeddings"] for values, _ in asked)
    assert any((values["context"], length) == (128, 128) for values, length in asked)
    assert set(found) == {
        *("unchanged", "half the width", "half the layers", "half the feed-forward dimension", "tied embeddings"),
        *("four query heads for each key-value head", "a sliding window of a quarter of the context"),
        *("texts twice as long", "activation checkpointing", "int8 KV cache", "int8 weights to generate with"),
    }


def test_the_largest_saving_comes_first_and_growth_last() -> None:
    unchanged, *rest = what_if(LLAMA, 64, recorder([]))
    assert unchanged.change == "unchanged"
    savings = [each.saves(unchanged) for each in rest]
    assert savings == sorted(savings, reverse=True)
    assert rest[-1].change == "texts twice as long" and savings[-1] <= 0 < savings[0]


def test_other_ways_change_only_what_they_touch() -> None:
    unchanged, *rest = what_if(LLAMA, 64, recorder([]))
    found = {each.change: each for each in rest}
    checkpointed = found["activation checkpointing"]
    assert checkpointed.memory < unchanged.memory
    assert (checkpointed.step_seconds or 0.0) > (unchanged.step_seconds or 0.0)
    cache, weights = found["int8 KV cache"], found["int8 weights to generate with"]
    assert unchanged.generating is not None and cache.generating is not None and weights.generating is not None
    half = (unchanged.generating - cache.generating) + (unchanged.generating - weights.generating)
    assert half == unchanged.generating / 2  # from bfloat16, the cache and the weights together are halved
    assert cache.memory == weights.memory == unchanged.memory


@pytest.mark.parametrize(
    ("config", "length", "absent"),
    [
        (GPTConfig(dim=64, layers=2, heads=4, context=32), 32, "four query heads for each key-value head"),
        (GPTConfig(dim=64, layers=2, heads=4, context=32), 32, "tied embeddings"),
        (LlamaConfig(vocab=100, context=64, dim=64, layers=2, heads=8, kv_heads=1, ffn_dim=64), 64, "four query"),
        (LlamaConfig(vocab=100, context=64, dim=64, layers=2, heads=8, window=16, ffn_dim=64), 64, "a sliding window"),
        (LlamaConfig(vocab=100, context=64, dim=64, layers=1, heads=8, ffn_dim=64), 64, "half the layers"),
        (ViTConfig(image_size=8, patch_size=4, dim=16, layers=2, heads=2, ffn_dim=32), 0, "texts twice as long"),
    ],
)
def test_a_change_that_does_not_apply_is_left_out(config: Config, length: int, absent: str) -> None:
    assert not [each.change for each in what_if(config, length, recorder([])) if each.change.startswith(absent)]


def test_a_modern_decoder_gets_its_window_by_its_pattern() -> None:
    seen: list[tuple[Config, int]] = []
    what_if(ModernConfig(vocab=100, context=64, dim=64, layers=2, heads=4), 64, recorder(seen))
    assert any(vars(config)["attention"] == "sliding_window" and vars(config)["window"] == 16 for config, _ in seen)
