"""Every test runs on one thread and draws its cases alike each time."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch starts its pool, and for the programs that tests start

import torch
from hypothesis import settings

torch.set_num_threads(1)

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50, print_blob=True)
settings.register_profile("nightly", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("ci")  # --hypothesis-profile=nightly asks for the other
