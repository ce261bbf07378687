"""Every test runs on one thread and draws its cases alike each time; what it caches stays out of the user's folders."""

import getpass
import os
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch starts its pool, and for the programs that tests start

os.environ["GLASSFORMER_CACHE"] = os.path.join(tempfile.gettempdir(), f"glassformer-tests-{getpass.getuser()}")

import torch
from hypothesis import settings

torch.set_num_threads(1)

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50, print_blob=True)
settings.register_profile("nightly", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("ci")  # --hypothesis-profile=nightly asks for the other
