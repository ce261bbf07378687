"""The kernels of a recorded step as they run: one for each call, or fused as a compiler fuses them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from glassformer.equations.linear_cross_entropy import linear_cross_entropy, pieces_of
from glassformer.kernel_calls import KernelCall
from glassformer.planning.kernel_data import BACKWARD, FORWARD, Kernel, Lifetimes, RecordedStep, Tag

ATTENTION = "attention"  # kind of the kernels of fused attention
LOSS = linear_cross_entropy.name
FUSIBLE = "other"  # kind of the kernels that memory bandwidth limits, which a compiler fuses with their neighbors
NOT_AGAIN = ("embedding", "cumsum", "sort", "topk", "scatter", "index", "gather", "fft")  # not computed a second time
RANDOM = ("bernoulli", "rand", "dropout")  # drawn again from the same seed
SIGNS = "threshold_backward"  # of ReLU: beside its output, which a product reads as a view, a byte says what is 0
LARGE = 2**25  # bytes from which glibc maps memory for a tensor, and unmaps it when the tensor is freed
SMALL = 8  # a tensor with a fraction of an eighth or less of another's bytes costs nothing to keep


def eager(step: RecordedStep) -> tuple[list[Kernel], Lifetimes]:
    """Every call as its own kernel, every result in memory until Python and autograd let go of it."""
    kernels = [_kernel(step, number, (number,), _moved(call)) for number, call in enumerate(step.calls)]
    kernels = [  # tiles of a CPU are no larger than its texts
        replace(kernel, fresh=_fresh(step, kernel.at), flops=min(kernel.flops, step.calls[kernel.at].flops))
        for kernel in kernels
    ]
    return kernels, Lifetimes(range(len(step.sizes)), step.sizes, step.born, step.died)


def with_loss_in_pieces(step: RecordedStep, lifetimes: Lifetimes, device: str) -> Lifetimes:
    """Lifetimes where tensors as large as the logits are as large as one piece of them, as many as a device takes."""
    own = [number for number, tag in enumerate(step.tags) if (tag.equation, tag.phase) == (LOSS, FORWARD)]
    product = next((number for number in own if step.calls[number].kind == "matmul"), None)
    if product is None:
        return lifetimes
    logits, ((whole, recorded),) = step.calls[product].numbers, step.calls[product].writes
    pieces = pieces_of(round(logits * step.sizes[whole] / recorded), device)
    of_rows = {whole}  # a weight or its gradient can have as many numbers
    for call in (step.calls[at] for at in own if at > product and step.calls[at].kind != "matmul"):
        if call.numbers == logits and any(number in of_rows for number, _ in call.reads):
            of_rows.update(number for number, _ in call.writes)
    sizes = [
        size // pieces if number in of_rows else size
        for number, size in zip(lifetimes.numbers, lifetimes.sizes, strict=True)
    ]
    return replace(lifetimes, sizes=sizes)


def _fresh(step: RecordedStep, at: int) -> int:
    """Bytes of the large tensors that a call makes: the system hands out their memory anew each time."""
    made = (step.sizes[number] for number, _ in step.calls[at].writes if step.born[number] == at)
    return sum(size for size in made if size > LARGE)


def _moved(call: KernelCall) -> int:
    return sum(size for _, size in (*call.reads, *call.writes))


def _kernel(step: RecordedStep, at: int, numbers: Sequence[int], moved: int) -> Kernel:
    calls = [step.calls[number] for number in numbers]
    labeled = next((step.tags[number] for number in numbers if step.tags[number].equation), step.tags[at])
    return Kernel(
        at=at,
        kind=calls[0].kind,
        flops=sum(call.tiled for call in calls),
        bytes=moved,
        numbers=max(call.numbers for call in calls),
        tag=replace(labeled, block=step.tags[at].block),
        names=tuple(call.name for call in calls),
    )


def fused(step: RecordedStep, by_block: bool = False) -> tuple[list[Kernel], Lifetimes]:
    """Kernels as a compiler makes them from the whole step, or from each block alone, with the rest as it is.

    Neighbors that memory bandwidth limits become one kernel, which reads each tensor from outside once and writes
    only what is read after it. The backward pass computes again what follows from tensors that are kept anyway, so
    that those alone live from the forward to the backward pass.
    """
    return _Fusion(step, by_block).result()


class _Fusion:
    """A step on its way to fused kernels."""

    def __init__(self, step: RecordedStep, by_block: bool) -> None:
        self.step, self.by_block, calls = step, by_block, step.calls
        self.middle = next((n for n, tag in enumerate(step.tags) if tag.phase == BACKWARD), len(calls))
        self.makers = {
            number: at for at in range(len(calls)) for number, _ in calls[at].writes if step.born[number] == at
        }
        writes = Counter(number for call in calls for number, _ in call.writes)
        self.changed = {number for number, times in writes.items() if times > 1}  # in place
        self.uses: dict[int, list[int]] = {}
        for at, call in enumerate(calls):
            for number, _ in call.reads:
                self.uses.setdefault(number, []).append(at)
        self.groups = self._groups()
        self.group_of = {at: index for index, group in enumerate(self.groups) for at in group}
        self.sources = self._sources()
        self.kept = frozenset().union(*self.sources.values()) if self.sources else frozenset()

    def _groups(self) -> list[list[int]]:
        """Runs of fusible calls in one phase; every other call alone."""
        groups: list[list[int]] = []
        for at, (call, tag) in enumerate(zip(self.step.calls, self.step.tags, strict=True)):
            before = groups[-1][-1] if groups else None
            fits = before is not None and call.kind == FUSIBLE == self.step.calls[before].kind
            if before is not None and fits and self._together(self.step.tags[before], tag):
                groups[-1].append(at)
            else:
                groups.append([at])
        return groups

    def _together(self, one: Tag, other: Tag) -> bool:
        """Whether two neighbors are compiled together."""
        return one.phase == other.phase and (not self.by_block or one.block == other.block != "")

    def _sources(self) -> dict[int, frozenset[int]]:
        """For each tensor of the forward pass that the backward pass reads, the ones that are kept for it."""
        wanted = [n for n, at in self.makers.items() if at < self.middle and self.uses.get(n, [-1])[-1] >= self.middle]
        firm = frozenset(number for number in wanted if not self._again(number))
        found: dict[int, frozenset[int]] = {}
        there = set(firm)
        for number in sorted(wanted, key=lambda number: self.makers[number]):
            found[number] = self._kept(number, there, found)
            there |= found[number]
        return found

    def _again(self, number: int) -> bool:
        """Whether a tensor is computed a second time from what it was made of, number by number.

        What a product or attention of the backward pass reads is not: it would have to be written out once more.
        """
        if number in self.changed or any(self._materialized(at) for at in self.uses[number]):
            return False
        call, tag = self.step.calls[self.makers[number]], self.step.tags[self.makers[number]]
        if self.by_block and (not tag.block or any(self.step.tags[at].block != tag.block for at in self.uses[number])):
            return False
        largest = max((size for _, size in call.reads), default=0)
        pointwise = call.kind == FUSIBLE and 4 * self.step.sizes[number] >= largest
        return pointwise and not any(word in call.name for word in NOT_AGAIN)

    def _materialized(self, at: int) -> bool:
        return at >= self.middle and self.step.calls[at].kind != FUSIBLE

    def _kept(self, number: int, there: set[int], found: dict[int, frozenset[int]]) -> frozenset[int]:
        """What must be kept so that a tensor is there in the backward pass: itself, or what it is computed from."""
        if number not in self.makers or not self._again(number):
            return frozenset([number] if number in self.makers else [])
        call, size = self.step.calls[self.makers[number]], self.step.sizes[number]
        if any(word in call.name for word in RANDOM):
            return frozenset()
        reads = [each for each, _ in call.reads if each in self.makers and SMALL * self.step.sizes[each] > size]
        if len(reads) == 1:
            only = found.get(reads[0]) or self._kept(reads[0], there, found)
            return only if sum(self.step.sizes[each] for each in only) <= size else frozenset([number])
        parts = (
            frozenset().union(*(found.get(each) or self._kept(each, there, found) for each in reads))
            if reads
            else frozenset()
        )
        return parts if parts <= there else frozenset([number])

    def result(self) -> tuple[list[Kernel], Lifetimes]:
        """The kernels, and what is in memory while they run."""
        kept = self.kept
        numbers, born, died, sizes = [], [], [], []
        kernels: list[Kernel] = []
        again: set[int] = set()
        written: set[int] = set()
        for index, group in enumerate(self.groups):
            reads, writes = self._traffic(index, group)
            extra = 0
            if group[0] >= self.middle and self.step.calls[group[0]].kind != FUSIBLE:
                for number in [n for n in reads if n in self.sources and n not in kept and n not in again]:
                    again.add(number)
                    extra += 2 * self.step.sizes[number]
                    numbers.append(number)
                    born.append(group[0])
                    died.append(max(self.uses[number][-1], group[0]) + 1)
                    sizes.append(self.step.sizes[number])
            if group[0] >= self.middle and self.step.calls[group[0]].kind == FUSIBLE:
                reads = self._instead(reads, kept)
            for number in [n for at in group if SIGNS in self.step.calls[at].name for n in reads if n in kept]:
                numbers.append(number)
                born.append(self.makers[number])
                died.append(group[-1] + 1)
                sizes.append(self.step.calls[self.makers[number]].numbers)
            written |= set(writes)
            kernels.append(_kernel(self.step, group[0], group, sum(reads.values()) + sum(writes.values()) + extra))
        for number in sorted(each for each in written if self.step.born[each] >= 0):
            numbers.append(number)
            born.append(self.groups[self.group_of[self.step.born[number]]][0])
            died.append(self._freed(number, kept))
            sizes.append(self.step.sizes[number])
        return [kernel for kernel in kernels if kernel.bytes or kernel.flops], Lifetimes(numbers, sizes, born, died)

    def _traffic(self, index: int, group: Sequence[int]) -> tuple[dict[int, int], dict[int, int]]:
        """Bytes read from outside a group and bytes written for what comes after it, by storage."""
        reads: dict[int, int] = {}
        writes: dict[int, int] = {}
        for at in group:
            call = self.step.calls[at]
            for number, size in call.reads:
                if self.group_of.get(self.makers.get(number, -1)) != index:
                    reads[number] = max(reads.get(number, 0), size)
            writes.update({number: size for number, size in call.writes if self._is_written(number, index, at)})
        return reads, writes

    def _is_written(self, number: int, index: int, at: int) -> bool:
        """Whether a result is read after its group, and not computed again there; or is itself a result of the step."""
        if self.step.died[number] >= len(self.step.calls):
            return True
        later = [use for use in self.uses.get(number, []) if self.group_of[use] != index]
        if at < self.middle and number in self.sources and number not in self.sources[number]:
            later = [use for use in later if use < self.middle]
        return bool(later) or (at < self.middle and number in self.kept)

    def _instead(self, reads: dict[int, int], kept: frozenset[int]) -> dict[int, int]:
        """What a group of the backward pass reads where it computes tensors again."""
        found: dict[int, int] = {}
        for number, size in reads.items():
            sources: Iterable[int] = [number] if number in kept else self.sources.get(number, [number])
            for each in sources:
                found[each] = size if each == number else self.step.sizes[each]
        return found

    def _freed(self, number: int, kept: frozenset[int]) -> int:
        """The number of calls after which no kernel reads a storage, directly or to compute another again."""
        if self.step.died[number] >= len(self.step.calls):
            return len(self.step.calls)
        uses = list(self.uses.get(number, []))
        if number in kept:
            uses += [self.uses[other][-1] for other, sources in self.sources.items() if number in sources]
        elif number in self.sources:
            uses = [use for use in uses if use < self.middle]
        return self.groups[self.group_of[max(uses, default=self.step.born[number])]][-1] + 1


def computed_again(kernels: Sequence[tuple[Kernel, int]], compiled: bool) -> list[tuple[Kernel, int]]:
    """The kernels that activation checkpointing adds, and how often each runs: the forward pass of every block.

    Compiled blocks keep the results of attention.
    """
    return [
        (replace(kernel, tag=replace(kernel.tag, phase=BACKWARD)), times)
        for kernel, times in kernels
        if kernel.tag.block and kernel.tag.phase == FORWARD and not (compiled and kernel.kind == ATTENTION)
    ]


def checkpointed(step: RecordedStep, lifetimes: Lifetimes, compiled: bool) -> Lifetimes:
    """Lifetimes with activation checkpointing: a block keeps its input and computes the rest again.

    Compiled blocks also keep the results of attention.
    """
    middle = next((n for n, tag in enumerate(step.tags) if tag.phase == BACKWARD), len(step.calls))
    back = {tag.block: number for number, tag in reversed(list(enumerate(step.tags))) if tag.phase == BACKWARD}
    reads: dict[int, list[int]] = {}
    for at, call in enumerate(step.calls[:middle]):
        for number, _ in call.reads:
            reads.setdefault(number, []).append(at)
    found: list[tuple[int, int, int, int]] = []
    rows = zip(lifetimes.numbers, lifetimes.sizes, lifetimes.born, lifetimes.died, strict=True)
    for number, size, born, died in rows:
        block = step.tags[step.born[number]].block if step.born[number] >= 0 else ""
        uses = reads.get(number, [])
        inside = block in back and block and all(step.tags[at].block == block for at in uses)
        inside = inside and not (compiled and step.calls[step.born[number]].kind == ATTENTION)
        if not inside or born < 0 or born >= middle or died <= middle or died > len(step.calls) - 1:
            found.append((number, size, born, died))
            continue
        found.append((number, size, born, max([born, *uses]) + 1))
        found.append((number, size, back[block], max(died, back[block] + 1)))
    return Lifetimes(*([row[column] for row in found] for column in range(4)))
