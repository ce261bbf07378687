"""`gf.plan`: parameters, operations, memory and time of a model on a device, before anything is run."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from glassformer.checkpoints.load import load
from glassformer.equations.attention import FEW_KEYS
from glassformer.errors import ConfigError
from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.models.dalle import DALLE
from glassformer.models.registry import build
from glassformer.planning.advice import advised
from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.devices import find_device
from glassformer.planning.example_batch import as_trained, has_length, longest, usual_length
from glassformer.planning.figures import Limits, Memory, Parameters, Plan, PlannedStep, WeightBytes, Workload
from glassformer.planning.generating import plan_generation, writes_text
from glassformer.planning.kernel_data import RecordedStep
from glassformer.planning.kernels import computed_again
from glassformer.planning.limits import MOST, crossover, least_bytes, limits
from glassformer.planning.memory import as_run, memory, weights_of
from glassformer.planning.non_embedding import parameters_without_embeddings
from glassformer.planning.operations import forward_costs, operations
from glassformer.planning.planned_model import PlannedModel, planned_model
from glassformer.planning.planned_settings import notes_of, usual_of
from glassformer.planning.recorded_step import record_step
from glassformer.planning.resized import Sizes
from glassformer.planning.step_time import step_time
from glassformer.planning.whole_update import average_bytes, update_operations, update_time, with_average
from glassformer.training.config import Resolved, resolve, with_initial_model
from glassformer.training.objective import Objective
from glassformer.training.recipe import MOMENTS
from glassformer.training.recorded_run import CONFIG
from glassformer.training.registry import TASKS

AUTO = "auto"
DTYPES = ("float32", "bfloat16")
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
    dtype: str = AUTO,
    optimizer: str | None = None,
    strategy: str | None = None,
    devices: int = 1,
) -> Plan:
    """What a model, a configuration, a preset, a run folder or a TOML file of settings takes on a device.

    `batch` counts the sequences, pictures or rows of each device, `length` their tokens; `dtype` is float32, or
    bfloat16 by autocast with weights in float32. What is left out is that of the settings of a file or a run, if it is
    of one. Nothing is allocated or computed.
    """
    planned = what_is(model)
    asked = workload_of(planned, batch, length, dtype, optimizer, strategy, devices)  # before a device is measured
    return plan_on(find_device(device) if isinstance(device, str) else device, planned, asked)


def workload_of(
    planned: PlannedModel,
    batch: int | None = None,
    length: int | None = None,
    dtype: str = AUTO,
    optimizer: str | None = None,
    strategy: str | None = None,
    devices: int = 1,
) -> Workload:
    """What a model is planned for; a dtype that is "auto" depends on the device."""
    given: dict[str, int | str | None] = {"batch": batch, "length": length, "optimizer": optimizer}
    given |= {"strategy": strategy, "dtype": None if dtype == AUTO else dtype}
    chosen = {**planned.usual, **{key: value for key, value in given.items() if value is not None}}
    return Workload(
        batch=_whole("batch", chosen.get("batch", USUAL_BATCH)),
        length=_length(planned, length, chosen.get("length")),
        dtype=_one_of("dtype", str(chosen.get("dtype", AUTO)), (AUTO, *DTYPES)),
        optimizer=_one_of("optimizer", str(chosen.get("optimizer", "adamw")), tuple(MOMENTS)),
        strategy=_one_of("strategy", str(chosen.get("strategy", "ddp")), STRATEGIES),
        devices=_whole("devices", devices),
        activation_checkpointing=bool(chosen.get("activation_checkpointing", False)),
        gradient_accumulation=_whole("gradient_accumulation", chosen.get("gradient_accumulation", 1)),
        ema=bool(chosen.get("ema", False)),
    )


def plan_on(device: DeviceSpec, planned: PlannedModel, workload: Workload) -> Plan:
    """Plan a workload of a model on a device."""
    if workload.dtype == AUTO:
        workload = replace(workload, dtype=_usual_dtype(device))
    elif workload.dtype not in device.peaks:
        note = f"{device.name} has no rate for {workload.dtype}: planned at the rate of float32"
        planned = replace(planned, notes=(*planned.notes, note))
    return Planning(planned, device, workload).plan()


def what_is(model: Model | Config | str | Path) -> PlannedModel:
    """The model to plan, of a file of settings or a run with what they say about its training."""
    if isinstance(model, str | Path) and str(model) and _holds_settings(Path(model)):
        return _of_settings(Path(model))
    return planned_model(model)


def _holds_settings(path: Path) -> bool:
    """Whether a path is a file of settings or the folder of a run."""
    return (path.suffix == ".toml" and path.is_file()) or (path / CONFIG).is_file()


def _of_settings(path: Path) -> PlannedModel:
    """The model that a file of settings or a run trains, with its batches and its training."""
    if path.is_dir():
        return _of_run(path)
    resolved = resolve(file=path)
    resolved, vocab = _from_start(resolved)
    settings, task = resolved.settings, TASKS[resolved.task]
    config, notes = settings.model, notes_of(settings)
    if vocab is None and task.reads_text and "vocab" in vars(config):
        config = replace(config, vocab=settings.tokenizer.vocab_size)
        most = f"{settings.tokenizer.vocab_size:,} tokens, the most that tokenizer.vocab_size allows"
        notes = (*notes, f"the tokenizer is not trained yet: planned with {most}; a run has what its text gives")
    return PlannedModel(str(path), build(config, device="meta"), task.objective, usual_of(settings), notes)


def _from_start(resolved: Resolved) -> tuple[Resolved, int | None]:
    """The settings with the shape of the model that a run starts from, and its vocabulary, if there is one."""
    if not resolved.settings.run.init:
        return resolved, None
    start = load(resolved.settings.run.init, "meta")
    return with_initial_model(resolved, start.model, start.tokenizer is not None), vars(start.model.config).get("vocab")


def _of_run(folder: Path) -> PlannedModel:
    """The model of a run as it is in its folder, with the settings that it was begun with."""
    found = planned_model(folder)
    try:
        resolved = resolve(file=folder / CONFIG)
    except ConfigError as error:  # of another version: the model can be planned without them
        return replace(found, notes=(f"not planned by the settings of the run: {error}",))
    settings = resolved.settings
    return PlannedModel(found.name, found.model, TASKS[resolved.task].objective, usual_of(settings), notes_of(settings))


def _length(planned: PlannedModel, given: int | None, usual: object) -> int:
    """The tokens of each sequence: as asked for, else of the settings, else as usual; 0 for a model without tokens."""
    fallback = usual_length(planned.model, planned.objective)
    fixed = not has_length(planned.model, planned.objective)
    if fixed and given is not None and given != fallback:
        why = f"every example of it has {fallback:,} tokens" if fallback else "it reads no tokens"
        raise ConfigError(f"length is {given!r}, but {planned.name} has no length to choose: {why}; leave it out")
    if fixed:
        return fallback
    return _whole("length", fallback if usual is None else usual)


def plans_around(found: PlannedModel, planned: Plan) -> dict[str, list[tuple[int, PlannedStep]]]:
    """Steps at a quarter, a half, the whole and the double of a plan's length, batch and width, by name."""
    model = found.model
    config, workload, context = model.config, planned.workload, longest(model) or MOST

    def again(config: Config, workload: Workload) -> PlannedStep:
        planning = Planning(resized(found, config), planned.device, workload)
        return planning.step(planning.record(workload))

    steps: dict[str, list[tuple[int, PlannedStep]]] = {}
    if workload.length and has_length(model, found.objective):
        sizes = sorted({min(max(round(workload.length * factor), 1), context) for factor in FACTORS})
        steps["length"] = [(size, again(config, replace(workload, length=size))) for size in sizes]
    sizes = sorted({max(round(workload.batch * factor), 1) for factor in FACTORS})
    steps["batch"] = [(size, again(config, replace(workload, batch=size))) for size in sizes]
    for factor in FACTORS if isinstance(vars(config).get("dim"), int) else ():
        numbers = {name: value for name, value in vars(config).items() if name in WIDTHS and isinstance(value, int)}
        wider = {name: max(round(value * factor), 1) for name, value in numbers.items()}
        try:
            steps.setdefault("width", []).append((wider["dim"], again(replace(config, **wider), workload)))
        except ConfigError:  # a width that the heads do not divide
            continue
    return steps


def resized(found: PlannedModel, config: Config) -> PlannedModel:
    """What is planned, with a model of another configuration."""
    return replace(found, model=build(config, device="meta"))


def replanned(found: PlannedModel, planned: Plan, config: Config, workload: Workload) -> Plan:
    """Plan another configuration and workload on the device of an existing plan."""
    return Planning(resized(found, config), planned.device, workload).plan()


def what_would_fit(found: PlannedModel, planned: Plan) -> Workload | None:
    """A workload that fits, near that of a plan of which no batch fits; None if there is none."""
    planning = Planning(found, planned.device, planned.workload)

    @cache
    def step_of(batch: int) -> RecordedStep:
        return planning.record(replace(planned.workload, batch=batch))

    def memory_of(workload: Workload) -> Memory:
        return planning.memory_of(workload, step_of(workload.batch))

    def limits_of(workload: Workload) -> Limits:
        return Planning(found, planned.device, workload).limits()

    return advised(planned, planning.least_bytes, memory_of, limits_of)


def _usual_dtype(device: DeviceSpec) -> str:
    """What training chooses by itself: bfloat16 where the device has units for it."""
    return "bfloat16" if "bfloat16" in device.peaks else "float32"


def _whole(name: str, value: object, least: int = 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name} is {value!r}, wanted a whole number, {least} or more")
    return value


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ConfigError(f"{name} is {value!r}, wanted {', '.join(known)}")
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
        return weights_of(self.planned.model, self.workload.optimizer)

    @property
    def least_bytes(self) -> int:
        """What weights, gradients, optimizer and moving average take on each device, whatever the batch."""
        return least_bytes(self.workload, self.weights) + average_bytes(self.workload, self.weights)

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
        found = memory(self.weights, step, lifetimes, workload, self.device, objective.uneven)
        return with_average(found, workload, self.weights, self.device, objective.uneven)

    def step(self, step: RecordedStep) -> PlannedStep:
        """What a recorded step takes."""
        model, workload, device, times = self.planned.model, self.workload, self.device, step.repeats
        weights = self.weights
        forward = forward_costs(model, self.planned.objective, workload.batch, workload.length)
        kept = [(kernel, times[kernel.at]) for kernel in as_run(step, self._objective(workload), device)[0]]
        again = [*kept, *computed_again(kept, device.compiles)]
        kernels = again if workload.activation_checkpointing else kept
        counted = operations(forward, step, kernels, device, workload.dtype)
        update = update_operations(counted, workload.gradient_accumulation)
        seconds, longer = (
            update_time(step_time(each, counted, weights, workload, device), update, workload, weights, device)
            for each in (kernels, again)
        )
        return PlannedStep(
            operations=update, memory=self.memory_of(workload, step), time=seconds, time_checkpointed=longer
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
            notes=self.planned.notes,
            generation=plan_generation(model, device, workload.batch, length) if writes_text(model) else None,
        )

    def limits(self) -> Limits:
        """What fits, without the rest of the plan."""
        return self._limits(self.record(self.workload))

    def _limits(self, step: RecordedStep) -> Limits:
        model, workload, room = self.planned.model, self.workload, self.device.memory
        context = 0 if model.loops or isinstance(model, DALLE) else longest(model)
        shorter = {} if context == 0 else self._shorter(step)
        half = max(shorter, default=0)
        crossing = crossover(step, shorter[half], workload.length, half) if shorter else None
        if self.least_bytes > room:
            return Limits(batch=0, batch_checkpointed=0, length=0, length_checkpointed=0, crossover=crossing)
        double = 2 * workload.batch
        more = self.record(replace(workload, batch=double))
        sizes = {"batch": Sizes("batch", workload, [(workload.batch, step), (double, more)], self.record)}
        if shorter:
            lengths = [(workload.length, step), *shorter.items()]
            few = FEW_KEYS if self.kind == "cpu" else 0
            sizes["length"] = Sizes("length", workload, lengths, self.record, few)

        def memory_at(name: str, size: int) -> Memory:
            return self.memory_of(workload, sizes[name].at(size))

        most = {"batch": MOST, **({"length": context or MOST} if shorter else {})}
        return limits(memory_at, workload, room, most, crossing)

    def _shorter(self, step: RecordedStep) -> dict[int, RecordedStep]:
        """The step at a half and a quarter of the length; nothing where it is too short for that."""
        length = self.workload.length
        if length < SHORTEST:
            return {}
        found = [length // 2] if self.least_bytes > self.device.memory else [length // 2, length // 4]
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
