"""Every test runs on one thread and draws its cases alike each time; what it caches stays out of the user's folders.

OMP_NUM_THREADS asks for more threads, and tests that share a costly fixture run in one process.
"""

import getpass
import os
import signal
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch starts its pool, and for the programs that tests start

os.environ["GLASSFORMER_CACHE"] = os.path.join(tempfile.gettempdir(), f"glassformer-tests-{getpass.getuser()}")

import pytest
import torch
from hypothesis import settings

# A shell that starts the suite in the background, or nohup, ignores these, and so would every program that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50, print_blob=True)
settings.register_profile("nightly", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("ci")  # --hypothesis-profile=nightly asks for the other

# Tests whose costly fixtures are made once for a file or a folder; each lesson, too, is run once for all its tests.
TOGETHER = (
    "tests/course/worked/",
    "tests/browser/",
    "tests/parity/test_answers.py",
    "tests/training/test_distributed.py",
    "tests/training/test_kills.py",
    "tests/training/test_labels.py",
    "tests/training/test_resuming.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tell pytest-xdist (`--dist loadgroup`) which tests belong together."""
    for item in items:
        shared = next((part for part in TOGETHER if item.nodeid.startswith(part)), None)
        if item.nodeid.startswith("tests/course/") and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            shared = item.callspec.params.get("name")
        if shared is not None:
            item.add_marker(pytest.mark.xdist_group(shared))
