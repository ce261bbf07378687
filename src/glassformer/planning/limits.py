"""The largest batch and the longest context that fit, and the length from which attention costs more than the rest."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from glassformer.planning.figures import Limits, Memory, Workload
from glassformer.planning.memory import Weights, required
from glassformer.planning.recorded_step import FORWARD, RecordedStep
from glassformer.training.recipe import MOMENTS

MOST = 2**20  # rows or tokens beyond which nothing is looked for
PRECISION = 64  # a limit is found to one part in this many
MemoryOf = Callable[[Workload], Memory]


def limits(
    memory_of: MemoryOf, workload: Workload, room: float, weights: Weights, context: int | None, crossing: int | None
) -> Limits:
    """What fits into `room` bytes; a `context` limits the length, and a model that reads no tokens has none."""
    known = cache(memory_of)

    def largest(name: str, most: int, less: bool) -> int:
        def needed(size: int) -> int:
            sized = replace(workload, **{name: size})
            found = known(sized)
            saved = found.activations - found.activations_checkpointed if less else 0
            return required(found, sized) - saved

        return _largest(needed, vars(workload)[name], room, most)

    if least_bytes(workload, weights) > room:
        return Limits(batch=0, batch_checkpointed=0, length=0, length_checkpointed=0, crossover=crossing)
    reads, most = workload.length > 0 and context != 0, context or MOST
    return Limits(
        batch=largest("batch", MOST, False),
        batch_checkpointed=largest("batch", MOST, True),
        length=largest("length", most, False) if reads else None,
        length_checkpointed=largest("length", most, True) if reads else None,
        crossover=crossing,
    )


def least_bytes(workload: Workload, weights: Weights) -> int:
    """What weights, gradients and optimizer take on each device, whatever the batch."""
    held = weights.whole + weights.trained * (1 + MOMENTS[workload.optimizer])
    return -(-held // workload.devices) if workload.strategy == "fsdp" else held


def _largest(needed: Callable[[int], int], start: int, room: float, most: int) -> int:
    """The largest size that fits, to one part in 64; 0 if one does not."""
    low, high, sizes = 0, most + 1, {min(start, most)}
    found: Mapping[int, int] = {}
    while sizes:
        size = sizes.pop()
        found = {**found, size: needed(size)}
        low, high = (size, high) if found[size] <= room else (low, size)
        if high - low > max(1, low // PRECISION) and low < most:
            sizes = {_guess(found, room, low, high)}
    return low


def _guess(found: Mapping[int, int], room: float, low: int, high: int) -> int:
    """Where the needed bytes would reach the room if they grew in a straight line, within what is still open."""
    if len(found) == 1:
        (size,) = found
        return max(low + 1, min(high - 1, 2 * size if low else size // 2))
    (one, first), (two, second) = sorted(found.items(), key=lambda item: abs(item[1] - room))[:2]
    slope = (second - first) / (two - one)
    guess = one + (room - first) / slope if slope > 0 else (low + high) // 2
    nearer = guess * (1 - 1 / (2 * PRECISION)) if low < guess else low + 1
    return max(low + 1, min(high - 1, int(nearer)))


def crossover(whole: RecordedStep, half: RecordedStep, length: int) -> int | None:
    """The length from which what grows with its square in the blocks takes more operations than what grows with it."""
    full, part = _inside_blocks(whole), _inside_blocks(half)
    squared = (full - 2 * part) * 2  # of a·n + b·n² at n, where half of n has a·n / 2 + b·n² / 4
    straight = full - squared
    return round(length * straight / squared) if squared > 0 and straight > 0 else None


def _inside_blocks(step: RecordedStep) -> int:
    calls = zip(step.calls, step.tags, step.repeats, strict=True)
    return sum(times * call.flops for call, tag, times in calls if tag.block and tag.phase == FORWARD)
