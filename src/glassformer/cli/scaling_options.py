"""Options of `glassformer plan` on a whole training run: a fitted law, a budget, the cost of tokens, what-ifs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter, Token

from glassformer.cli.report import Flag, MaybePath, UsageError, talk

if TYPE_CHECKING:
    from glassformer.planning.device_spec import DeviceSpec
    from glassformer.planning.figures import Plan
    from glassformer.planning.fit import Fit
    from glassformer.planning.training_cost import TrainingCost
    from glassformer.planning.training_runs import FoundRuns
    from glassformer.planning.what_if import Alternative

LAW_MARK = "<title>Loss against compute"


def _whole(kind: object, tokens: Sequence[Token]) -> int:
    """A whole number from the command line; a fraction is refused, not cut off."""
    del kind
    (token,) = tokens
    try:
        return int(token.value)
    except ValueError:
        raise ValueError(f"{token.value!r} is not a whole number") from None


Whole: TypeAlias = Annotated[int, Parameter(converter=_whole)]
MaybeWhole: TypeAlias = Annotated[int | None, Parameter(converter=_whole)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WholeRun:
    """A whole training run.

    Parameters
    ----------
    tokens
        Training tokens: the hours, energy and price of the run, and with --fit its predicted loss.
    pue
        Power usage effectiveness: all power of the data center over that of its computers; 1.1 if left out.
    budget
        Budget of training, as operations such as 6e21 or a time on the devices such as 12h or 3d, at 40 % of their
        peak: the best size for it.
    fit
        Folders of finished runs to fit a scaling law to.
    law
        Scaling law to fit: full is E + A/N^α + B/D^β, the others have one variable; auto is what the runs determine.
    floor
        Loss that stays, E, if it is known; it is fitted if left out.
    law_svg
        Also draw the runs and the fitted law into this file.
    what_if
        Also plan changed configurations (half the width, grouped queries, a window, ...), by what they save.
    """

    tokens: float | None = None
    pue: float | None = None
    budget: str | None = None
    fit: Annotated[list[Path] | None, Parameter(consume_multiple=True, negative="")] = None
    law: Literal["auto", "full", "size", "data", "compute"] = "auto"
    floor: float | None = None
    law_svg: MaybePath = None
    what_if: Flag = False

    def require_sound(self, has_model: bool) -> None:
        """Raise if an option needs another one that is not there, before any work."""
        if not has_model and not self.fit and self.budget is None:
            raise UsageError("nothing to plan: give a preset, a folder or a TOML file, or --budget, or --fit FOLDERS")
        if not has_model and (self.what_if or (self.tokens is not None and not self.fit)):
            raise UsageError(f"{'--what-if' if self.what_if else '--tokens'} is about a model: name one")
        if self.law_svg is not None and not self.fit:
            raise UsageError("--law-svg draws a fitted law: give --fit FOLDERS")
        unused = "--law" if self.law != "auto" else "" if self.floor is None else "--floor"
        if unused and not self.fit:
            raise UsageError(f"{unused} is about a fitted law: give --fit FOLDERS")
        if self.pue is not None and (self.tokens is None or not has_model):
            raise UsageError("--pue is about the energy of a run: give a model and --tokens")
        self._require_sound_values()

    def _require_sound_values(self) -> None:
        from glassformer.planning.scaling_laws import budget_flops

        if self.tokens is not None and not 0 < self.tokens < math.inf:
            raise UsageError(f"--tokens is {self.tokens:g}, wanted a number above 0")
        if self.pue is not None and not 1 <= self.pue < math.inf:
            raise UsageError(f"--pue is {self.pue:g}, wanted 1 or more: all power over that of the computers")
        if self.budget is not None:
            budget_flops(self.budget, 1.0)


@dataclass(frozen=True)
class RunReport:
    """What was asked about a whole run, as far as it was asked."""

    cost: "TrainingCost | None" = None
    flops: float | None = None  # of the budget
    runs: "FoundRuns | None" = None
    fit: "Fit | None" = None
    larger: tuple[float, float] | None = None  # parameters and tokens to predict
    alternatives: "tuple[Alternative, ...]" = ()

    def write(self) -> None:
        """Write the tables."""
        from glassformer.cli.scaling_tables import write_budget, write_cost, write_fit, write_what_if

        if self.cost is not None:
            write_cost(self.cost)
        if self.flops is not None:
            write_budget(self.flops)
        if self.runs is not None and self.fit is not None:
            write_fit(self.runs, self.fit, self.larger, self.flops)
        if self.alternatives:
            write_what_if(self.alternatives)

    def as_data(self) -> dict[str, object]:
        """The same as plain data."""
        from glassformer.planning.scaling_laws import LAWS

        data: dict[str, object] = {}
        if self.cost is not None:
            data["cost"] = self.cost
        if self.flops is not None:
            laws = {name: law.best(self.flops) for name, law in LAWS.items()}
            data["budget"] = {"flops": self.flops, "laws": laws}
        if self.runs is not None and self.fit is not None:
            fit, larger = self.fit, self.larger
            data["fit"] = fit.as_data() | {
                "skipped": self.runs.skipped,
                "predicted": None if larger is None else fit.predict(*larger),
                "best": fit.best(self.flops) if self.flops is not None and fit.law == "full" else None,
            }
        return data | ({"what_if": self.alternatives} if self.alternatives else {})


def run_report(
    options: WholeRun,
    found: "Plan | None",
    device: "DeviceSpec | None",
    devices: int,
    what_if: "Callable[[], tuple[Alternative, ...]]" = tuple,
) -> RunReport:
    """What was asked, computed; a chart is written if one was asked for. `what_if` plans changed configurations."""
    from glassformer.planning.fit import fit
    from glassformer.planning.scaling_laws import budget_flops
    from glassformer.planning.training_cost import PUE, training_cost
    from glassformer.planning.training_runs import finished_runs

    cost = flops = runs = fitted = larger = None
    if found is not None and options.tokens is not None:
        cost = training_cost(found, options.tokens, PUE if options.pue is None else options.pue)
    if options.budget is not None:
        dtype = "bfloat16" if found is None else found.workload.dtype
        peak = math.inf if device is None else device.peak(dtype)  # a number of operations needs no device
        flops = budget_flops(options.budget, peak, devices)
    if options.fit:
        runs = finished_runs(options.fit)
        if not runs.runs:
            why = "; ".join(f"{name}: {reason}" for name, reason in runs.skipped.items())
            raise UsageError(f"no finished run to fit a law to; {why}")
        fitted = fit(runs.runs, law=options.law, floor=options.floor)
        if found is not None and options.tokens is not None:
            larger = float(found.parameters.without_embeddings), options.tokens
        if options.law_svg is not None:
            _draw(fitted, larger, options.law_svg)
    return RunReport(cost, flops, runs, fitted, larger, what_if() if options.what_if else ())


def _draw(fit: "Fit", larger: tuple[float, float] | None, path: Path) -> None:
    from glassformer.planning.law_chart import law_chart

    path.write_text(law_chart(fit, [] if larger is None else [larger]), encoding="utf-8")
    talk(f"wrote {path}")
