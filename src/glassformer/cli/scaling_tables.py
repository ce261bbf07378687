"""Tables of `glassformer plan`: a fitted law, the best size for a budget, the cost of training, what changes save."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from glassformer.arithmetic import number
from glassformer.cli.report import write, write_table

if TYPE_CHECKING:
    from glassformer.planning.fit import Fit, Interval
    from glassformer.planning.training_cost import TrainingCost
    from glassformer.planning.training_runs import FoundRuns
    from glassformer.planning.what_if import Alternative

DAY = 24.0  # hours; from two days on a time is shown in days
UNKNOWN = "-"


def write_fit(found: "FoundRuns", fit: "Fit", larger: tuple[float, float] | None, budget: float | None) -> None:
    """The runs and the constants of a fitted law; what it says of a larger run and of a budget of operations."""
    write(found.words)
    rows = [
        (run.name, _count(run.parameters), _count(run.tokens), f"{run.loss:.4f}",
         f"{fit.curve(run.parameters, run.tokens):.4f}")
        for run in sorted(fit.runs, key=lambda each: each.flops)
    ]  # fmt: skip
    write_table(("run", "parameters", "tokens", "loss", "fitted"), rows)
    write(f"{fit.words}: {fit.note}")
    percent = f"{fit.confidence:.0%} interval"
    write_table(
        ("constant", "value", percent), [(name, number(c.value), _range(c)) for name, c in fit.constants.items()]
    )
    write(f"relative error on these runs: {fit.error:.2%}")
    if larger is not None:
        predicted, times = fit.predict(*larger), fit.extrapolation(*larger)
        write(
            f"{_count(larger[0])} parameters on {_count(larger[1])} tokens, {number(times, 2)} times the compute "
            f"of the largest run: loss {predicted.value:.4f}, {percent} {predicted.low:.4f} to {predicted.high:.4f}"
        )
    if budget is not None and fit.law == "full":
        best = fit.best(budget)
        rows = [(name, number(c.value), _range(c)) for name, c in
                (("parameters", best.parameters), ("tokens", best.tokens), ("loss", best.loss))]  # fmt: skip
        write_table((f"best for {number(budget)} operations", "value", percent), rows)


def write_budget(flops: float) -> None:
    """The best size and data for a budget by each published law, the corrected one first."""
    from glassformer.planning.scaling_laws import LAWS

    rows = []
    for law in LAWS.values():
        best = law.best(flops)
        ratio = number(best.tokens_per_parameter, 3)
        rows.append((law.paper, _count(best.parameters), _count(best.tokens), ratio, f"{best.loss:.3f}"))
    write_table(("law", "parameters", "tokens", "tokens per parameter", "loss"), rows,
                f"best size for {number(flops)} operations of training, 6ND")  # fmt: skip
    for law in LAWS.values():
        write(f"{law.paper}: {law.source}")
    write("All parameters count, and tokens of web text, in a vocabulary of 32,000; a law of your own runs is better.")


def write_cost(cost: "TrainingCost") -> None:
    """Hours, energy and money of training on a number of tokens."""
    time = f"{cost.hours / DAY:,.1f} days" if cost.hours >= 2 * DAY else f"{cost.hours:,.2g} hours"
    many = cost.device if cost.devices == 1 else f"{cost.devices} × {cost.device}"
    energy = UNKNOWN if cost.kilowatt_hours is None else f"{number(cost.kilowatt_hours)} kWh, PUE {cost.pue:g}"
    rows = [
        ("operations", number(cost.flops)),
        ("time", time),
        ("device hours", f"{cost.device_hours:,.1f}"),
        ("energy", energy),
        ("price", UNKNOWN if cost.dollars is None else f"${cost.dollars:,.2f}"),
    ]
    again = ", with activation checkpointing" if cost.checkpointed else ""
    write_table((f"training on {_count(cost.tokens)} tokens, {many}{again}", ""), rows)
    if cost.fits is False:
        write("note: its steps do not fit into the memory of the device, as said above")


def write_what_if(alternatives: Sequence["Alternative"]) -> None:
    """What each change of a configuration takes, as a figure and as a fraction of the unchanged one."""
    from glassformer.training.estimate import readable

    unchanged = alternatives[0]
    rows = []
    for each in alternatives:
        rows.append(
            (
                each.change,
                _count(each.parameters),
                _beside(readable(each.memory), each.memory, unchanged.memory),
                _beside(_time(each.step_seconds), each.step_seconds, unchanged.step_seconds),
                _beside(_bytes(each.generating), each.generating, unchanged.generating),
                _beside(_time(each.seconds_per_token), each.seconds_per_token, unchanged.seconds_per_token),
            )
        )
    columns = ("change", "parameters", "memory to train", "step", "weights and cache", "time per token")
    write_table(columns, rows)


def _beside(text: str, now: float | None, before: float | None) -> str:
    """A figure with its difference from the unchanged one, where there is one."""
    if now is None or not before or now == before:
        return text
    return f"{text} ({now / before - 1:+.0%})"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def _bytes(size: int | None) -> str:
    from glassformer.training.estimate import readable

    return UNKNOWN if size is None else readable(size)


def _count(value: float) -> str:
    """A large count in the units of the field: 124M, 1.4T."""
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{number(value / size, 3)}{unit}"
    return number(value)


def _range(interval: "Interval") -> str:
    return f"{number(interval.low)} to {number(interval.high)}"
