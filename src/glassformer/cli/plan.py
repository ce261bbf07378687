"""`glassformer plan`: parameters, operations, memory, time and what fits, before anything is run."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from glassformer.cli.output_files import require_free
from glassformer.cli.plan_tables import write_measured, write_plan
from glassformer.cli.report import Flag, Json, MaybePath, UsageError, talk, write_json
from glassformer.cli.scaling_options import LAW_MARK, MaybeWhole, Whole, WholeRun, run_report

if TYPE_CHECKING:
    from glassformer.layers.config import Config
    from glassformer.planning.figures import Plan, Workload
    from glassformer.planning.measure import Measured
    from glassformer.planning.planned_model import PlannedModel
    from glassformer.planning.what_if import Alternative

CHART_MARK = "<title>Plan of "


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
        Data parallelism over several devices: ddp keeps the whole model on each, fsdp a shard of it; ddp if left out,
        or that of the settings.
    """

    device: str = "auto"
    devices_file: MaybePath = None
    devices: Whole = 1
    strategy: Literal["ddp", "fsdp"] | None = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is computed at once.

    Parameters
    ----------
    batch
        Sequences, pictures or rows in a batch, on each device; 8 if left out, or those of the settings.
    length
        Tokens of each sequence; the model's context if left out, up to 2,048, or those of the settings.
    dtype
        Dtype of products in training: float32, or bfloat16 by autocast; auto is what training would choose, or
        the precision of the settings.
    optimizer
        Optimizer: adamw, adam, muon, momentum, rmsprop or sgd; adamw if left out, or that of the settings.
    """

    batch: MaybeWhole = None
    length: MaybeWhole = None
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
    from glassformer.planning.devices import find_device, require_here
    from glassformer.planning.plan import plan_on, what_is, workload_of
    from glassformer.planning.scaling_laws import is_time

    run.require_sound(model is not None)
    require_free([(svg, CHART_MARK), (run.law_svg, LAW_MARK)])
    if model is None:
        _require_no_model_options(target, size, run, {"--measure": measure, "--svg": svg})
        device = find_device(target.device, target.devices_file) if run.budget and is_time(run.budget) else None
        asked = run_report(run, None, device, target.devices)
        return write_json(asked.as_data()) if json else asked.write()
    planned = what_is(model)
    workload = workload_of(planned, **vars(size), strategy=target.strategy, devices=target.devices)
    spec = find_device(target.device, target.devices_file)  # which can take seconds, so after what is wrong at once
    if measure:
        require_here(spec)
    found = plan_on(spec, planned, workload)
    measured = _measured(planned, found) if measure else None
    _draw(planned, found, svg)
    asked = run_report(run, found, spec, target.devices, lambda: _what_if(planned, found))
    if json:
        return write_json({"plan": found.as_data(), "measured": measured, **asked.as_data()})
    write_plan(found, _what_would_fit(planned, found))
    if measured is not None:
        write_measured(found, measured)
    asked.write()


def _require_no_model_options(target: Target, size: Size, run: WholeRun, others: dict[str, object]) -> None:
    """Raise if an option is given that says nothing without a model to plan."""
    given = {f"--{name}": value for name, value in vars(size).items() if value != "auto"} | others
    given |= {"--strategy": target.strategy}
    if run.budget is None:  # whose time is that of devices
        given |= {
            "--device": target.device != HERE.device, "--devices": target.devices != HERE.devices,
            "--devices-file": target.devices_file,
        }  # fmt: skip
    if unused := [name for name, value in given.items() if value is not None and value is not False]:
        raise UsageError(f"{unused[0]} is about a model: name one")


def _what_if(planned: "PlannedModel", found: "Plan") -> "tuple[Alternative, ...]":
    """Plans of changed configurations for the device and the workload of the plan."""
    from glassformer.planning.plan import replanned
    from glassformer.planning.what_if import what_if

    def plan_of(config: "Config", length: int) -> "Plan":
        return replanned(planned, found, config, replace(found.workload, length=length))

    return what_if(planned.model.config, found.workload.length, plan_of)


def _what_would_fit(planned: "PlannedModel", found: "Plan") -> "Workload | None":
    """What would fit in place of a plan of which no batch does; None if one does, or nothing is found."""
    from glassformer.planning.plan import what_would_fit

    none_fits = not found.limits.batch and not found.limits.batch_checkpointed
    return what_would_fit(planned, found) if none_fits else None


def _draw(planned: "PlannedModel", found: "Plan", path: Path | None) -> None:
    """Draw memory and time against sizes around those of the plan, if that was asked for."""
    if path is None:
        return
    from glassformer.planning.plan import plans_around
    from glassformer.planning.plan_charts import plan_charts

    path.write_text(plan_charts(found, plans_around(planned, found)), encoding="utf-8")
    talk(f"wrote {path}")


def _measured(planned: "PlannedModel", found: "Plan") -> "Measured":
    from glassformer.planning.measure import measure

    return measure(planned, found)
