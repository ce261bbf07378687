"""`glassformer bench`: speed beside other implementations of the same work, in one process."""

import json as json_text
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from glassformer.cli.output_files import require_free
from glassformer.cli.report import (
    Flag,
    MaybePath,
    UsageError,
    named,
    named_as_options,
    require_exists,
    talk,
    write,
    write_table,
)

if TYPE_CHECKING:
    from glassformer.bench.measure import Measurement
    from glassformer.bench.suites import BenchReport

SUITES = {
    "train": "steps of GPT-2 beside nanoGPT and Hugging Face; --only 350M or 1.5B for the larger ones",
    "small": "steps of a small GPT of characters, and of a modern one with Muon, beside nanoGPT",
    "translate": "steps of a translator beside torch.nn.Transformer, on equal lengths, padded or packed, and real ones",
    "decode": "whole texts and translations, prefill included, beside Hugging Face, gpt-fast and CTranslate2",
    "cpu": "steps of a GPT of characters on the processor beside nanoGPT",
    "shapes": "time and memory of a training step by context, width and batch; --svg FILE draws them",
    "memory": "peaks of training steps on a GPU; on a processor the memory that runs are estimated to need, and need",
    "start-up": "how long `import glassformer` and commands take, beside other imports",
    "calls": "what an equation adds to its kernel, and a trace to a plain run",
    "sparse": "patterns of sparse attention beside full attention, by length",
}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Where:
    """Device, precision, seed and data of a benchmark.

    Parameters
    ----------
    device
        auto, cpu, cuda or cuda:1.
    precision
        Of ours and of every peer; auto is bfloat16 where the device is fast in it.
    compile
        Whether ours is compiled; auto as for training.
    seed
        Seed of weights and data; another one each time if left out.
    until
        With the suite small: time whole runs, from the command's start to this validation loss.
    data
        The text that those runs train on; Tiny Shakespeare for the published losses.
    seconds
        The most seconds of each whole run (3600 if left out), or of the suite shapes (120): it measures what fits in.
    tiny
        Use the smallest sizes, to see whether a suite runs.
    """

    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: Literal["auto", "yes", "no"] = "auto"
    seed: int | None = None
    until: float | None = None
    data: MaybePath = None
    seconds: float | None = None
    tiny: Flag = False


ON_CPU = ("cpu", "start-up")
SEEDS = 2**31
REPORT_MARK, CHART_MARK = '{\n  "suite": "', "<title>Training step of a GPT on"  # in the files that it writes
SHORT = 0.1  # milliseconds
ANYWHERE = Where()


def bench(
    suite: str | None = None,
    /,
    *,
    peers: MaybePath = None,
    rounds: int | None = None,
    only: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    where: Where = ANYWHERE,
    json: MaybePath = None,
    svg: MaybePath = None,
) -> None:
    """Measure speed beside other implementations of the same work, in turns in one process.

    Without a suite, the suites are listed. Peers that are installed are found; weights and data are random. Outputs
    are compared first, with the same weights.

    Parameters
    ----------
    suite
        What to measure.
    peers
        Folder with copies of nanoGPT and gpt-fast (nanoGPT/model.py, gpt-fast/model.py). Their code is run.
    rounds
        Rounds in which each takes its turn, 5 if left out, 1 of whole runs; the median is reported, and the spread.
    only
        Rows or peers to measure, instead of all.
    json
        File to write every measurement to.
    svg
        File to draw the plots of the suite shapes to.
    """
    if suite is None:
        write_table(("suite", "what it measures"), list(SUITES.items()))
        return
    named("suite", suite, SUITES, "bench")
    if rounds is not None and rounds < 1:
        raise UsageError(f"--rounds is {rounds}, wanted 1 or more")
    if svg is not None and suite != "shapes":
        raise UsageError("--svg is for the suite shapes")
    _require_usable(where, peers, {"json": json, "svg": svg})
    report = _measure(suite, peers, rounds, only, where)
    if json is not None:
        _save(report, json)
    if svg is not None:
        _draw(report, svg)
    _show(report)


def _require_usable(where: Where, peers: Path | None, written: dict[str, Path | None]) -> None:
    """Raise if something to read is not there, if a file cannot be written, or if there is no time."""
    for name, value in (("seconds", where.seconds), ("until", where.until)):
        if value is not None and not value > 0:
            raise UsageError(f"--{name} is {value:g}, wanted more than 0")
    if where.seed is not None and not 0 <= where.seed < SEEDS:
        raise UsageError(f"--seed is {where.seed}, wanted 0 to {SEEDS - 1}")
    for path in filter(None, (peers, where.data)):
        require_exists(path)
    for name, path in written.items():
        if path is not None and not path.parent.is_dir():
            raise UsageError(f"--{name}: {path.parent} is not a folder")
    require_free([(written["json"], REPORT_MARK), (written["svg"], CHART_MARK)])


def _measure(suite: str, peers: Path | None, rounds: int | None, only: tuple[str, ...], where: Where) -> "BenchReport":
    from glassformer.bench.options import BenchOptions
    from glassformer.bench.suites import run_suite
    from glassformer.training.device import choose_device

    with named_as_options("device", "only", "peers", "until", "data", "seconds"):
        device = "cpu" if suite in ON_CPU and where.device == "auto" else where.device
        chosen = choose_device(device, where.precision, where.compile)
        options = BenchOptions(
            say=talk, device=chosen, peers=peers, rounds=rounds or (5 if where.until is None else 1), only=only,
            tiny=where.tiny, seed=_seed(where.seed), until=where.until, data=where.data,
            seconds=where.seconds,
        )  # fmt: skip
        return run_suite(suite, options)


def _seed(given: int | None) -> int:
    """A seed, drawn if none is given: data that nothing was tuned to."""
    return secrets.randbelow(SEEDS) if given is None else given


def _save(report: "BenchReport", path: Path) -> None:
    path.write_text(json_text.dumps(asdict(report), indent=2) + "\n", encoding="utf-8")
    talk(f"wrote {path}")


def _draw(report: "BenchReport", path: Path) -> None:
    from glassformer.bench.shapes import shapes_chart

    path.write_text(shapes_chart(report.rows, report.device), encoding="utf-8")
    talk(f"wrote {path}")


def _show(report: "BenchReport") -> None:
    """A table of every row, and below it the notes."""
    columns = ("row", "", "rate", "takes", "spread", "ratio", "peak", "memory", "warm-up", "apart")
    rows = [_cells(row) for row in report.rows]
    used = [at for at in range(len(columns)) if any(row[at] for row in rows)]
    if rows:
        write_table([columns[at] for at in used], [[row[at] for at in used] for row in rows])
    for row in report.rows:
        if row.note:
            write(f"{row.row}, {row.runner}: {row.note}")
        if row.graphs_while_timed:
            write(f"{row.row}, {row.runner}: {row.graphs_while_timed} graphs were compiled while it was timed")
    precision = "bfloat16" if report.bf16 else "float32"
    write(f"{report.device}, {precision}, torch {report.torch}, medians of {report.rounds} rounds, seed {report.seed}")


def _duration(milliseconds: float) -> str:
    """Microseconds, milliseconds or seconds, in the unit that is easiest to read."""
    if milliseconds < SHORT:
        return f"{1000 * milliseconds:.2f} µs"
    return f"{milliseconds:,.1f} ms" if milliseconds < 5000 else f"{milliseconds / 1000:,.1f} s"


def _cells(row: "Measurement") -> tuple[str, ...]:
    rate = f"{row.rate:,.0f}" if row.rate >= 100 else f"{row.rate:.3g}"
    return (
        row.row,
        row.runner,
        f"{rate} {row.unit}",
        _duration(row.milliseconds),
        f"{row.spread:.0%}",
        "" if row.ratio is None else f"{row.ratio:.2f}",
        "" if row.peak_gigabytes is None else f"{row.peak_gigabytes:.1f} GB",
        "" if row.memory_ratio is None else f"{row.memory_ratio:.2f}",
        f"{row.compile_seconds:.0f} s" if row.compile_seconds >= 1 else "",
        "" if row.apart is None else f"{row.apart:.0e}",
    )
