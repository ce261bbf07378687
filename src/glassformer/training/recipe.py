"""How long to train and in what manner: data only, and the learning rate it implies."""

from dataclasses import dataclass
from typing import Literal

from glassformer.equations.schedules import (
    cosine_schedule,
    inverse_square_root_schedule,
    linear_schedule,
    linear_warmup,
    warmup_stable_decay,
)
from glassformer.errors import ConfigError

MOMENTS = {"adamw": 2, "adam": 2, "muon": 2, "momentum": 1, "rmsprop": 1, "sgd": 0}  # of Muon the most there can be


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A training run but for its model and its data.

    `rate` is the peak of the schedule and `floor` a share of it. `betas` are those of AdamW and Adam; the first is
    momentum's β, the second RMSProp's ρ. `initialization` draws the matrices of linear layers, "default" as the model
    does. `agreement` weighs how far two passes with their own dropout are apart, 0 for one pass (R-Drop: Liang et
    al., 2021). `average` is the decay of an exponential moving average (EMA) of the weights, reached after a warm-up
    (`ema_warmup`), 0 for none; `average_last` the number of checkpoints whose mean is the result; `patience` the
    evaluations without a better one after which to stop, 0 for never.
    """

    steps: int = 1000
    rate: float = 1e-3
    warmup: int = 100
    schedule: Literal["noam", "cosine", "linear", "stable", "constant"] = "cosine"
    floor: float = 0.0
    optimizer: Literal["adamw", "adam", "muon", "momentum", "rmsprop", "sgd"] = "adamw"
    initialization: Literal["default", "he_normal", "xavier_normal", "xavier_uniform"] = "default"
    betas: tuple[float, float] = (0.9, 0.98)
    decay: float = 0.0
    clip: float = 1.0
    smoothing: float = 0.0
    agreement: float = 0.0
    accumulate: int = 1
    average: float = 0.0
    average_last: int = 1
    patience: int = 0
    log_every: int = 50
    evaluate_every: int = 500
    save_every: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "warmup", "accumulate", "average_last", "log_every", "evaluate_every", "save_every"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}, wanted at least 1")
        if self.rate <= 0 or self.clip <= 0:
            raise ConfigError(f"rate is {self.rate} and clip is {self.clip}, wanted numbers above zero")
        if not 0 <= self.average < 1:
            raise ConfigError(f"average is {self.average}, wanted a decay from 0 to just below 1, such as 0.999")
        if self.optimizer == "adam" and self.decay:
            raise ConfigError(f"optimizer is adam and decay is {self.decay}, wanted 0: adamw is Adam with weight decay")
        if self.patience < 0:
            raise ConfigError(f"patience is {self.patience}, wanted 0 or more")
        if self.average > 0 and self.average_last > 1:
            raise ConfigError("average and average_last are both set, wanted one way of averaging")
        if self.average_last > -(-self.steps // self.save_every):
            made = f"{-(-self.steps // self.save_every)} are made in {self.steps} steps, one every {self.save_every}"
            raise ConfigError(f"average_last is {self.average_last}, wanted at most the checkpoints there are: {made}")
        if self.warmup >= self.steps:
            raise ConfigError(f"warmup is {self.warmup}, wanted less than steps, which is {self.steps}")

    @property
    def copies(self) -> int:
        """Numbers that a checkpoint holds for each weight: itself, the optimizer's moments, the moving average."""
        return 1 + MOMENTS[self.optimizer] + (self.average > 0)

    def rate_at(self, step: int) -> float:
        """The learning rate of a step, counted from 1."""
        peak, floor = self.rate, self.floor * self.rate
        match self.schedule:
            case "noam":
                return inverse_square_root_schedule(step, self.warmup, peak)
            case "cosine":
                return cosine_schedule(step, self.warmup, self.steps, peak, floor)
            case "linear":
                return linear_schedule(step, self.warmup, self.steps, peak, floor)
            case "stable":
                decay = max(1, min(self.steps // 5, self.steps - self.warmup))
                stable = max(0, self.steps - self.warmup - decay)
                return warmup_stable_decay(step, self.warmup, stable, decay, peak, floor)
        return linear_warmup(step, self.warmup, peak)
