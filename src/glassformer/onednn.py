"""oneDNN's linear layer, a private function of torch, and what the CPU can do."""

import functools
from collections.abc import Mapping

import torch
from torch import Tensor

ONEDNN_LINEAR = "_linear_pointwise"


def onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The linear layer of oneDNN, without a gradient; `weight` is [outputs, inputs]."""
    dense = None if bias is None else bias.contiguous()  # the kernel ignores its stride
    return getattr(torch.ops.mkldnn, ONEDNN_LINEAR)(x, weight, dense, "none", [], "")


@functools.cache
def onednn_is_faster() -> bool:
    """Whether oneDNN has faster float32 products than MKL, which leaves AVX-512 unused on processors of AMD."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not torch.backends.mkldnn.is_available():
        return False
    return hasattr(torch.ops.mkldnn, ONEDNN_LINEAR) and str(cpu_capabilities().get("cpu_name")).startswith("AMD")


def cpu_capabilities() -> Mapping[str, object]:
    """The name and the instruction sets of the CPU; empty in a version of torch that cannot tell."""
    return getattr(torch.cpu, "get_capabilities", dict)()
