"""Every test runs on one thread and draws its cases alike each time; what it caches stays out of the user's folders.

OMP_NUM_THREADS asks for more threads, and tests that share a costly fixture run in one process.
"""

import gc
import getpass
import os
import signal
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch starts its pool, and for the programs that tests start
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each process and program that is started compiles every file

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
    "tests/cli/test_evaluate.py",
    "tests/cli/test_exit_status.py",
    "tests/cli/test_few_shot.py",
    "tests/cli/test_streams.py",
    "tests/cli/test_unfinished_run.py",
    "tests/data/test_phrase_book.py",
    "tests/data/test_python_source.py",
    "tests/parity/test_answers.py",
    "tests/training/test_chat.py",
    "tests/training/test_distributed.py",
    "tests/training/test_fine_tune.py",
    "tests/training/test_kills.py",
    "tests/training/test_labels.py",
    "tests/training/test_resuming.py",
    "tests/training/test_run_folder_damage.py",
    "tests/training/test_run_folder_kills.py",
    "tests/training/test_signals.py",
    "tests/training/test_skip_gram.py",
)


def group_of(test: str) -> str:
    """What a test is run together with: all of a file or folder, all tests of a lesson, or only itself."""
    shared = next((part for part in TOGETHER if test.startswith(part)), None)
    if test.startswith("tests/course/") and test.endswith("]") and shared is None:
        return test[test.index("[") :]
    return shared or test


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what lives as long as the suite, which it would look at again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Give the tests of a group to one process, since the markers of pytest-xdist 3.8 do not reach pytest 9.2."""
    from xdist.scheduler import LoadGroupScheduling
    from xdist.workermanage import WorkerController

    class Together(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

        def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
            """Forget groups that are done, which would be counted again after each test."""
            super().mark_test_complete(node, item_index, duration)
            work, group = self.assigned_work[node], group_of(self.registered_collections[node][item_index])
            if all(work[group].values()):
                del work[group]

    return Together(config, log) if config.getvalue("dist") == "loadgroup" else None  # pyright: ignore[reportArgumentType]
