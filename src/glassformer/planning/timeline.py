"""The memory of a whole step over time, from a recording in which one block stands for many."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from glassformer.planning.kernel_data import BACKWARD, FORWARD, EqualBlocks, Lifetimes, RecordedStep

Times = Int64[np.ndarray, " copies"]


def peak(step: RecordedStep, lifetimes: Lifetimes) -> int:
    """The most bytes that the results of a step take at once, beside weights and inputs."""
    timeline = _Timeline(step)
    change = np.zeros(timeline.total + 2, dtype=np.int64)
    for size, born, died in zip(lifetimes.sizes, lifetimes.born, lifetimes.died, strict=True):
        if born >= 0:
            first, last = timeline.lives(born, died)
            np.add.at(change, first, size)
            np.add.at(change, last, -size)
    return int(change.cumsum().max(initial=0))


@dataclass(frozen=True)
class _Segment:
    """The calls of one block in one phase, from `start` to just before `end`."""

    start: int
    end: int

    def holds(self, time: int) -> bool:
        """Whether a call is among them."""
        return self.start <= time < self.end

    def ends(self, time: int) -> bool:
        """Whether a storage is freed after one of them."""
        return self.start < time <= self.end


class _Unrolled:
    """A run of equal blocks: the segments of those that were recorded, and where the copies of the second one go."""

    def __init__(self, step: RecordedStep, run: EqualBlocks) -> None:
        self.repeats = run.repeats
        self.copies = np.arange(run.repeats, dtype=np.int64)
        self.forward = [_segment(step, name, FORWARD) for name in run.names]
        self.backward = [_segment(step, name, BACKWARD) for name in run.names]

    @property
    def templates(self) -> list[_Segment]:
        """The segments that happen several times."""
        return [self.forward[1], self.backward[1]]


def _segment(step: RecordedStep, block: str, phase: str) -> _Segment:
    at = [number for number, tag in enumerate(step.tags) if (tag.block, tag.phase) == (block, phase)]
    return _Segment(at[0], at[-1] + 1) if at else _Segment(0, 0)


class _Timeline:
    """Times of the recording as times of the whole step."""

    def __init__(self, step: RecordedStep) -> None:
        self.runs = [_Unrolled(step, run) for run in step.runs]
        self.longer = [(each, run.repeats - 1) for run in self.runs for each in run.templates]
        self.total = self._base(len(step.calls))

    def _base(self, time: int) -> int:
        """A time outside of what is repeated."""
        return time + sum((each.end - each.start) * more for each, more in self.longer if each.end <= time)

    def lives(self, born: int, died: int) -> tuple[Times, Times]:
        """When each copy of a storage is made and freed in the whole step."""
        for run in self.runs:
            if run.forward[1].holds(born):
                first = self._forward(run, born - run.forward[1].start, run.copies)
                return first, self._freed_after_forward(run, died)
            if run.backward[1].holds(born):
                first = self._backward(run, born - run.backward[1].start, run.copies)
                return first, self._freed_after_backward(run, died)
        return np.array([self._base(born)]), np.array([self._freed_once(born, died)])

    def _forward(self, run: _Unrolled, offset: int, copies: Times) -> Times:
        segment = run.forward[1]
        return self._base(segment.start) + copies * (segment.end - segment.start) + offset

    def _backward(self, run: _Unrolled, offset: int, copies: Times) -> Times:
        segment = run.backward[1]
        return self._base(segment.start) + (run.repeats - 1 - copies) * (segment.end - segment.start) + offset

    def _freed_after_forward(self, run: _Unrolled, died: int) -> Times:
        """When what each copy made in the forward pass is freed: in its own block, the next one, or later."""
        last, rest = run.copies == run.repeats - 1, np.full(run.repeats, self._base(died), dtype=np.int64)
        if run.forward[1].ends(died):
            return self._forward(run, died - run.forward[1].start, run.copies)
        if run.backward[1].ends(died):
            return self._backward(run, died - run.backward[1].start, run.copies)
        if run.forward[2].ends(died):
            return np.where(last, rest, self._forward(run, died - run.forward[2].start, run.copies + 1))
        if run.backward[2].ends(died):
            return np.where(last, rest, self._backward(run, died - run.backward[2].start, run.copies + 1))
        return rest

    def _freed_after_backward(self, run: _Unrolled, died: int) -> Times:
        """When what each copy made in the backward pass is freed: in its own block, the one before it, or later."""
        rest = np.full(run.repeats, self._base(died), dtype=np.int64)
        if run.backward[1].ends(died):
            return self._backward(run, died - run.backward[1].start, run.copies)
        if run.backward[0].ends(died):
            before = self._backward(run, died - run.backward[0].start, run.copies - 1)
            return np.where(run.copies == 0, rest, before)
        return rest

    def _freed_once(self, born: int, died: int) -> int:
        """When a storage that is made once is freed, which may be in one of the copies."""
        for run in self.runs:
            if run.forward[1].ends(died):
                copy = 0 if run.forward[0].holds(born) else run.repeats - 1
                return int(self._forward(run, died - run.forward[1].start, np.array([copy]))[0])
            if run.backward[1].ends(died):
                copy = run.repeats - 1 if run.backward[2].holds(born) else 0
                return int(self._backward(run, died - run.backward[1].start, np.array([copy]))[0])
        return self._base(died)
