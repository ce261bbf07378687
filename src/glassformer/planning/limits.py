"""The largest batch and the longest context that fit, and the length from which attention costs more than the rest."""

from collections.abc import Callable, Mapping
from functools import cache

from glassformer.planning.figures import Limits, Memory, WeightBytes, Workload
from glassformer.planning.kernel_data import FORWARD, RecordedStep
from glassformer.planning.memory import required
from glassformer.training.recipe import MOMENTS

MOST = 2**20  # rows or tokens beyond which nothing is looked for
PRECISION = 64  # a limit is found to one part in this many
BATCH, LENGTH = "batch", "length"
MemoryOf = Callable[[str, int], Memory]  # by the name of a size and its value


def limits(
    memory_of: MemoryOf, workload: Workload, room: float, most: Mapping[str, int], crossing: int | None
) -> Limits:
    """What fits into `room` bytes; `most` is the largest batch and, for a model that reads tokens, length to try."""
    known = cache(memory_of)

    def largest(name: str, less: bool) -> int:
        def needed(size: int) -> int:
            return required(known(name, size), workload, checkpointed=less)

        return _largest(needed, vars(workload)[name], room, most[name])

    return Limits(
        batch=largest(BATCH, False),
        batch_checkpointed=largest(BATCH, True),
        length=largest(LENGTH, False) if LENGTH in most else None,
        length_checkpointed=largest(LENGTH, True) if LENGTH in most else None,
        crossover=crossing,
    )


def least_bytes(workload: Workload, weights: WeightBytes) -> int:
    """What weights, gradients and optimizer take on each device, whatever the batch."""
    held = weights.whole + weights.trained * (1 + MOMENTS[workload.optimizer])
    return -(-held // workload.devices) if workload.strategy == "fsdp" else held


def _largest(needed: Callable[[int], int], start: int, room: float, most: int) -> int:
    """The largest size that fits, to one part in 64; 0 if one does not.

    Memory grows nearly in a line, so the next size to try is where one through two known sizes meets the room; every
    third is the middle between what fits and what does not, or twice what fits, in case it does not.
    """
    low, high, size = 0, most + 1, min(start, most)
    known: dict[int, int] = {}
    while high - low > max(1, low // PRECISION):
        known[size] = needed(size)
        low, high = (size, high) if known[size] <= room else (low, size)
        size = (low + high) // 2 if high <= most else 2 * low
        if len(known) % 3:
            size = _crossing(known, room, size)
        size = min(max(size, low + max(1, low // PRECISION)), high - 1)
    return low


def _crossing(known: Mapping[int, int], room: float, otherwise: int) -> int:
    """The size at which a line through the two known ones that are nearest to it takes all the room."""
    (one, near), (other, far) = (sorted(known.items(), key=lambda each: abs(each[1] - room)) * 2)[:2]
    return otherwise if near == far else int(one + (room - near) * (other - one) / (far - near))


def crossover(whole: RecordedStep, part: RecordedStep, length: int, shorter: int) -> int | None:
    """The length from which what grows with its square in the blocks takes more operations than what grows with it."""
    full, less = _inside_blocks(whole) / length, _inside_blocks(part) / shorter
    slope = (full - less) / (length - shorter)  # a + b·n operations for each of n tokens
    straight = full - slope * length
    return round(straight / slope) if slope > 0 and straight > 0 else None


def _inside_blocks(step: RecordedStep) -> int:
    calls = zip(step.calls, step.tags, step.repeats, strict=True)
    return sum(times * call.flops for call, tag, times in calls if tag.block and tag.phase == FORWARD)
