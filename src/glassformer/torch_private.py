"""Calls to private torch functions, each with a fallback for versions without it."""

import importlib
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode


def multiply_all(tensors: list[Tensor], factor: Tensor | float) -> None:
    """Multiply every tensor in place, in one kernel where torch has one for lists."""
    if hasattr(torch, "_foreach_mul_"):
        torch._foreach_mul_(tensors, factor)  # pyright: ignore
        return
    for tensor in tensors:
        tensor.mul_(factor)


def lerp_all(tensors: list[Tensor], ends: list[Tensor], weight: float | Tensor) -> None:
    """Move every tensor in place towards its end by a fraction `weight` of the way."""
    if isinstance(weight, Tensor) and hasattr(torch, "_foreach_sub"):
        ways = torch._foreach_sub(ends, tensors)  # pyright: ignore[reportPrivateImportUsage]
        torch._foreach_mul_(ways, weight)  # pyright: ignore
        torch._foreach_add_(tensors, ways)  # pyright: ignore
        return
    if hasattr(torch, "_foreach_lerp_"):
        torch._foreach_lerp_(tensors, ends, weight)  # pyright: ignore[reportPrivateImportUsage]
        return
    for tensor, end in zip(tensors, ends, strict=True):
        tensor.lerp_(end, weight)


def step_unless(skip: Tensor, optimizer: Optimizer) -> bool:
    """Take an optimizer step that changes nothing where `skip` is 1; False if the optimizer has no such kernel."""
    if not getattr(optimizer, "_step_supports_amp_scaling", False):
        return False
    optimizer.found_inf = skip  # pyright: ignore[reportAttributeAccessIssue]
    optimizer.step()
    return True


def uncompile(module: nn.Module) -> None:
    """Undo `compile()` of every submodule; where that cannot be done, new shapes are compiled as they come."""
    for part in module.modules():
        if hasattr(part, "_compiled_call_impl"):
            part._compiled_call_impl = None


def keep_sizes_apart() -> None:
    """Let the compiler treat two sizes that are equal in one batch as different; else it compiles more often."""
    try:
        importlib.import_module("torch.fx.experimental._config").use_duck_shape = False  # pyright: ignore
    except (ImportError, AttributeError):
        return


def compiled_graphs() -> int:
    """How many graphs the compiler has made so far in this process; 0 where torch does not count them."""
    try:
        return int(importlib.import_module("torch._dynamo.utils").counters["stats"]["unique_graphs"])
    except (ImportError, AttributeError, KeyError):
        return 0


FLASH = "_flash_attention_forward"


def flash_window(q: Tensor, k: Tensor, v: Tensor, window: int, scale: float | None) -> Tensor | None:
    """Causal sliding-window attention by the flash kernel of a GPU, or None where it cannot compute it."""
    if not _flash_fits(q, v):
        return None
    parts = (t.transpose(1, 2) for t in (q, k, v))
    sizes = {"scale": scale, "window_size_left": window - 1, "window_size_right": 0}
    rest = (None, None, q.shape[2], k.shape[2], 0.0, False, False)
    return getattr(torch.ops.aten, FLASH)(*parts, *rest, **sizes)[0].transpose(1, 2)


def flash_documents(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bounds: tuple[Tensor, Tensor],
    longest: int | None,
    causal: bool,
    scale: float | None,
    dropout: float,
) -> Tensor | None:
    """Attention within the documents of packed rows by the flash kernel of a GPU, or None where it cannot compute it.

    `bounds` are those of queries and keys [batch, bounds], from 0 to the length of a row.
    """
    if not _flash_fits(q, v):
        return None
    parts = (t.transpose(1, 2).flatten(0, 1) for t in (q, k, v))  # all rows as one
    ends = (rows_as_one(c, t.shape[2]) for c, t in zip(bounds, (q, k), strict=True))
    most = (longest or q.shape[2], longest or k.shape[2])
    o = getattr(torch.ops.aten, FLASH)(*parts, *ends, *most, dropout, causal, False, scale=scale)[0]
    return o.unflatten(0, (len(q), -1)).transpose(1, 2)


def rows_as_one(bounds: Tensor, tokens: int) -> Tensor:
    """Bounds of the documents of all rows, of as many tokens each, as one: between two rows is an empty document."""
    first = torch.arange(len(bounds), device=bounds.device, dtype=bounds.dtype) * tokens
    return (bounds + first[:, None]).flatten().int()


def _flash_fits(q: Tensor, v: Tensor) -> bool:
    """Whether the flash kernel computes attention of these queries and values."""
    half = q.dtype in (torch.float16, torch.bfloat16)
    sizes = q.shape[-1] == v.shape[-1] <= 256 and q.shape[-1] % 8 == 0
    return q.is_cuda and half and sizes and hasattr(torch.ops.aten, FLASH)


class MemoryMeter(TorchDispatchMode):
    """Counts, while inside, the bytes of tensors that are made and alive, and the most that were alive at once."""

    def __init__(self) -> None:
        super().__init__()
        self.alive = self.peak = self.made = self.calls = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Callable[..., object], types: object, args: tuple[object, ...] = (), kwargs: object = None
    ) -> object:
        out = func(*args, **(kwargs if isinstance(kwargs, dict) else {}))
        self.calls += 1
        for leaf in out if isinstance(out, tuple | list) else (out,):
            if isinstance(leaf, Tensor):
                self._count(leaf.untyped_storage())
        return out

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:  # a view
            return
        self._known.add(key)
        self.alive, self.made = self.alive + size, self.made + size
        self.peak = max(self.peak, self.alive)
        weakref.finalize(storage, self._free, key, size)

    def _free(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.alive -= size


@contextmanager
def pretending(device: torch.device) -> Iterator[None]:
    """Tensors that are made inside have a shape and a device, but no memory; an older torch puts them on "meta"."""
    try:
        mode = importlib.import_module("torch._subclasses.fake_tensor").FakeTensorMode()
    except (ImportError, AttributeError):
        mode, device = nullcontext(), torch.device("meta")
    with mode, device:
        yield
