"""How a model is trained: length, schedule, optimizer, regularization; data only, and the learning rate of a step."""

import math
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
from glassformer.layers.config import (
    Config,
    Count,
    LimitOrNone,
    NotNegative,
    Positive,
    Probability,
    Size,
    setting,
)

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

    steps: Size = setting(1000, "Number of optimizer updates.", 5000)
    learning_rate: Positive = setting(1e-3, "Peak learning rate.", 3e-4)
    warmup_steps: Count | None = setting(
        100, "Steps over which the learning rate rises to its peak; 0 or none is no warm-up.", 200
    )
    schedule: Literal["noam", "cosine", "linear", "stable", "constant"] = setting(
        "cosine", "How the learning rate falls after the warm-up.", "linear"
    )
    min_lr_ratio: Probability = setting(0.0, "Fraction of the peak at which the schedule ends.", 0.1)
    optimizer: Literal["adamw", "adam", "muon", "momentum", "rmsprop", "sgd"] = setting(
        "adamw", "How weights are updated.", "muon"
    )
    initialization: Literal["default", "he_normal", "xavier_normal", "xavier_uniform"] = setting(
        "default", "How the matrices of linear layers are drawn; default is the model's own way."
    )
    betas: tuple[Probability, Probability] = setting(
        (0.9, 0.98), "Decay of Adam's two moments; the first is momentum's β, the second RMSProp's ρ.", (0.9, 0.95)
    )
    weight_decay: NotNegative = setting(0.0, "Decoupled weight decay of the matrices.", 0.1)
    max_grad_norm: LimitOrNone = setting(
        1.0, "Norm to which all gradients together are clipped; 0 or none is no clipping.", 0.5
    )
    label_smoothing: Probability = setting(0.0, "Probability spread over the whole vocabulary in the targets.", 0.1)
    r_drop: NotNegative = setting(
        0.0, "Weight of the divergence between two passes with different dropout (R-Drop); 0 is one pass.", 5.0
    )
    gradient_accumulation: Size = setting(1, "Batches whose gradients are summed for one update.", 4)
    ema_decay: Probability = setting(
        0.0, "Decay of the moving average of the weights that is evaluated and kept; 0 is none.", 0.995
    )
    average_checkpoints: Size = setting(1, "Number of last checkpoints whose mean is the result.", 5)
    patience: Count = setting(0, "Evaluations without an improvement after which the run stops; 0 is never.", 5)
    log_every: Size = setting(50, "Steps between two log lines.", 10)
    evaluate_every: Size = setting(500, "Steps between two evaluations on the validation data.", 100)
    save_every: Size = setting(500, "Steps between two checkpoints.", 100)
    seed: Count = setting(0, "Seed of the weights, the order of the data, dropout and splits.", 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("warmup_steps", "max_grad_norm"):  # one way to write what is switched off
            if getattr(self, name) is None:
                object.__setattr__(self, name, 0)
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
        if self.warmup >= self.steps:
            raise ConfigError(f"warmup_steps is {self.warmup_steps}, wanted less than steps, which is {self.steps}")

    @property
    def warmup(self) -> int:
        """Steps of the warm-up, 0 for none."""
        return self.warmup_steps or 0

    @property
    def gradient_limit(self) -> float:
        """The norm to which gradients are clipped, infinite for none."""
        return self.max_grad_norm or math.inf

    @property
    def copies(self) -> int:
        """Numbers that a checkpoint holds for each weight: itself, the optimizer's moments, the moving average."""
        return 1 + MOMENTS[self.optimizer] + (self.ema_decay > 0)

    def learning_rate_at(self, step: int) -> float:
        """The learning rate of a step, counted from 1."""
        peak, floor = self.learning_rate, self.min_lr_ratio * self.learning_rate
        warmup = max(self.warmup, 1)  # after a warm-up of one step, the first step has the whole rate
        steps = max(self.steps, warmup + 1)
        match self.schedule:
            case "noam":
                return inverse_square_root_schedule(step, warmup, peak)
            case "cosine":
                return cosine_schedule(step, warmup, steps, peak, floor)
            case "linear":
                return linear_schedule(step, warmup, steps, peak, floor)
            case "stable":
                decay = max(1, min(steps // 5, steps - warmup))
                stable = max(0, steps - warmup - decay)
                return warmup_stable_decay(step, warmup, stable, decay, peak, floor)
        return linear_warmup(step, warmup, peak)


TINY_RECIPE = Recipe(  # ends within two minutes on two cores, with the default models of the tasks
    steps=600, learning_rate=2e-3, warmup_steps=60, evaluate_every=200, save_every=200
)
