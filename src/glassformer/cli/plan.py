"""`glassformer plan`: parameters, operations, memory, time and what fits, before anything is run."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from glassformer.cli.output_files import require_free
from glassformer.cli.report import Flag, Json, MaybePath, talk, write, write_json, write_table
from glassformer.cli.scaling_options import WholeRun, run_report

if TYPE_CHECKING:
    from glassformer.layers.config import Config
    from glassformer.planning.figures import Plan
    from glassformer.planning.measure import Measured
    from glassformer.planning.what_if import Alternative

CHART_MARK = "<title>Plan of "
SHOWN = 12  # equations of the table, those that take longest first
GIGA, TERA, MILLI = 1e9, 1e12, 1e-3
MILLION = 1e6


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Target:
    """What to plan for.

    Parameters
    ----------
    device
        Device: auto, cpu, cuda, or one that this machine need not have: h200, h100, b200, a100, l4, t4, rtx4090,
        mi300x, m1, m4-max, m3-ultra; auto is this machine's.
    devices_file
        TOML file with more devices, or other numbers for known ones, in the form of devices.toml.
    devices
        Number of devices that train together.
    strategy
        Data parallelism over several devices: ddp keeps the whole model on each, fsdp a shard of it.
    """

    device: str = "auto"
    devices_file: MaybePath = None
    devices: int = 1
    strategy: Literal["ddp", "fsdp"] = "ddp"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is computed at once.

    Parameters
    ----------
    batch
        Sequences, pictures or rows in a batch, on each device; 8 if left out, or those of the settings.
    length
        Tokens of each sequence; the model's context if left out, up to 2,048.
    dtype
        Dtype of products in training: float32, or bfloat16 by autocast; auto is what training would choose.
    optimizer
        Optimizer: adamw, adam, muon, momentum, rmsprop or sgd; adamw if left out, or that of the settings.
    """

    batch: int | None = None
    length: int | None = None
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    optimizer: str | None = None


HERE, USUAL, ONE_STEP = Target(), Size(), WholeRun()


def plan(
    model: Annotated[
        str | None, Parameter(help="Preset, folder of a model or a run, or TOML file of settings.")
    ] = None,
    /,
    *,
    target: Target = HERE,
    size: Size = USUAL,
    run: WholeRun = ONE_STEP,
    measure: Flag = False,
    svg: MaybePath = None,
    json: Json = False,
) -> None:
    """Plan a model: parameters, operations, memory, time and what fits, on a device you have or not.

    Everything follows from the equations that the model runs, on tensors that have shapes only; nothing is allocated.

    Parameters
    ----------
    measure
        Also take a few training steps with random weights on this machine, and print predicted beside measured.
    svg
        Also draw memory and time against length, batch and width into this file.
    """
    from glassformer.planning.devices import find_device
    from glassformer.planning.plan import plan as make_plan

    run.require_sound(model is not None)
    require_free([(svg, CHART_MARK)])
    if model is None:
        device = None if run.budget is None else find_device(target.device, target.devices_file)
        alone = run_report(run, None, device, target.devices)
        return write_json(alone.as_data()) if json else alone.write()
    spec = find_device(target.device, target.devices_file)
    found = make_plan(
        model, device=spec, batch=size.batch, length=size.length, dtype=size.dtype, optimizer=size.optimizer,
        strategy=target.strategy, devices=target.devices,
    )  # fmt: skip
    measured = _measured(model, found) if measure else None
    _draw(model, found, svg)
    asked = run_report(run, found, spec, target.devices, lambda: _what_if(model, found))
    if json:
        write_json({"plan": found, "measured": measured, **asked.as_data()})
        return
    _show(found)
    if measured is not None:
        _show_measured(found, measured)
    asked.write()


def _what_if(model: str, found: "Plan") -> "tuple[Alternative, ...]":
    """Plans of changed configurations for the device and the workload of the plan."""
    from dataclasses import replace

    from glassformer.planning.plan import replanned, what_is
    from glassformer.planning.what_if import what_if

    def planned(config: "Config", length: int) -> "Plan":
        return replanned(found, config, replace(found.workload, length=length))

    return what_if(what_is(model).model.config, found.workload.length, planned)


def _draw(model: str, found: "Plan", path: Path | None) -> None:
    """Draw memory and time against sizes around those of the plan, if that was asked for."""
    if path is None:
        return
    from glassformer.planning.plan import plans_around, what_is
    from glassformer.planning.plan_charts import plan_charts

    path.write_text(plan_charts(found, plans_around(what_is(model).model, found)), encoding="utf-8")
    talk(f"wrote {path}")


def _measured(model: str, found: "Plan") -> "Measured":
    from glassformer.planning.measure import measure
    from glassformer.planning.plan import what_is

    return measure(what_is(model), found)


def _show(found: "Plan") -> None:
    """The tables of a plan."""
    workload, memory, time = found.workload, found.memory, found.time
    rows = [(name, f"{count:,}") for name, count in found.parameters.by_part.items()]
    write_table(("part", "parameters"), [*rows, ("all", f"{found.parameters.total:,}")], found.name)
    step = f"{workload.batch:,} × {workload.length:,} tokens" if workload.length else f"{workload.batch:,} rows"
    training = f"a training step on {step}, {workload.dtype}, {workload.optimizer}, on {found.device.name}"
    counted = found.operations
    shown = [
        (
            row.name,
            f"{row.calls:,}",
            f"{row.forward / TERA:,.4f}",
            f"{row.backward / TERA:,.4f}",
            f"{row.seconds / MILLI:,.2f}",
        )
        for row in counted.by_equation[:SHOWN]
    ]
    total = (
        "all",
        "",
        f"{counted.forward / TERA:,.4f}",
        f"{counted.backward / TERA:,.4f}",
        f"{time.seconds / MILLI:,.2f}",
    )
    write_table(("equation", "calls", "forward TFLOP", "backward TFLOP", "ms"), [*shown, total], training)
    held = {
        "weights": memory.weights, "gradients": memory.gradients, "optimizer": memory.optimizer,
        "activations": memory.activations, "libraries and allocator": memory.overhead, "peak": memory.peak,
        "peak with activation checkpointing": memory.peak_checkpointed,
    }  # fmt: skip
    if workload.devices > 1:
        held |= {
            f"peak with DDP over {workload.devices}": memory.replicated,
            f"with FSDP over {workload.devices}": memory.sharded,
        }
    write_table(("memory of each device", "GB"), [(name, f"{size / GIGA:,.3f}") for name, size in held.items()])
    write(_time_in_words(found))
    write(_limits_in_words(found))
    if found.generation is not None:
        write(_generation_in_words(found))


def _time_in_words(found: "Plan") -> str:
    time, counted = found.time, found.operations
    limited = f"limited by arithmetic {time.compute / MILLI:,.2f} ms, by memory {time.memory / MILLI:,.2f}"
    parts = f"{time.kernels:,} kernels; {limited}"
    more = f"{parts}, launches {time.launches / MILLI:,.2f}, update {time.update / MILLI:,.2f}"
    again = f", with activation checkpointing {found.time_checkpointed.seconds / MILLI:,.2f} ms"
    if found.workload.activation_checkpointing:
        again = ", with activation checkpointing"
    exchange = f", exchange {time.communication / MILLI:,.2f}" if found.workload.devices > 1 else ""
    speed = f"{time.tokens_per_second:,.0f} tokens/s, {100 * time.utilization:.0f} % of the peak"
    each = f"{counted.per_token / GIGA:,.4f} GFLOP a token"
    return f"training step: {time.seconds / MILLI:,.2f} ms{again}, {speed}, {each} ({more}{exchange})"


def _limits_in_words(found: "Plan") -> str:
    limits, has = found.limits, f"{found.device.memory / GIGA:,.0f} GB"
    if not limits.batch and not limits.batch_checkpointed:
        return f"does not fit into {has}: {_what_fits(found)}"
    text = f"largest batch in {has}: {limits.batch:,}, with activation checkpointing {limits.batch_checkpointed:,}"
    if limits.length is not None:
        text += f"; longest context: {limits.length:,}, with activation checkpointing {limits.length_checkpointed:,}"
    if limits.crossover is not None:
        text += f"; attention takes most operations of a block from {limits.crossover:,} tokens on"
    return text if found.fits else f"{text}; a batch of {found.workload.batch:,} does not fit"


def _what_fits(found: "Plan") -> str:
    """What would make a model fit whose weights alone do not."""
    memory = found.memory
    held = memory.weights + memory.gradients + memory.optimizer
    if held > found.device.memory:
        count = int(held // (found.device.memory * 0.8)) + 1
        takes = f"weights, gradients and optimizer take {held / GIGA:,.0f} GB"
        return f"{takes}; FSDP over {count} such devices holds them (--strategy fsdp --devices {count})"
    return "a single sequence takes too much; try a shorter --length, or a smaller model"


def _generation_in_words(found: "Plan") -> str:
    made = found.generation
    if made is None:
        return ""
    sizes = f"weights {made.weights / GIGA:,.2f} GB, KV cache {made.kv_cache / GIGA:,.3f} GB"
    speed = f"{made.tokens_per_second:,.0f} tokens/s, {made.seconds_per_step / MILLI:,.3f} ms a step"
    many = f"{made.batch:,} sequences of {made.length:,} tokens, {made.dtype}"
    return f"generating: {speed}, prefill {made.prefill_seconds / MILLI:,.1f} ms ({many}; {sizes})"


def _show_measured(found: "Plan", measured: "Measured") -> None:
    rows = [
        ("ms a step", found.time.seconds / MILLI, measured.seconds / MILLI),
        ("peak memory, MB", (found.memory.peak - found.memory.overhead) / MILLION, measured.peak / MILLION),
    ]
    rows += [(f"{row.name}, ms", row.predicted / MILLI, row.measured / MILLI) for row in measured.by_equation[:SHOWN]]
    shown = [(name, f"{one:,.2f}", f"{two:,.2f}", f"{one / two:,.2f}" if two else "") for name, one, two in rows]
    write_table(("measured here", "predicted", "measured", "ratio"), shown)
