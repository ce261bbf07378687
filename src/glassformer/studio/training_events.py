"""What a live training reports, event by event, and what it is asked to do: data that travels as JSON."""

from typing import Literal

import msgspec

Status = Literal["preparing", "training", "paused", "finished", "stopped", "failed"]
Command = Literal["pause", "resume", "stop"]
Setting = str | int | float | bool | list[float] | None
ENDED: tuple[Status, ...] = ("finished", "stopped", "failed")


class TrainingRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to train: a task from nothing, or a copy of a model; settings are those of `glassformer config TASK`.

    `corpus` is text to train on, in place of the data that the settings name. `text` is what the attention maps are
    of, with its translation in `second`; without it they are of the first validation example.
    """

    task: str | None = None
    model: str | None = None
    settings: dict[str, Setting] = {}
    corpus: str | None = None
    text: str | None = None
    second: str | None = None


class BeginEvent(msgspec.Struct, tag="begin", tag_field="kind", frozen=True):
    """Another training begins: what was shown of the one before is out of date."""

    id: str
    task: str | None
    model: str | None
    settings: dict[str, Setting]


class StatusEvent(msgspec.Struct, tag="status", tag_field="kind", frozen=True):
    """The training is in another state; `text` says why, in words."""

    status: Status
    text: str = ""


class StartEvent(msgspec.Struct, tag="start", tag_field="kind", frozen=True):
    """The data is read and the model is built: what is trained, how long, and where its checkpoints are."""

    task: str
    model: str
    parameters: int
    steps: int
    folder: str
    layers: list[str]


class LogEvent(msgspec.Struct, tag="log", tag_field="kind", frozen=True):
    """One line of the run's log; `layers` are the gradient norms of the layers, before clipping."""

    step: int
    loss: float
    learning_rate: float
    grad_norm: float
    tokens: int
    speed: float
    layers: dict[str, float]
    validation: float | None = None
    note: str | None = None
    sample: str | None = None


class WatchedAttention(msgspec.Struct, frozen=True):
    """The attention weights [heads, queries, keys] of one module, rounded to three decimals."""

    name: str
    weights: list[list[list[float]]]
    queries: list[str]
    keys: list[str]


class AttentionEvent(msgspec.Struct, tag="attention", tag_field="kind", frozen=True):
    """Where the heads look in the same text after a step; step 0 is before training."""

    step: int
    maps: list[WatchedAttention]


TrainingEvent = BeginEvent | StatusEvent | StartEvent | LogEvent | AttentionEvent
