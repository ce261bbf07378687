"""`gf.plan`: parameters, operations, memory and time of a model on a device, before anything is run."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from glassformer.errors import ConfigError
from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.models.dalle import DALLE
from glassformer.models.registry import build
from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.devices import find_device
from glassformer.planning.example_batch import as_trained, longest, usual_length
from glassformer.planning.figures import Limits, Memory, Parameters, Plan, PlannedStep, WeightBytes, Workload
from glassformer.planning.generating import plan_generation, writes_text
from glassformer.planning.kernel_data import RecordedStep
from glassformer.planning.kernels import computed_again
from glassformer.planning.limits import MOST, crossover, least_bytes, limits
from glassformer.planning.memory import as_run, memory, weights_of
from glassformer.planning.non_embedding import parameters_without_embeddings
from glassformer.planning.operations import forward_costs, operations
from glassformer.planning.planned_model import PlannedModel, planned_model
from glassformer.planning.recorded_step import record_step
from glassformer.planning.resized import Sizes
from glassformer.planning.step_time import step_time
from glassformer.training.config import resolve
from glassformer.training.objective import Objective
from glassformer.training.recipe import MOMENTS
from glassformer.training.registry import TASKS

DTYPES = ("float32", "bfloat16")
BATCH = ("batch_size", "pairs_per_batch")  # settings of data that say how many rows a batch has
LENGTH = ("max_length", "length", "context")  # and how many tokens each has
STRATEGIES = ("ddp", "fsdp")
USUAL_BATCH = 8
FACTORS = (0.25, 0.5, 1.0, 2.0)  # of a size, around which others are planned
WIDTHS = ("dim", "heads", "kv_heads", "ffn_dim")  # fields that grow with the width of a model
SHORTEST = 8  # tokens from which shorter inputs tell how a step grows with the length
MOST_WORDS = 3  # of the name of a part, as in stack.blocks.attention


def plan(
    model: Model | Config | str | Path,
    *,
    device: DeviceSpec | str = "auto",
    batch: int | None = None,
    length: int | None = None,
    dtype: str = "auto",
    optimizer: str | None = None,
    strategy: str = "ddp",
    devices: int = 1,
) -> Plan:
    """What a model, a configuration, a preset, a run folder or a TOML file of settings takes on a device.

    `batch` counts the sequences, pictures or rows of each device, `length` their tokens; `dtype` is float32, or
    bfloat16 by autocast with weights in float32. Nothing is allocated or computed.
    """
    spec, planned = find_device(device) if isinstance(device, str) else device, what_is(model)
    given = {"batch": batch, "length": length, "optimizer": optimizer}
    chosen = {
        "batch": USUAL_BATCH,
        **planned.usual,
        **{key: value for key, value in given.items() if value is not None},
    }
    if "length" not in chosen:
        chosen["length"] = usual_length(planned.model, planned.objective)
    workload = Workload(
        batch=_whole("batch", chosen["batch"]),
        length=_whole("length", chosen["length"], least=0),
        dtype=_one_of("dtype", _usual_dtype(spec) if dtype == "auto" else dtype, DTYPES),
        optimizer=_one_of("optimizer", str(chosen.get("optimizer", "adamw")), tuple(MOMENTS)),
        strategy=_one_of("strategy", strategy, STRATEGIES),
        devices=_whole("devices", devices),
        activation_checkpointing=bool(chosen.get("activation_checkpointing", False)),
    )
    return Planning(planned, spec, workload).plan()


def what_is(model: Model | Config | str | Path) -> PlannedModel:
    """The model to plan, of a file of settings too."""
    if isinstance(model, str | Path) and str(model).endswith(".toml") and Path(model).is_file():
        return _of_settings(Path(model))
    return planned_model(model)


def _of_settings(path: Path) -> PlannedModel:
    """The model that a file of settings trains, with the sizes of its batches."""
    resolved = resolve(file=path)
    settings, task = resolved.settings, TASKS[resolved.task]
    config, data = settings.model, vars(settings.data)
    if task.reads_text and "vocab" in vars(config):  # the size of a tokenizer that is not trained yet
        config = replace(config, vocab=settings.tokenizer.vocab_size)
    again = settings.run.activation_checkpointing
    usual: dict[str, int | str] = {"optimizer": settings.recipe.optimizer, "activation_checkpointing": again}
    for key, names in (("batch", BATCH), ("length", LENGTH)):
        if found := [data[name] for name in names if isinstance(data.get(name), int)]:
            usual[key] = found[0]
    if "batch" not in usual and "tokens_per_batch" in data and "length" in usual:
        usual["batch"] = max(data["tokens_per_batch"] // int(usual["length"]), 1)
    return PlannedModel(str(path), build(config, device="meta"), task.objective, usual)


def plans_around(model: Model, planned: Plan) -> dict[str, list[tuple[int, PlannedStep]]]:
    """Steps at a quarter, a half, the whole and the double of a plan's length, batch and width, by name."""
    config, workload, context = model.config, planned.workload, longest(model) or MOST
    found: dict[str, list[tuple[int, PlannedStep]]] = {}
    if workload.length and not isinstance(model, DALLE):
        sizes = sorted({min(max(round(workload.length * factor), 1), context) for factor in FACTORS})
        found["length"] = [(size, _again(planned, config, replace(workload, length=size))) for size in sizes]
    sizes = sorted({max(round(workload.batch * factor), 1) for factor in FACTORS})
    found["batch"] = [(size, _again(planned, config, replace(workload, batch=size))) for size in sizes]
    for factor in FACTORS if isinstance(vars(config).get("dim"), int) else ():
        numbers = {name: value for name, value in vars(config).items() if name in WIDTHS and isinstance(value, int)}
        wider = {name: max(round(value * factor), 1) for name, value in numbers.items()}
        try:
            found.setdefault("width", []).append((wider["dim"], _again(planned, replace(config, **wider), workload)))
        except ConfigError:  # a width that the heads do not divide
            continue
    return found


def replanned(planned: Plan, config: Config, workload: Workload) -> Plan:
    """A plan for the device of another one."""
    return Planning(what_is(config), planned.device, workload).plan()


def _again(planned: Plan, config: Config, workload: Workload) -> PlannedStep:
    planning = Planning(what_is(config), planned.device, workload)
    return planning.step(planning.record(workload))


def _usual_dtype(device: DeviceSpec) -> str:
    """What training chooses by itself: bfloat16 where the device has units for it."""
    return "bfloat16" if "bfloat16" in device.peaks else "float32"


def _whole(name: str, value: object, least: int = 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name} is {value!r}, wanted a whole number, {least} or more")
    return value


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ConfigError(f"{name} is {value!r}, wanted {'auto, ' if name == 'dtype' else ''}{', '.join(known)}")
    return value


@dataclass(frozen=True)
class Planning:
    """A model on a device with a workload, on its way to a plan."""

    planned: PlannedModel
    device: DeviceSpec
    workload: Workload

    @property
    def kind(self) -> str:
        """The type of the device whose kernels are recorded."""
        return "cuda" if self.device.compiles else "cpu"

    @cached_property
    def weights(self) -> WeightBytes:
        """The bytes of the model's weights."""
        return weights_of(self.planned.model)

    def record(self, workload: Workload) -> RecordedStep:
        """One step of a size."""
        model, objective = self.planned.model, self._objective(workload)
        return record_step(model, objective, workload.batch, workload.length, workload.dtype, self.kind)

    def _objective(self, workload: Workload) -> Objective:
        """The objective of batches as training makes them."""
        planned = self.planned
        return as_trained(planned.objective, planned.model, workload.dtype, workload.length, self.device.compiles)

    def memory_of(self, workload: Workload, step: RecordedStep) -> Memory:
        """The memory of a recorded step."""
        objective = self._objective(workload)
        lifetimes = as_run(step, objective, self.device)[1]
        return memory(self.weights, step, lifetimes, workload, self.device, objective.uneven)

    def step(self, step: RecordedStep) -> PlannedStep:
        """What a recorded step takes."""
        model, workload, device, times = self.planned.model, self.workload, self.device, step.repeats
        forward = forward_costs(model, self.planned.objective, workload.batch, workload.length)
        kept = [(kernel, times[kernel.at]) for kernel in as_run(step, self._objective(workload), device)[0]]
        again = [*kept, *computed_again(kept, device.compiles)]
        kernels = again if workload.activation_checkpointing else kept
        counted = operations(forward, step, kernels, device, workload.dtype)
        return PlannedStep(
            operations=counted,
            memory=self.memory_of(workload, step),
            time=step_time(kernels, counted, self.weights, workload, device),
            time_checkpointed=step_time(again, counted, self.weights, workload, device),
        )

    def plan(self) -> Plan:
        """The plan."""
        model, workload, device = self.planned.model, self.workload, self.device
        step, length = self.record(workload), max(workload.length, 1)
        taken = self.step(step)
        return Plan(
            name=self.planned.name,
            architecture=self.planned.architecture,
            device=device,
            workload=workload,
            parameters=parameters(model),
            operations=taken.operations,
            memory=taken.memory,
            time=taken.time,
            time_checkpointed=taken.time_checkpointed,
            limits=self._limits(step),
            generation=plan_generation(model, device, workload.batch, length) if writes_text(model) else None,
        )

    def _limits(self, step: RecordedStep) -> Limits:
        model, workload, room = self.planned.model, self.workload, self.device.memory
        context = 0 if model.loops or isinstance(model, DALLE) else longest(model)
        shorter = {} if context == 0 else self._shorter(step)
        half = max(shorter, default=0)
        crossing = crossover(step, shorter[half], workload.length, half) if shorter else None
        if least_bytes(workload, self.weights) > room:
            return Limits(batch=0, batch_checkpointed=0, length=0, length_checkpointed=0, crossover=crossing)
        double = 2 * workload.batch
        more = self.record(replace(workload, batch=double))
        sizes = {"batch": Sizes("batch", workload, [(workload.batch, step), (double, more)], self.record)}
        if shorter:
            lengths = [(workload.length, step), *shorter.items()]
            sizes["length"] = Sizes("length", workload, lengths, self.record)

        def memory_at(name: str, size: int) -> Memory:
            return self.memory_of(workload, sizes[name].at(size))

        most = {"batch": MOST, **({"length": context or MOST} if shorter else {})}
        return limits(memory_at, workload, room, most, crossing)

    def _shorter(self, step: RecordedStep) -> dict[int, RecordedStep]:
        """The step at a half and a quarter of the length; nothing where it is too short for that."""
        length = self.workload.length
        if length < SHORTEST:
            return {}
        found = (
            [length // 2]
            if least_bytes(self.workload, self.weights) > self.device.memory
            else [length // 2, length // 4]
        )
        return {each: self.record(replace(self.workload, length=each)) for each in found}


def parameters(model: Model) -> Parameters:
    """The parameters of a model by its parts, shared ones counted in the first part that has them."""
    parts, seen = Counter[str](), set[int]()
    for module_name, module in model.named_modules():
        for name, weight in module.named_parameters(recurse=False):
            if id(weight) in seen:
                continue
            seen.add(id(weight))
            parts[_part(f"{module_name}.{name}" if module_name else name)] += weight.numel()
    return Parameters(
        total=sum(parts.values()), by_part=dict(parts), without_embeddings=parameters_without_embeddings(model)
    )


def _part(name: str) -> str:
    """The part of a model that a parameter belongs to: what is the same in every block, under one name."""
    words = [word for word in name.split(".")[:-1] if not word.isdigit()]
    return ".".join(words[:MOST_WORDS]) or name
