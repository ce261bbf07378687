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
COUNTS = (
    "steps", "warmup_steps", "gradient_accumulation", "average_checkpoints",
    "log_every", "evaluate_every", "save_every",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A training run but for its model and its data.

    `learning_rate` is the peak of the schedule and `min_lr_ratio` the share of it that the schedule ends at. `betas`
    are those of AdamW and Adam; the first is momentum's β, the second RMSProp's ρ. `initialization` draws the matrices
    of linear layers, "default" as the model does. `r_drop` weighs how far two passes with their own dropout are apart,
    0 for one pass (R-Drop: Liang et al., 2021). `ema_decay` is the decay of an exponential moving average (EMA) of the
    weights, reached after a warm-up (`ema_warmup`), 0 for none; `average_checkpoints` the number of checkpoints whose
    mean is the result; `patience` the evaluations without a better one after which to stop, 0 for never.
    """

    steps: int = 1000
    learning_rate: float = 1e-3
    warmup_steps: int = 100
    schedule: Literal["noam", "cosine", "linear", "stable", "constant"] = "cosine"
    min_lr_ratio: float = 0.0
    optimizer: Literal["adamw", "adam", "muon", "momentum", "rmsprop", "sgd"] = "adamw"
    initialization: Literal["default", "he_normal", "xavier_normal", "xavier_uniform"] = "default"
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    label_smoothing: float = 0.0
    r_drop: float = 0.0
    gradient_accumulation: int = 1
    ema_decay: float = 0.0
    average_checkpoints: int = 1
    patience: int = 0
    log_every: int = 50
    evaluate_every: int = 500
    save_every: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        for name in COUNTS:
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}, wanted at least 1")
        if self.learning_rate <= 0 or self.max_grad_norm <= 0:
            raise ConfigError(
                f"learning_rate is {self.learning_rate} and max_grad_norm is {self.max_grad_norm}, "
                "wanted numbers above zero"
            )
        if not 0 <= self.ema_decay < 1:
            raise ConfigError(f"ema_decay is {self.ema_decay}, wanted a decay from 0 to just below 1, such as 0.999")
        if self.optimizer == "adam" and self.weight_decay:
            raise ConfigError(
                f"optimizer is adam and weight_decay is {self.weight_decay}, wanted 0: adamw is Adam with weight decay"
            )
        if self.patience < 0:
            raise ConfigError(f"patience is {self.patience}, wanted 0 or more")
        if self.ema_decay > 0 and self.average_checkpoints > 1:
            raise ConfigError("ema_decay and average_checkpoints are both set, wanted one way of averaging")
        if self.average_checkpoints > -(-self.steps // self.save_every):
            made = f"{-(-self.steps // self.save_every)} are made in {self.steps} steps, one every {self.save_every}"
            raise ConfigError(
                f"average_checkpoints is {self.average_checkpoints}, wanted at most the checkpoints there are: {made}"
            )
        if self.warmup_steps >= self.steps:
            raise ConfigError(f"warmup_steps is {self.warmup_steps}, wanted less than steps, which is {self.steps}")

    @property
    def copies(self) -> int:
        """Numbers that a checkpoint holds for each weight: itself, the optimizer's moments, the moving average."""
        return 1 + MOMENTS[self.optimizer] + (self.ema_decay > 0)

    def learning_rate_at(self, step: int) -> float:
        """The learning rate of a step, counted from 1."""
        peak, floor = self.learning_rate, self.min_lr_ratio * self.learning_rate
        match self.schedule:
            case "noam":
                return inverse_square_root_schedule(step, self.warmup_steps, peak)
            case "cosine":
                return cosine_schedule(step, self.warmup_steps, self.steps, peak, floor)
            case "linear":
                return linear_schedule(step, self.warmup_steps, self.steps, peak, floor)
            case "stable":
                decay = max(1, min(self.steps // 5, self.steps - self.warmup_steps))
                stable = max(0, self.steps - self.warmup_steps - decay)
                return warmup_stable_decay(step, self.warmup_steps, stable, decay, peak, floor)
        return linear_warmup(step, self.warmup_steps, peak)
