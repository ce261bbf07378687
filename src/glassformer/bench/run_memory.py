"""The memory of one run in this process: what is estimated before it, and its peak."""

import json
import sys
import tempfile
from pathlib import Path

from glassformer.training import run as run_module
from glassformer.training.config import resolve

WORKING, HIGHEST = "VmRSS", "VmHWM"  # the memory of a process, and the most it ever had


def measure_run(task: str, *words: str) -> tuple[int, int]:
    """The estimate of a run, and by how much its memory grew from when the model was built to its peak."""
    resolved = resolve(task, words=words)
    with tempfile.TemporaryDirectory() as folder:
        plan = run_module.prepare(resolved, None, lambda text: None, dry_run=True)
        estimated = plan.estimate.memory
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
        before = _memory(WORKING)
        run = run_module.prepare(resolved, Path(folder) / "run", lambda text: None)
        for _ in run.train():
            pass
    return estimated, _memory(HIGHEST) - before


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def main(base: str, task: str, *words: str) -> None:
    """Print estimate and peak of a run; or train the model that other runs start from, if it is given a folder."""
    if base:
        list(run_module.prepare(resolve(task, words=words), Path(base), lambda text: None).train())
    print(json.dumps(None if base else measure_run(task, *words)))


if __name__ == "__main__":
    main(*sys.argv[1:])
