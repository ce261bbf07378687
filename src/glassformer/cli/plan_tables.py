"""Tables and sentences of `glassformer plan`: parameters, a training step, memory, what fits, generation."""

from typing import TYPE_CHECKING

from glassformer.cli.report import write, write_table

if TYPE_CHECKING:
    from glassformer.planning.figures import Generation, Plan, StepTime, Workload
    from glassformer.planning.measure import Measured

SHOWN = 12  # equations of the table, those that take longest first
GIGA, TERA, MILLI = 1e9, 1e12, 1e-3
MILLION = 1e6
COLUMNS = ("equation", "calls", "forward TFLOP", "backward TFLOP", "ms")


def write_plan(found: "Plan", instead: "Workload | None") -> None:
    """The tables of a plan; `instead` is what would fit where no batch does."""
    rows = [(name, f"{count:,}") for name, count in found.parameters.by_part.items()]
    write_table(("part", "parameters"), [*rows, ("all", f"{found.parameters.total:,}")], found.name)
    write_table(COLUMNS, _step_rows(found), _step_title(found))
    write_table(("memory of each device", "GB"), _memory_rows(found))
    write(_time_in_words(found))
    write(_limits_in_words(found, instead))
    if found.generation is not None:
        write(_generation_in_words(found.generation, found.device.memory))
    for note in found.notes:
        write(f"note: {note}")


def _step_title(found: "Plan") -> str:
    workload = found.workload
    step = f"{workload.batch:,} × {workload.length:,} tokens" if workload.length else f"{workload.batch:,} rows"
    if workload.gradient_accumulation > 1:
        step = f"{workload.gradient_accumulation:,} batches of {step}"
    return f"a training step on {step}, {workload.dtype}, {workload.optimizer}, on {found.device.name}"


def _step_rows(found: "Plan") -> list[tuple[str, ...]]:
    """The equations that take longest, and what remains, so that every column adds up to its last row."""
    counted, time = found.operations, found.time
    shown = counted.by_equation[:SHOWN]
    rows = [(row.name, f"{row.calls:,}", (row.forward, row.backward, row.seconds)) for row in shown]
    rows.append(("update", "", (0, 0, time.update)))
    if found.workload.devices > 1:
        rows.append(("exchange between devices", "", (0, 0, time.communication)))
    total = (counted.forward, counted.backward, time.seconds)
    columns = zip(*(numbers for _, _, numbers in rows), strict=True)
    forward, backward, seconds = (whole - sum(column) for whole, column in zip(total, columns, strict=True))
    other = (forward, backward, max(seconds, 0.0))  # a sum of floats may exceed the whole by its last bit
    rows += [("other", "", other), ("all", "", total)]
    return [
        (name, calls, f"{forward / TERA:,.4f}", f"{backward / TERA:,.4f}", f"{seconds / MILLI:,.2f}")
        for name, calls, (forward, backward, seconds) in rows
    ]


def _memory_rows(found: "Plan") -> list[tuple[str, str]]:
    workload, memory = found.workload, found.memory
    held = {"weights": memory.weights, "gradients": memory.gradients, "optimizer": memory.optimizer}
    if workload.ema:
        held["moving average of the weights"] = memory.average
    held |= {
        "activations": memory.activations, "libraries and allocator": memory.overhead, "peak": memory.peak,
        "peak with activation checkpointing": memory.peak_checkpointed,
    }  # fmt: skip
    if workload.devices > 1:
        held |= {
            f"peak with DDP over {workload.devices}": memory.replicated,
            f"with FSDP over {workload.devices}": memory.sharded,
            "with FSDP and activation checkpointing": memory.sharded - memory.saved_sharded,
        }
    return [(name, f"{size / GIGA:,.3f}") for name, size in held.items()]


def _time_in_words(found: "Plan") -> str:
    time, counted = found.time, found.operations
    again = f", with activation checkpointing {found.time_checkpointed.seconds / MILLI:,.2f} ms"
    if found.workload.activation_checkpointing:
        again = ", with activation checkpointing"
    speed = f"{time.tokens_per_second:,.0f} tokens/s, {100 * time.utilization:.0f} % of the peak"
    each = f"{counted.per_token / GIGA:,.4f} GFLOP per token"
    parts = _parts_of_time(time, found.workload.devices)
    return f"training step: {time.seconds / MILLI:,.2f} ms{again}, {speed}, {each} ({parts})"


def _parts_of_time(time: "StepTime", devices: int) -> str:
    limited = f"limited by arithmetic {time.compute / MILLI:,.2f} ms, by memory {time.memory / MILLI:,.2f}"
    exchange = f", exchange {time.communication / MILLI:,.2f}" if devices > 1 else ""
    rest = f"launches {time.launches / MILLI:,.2f}, update {time.update / MILLI:,.2f}{exchange}"
    return f"{time.kernels:,} kernels; {limited}, {rest}"


def _limits_in_words(found: "Plan", instead: "Workload | None") -> str:
    limits, has = found.limits, f"{found.device.memory / GIGA:,.0f} GB"
    if not limits.batch and not limits.batch_checkpointed:
        return f"does not fit into {has}: {_instead_in_words(found, instead)}"
    batch, again = _most(limits.batch), _most(limits.batch_checkpointed)
    text = f"largest batch in {has}: {batch}, with activation checkpointing {again}"
    if limits.length is not None:
        text += f"; longest context: {limits.length:,}, with activation checkpointing {limits.length_checkpointed:,}"
    if limits.crossover is not None:
        text += f"; attention takes most operations of a block from {limits.crossover:,} tokens on"
    return text if found.fits else f"{text}; a batch of {found.workload.batch:,} does not fit"


def _instead_in_words(found: "Plan", instead: "Workload | None") -> str:
    """Why no batch fits, and what would."""
    from glassformer.planning.advice import MOST_DEVICES

    asked, held = found.workload, _held_bytes(found)
    takes = f"a batch of 1 × {asked.length:,} tokens takes too much" if asked.length else "one row takes too much"
    if held > found.device.memory:
        takes = f"weights, gradients and optimizer take {held / GIGA:,.0f} GB on each device"
    if instead is None and found.device.interconnect <= 0:
        return f"{takes}, and such devices have no interconnect to shard them over; try a smaller model"
    if instead is None:
        smaller = "a shorter --length or a smaller model" if asked.length else "a smaller model"
        return f"{takes}; FSDP over {MOST_DEVICES:,} such devices does not hold a batch of 1 either; try {smaller}"
    again = " and activation checkpointing" if instead.activation_checkpointing else ""
    smaller = "" if instead.batch == asked.batch else f" --batch {instead.batch}"
    if instead.length != asked.length:
        options = f"--length {instead.length}{smaller}"
        return f"{takes}; the longest that fits{again.replace(' and', ' with')} is {instead.length:,} ({options})"
    options = f"--strategy fsdp --devices {instead.devices}{smaller}"
    fits = f"FSDP over {instead.devices:,} such devices holds it with a batch of {instead.batch:,} on each{again}"
    return f"{takes}; {fits} ({options})"


def _held_bytes(found: "Plan") -> float:
    """Weights, gradients, optimizer and moving average on each device."""
    memory, workload = found.memory, found.workload
    held = memory.weights + memory.gradients + memory.optimizer + memory.average
    return held / workload.devices if workload.strategy == "fsdp" else held


def _generation_in_words(made: "Generation", memory: float) -> str:
    sizes = f"weights {made.weights / GIGA:,.2f} GB, KV cache {made.kv_cache / GIGA:,.3f} GB"
    speed = f"{made.tokens_per_second:,.0f} tokens/s, {made.seconds_per_step / MILLI:,.3f} ms a step"
    many = f"{_counted(made.batch, 'sequence')} of {_counted(made.length, 'token')}, {made.dtype}"
    said = f"generating: {speed}, prefill {made.prefill_seconds / MILLI:,.1f} ms ({many}; {sizes})"
    if made.fits and not made.largest_batch:  # a plan that was made without limits
        return said
    too_large = "" if made.fits else "does not fit, "
    return f"{said}; {too_large}largest batch in {memory / GIGA:,.0f} GB: {_most(made.largest_batch)}"


def _most(size: int) -> str:
    """A limit in words: beyond some size nothing is looked for."""
    from glassformer.planning.limits import MOST

    return f"{size:,} or more" if size >= MOST else f"{size:,}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def write_measured(found: "Plan", measured: "Measured") -> None:
    """Predicted beside measured: an update as training runs it, and each equation where nothing is compiled."""
    rows = [
        ("ms a step", found.time.seconds / MILLI, measured.seconds / MILLI),
        ("peak memory, MB", (found.memory.peak - found.memory.overhead) / MILLION, measured.peak / MILLION),
    ]
    equations = measured.by_equation[:SHOWN]
    rows += [(f"{row.name}, ms, not compiled", row.predicted / MILLI, row.measured / MILLI) for row in equations]
    shown = [(name, f"{one:,.2f}", f"{two:,.2f}", f"{one / two:,.2f}" if two else "") for name, one, two in rows]
    write_table(("measured here", "predicted", "measured", "ratio"), shown)
