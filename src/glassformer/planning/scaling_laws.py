"""Published scaling laws of language models, and the best size and data for a budget of compute or of hours."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from glassformer.equations.scaling import compute_optimal_size, scaling_law_loss, training_flops
from glassformer.errors import ConfigError
from glassformer.suggestions import did_you_mean

HOUR = 3600.0
UNITS = {"m": 1 / 60, "h": 1.0, "d": 24.0}  # in hours
BUDGET = re.compile(r"(?P<value>\d+(\.\d*)?([eE][+-]?\d+)?) ?(?P<unit>[mhd]?)")
UTILIZATION = 0.4  # of the peak, where nothing better is known: what well-tuned training reaches on many devices


@dataclass(frozen=True, kw_only=True)
class BestSize:
    """A model and its data: the parameters, the tokens, the operations of training and the predicted loss."""

    parameters: float
    tokens: float
    flops: float
    loss: float

    @property
    def tokens_per_parameter(self) -> float:
        """Training tokens for each parameter."""
        return self.tokens / self.parameters


@dataclass(frozen=True, kw_only=True)
class ScalingLaw:
    """The parametric law L(N, D) = E + A/N^α + B/D^β with its constants, and where they were published."""

    E: float
    A: float
    B: float
    alpha: float
    beta: float
    paper: str
    source: str

    def loss(self, parameters: float, tokens: float) -> float:
        """The predicted loss in nats per token of the data that the law was fitted to."""
        return scaling_law_loss(parameters, tokens, self.E, self.A, self.B, self.alpha, self.beta)

    def best(self, flops: float) -> BestSize:
        """The size and the data of least loss for a budget of operations, where training takes 6ND."""
        parameters, tokens = compute_optimal_size(flops, self.A, self.B, self.alpha, self.beta)
        return BestSize(parameters=parameters, tokens=tokens, flops=flops, loss=self.loss(parameters, tokens))

    def given(self, parameters: float, tokens: float) -> BestSize:
        """The same figures for a size and data that were chosen."""
        flops = training_flops(parameters, tokens)
        return BestSize(parameters=parameters, tokens=tokens, flops=flops, loss=self.loss(parameters, tokens))


# The constants of both papers count all parameters, and tokens of MassiveText by a vocabulary of 32,000.
LAWS: Mapping[str, ScalingLaw] = MappingProxyType(
    {
        "besiroglu": ScalingLaw(
            E=1.8172, A=482.01, B=2085.43, alpha=0.3478, beta=0.3658,
            paper="Besiroglu et al., 2024",
            source="arXiv:2404.10102: the runs of Chinchilla, fitted again",
        ),
        "hoffmann": ScalingLaw(
            E=1.69, A=406.4, B=410.7, alpha=0.34, beta=0.28,
            paper="Hoffmann et al., 2022",
            source="arXiv:2203.15556, approach 3, the constants as printed",
        ),
    }
)  # fmt: skip
CORRECTED = "besiroglu"  # agrees with the other two approaches of Hoffmann et al., which the printed constants do not


def scaling_law(name: str = CORRECTED) -> ScalingLaw:
    """A published law by the name of its first author."""
    if name not in LAWS:
        raise ConfigError(f"there is no scaling law {name!r}; {did_you_mean(name, LAWS)}")
    return LAWS[name]


def flops_of(hours: float, flops_per_second: float, devices: int = 1, utilization: float = UTILIZATION) -> float:
    """Operations that devices of this peak rate do in some hours of training."""
    for name, value in (("hours", hours), ("flops_per_second", flops_per_second), ("devices", devices)):
        if not value > 0:
            raise ConfigError(f"{name} is {value}, wanted more than 0")
    if not 0 < utilization <= 1:
        raise ConfigError(f"utilization is {utilization}, wanted a fraction above 0, at most 1")
    return hours * HOUR * devices * flops_per_second * utilization


def is_time(budget: str) -> bool:
    """Whether a budget in words is a time on some devices, and not a number of operations."""
    found = BUDGET.fullmatch(budget.strip())
    return found is not None and bool(found["unit"])


def budget_flops(budget: str, flops_per_second: float, devices: int = 1, utilization: float = UTILIZATION) -> float:
    """Operations of a budget in words: a number of them such as 6e21, or a time such as 12h or 3d on some devices."""
    found = BUDGET.fullmatch(budget.strip())
    value = float(found["value"]) if found else 0.0
    if found is None or not 0 < value < math.inf:
        raise ConfigError(f"budget is {budget!r}, wanted operations such as 6e21, or a time such as 30m, 12h or 3d")
    if not found["unit"]:
        return value
    return flops_of(value * UNITS[found["unit"]], flops_per_second, devices, utilization)
