"""Keep the memory that tensors free on a CPU for the next step: fresh pages can take as long as the step itself."""

import ctypes
import os
import platform

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # parameters of glibc's mallopt
NEVER = 2**31 - 1
CHOSEN = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")


def keeps_memory() -> bool:
    """Whether `keep_memory` has an effect: on glibc, unless the environment already configures its allocator."""
    return platform.libc_ver()[0] == "glibc" and not any(name in os.environ for name in CHOSEN)


def keep_memory() -> None:
    """Let this process keep the memory that it frees.

    Otherwise glibc maps large tensors anew and gives the end of its heap back, so that the system fills every page of
    an activation with zeros again in each step.
    """
    if keeps_memory():
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(MMAP_MAX, 0)
        mallopt(TRIM_THRESHOLD, NEVER)
