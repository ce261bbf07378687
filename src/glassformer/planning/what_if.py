"""What changes of a configuration would save: the same plan, made again for each changed configuration."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from glassformer.errors import ConfigError
from glassformer.layers.config import Config
from glassformer.planning.figures import Plan
from glassformer.planning.memory import required

Planner = Callable[[Config, int], Plan]  # from a configuration and the tokens of a text, 0 where it reads none
GROUP = 4  # query heads that share keys and values
INT8 = {"float32": 1 / 4, "bfloat16": 1 / 2, "float16": 1 / 2}  # bytes of an int8 over those of these dtypes

Change = Callable[[Mapping[str, object]], Mapping[str, object] | None]  # new values of fields, None where it has none


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """A changed configuration, and what it takes beside the unchanged one.

    `memory` is that of training on each device, `generating` the bytes of weights and KV cache. A figure that the
    change does not touch is that of the unchanged configuration; None is a figure that is not known.
    """

    change: str
    parameters: int
    memory: int
    step_seconds: float | None
    generating: int | None
    seconds_per_token: float | None

    def saves(self, unchanged: "Alternative") -> float:
        """The largest fraction that any figure is smaller by; negative if all of them grow."""
        pairs = [(vars(self)[name], vars(unchanged)[name]) for name in FIGURES]
        return max(1 - now / before for now, before in pairs if now is not None and before)


FIGURES = ("memory", "step_seconds", "generating", "seconds_per_token")


def what_if(config: Config, length: int, plan: Planner) -> tuple[Alternative, ...]:
    """The unchanged configuration first, then each change that applies to it, the one that saves most first.

    `plan` plans a configuration for texts of a length; this asks it for each change, and computes nothing of a model.
    """
    base = plan(config, length)
    unchanged = _figures("unchanged", base)
    found = [*_changed_configs(config, length, plan), *_other_ways(base, unchanged)]
    return unchanged, *sorted(found, key=lambda each: -each.saves(unchanged))


def _changed_configs(config: Config, length: int, plan: Planner) -> Iterator[Alternative]:
    for words, change in CHANGES.items():
        try:
            values = change(vars(config))
            changed = None if values is None else replace(config, **values)
        except (ConfigError, TypeError):  # a combination that this architecture does not have
            continue
        if changed is not None and changed != config:
            yield _figures(words, plan(changed, length))
    longer = _longer_context(vars(config), length)
    if longer is not None:
        yield _figures("texts twice as long", plan(replace(config, **longer), 2 * length))


def _longer_context(values: Mapping[str, object], length: int) -> Mapping[str, object] | None:
    """Fields for texts of twice the length; {} if the context holds them already."""
    context = values.get("context")
    if not isinstance(context, int) or not length:
        return None
    return {"context": 2 * length} if context < 2 * length else {}


def _halved(*names: str) -> Change:
    """Half of each field that there is; None if the first is not there or cannot be halved."""

    def change(values: Mapping[str, object]) -> Mapping[str, object] | None:
        found = {name: value for name in names if isinstance(value := values.get(name), int) and value > 1}
        return {name: value // 2 for name, value in found.items()} if names[0] in found else None

    return change


def _half_width(values: Mapping[str, object]) -> Mapping[str, object] | None:
    """Half the width with heads as wide as before, so that there are half as many."""
    heads, groups = values.get("heads"), values.get("kv_heads")
    odd = isinstance(heads, int) and heads % 2
    changed = _halved("dim", "ffn_dim", *([] if odd else ["heads"]))(values)
    if changed is None or odd or not isinstance(heads, int) or not isinstance(groups, int):
        return changed
    return {**changed, "kv_heads": min(groups, heads // 2)}


def _grouped_queries(values: Mapping[str, object]) -> Mapping[str, object] | None:
    heads, groups = values.get("heads"), values.get("kv_heads", 0)
    if not isinstance(heads, int) or groups == 0 or heads % GROUP:
        return None
    fewer = groups is None or (isinstance(groups, int) and groups > heads // GROUP)
    return {"kv_heads": heads // GROUP} if fewer else None


def _window(values: Mapping[str, object]) -> Mapping[str, object] | None:
    """A sliding window of a quarter of the context."""
    context, window = values.get("context"), values.get("window", 0)
    if not isinstance(context, int) or window == 0 or context < GROUP:
        return None
    if "attention" in values:
        return {"attention": "sliding_window", "window": context // GROUP} if values["attention"] == "causal" else None
    return {"window": context // GROUP} if window is None else None


def _tied(values: Mapping[str, object]) -> Mapping[str, object] | None:
    return {"tie_embeddings": True} if values.get("tie_embeddings") is False else None


CHANGES: Mapping[str, Change] = {
    "half the width": _half_width,
    "half the layers": _halved("layers"),
    "half the feed-forward dimension": _halved("ffn_dim"),
    "four query heads for each key-value head": _grouped_queries,
    "a sliding window of a quarter of the context": _window,
    "tied embeddings": _tied,
}


def _other_ways(base: Plan, unchanged: Alternative) -> Iterator[Alternative]:
    """The same model, computed or stored in another way."""
    memory = required(base.memory, base.workload, checkpointed=True)
    if memory < unchanged.memory:
        longer = base.time_checkpointed.seconds
        yield replace(unchanged, change="activation checkpointing", memory=memory, step_seconds=longer)
    made = base.generation
    if made is None:
        return
    fraction = INT8[made.dtype]
    if made.kv_cache:
        bytes_ = round(made.weights + fraction * made.kv_cache)
        yield replace(unchanged, change="int8 KV cache", generating=bytes_, seconds_per_token=None)
    bytes_ = round(fraction * made.weights + made.kv_cache)
    yield replace(unchanged, change="int8 weights to generate with", generating=bytes_, seconds_per_token=None)


def _figures(change: str, plan: Plan) -> Alternative:
    made = plan.generation
    return Alternative(
        change=change,
        parameters=plan.parameters.total,
        memory=required(plan.memory, plan.workload),
        step_seconds=plan.time.seconds,
        generating=None if made is None else made.weights + made.kv_cache,
        seconds_per_token=None if made is None else 1 / made.tokens_per_second,
    )
