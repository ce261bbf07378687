"""Fit a scaling law to finished runs, with confidence intervals, and predict the loss of a larger run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.equation import no_checks
from glassformer.equations.scaling import compute_optimal_size, training_flops
from glassformer.errors import FitError
from glassformer.planning.identification import LAW_WORDS, Law, choose_law, variables
from glassformer.planning.minimize_huber import PowerSum, minimize_huber

DELTA = 0.01  # log residual up to which errors count by their square: the noise between seeds lies below it
SAMPLES = 400  # of the bootstrap
CONFIDENCE = 0.95
RESTARTS = 3  # of each sample: from the fit, and from runners-up


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """A point of a fit: parameters without embeddings, tokens seen in training, and the final validation loss."""

    parameters: float
    tokens: float
    loss: float
    name: str = ""

    @property
    def flops(self) -> float:
        """Operations of its training, by C = 6ND."""
        return training_flops.fn(self.parameters, self.tokens)


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A number with its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class FittedBest:
    """The best size and data for a budget by a fitted law."""

    flops: float
    parameters: Interval
    tokens: Interval
    loss: Interval


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A scaling law that was fitted to runs.

    `law` is "full" for L = E + A/N^α + B/D^β, or one in a single variable: "size", "data" or "compute". `error` is the
    root mean square of the log residuals: about the relative error of the law on the runs it was fitted to. `note` says
    why this law and not a larger one.
    """

    law: Law
    constants: Mapping[str, Interval]
    runs: tuple[FinishedRun, ...]
    error: float
    confidence: float
    note: str
    shape: PowerSum = field(repr=False)
    means: Float[Tensor, " powers"] = field(repr=False)
    fits: Float[Tensor, "samples numbers"] = field(repr=False)  # the fit itself first, then those of the bootstrap
    residuals: Float[Tensor, " samples"] = field(repr=False)  # of a run that is still to come

    @property
    def words(self) -> str:
        """The law as a formula."""
        return LAW_WORDS[self.law]

    def predict(self, parameters: float, tokens: float) -> Interval:
        """The loss of a run that was not made, with the interval in which its validation loss is expected."""
        losses = self._losses(FinishedRun(parameters=parameters, tokens=tokens, loss=1.0))
        return self._interval(torch.cat([losses[:1], losses[1:] * self.residuals.exp()]))

    def curve(self, parameters: float, tokens: float) -> float:
        """The loss that the fitted law gives."""
        return float(self._losses(FinishedRun(parameters=parameters, tokens=tokens, loss=1.0))[0])

    def extrapolation(self, parameters: float, tokens: float) -> float:
        """How many times the compute of the largest run that was fitted a run takes."""
        return training_flops(parameters, tokens) / max(run.flops for run in self.runs)

    def best(self, flops: float) -> FittedBest:
        """The best size and data for a budget of operations; only the full law knows."""
        if self.law != "full":
            raise FitError(f"{self.words} does not say how to divide compute between size and data; {self.note}")
        found = torch.tensor([self._best(flops, row) for row in self._constants()])
        losses = self._log_losses(found.log()).exp().diagonal()
        parameters, tokens, loss = (self._interval(each) for each in (found[:, 0], found[:, 1], losses))
        return FittedBest(flops=flops, parameters=parameters, tokens=tokens, loss=loss)

    def as_data(self) -> dict[str, object]:
        """The fit as plain data, for JSON."""
        return {
            "law": self.law, "formula": self.words, "constants": {k: vars(v) for k, v in self.constants.items()},
            "confidence": self.confidence, "relative_error": self.error, "note": self.note,
            "runs": [
                vars(run) | {"flops": run.flops, "fitted": self.curve(run.parameters, run.tokens)} for run in self.runs
            ],
        }  # fmt: skip

    def _losses(self, run: FinishedRun) -> Float[Tensor, " samples"]:
        return self._log_losses(variables(self.law, [run]).log())[:, 0].exp()

    def _log_losses(self, x: Float[Tensor, "runs powers"]) -> Float[Tensor, "samples runs"]:
        with no_checks():
            return PowerSum(x - self.means, self.shape.floor).log_losses(self.fits)

    def _constants(self) -> list[dict[str, float]]:
        return [_constants(self.law, row, self.means) for row in self.fits]

    def _best(self, flops: float, law: Mapping[str, float]) -> tuple[float, float]:
        return compute_optimal_size(flops, law["A"], law["B"], law["alpha"], law["beta"])

    def _interval(self, values: Float[Tensor, " samples"]) -> Interval:
        return _interval(values, self.confidence)


def fit(
    runs: Sequence[FinishedRun],
    *,
    law: Law | Literal["auto"] = "auto",
    floor: float | None = None,
    delta: float = DELTA,
    samples: int = SAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Fit:
    """Fit a law to runs by the Huber loss of log residuals (Hoffmann et al., 2022), from many starts.

    Intervals are percentiles of a bootstrap over residuals: the sizes and the tokens of the runs were chosen, so only
    their losses are drawn again. `floor` fixes E. With "auto" the law is the largest that the runs determine.
    """
    _require_sound(runs, floor, delta, samples, confidence)
    chosen, note = choose_law(runs, law, floor is not None)
    x = variables(chosen, runs).log()
    shape = PowerSum(x - x.mean(0), floor)
    losses = torch.tensor([run.loss for run in runs], dtype=torch.float64)
    with no_checks():
        starts = shape.starts(losses)
        found, objectives = minimize_huber(shape, losses.log().expand(len(starts), -1), starts, delta)
        order = objectives.argsort()
        best = found[order[0]]
        fitted = shape.log_losses(best[None])[0]
        residuals = losses.log() - fitted
        spread = residuals - residuals.mean()
        spread = spread * math.sqrt(len(runs) / max(len(runs) - shape.unknowns, 1))
        draw = torch.Generator().manual_seed(seed)
        drawn = fitted + spread[torch.randint(len(runs), (samples, len(runs)), generator=draw)]
        again = _refit(shape, drawn, found[order[:RESTARTS]], delta)
    fits = torch.cat([best[None], again])
    rows = [_constants(chosen, row, x.mean(0)) for row in fits]
    constants = {name: _interval(torch.tensor([row[name] for row in rows]), confidence) for name in rows[0]}
    return Fit(
        law=chosen, constants=constants, runs=tuple(runs), error=float(residuals.square().mean().sqrt()),
        confidence=confidence, note=note, shape=shape, means=x.mean(0), fits=fits,
        residuals=spread[torch.randint(len(runs), (samples,), generator=draw)],
    )  # fmt: skip


def _refit(
    shape: PowerSum, drawn: Float[Tensor, "samples runs"], starts: Float[Tensor, "starts numbers"], delta: float
) -> Float[Tensor, "samples numbers"]:
    """The best fit of each sample, from each of the starts."""
    found, objectives = minimize_huber(
        shape, drawn.repeat_interleave(len(starts), 0), starts.repeat(len(drawn), 1), delta
    )
    best = objectives.reshape(len(drawn), len(starts)).argmin(1)
    return found.reshape(len(drawn), len(starts), -1)[torch.arange(len(drawn)), best]


def _constants(law: Law, row: Float[Tensor, " numbers"], means: Float[Tensor, " powers"]) -> dict[str, float]:
    """The constants of the formula; the powers of a fit are of logarithms around their means."""
    names = {"full": ("A", "alpha", "B", "beta"), "size": ("A", "alpha"), "data": ("B", "beta"), "compute": ("A", "a")}
    numbers = row[1:].clone()
    numbers[::2] = (row[1::2] + row[2::2] * means).exp()
    return {"E": float(row[0].exp()), **dict(zip(names[law], numbers.tolist(), strict=True))}


def _interval(values: Float[Tensor, " samples"], confidence: float) -> Interval:
    """The first value, which is that of the fit, and percentiles of the rest."""
    tail = (1 - confidence) / 2
    low, high = values[1:].double().quantile(torch.tensor([tail, 1 - tail], dtype=torch.float64)).tolist()
    return Interval(value=float(values[0]), low=min(low, float(values[0])), high=max(high, float(values[0])))


def _require_sound(
    runs: Sequence[FinishedRun], floor: float | None, delta: float, samples: int, confidence: float
) -> None:
    for run in runs:
        for name in ("parameters", "tokens", "loss"):
            value = vars(run)[name]
            if not 0 < value < math.inf:
                where = f"{run.name}: " if run.name else ""
                raise FitError(f"{where}{name} is {value}, wanted a finite number above 0")
    least = min((run.loss for run in runs), default=math.inf)
    if floor is not None and not 0 <= floor < least:
        raise FitError(f"the loss that stays, E, is fixed at {floor}, wanted at least 0 and less than {least:.4g}, the "
                       "smallest loss of the runs")  # fmt: skip
    if not delta > 0:
        raise FitError(f"delta is {delta}, wanted a number above 0")
    if samples < 2 or not 0 < confidence < 1:
        raise FitError(f"samples is {samples} and confidence {confidence}, wanted at least 2 and a fraction below 1")
