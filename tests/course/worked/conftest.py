"""One run of the whole check for all tests."""

import subprocess
import sys

import msgspec
import pytest

from glassformer.course.worked.verdicts import Result


@pytest.fixture(scope="session")
def whole_check() -> subprocess.CompletedProcess[bytes]:
    """`glassformer check --json`, as a program of its own: what hooks into the tests would slow it down."""
    return subprocess.run([sys.executable, "-m", "glassformer", "check", "--json"], capture_output=True, check=False)


@pytest.fixture(scope="session")
def results(whole_check: subprocess.CompletedProcess[bytes]) -> dict[str, Result]:
    """What it wrote, by id."""
    return {result.id: result for result in msgspec.json.decode(whole_check.stdout, type=list[Result])}
