"""How a model is trained: length, schedule, optimizer, regularization; data only, and the learning rate of a step."""

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
from glassformer.layers.config import Config, Count, NotNegative, Positive, PositiveOrInfinite, Probability, Size

MOMENTS = {"adamw": 2, "adam": 2, "muon": 2, "momentum": 1, "rmsprop": 1, "sgd": 0}  # for Muon the most there can be


@dataclass(frozen=True, kw_only=True)
class Recipe(Config):
    """A training run without its model and its data.

    `learning_rate` is the peak of the schedule and `min_lr_ratio` the fraction of it that the schedule ends at. `betas`
    are those of AdamW and Adam; the first is momentum's β, the second RMSProp's ρ. `initialization` draws the matrices
    of linear layers, "default" as the model does. `r_drop` weighs the divergence of two passes with different dropout,
    0 for one pass (R-Drop: Liang et al., 2021). `ema_decay` is the decay of an exponential moving average (EMA) of the
    weights, reached after a warm-up (`ema_warmup`), 0 for none; `average_checkpoints` the number of checkpoints whose
    mean is the result; `patience` the evaluations without an improvement after which to stop, 0 for never.
    """

    steps: Size = 1000
    learning_rate: Positive = 1e-3
    warmup_steps: Size = 100
    schedule: Literal["noam", "cosine", "linear", "stable", "constant"] = "cosine"
    min_lr_ratio: Probability = 0.0
    optimizer: Literal["adamw", "adam", "muon", "momentum", "rmsprop", "sgd"] = "adamw"
    initialization: Literal["default", "he_normal", "xavier_normal", "xavier_uniform"] = "default"
    betas: tuple[Probability, Probability] = (0.9, 0.98)
    weight_decay: NotNegative = 0.0
    max_grad_norm: PositiveOrInfinite = 1.0
    label_smoothing: Probability = 0.0
    r_drop: NotNegative = 0.0
    gradient_accumulation: Size = 1
    ema_decay: Probability = 0.0
    average_checkpoints: Size = 1
    patience: Count = 0
    log_every: Size = 50
    evaluate_every: Size = 500
    save_every: Size = 500
    seed: Count = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer == "adam" and self.weight_decay:
            given = f"optimizer is adam and weight_decay is {self.weight_decay}"
            raise ConfigError(f"{given}, wanted 0: adamw is Adam with weight decay")
        if self.ema_decay > 0 and self.average_checkpoints > 1:
            raise ConfigError("ema_decay and average_checkpoints are both set, wanted one way of averaging")
        made = -(-self.steps // self.save_every)
        if self.average_checkpoints > made:
            wanted = "wanted at most the checkpoints there are"
            there = f"{made} are made in {self.steps} steps, one every {self.save_every}"
            raise ConfigError(f"average_checkpoints is {self.average_checkpoints}, {wanted}: {there}")
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
