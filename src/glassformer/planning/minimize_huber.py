"""Fit sums of powers to losses: many starts and many samples at once, by Newton steps with damping."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glassformer.equations.huber import huber_loss
from glassformer.equations.softmax import logsumexp, softmax

STEPS, PATIENCE = 400, 1e-12  # at most this many steps; a relative improvement below this is none
FIRST_DAMPING, LESS, MORE, MOST_DAMPING = 1e-2, 1 / 3, 4.0, 1e12
SLOWEST, FASTEST = 0.005, 4.0  # exponents of a law
LEAST_FLOOR = 1e-3  # of the smallest loss: a law whose floor is lower has none
TINY = 1e-12


@dataclass(frozen=True)
class PowerSum:
    """The form of a law: log L = log(E + Σ_k exp(a_k − α_k x_k)); x are centered logarithms, such as those of N and D.

    A fit is a row of numbers: log E, then a_k and α_k for each k. `floor` fixes E.
    """

    x: Float[Tensor, "runs powers"]
    floor: float | None = None

    @property
    def unknowns(self) -> int:
        """Numbers that are fitted."""
        return 2 * self.x.shape[1] + (self.floor is None)

    def terms(self, fits: Float[Tensor, "fits numbers"]) -> Float[Tensor, "fits runs terms"]:
        """Logarithms of the terms of the sum."""
        powers = fits[:, None, 1::2] - fits[:, None, 2::2] * self.x
        return torch.cat([fits[:, :1, None].expand(-1, len(self.x), -1), powers], -1)

    def log_losses(self, fits: Float[Tensor, "fits numbers"]) -> Float[Tensor, "fits runs"]:
        """Logarithms of the losses that the law gives."""
        return logsumexp(self.terms(fits))

    def slopes(self, fits: Float[Tensor, "fits numbers"]) -> Float[Tensor, "fits runs numbers"]:
        """Derivatives of the logarithms of the losses with respect to each number of a fit."""
        weights = softmax(self.terms(fits))
        first = weights[..., :1] * (0.0 if self.floor is not None else 1.0)
        pairs = torch.stack([weights[..., 1:], -weights[..., 1:] * self.x], -1)
        return torch.cat([first, pairs.flatten(-2)], -1)

    def bounded(self, fits: Float[Tensor, "fits numbers"], least_loss: float) -> Float[Tensor, "fits numbers"]:
        """The fits with exponents and the floor within their bounds."""
        bounded = fits.clone()
        bounded[:, 2::2] = fits[:, 2::2].clamp(SLOWEST, FASTEST)
        floor = torch.tensor(LEAST_FLOOR * least_loss if self.floor is None else max(self.floor, TINY)).log().item()
        bounded[:, 0] = fits[:, 0].clamp_min(floor) if self.floor is None else floor
        return bounded

    def starts(self, losses: Float[Tensor, " runs"]) -> Float[Tensor, "fits numbers"]:
        """Where to begin: several floors, and every combination of several exponents."""
        powers, least = self.x.shape[1], float(losses.min())
        floors = (0.1, 0.5, 0.8, 0.95) if self.floor is None else (self.floor / least,)
        rates = torch.cartesian_prod(*[torch.tensor([0.1, 0.3, 0.6, 1.2], dtype=torch.float64)] * powers)
        rates = rates.reshape(-1, powers)
        rows = []
        for floor in floors:
            height = max(float(losses.mean()) - floor * least, 0.05 * least) / powers
            row = torch.zeros(len(rates), 1 + 2 * powers, dtype=torch.float64)
            row[:, 0], row[:, 1::2], row[:, 2::2] = torch.tensor(floor * least + TINY).log(), height, rates
            row[:, 1::2] = row[:, 1::2].log()
            rows.append(row)
        return self.bounded(torch.cat(rows), least)


@dataclass(frozen=True)
class _Search:
    """Fits on their way to the minimum, each with its objective and its damping."""

    fits: Float[Tensor, "fits numbers"]
    objectives: Float[Tensor, " fits"]
    damping: Float[Tensor, " fits"]
    improved: Bool[Tensor, " fits"]


def minimize_huber(
    law: PowerSum,
    log_losses: Float[Tensor, "fits runs"],
    starts: Float[Tensor, "fits numbers"],
    delta: float,
) -> tuple[Float[Tensor, "fits numbers"], Float[Tensor, " fits"]]:
    """The fits that minimize the mean Huber loss of log residuals, from each start, and their objectives.

    Every row has its own start and its own losses, and is minimized by itself: Gauss-Newton steps with the weights of
    the Huber loss and Levenberg-Marquardt damping.
    """
    search = _Search(
        starts, _objective(law, starts, log_losses, delta), torch.full_like(starts[:, 0], FIRST_DAMPING),
        torch.ones(len(starts), dtype=torch.bool),
    )  # fmt: skip
    least = float(log_losses.min().exp())
    for _ in range(STEPS):
        search = _step(law, search, log_losses, delta, least)
        if not (search.improved | (search.damping < MOST_DAMPING)).any():
            break
    return search.fits, search.objectives


def _step(
    law: PowerSum, search: _Search, log_losses: Float[Tensor, "fits runs"], delta: float, least: float
) -> _Search:
    residuals = law.log_losses(search.fits) - log_losses
    weights = delta / residuals.abs().clamp_min(delta)
    slopes = law.slopes(search.fits)
    normal = torch.einsum("fri,fr,frj->fij", slopes, weights, slopes)
    gradient = torch.einsum("fri,fr,fr->fi", slopes, weights, residuals)
    diagonal = normal.diagonal(dim1=-2, dim2=-1)
    normal = normal + torch.diag_embed(search.damping[:, None] * diagonal + TINY)
    moved = law.bounded(search.fits - torch.linalg.solve(normal, gradient), least)
    objectives = _objective(law, moved, log_losses, delta)
    better = objectives < search.objectives
    improved = better & (search.objectives - objectives > PATIENCE * search.objectives)
    damping = torch.where(better, search.damping * LESS, search.damping * MORE).clamp(TINY, MOST_DAMPING)
    # A row that no longer improves is done; its damping keeps it where it is.
    damping = torch.where(better & ~improved, MOST_DAMPING, damping)
    return replace(
        search, fits=torch.where(better[:, None], moved, search.fits), damping=damping, improved=improved,
        objectives=torch.where(better, objectives, search.objectives),
    )  # fmt: skip


def _objective(
    law: PowerSum, fits: Float[Tensor, "fits numbers"], log_losses: Float[Tensor, "fits runs"], delta: float
) -> Float[Tensor, " fits"]:
    return huber_loss(law.log_losses(fits) - log_losses, delta).mean(-1)
