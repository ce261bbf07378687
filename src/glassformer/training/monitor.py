"""Detect divergence and overfitting, and describe them in one sentence."""

from dataclasses import asdict, dataclass

import msgspec

SMOOTH = 0.8  # of the old in the smoothed loss
WORSE = 1.3  # times the best smoothed loss, and the run is called diverging
FAR = 2.0  # times the loss of a uniform guess, and one more: no healthy run begins above
TWICE = 2  # evaluations in a row that are worse while the training loss falls, and it is called overfitting


@dataclass
class Monitor:
    """What is remembered of a run, so that each sentence is said once, when it becomes true."""

    uniform: float | None = None  # loss of a uniform guess: the logarithm of the number of choices
    smooth: float | None = None
    lowest: float | None = None
    lowest_step: int = 0
    diverging: bool = False
    best: float | None = None
    best_step: int = 0
    worse: int = 0
    loss_at_best: float = 0.0
    overfitting: bool = False

    def loss(self, step: int, value: float, rate: float) -> str | None:
        """Note a training loss."""
        self.smooth = value if self.smooth is None else SMOOTH * self.smooth + (1 - SMOOTH) * value
        if self.lowest is None or self.smooth < self.lowest:
            self.lowest, self.lowest_step = self.smooth, step
            self.diverging = self.diverging and self._hopeless
        if self.diverging or not (self._hopeless or self.smooth >= WORSE * self.lowest + 0.1):
            return None
        self.diverging = True
        if self._hopeless:
            what = f"it is {self.smooth:.3g}, and a uniform guess would have {self.uniform:.3g}"
        else:
            what = f"it has risen from {self.lowest:.3g} at step {self.lowest_step} to {self.smooth:.3g}"
        advice = f"try a learning rate below {rate:.2g}, a longer warm-up or stronger clipping"
        return f"the loss is diverging: {what}; {advice}"

    @property
    def _hopeless(self) -> bool:
        """Whether the loss has never been near that of a uniform guess."""
        return self.uniform is not None and self.lowest is not None and self.lowest > FAR * self.uniform + 1

    def validation(self, step: int, value: float) -> str | None:
        """Note a validation loss, after the training loss of the same step."""
        smooth = 0.0 if self.smooth is None else self.smooth
        if self.best is None or value < self.best:
            self.best, self.best_step, self.worse, self.loss_at_best = value, step, 0, smooth
            self.overfitting = False
            return None
        self.worse += 1
        if self.overfitting or self.worse < TWICE or smooth >= self.loss_at_best:
            return None
        self.overfitting = True
        return (
            f"the model is overfitting: validation was best at step {self.best_step}, {self.best:.4g}, and is now "
            f"{value:.4g} while the training loss still falls; stop there, add dropout, or find more data"
        )

    def state(self) -> dict[str, object]:
        """What a checkpoint keeps."""
        return asdict(self)

    @classmethod
    def resumed(cls, state: object) -> "Monitor":
        """Remember what `state` gave."""
        return msgspec.convert(state, cls)
