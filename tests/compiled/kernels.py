"""Where torch's own compiler can make kernels for the CPU."""

import os

import pytest

# Asked to pretend that there are no vector instructions, torch 2.13 writes kernels that include no header for them.
makes_kernels = pytest.mark.skipif(
    os.environ.get("ATEN_CPU_CAPABILITY") == "default",
    reason="torch's compiler writes kernels that do not compile under ATEN_CPU_CAPABILITY=default",
)
