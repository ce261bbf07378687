"""Calls to private torch functions, each with a fallback for versions without it."""

import importlib
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

FLOAT8_CAPABILITY = (8, 9)  # of the first GPUs that multiply 8-bit floats


def multiply_all(tensors: list[Tensor], factor: Tensor | float) -> None:
    """Multiply every tensor in place, in one kernel where torch has one for lists."""
    if hasattr(torch, "_foreach_mul_"):
        torch._foreach_mul_(tensors, factor)  # pyright: ignore[reportPrivateImportUsage]
        return
    for tensor in tensors:
        tensor.mul_(factor)


def lerp_all(tensors: list[Tensor], ends: list[Tensor], weight: float | Tensor) -> None:
    """Move every tensor in place towards its end by a fraction `weight` of the way."""
    if isinstance(weight, Tensor) and hasattr(torch, "_foreach_sub"):
        ways = torch._foreach_sub(ends, tensors)  # pyright: ignore[reportPrivateImportUsage]
        torch._foreach_mul_(ways, weight)  # pyright: ignore[reportPrivateImportUsage]
        torch._foreach_add_(tensors, ways)  # pyright: ignore[reportPrivateImportUsage]
        return
    if hasattr(torch, "_foreach_lerp_"):
        torch._foreach_lerp_(tensors, ends, weight)  # pyright: ignore[reportPrivateImportUsage, reportCallIssue, reportArgumentType]
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


def add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add the product of two matrices to a total, whose dtype may have more bits: in one kernel where torch has it."""
    real = type(total) is Tensor  # the kernel has no rule for shapes alone
    if real and total.is_cuda and a.dtype != total.dtype and "dtype_out" in torch.ops.aten.addmm.overloads():
        torch.ops.aten.addmm.dtype_out(total, a, b, total.dtype, out=total)
    else:
        total += a @ b


NARROW = 512  # features: the sums over rows and those over columns of a norm's gradient are faster in two kernels


def compiler_options(features: int) -> dict[str, bool]:
    """Options of the compiler for a model of this many features, as far as this torch has them."""
    wanted = {"triton.mix_order_reduction": False} if features <= NARROW else {}
    known = importlib.import_module("torch._inductor").list_options() if wanted else []
    return {name: value for name, value in wanted.items() if name in known}


def uncompile(module: nn.Module) -> None:
    """Undo `compile()` of every submodule; where that cannot be done, new shapes are compiled as they come."""
    for part in module.modules():
        if hasattr(part, "_compiled_call_impl"):
            part._compiled_call_impl = None


def accept_kept_kernels() -> None:
    """Leave out the compiler's hint that a checkpointed function in which kernels are kept may write in place."""
    logging.getLogger("torch._higher_order_ops.wrap").addFilter(_no_hint)


def _no_hint(record: logging.LogRecord) -> bool:
    return "context_fn" not in record.getMessage()


class _Uncompiled:
    """Threads that run compiled models uncompiled: the compiler has one switch for all, which the last turns back."""

    def __init__(self) -> None:
        self.lock, self.threads, self.switch = Lock(), 0, ExitStack()

    def enter(self) -> None:
        with self.lock:
            if not self.threads:
                self.switch.enter_context(torch.compiler.set_stance("force_eager"))
            self.threads += 1

    def leave(self) -> None:
        with self.lock:
            self.threads -= 1
            if not self.threads:
                self.switch.close()


_UNCOMPILED = _Uncompiled()


@contextmanager
def uncompiled() -> Iterator[None]:
    """Run compiled models uncompiled while inside, in any number of threads at once."""
    _UNCOMPILED.enter()
    try:
        yield
    finally:
        _UNCOMPILED.leave()


def compile_for_many_shapes() -> None:
    """Let the compiler treat two sizes that are equal in one batch as different, and floats as constants.

    Else it compiles more often: for other sizes, and a second time for each float that no tensor can stand for.
    """
    for module, setting, value in (
        ("torch.fx.experimental._config", "use_duck_shape", False),
        ("torch._dynamo.config", "specialize_float", True),
    ):
        try:
            setattr(importlib.import_module(module), setting, value)
        except (ImportError, AttributeError):
            continue


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


def has_scaled_mm(kind: str, index: int | None) -> bool:
    """Whether a device multiplies 8-bit floats: a GPU of compute capability 8.9 or more, a CPU with a kernel."""
    if not hasattr(torch, "_scaled_mm"):
        return False
    if kind == "cuda":
        return torch.version.cuda is not None and torch.cuda.get_device_capability(index) >= FLOAT8_CAPABILITY
    known = getattr(torch._C, "_dispatch_has_kernel_for_dispatch_key", None)
    return kind == "cpu" and known is not None and bool(known("aten::_scaled_mm", "CPU"))


# The compiler, which cannot look into it, asks once. `torch.compiler.assume_constant_result` would load all of it.
has_scaled_mm._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


def scaled_mm(
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    dtype: torch.dtype,
    bias: Tensor | None = None,
    fast: bool = False,
) -> Tensor:
    """The product of two matrices of 8-bit floats times their scales, a by rows and b by columns in memory.

    `fast` sums with fewer bits, which is enough forward.
    """
    inside = None if bias is None or dtype == torch.float32 else bias.to(dtype)  # no kernel adds it in float32
    y: Tensor = getattr(torch, "_scaled_mm")(  # noqa: B009 - checkers do not know it
        a, b, a_scale, b_scale, bias=inside, out_dtype=dtype, use_fast_accum=fast
    )
    return y if bias is None or inside is not None else y + bias
