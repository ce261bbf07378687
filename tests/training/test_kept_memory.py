"""Memory that is kept between steps: the system hands out no fresh pages, unless the user has chosen otherwise."""

import subprocess
import sys

import pytest

from glassformer.training.kept_memory import CHOSEN, keeps_memory

PROGRAM = """
import resource, sys, torch
from glassformer.training.kept_memory import keep_memory
if sys.argv[1] == "keep":
    keep_memory()
def step():
    return [torch.ones(size) for size in (2**24, 2**20, 2**22)]
for _ in range(10):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

needs_glibc = pytest.mark.skipif(not keeps_memory(), reason="needs glibc, without settings for its memory")


def faults(mode: str) -> int:
    words = [sys.executable, "-c", PROGRAM, mode]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


@needs_glibc
def test_steps_get_the_memory_of_the_steps_before() -> None:
    without, kept = faults("no"), faults("keep")
    assert without > 100  # pages, some of which may be huge
    assert kept < without / 50


@pytest.mark.parametrize("name", CHOSEN)
def test_settings_of_the_environment_are_left_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "65536")
    assert not keeps_memory()
