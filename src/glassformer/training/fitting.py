"""What fits into memory: a run that needs more is refused, or says as it ends which settings to lower, to what."""

import traceback
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property

import torch

from glassformer.data.batches import Batch
from glassformer.data.packed_pairs import BOUNDS, unpacked
from glassformer.errors import ConfigError, TrainingError
from glassformer.layers.lora import add_lora_like
from glassformer.layers.model import Model
from glassformer.training.device import Device, run_device
from glassformer.training.estimate import (
    Need,
    certainly_fits,
    largest_batch,
    memory_of,
    need,
    read_parts,
    readable,
    shapes_in_one_pass,
    step_cost,
)
from glassformer.training.objective import Objective
from glassformer.training.recomputed import blocks_of
from glassformer.training.run_folder import RunFolder
from glassformer.training.settings import Settings
from glassformer.training.task import TaskData

TOKENS = "tokens_per_batch"
BATCH = ("batch_size", "pairs_per_batch", TOKENS)  # settings of data that a batch grows with
LENGTH = "max_length"
MOST = 0.9  # of the memory beside weights, gradients and optimizer, that a proposal may take
HALF = 0.5  # the same where a run was estimated to fit and did not, so that nobody knows what there is
SHORTEST = 8  # tokens below which no length is tried
SMALLER_MODEL = "a smaller model (model.dim, model.layers, or the size tiny)"
SMALLER_START = "a smaller model to start from (run.init)"
NO_MEMORY = ("can't allocate memory", "not enough memory", "CUDA error: out of memory")  # of errors without a type


@dataclass(frozen=True)
class Fitting:
    """A run, whose batches are tried in smaller sizes, with activation checkpointing and without.

    A run that is `resumed` keeps the sizes it was begun with.
    """

    settings: Settings
    data: TaskData
    objective: Objective
    model: Model
    device: Device
    resumed: bool = False

    def require_room(self) -> None:
        """Refuse a run that does not fit into the memory of its device, before anything is allocated."""
        recipe, there = self.settings.recipe, self.room
        if certainly_fits(self.model, self.objective, self._largest, recipe, self.device) or self.now.memory <= there:
            return
        raise ConfigError(f"this run needs about {readable(self.now.memory)} of memory and {self.shortage(there)}")

    def shortage(self, room: int) -> str:
        """What there is, what the run takes, and which settings are estimated to fit."""
        held, rest = readable(self._held), readable(self.now.activations)
        parts = f"{held} for weights, gradients and optimizer, {rest} for activations"
        where = "the GPU" if self.device.device.type == "cuda" else "the machine"
        return f"{where} has {readable(room)}: {parts}; {self.remedy(room)}"

    def remedy(self, room: int) -> str:
        """The settings that are estimated to fit into `room` bytes; a smaller model where none do."""
        held = self._held >= MOST * room
        if self.resumed:
            found = [] if held else [*self._recomputed(room)]
            other = "resume it where there is more memory, or begin another run with smaller batches or a smaller model"
            return f"try {found[0]}" if found else other
        if held:
            return f"try {self._smaller_model}"
        found = [*self._recomputed(room), *self._fewer_rows(room), *self._shorter(room), *self._padded(room)]
        if not found:
            return f"a batch of one does not fit either: try {self._smaller_model}"
        rough = ", roughly, since their batches have other shapes" if self.objective.uneven else ""
        return f"try one of these, which are estimated to fit{rough}: {'; or '.join(found)}"

    @property
    def _smaller_model(self) -> str:
        return SMALLER_START if self.settings.run.init else SMALLER_MODEL

    def _fits(self, found: Need, room: int) -> bool:
        """Whether what is needed fits; where the run was estimated to fit and did not, it needs more in proportion."""
        missed = max(room - self.now.memory, 0) * found.activations / self.now.activations
        share = MOST if room < self.now.memory else HALF
        return found.memory + missed <= self._held + share * (room - self._held)

    def _recomputed(self, room: int) -> Iterator[str]:
        if not self.can_recompute:
            return
        rows = self._rows_that_fit(room, again=True)
        fewer = "" if rows in (0, self.rows) else f" and {self._as_many_in_a_step(rows)}"
        if rows and (rows == self.rows or (self._batch_setting and not self.resumed)):
            yield f"run.activation_checkpointing=true, which takes less memory and more time{fewer}"

    @property
    def can_recompute(self) -> bool:
        """Whether activation checkpointing is off and would change something."""
        return not self._again and bool(blocks_of(self.model))

    def _fewer_rows(self, room: int) -> Iterator[str]:
        rows = self._rows_that_fit(room, self._again)
        if 0 < rows < self.rows and self._batch_setting:
            yield self._as_many_in_a_step(rows)

    def _shorter(self, room: int) -> Iterator[str]:
        """The largest half, quarter or smaller part of the length that fits, where a batch then has as many rows."""
        data = vars(self.settings.data)
        most, widths = data.get(LENGTH), {part.shape[1:] for part in read_parts(self._largest, self.objective)}
        if not isinstance(most, int) or widths != {(most,)} or self.objective.uneven or self._takes_all_rows:
            return
        length = most
        while length >= 2 * SHORTEST:
            length //= 2
            if self._fits(self._need(shortened(self._largest, self.objective, length / most), self._again), room):
                yield f"data.{LENGTH}={length} instead of {most}"
                return

    def _padded(self, room: int) -> Iterator[str]:
        """Padded rows in place of a packed one, in which attention of a CPU computes every pair of tokens."""
        packed = self._is_packed and not self.device.asynchronous
        if packed and self._fits(self._need(unpacked(self._largest), self._again), room):
            yield "data.packing=no"

    @property
    def _takes_all_rows(self) -> bool:
        """Whether a batch takes all rows there are, or all its tokens allow: shorter texts would only add rows."""
        return self._batch_setting == TOKENS or self.rows * self.data.batches.world < self._batch_size

    @property
    def _batch_setting(self) -> str | None:
        """The setting of data that a batch grows with."""
        return next((name for name in BATCH if isinstance(vars(self.settings.data).get(name), int)), None)

    @property
    def _batch_size(self) -> int:
        return vars(self.settings.data).get(self._batch_setting or "", 0)

    def _batch_of(self, rows: int) -> str:
        """The setting with which the largest batch has about as many rows."""
        size = self._batch_size * rows // self.rows if self._batch_setting == TOKENS else rows * self.data.batches.world
        return f"data.{self._batch_setting}={max(size, 1)} instead of {self._batch_size}"

    def _as_many_in_a_step(self, rows: int) -> str:
        """The settings of smaller batches, and of more of them in a step."""
        parts = self.settings.recipe.gradient_accumulation * -(-self.rows // rows)
        return f"{self._batch_of(rows)}, with recipe.gradient_accumulation={parts} for as many examples in a step"

    def _rows_that_fit(self, room: int, again: bool) -> int:
        """How many rows of the largest batch fit; 0 if one does not.

        What one and all of them take says it for padded rows. Attention of a packed row may grow faster than the row.
        """
        if self._is_packed:
            needs = cache(lambda rows: self._need(part_of(self._largest, rows / self.rows), again))
            return bisect_left(range(1, self.rows + 1), True, key=lambda rows: not self._fits(needs(rows), room))
        one, every = (self._need(_rows(self._largest, rows), again) for rows in (1, self.rows))

        def between(rows: int) -> Need:
            part = (rows - 1) / max(self.rows - 1, 1)
            sizes = {name: size + round(part * (vars(every)[name] - size)) for name, size in vars(one).items()}
            return Need(**sizes)

        return bisect_left(range(1, self.rows + 1), True, key=lambda rows: not self._fits(between(rows), room))

    def _need(self, batch: Batch, again: bool) -> Need:
        device, recipe = replace(self.device, activation_checkpointing=again), self.settings.recipe
        cost = step_cost(self.model, self.objective, batch, recipe, device)
        tuned = bool(self.settings.run.init)
        return need(self.model, self.objective, self.data.batches, self._evaluated, recipe, device, tuned, cost)

    @property
    def _again(self) -> bool:
        return self.device.activation_checkpointing

    @cached_property
    def now(self) -> Need:
        """What the run takes as it is set."""
        return self._need(self._largest, self._again)

    @property
    def _held(self) -> int:
        return self.now.weights + self.now.gradients + self.now.optimizer

    @cached_property
    def _largest(self) -> Batch:
        return largest_batch(self.data.batches, self.objective)

    @cached_property
    def _evaluated(self) -> set[tuple[torch.Size, ...]]:
        return shapes_in_one_pass(self.data.validation, self.device)

    @property
    def _is_packed(self) -> bool:
        return BOUNDS[0] in self._largest

    @cached_property
    def rows(self) -> int:
        """The examples of the largest batch."""
        return len(read_parts(unpacked(self._largest), self.objective)[0])

    @property
    def room(self) -> int:
        """Bytes of memory that the device has."""
        return memory_of(self.device.device)

    @property
    def free(self) -> int:
        """Bytes of memory that this process has or could get; on a CPU, what the machine has."""
        if self.device.device.type != "cuda":
            return self.room
        return torch.cuda.mem_get_info(self.device.device)[0] + torch.cuda.memory_reserved(self.device.device)


def _rows(batch: Batch, rows: int) -> Batch:
    return {name: value[:rows] for name, value in batch.items()}


def part_of(batch: Batch, fraction: float) -> Batch:
    """A packed batch with a fraction of its tokens; documents beyond them are empty."""
    rows = {name: value for name, value in batch.items() if name not in BOUNDS}
    found = {name: value[:, : max(round(fraction * value.shape[1]), 1)] for name, value in rows.items()}
    ends = (found[side].shape[1] for side in ("source", "target"))
    return found | {name: batch[name].clamp(max=end) for name, end in zip(BOUNDS, ends, strict=True)}


def shortened(batch: Batch, objective: Objective, fraction: float) -> Batch:
    """A batch whose texts have only a fraction of their tokens."""
    lengths = {part.shape[1] for part in read_parts(batch, objective) if part.dim() == 2}
    return {
        name: value[:, : max(int(fraction * value.shape[1]), 1)]
        if value.dim() == 2 and value.shape[1] in lengths
        else value
        for name, value in batch.items()
    }


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that it follows from, says that there was no memory left."""
    while error is not None:
        if isinstance(error, torch.OutOfMemoryError | MemoryError):
            return True
        if isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY):
            return True
        error = error.__cause__
    return False


@contextmanager
def explained_shortage(fitting: Fitting, folder: RunFolder | None) -> Iterator[None]:
    """Say of a run that ends for lack of memory which settings to lower, and to what."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        traceback.clear_frames(error.__traceback__)  # they hold the tensors that filled the memory
        saved = [] if folder is None else folder.steps()
        again = " with run.activation_checkpointing=true" if fitting.can_recompute else ""
        go_on = f"the run can be resumed{again}, and other sizes need a new one"
        last = f"; step {saved[-1]} is saved: {go_on}" if saved else ""
        raise TrainingError(f"out of memory: {fitting.shortage(fitting.free)}{last}") from None


def fitting_of(
    settings: Settings, data: TaskData, objective: Objective, model: Model, resumed: bool = False
) -> Fitting:
    """What tells which sizes of a run fit into memory; it keeps no weights."""
    return Fitting(settings, data, objective, _sketch(model), run_device(settings.run), resumed)


def _sketch(model: Model) -> Model:
    """A copy of a model that has shapes and no weights."""
    with torch.device("meta"):
        copy = model.rebuilt()
        add_lora_like(copy, model)
    for weight, real in zip(copy.parameters(), model.parameters(), strict=True):
        weight.requires_grad_(real.requires_grad)
    return copy
