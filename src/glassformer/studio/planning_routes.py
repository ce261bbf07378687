"""The route of the Plan view: what a model of some size takes on a device, with each number explained."""

from collections.abc import Callable
from dataclasses import fields, replace
from functools import lru_cache
from typing import Annotated, TypeAlias

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.errors import ConfigError, GlassformerError
from glassformer.layers.config import Config
from glassformer.models.registry import presets
from glassformer.planning.figures import Plan
from glassformer.planning.known_devices import devices
from glassformer.studio.answers import answer, sessions_of
from glassformer.studio.sessions import Sessions

SIZES = ("layers", "dim", "heads")
PRESETS = ("gpt2", "modern", "bert-base", "transformer-base", "llama-7b")
OPEN = "the open model"
KEPT = 64  # plans
BYTES = 4  # of a weight, which stays float32
MOMENTS = {0: "keeps no moments", 1: "keeps one moment of each", 2: "keeps two moments of each"}
Whole = Annotated[int, msgspec.Meta(ge=1, le=100_000)]


MakePlan: TypeAlias = Callable[[Config, str, int, int | None, str], Plan]  # device, batch, length and dtype


class PlanQuery(msgspec.Struct, frozen=True):
    """What to plan: a model to begin with, its sizes as far as they are changed, the batch and the device."""

    base: str | None = None
    layers: Annotated[int, msgspec.Meta(ge=1, le=200)] | None = None
    dim: Whole | None = None
    heads: Annotated[int, msgspec.Meta(ge=1, le=1000)] | None = None
    length: Annotated[int, msgspec.Meta(ge=1, le=131_072)] | None = None
    batch: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 8
    dtype: str = "auto"
    device: str = "auto"


class Figure(msgspec.Struct, frozen=True):
    """One number with its name, its unit and what it is."""

    name: str
    value: float
    unit: str
    meaning: str


class PlanData(msgspec.Struct, frozen=True):
    """A plan for the page: what it is of, and its numbers in groups; `parts` are those that a group is the sum of."""

    base: str
    bases: list[str]
    sizes: dict[str, int]
    length: int
    batch: int
    dtype: str
    device: str
    devices: list[str]
    capacity: float
    fits: bool
    parameters: list[Figure]
    memory: list[Figure]
    time: list[Figure]
    limits: list[Figure]


def kept(plan: Callable[..., Plan]) -> MakePlan:
    """A function that plans, such as `gf.plan`, which remembers its last plans."""

    def make(config: Config, device: str, batch: int, length: int | None, dtype: str) -> Plan:
        return plan(config, device=device, batch=batch, length=length, dtype=dtype)

    return lru_cache(KEPT)(make)


def planned(make: MakePlan, sessions: Sessions, query: PlanQuery, model: str | None) -> PlanData:
    """The plan of a model of these sizes."""
    known = {name: presets()[name] for name in PRESETS}
    try:
        config = sessions.model(model).model.config
    except GlassformerError:  # it is being trained
        pass
    else:
        known = ({OPEN: config} if set(SIZES) <= set(vars(config)) else {}) | known
    base = query.base if query.base is not None else next(iter(known))
    if base not in known:
        raise ConfigError(f"base is {base!r}, wanted one of {', '.join(known)}")
    config = _sized(known[base], query)
    length = query.length
    if length is None and vars(config).get("context"):
        length = min(vars(config)["context"], 1024)
    return _data(make(config, query.device, query.batch, length, query.dtype), config, base, list(known))


def _sized(config: Config, query: PlanQuery) -> Config:
    """The configuration with other sizes: the feed-forward width goes with `dim`, the context with the length."""
    asked = {name: getattr(query, name) for name in SIZES if getattr(query, name) is not None}
    names = {field.name for field in fields(config)}
    values = vars(config)
    if "dim" in asked and values.get("ffn_dim"):
        asked["ffn_dim"] = max(1, round(values["ffn_dim"] / values["dim"] * asked["dim"]))
    if "heads" in asked and values.get("kv_heads"):
        asked["kv_heads"] = asked["heads"]
    if "context" in names and query.length is not None and query.length > (values["context"] or 0):
        asked["context"] = query.length
    return replace(config, **asked)


def _data(found: Plan, config: Config, base: str, bases: list[str]) -> PlanData:
    workload, values = found.workload, vars(config)
    return PlanData(
        base=base,
        bases=bases,
        sizes={name: values[name] for name in SIZES},
        length=workload.length,
        batch=workload.batch,
        dtype=workload.dtype,
        device=found.device.name,
        devices=["auto", *devices()],
        capacity=found.device.memory,
        fits=found.fits,
        parameters=_parameters(found),
        memory=_memory(found),
        time=_time(found),
        limits=_limits(found),
    )


def _parameters(found: Plan) -> list[Figure]:
    parts = sorted(found.parameters.by_part.items(), key=lambda part: -part[1])
    rows = [Figure(_words(name), n, "", f"{n / found.parameters.total:.1%} of all") for name, n in parts]
    whole = "Trainable numbers; one that is used twice counts once."
    return [Figure("Parameters", found.parameters.total, "", whole), *rows]


def _words(part: str) -> str:
    """The name of a part, such as `stack.blocks.feed_forward`, in words."""
    return part.removeprefix("stack.").replace(".", ", ").replace("_", " ")


def _memory(found: Plan) -> list[Figure]:
    memory, count = found.memory, f"{found.parameters.total:,}"
    per = round(memory.optimizer / max(memory.weights, 1))
    kept = MOMENTS.get(per, f"keeps {per} numbers of each")
    workload = found.workload
    what = f"{workload.batch} × {workload.length:,} tokens" if workload.length else f"a batch of {workload.batch}"
    return [
        Figure("Peak", memory.peak, "bytes", "The most that is held at once: the sum of what stands below."),
        Figure("Weights", memory.weights, "bytes", f"{count} parameters of {BYTES} bytes each."),
        Figure("Gradients", memory.gradients, "bytes", "One number for each weight, until the optimizer has used it."),
        Figure("Optimizer", memory.optimizer, "bytes", f"{workload.optimizer} {kept}."),
        Figure("Activations", memory.activations, "bytes", f"What the backward pass reads again, for {what}."),
        Figure("Overhead", memory.overhead, "bytes", "Workspaces of the libraries and what the allocator holds back."),
    ]


def _time(found: Plan) -> list[Figure]:
    time, device = found.time, found.device
    peak = device.peak(found.workload.dtype)
    work = f"{found.operations.step:.3g} operations, at most {peak:.3g} a second on {device.name}"
    return [
        Figure("One step", time.seconds, "seconds", f"{work}; {time.utilization:.0%} of that peak is used."),
        Figure(
            "Arithmetic", time.compute, "seconds", "Kernels that the arithmetic units limit: large matrix products."
        ),
        Figure("Memory bandwidth", time.memory, "seconds", "Kernels that wait for numbers to come from memory."),
        Figure("Launches", time.launches, "seconds", f"The time between {time.kernels:,} kernels."),
        Figure("Optimizer", time.update, "seconds", "Reading and writing every weight and its moments once."),
    ]


def _limits(found: Plan) -> list[Figure]:
    limits, generation = found.limits, found.generation
    rows = [
        Figure(
            "Tokens a second", found.time.tokens_per_second, "", "In training, of all sequences of the batch together."
        ),
        Figure("Largest batch", limits.batch, "", "At this length, in the memory of the device; 0 if none fits."),
        Figure(
            "With checkpointing", limits.batch_checkpointed, "", "The same where each block computes its inside again."
        ),
    ]
    if limits.length is not None:
        rows.append(Figure("Longest text", limits.length, "", "Tokens of each sequence, at this batch."))
    if limits.crossover is not None:
        rows.append(
            Figure("Attention leads from", limits.crossover, "", "Tokens from which attention takes most of the work.")
        )
    if generation is not None:
        rows.append(
            Figure(
                "Generated a second", generation.tokens_per_second, "", "Tokens, with the KV cache, of the whole batch."
            )
        )
        rows.append(
            Figure("KV cache", generation.kv_cache, "bytes", f"Keys and values of {generation.length:,} tokens.")
        )
    return rows


async def plan_(request: Request) -> Response:
    """What a model takes on a device."""
    given = dict(request.query_params)
    model = given.pop("model", None)
    query = msgspec.convert(given, PlanQuery, strict=False)
    make = request.app.state.make_plan
    if make is None:
        raise GlassformerError("this server was started without plans: start `glassformer studio`")
    return answer(await run_in_threadpool(planned, make, sessions_of(request), query, model))


routes = [Route("/plan", plan_)]
