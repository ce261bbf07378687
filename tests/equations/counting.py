"""Count floating-point operations as they happen, independently of any formula.

One per output number for arithmetic, one per input number for reductions, two per multiply-add of a
matrix product; moving, comparing and choosing numbers is free.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

ELEMENTWISE = frozenset(
    """
abs add clamp clamp_max clamp_min cos cumsum div erf exp exp2 expm1 floor log log1p log2 maximum minimum mul
neg pow reciprocal rsqrt rsub sigmoid sign sin softplus sqrt square sub tanh
""".split()
)
REDUCTIONS = frozenset(
    """
amax amin logsumexp mean prod sum
""".split()
)
FREE = frozenset(
    """
_local_scalar_dense _to_copy _unsafe_view alias all any arange argmax argsort as_strided bernoulli bitwise_and
bitwise_not bitwise_or bitwise_xor cat clone constant_pad_nd copy copy_ cummax detach diagonal embedding empty
empty_like eq expand eye fill_ flip floor_divide full full_like gather ge ge_ gt index index_put_ index_select
isfinite isinf isnan item le lift_fresh linspace logical_and logical_not multinomial logical_or lt masked_fill max ne
new_empty new_full new_ones new_zeros nonzero normal_ one_hot ones ones_like permute rand randn random_ remainder repeat
reshape scalar_tensor scatter scatter_ searchsorted select slice slice_backward sort split split_with_sizes squeeze
squeeze_ stack t topk transpose tril triu unbind unfold uniform_ unsqueeze unsqueeze_ view where zero_ zeros
zeros_like
""".split()
)


class Count(TorchDispatchMode):
    """Add up the operations of everything that runs inside."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    def __torch_dispatch__(
        self, func: Callable[..., object], types: object, args: tuple[object, ...] = (), kwargs: dict | None = None
    ) -> object:
        """Run the operation and add its count."""
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in ELEMENTWISE:
            self.flops += result.numel() if result.is_floating_point() else 0
        elif name in REDUCTIONS:
            self.flops += args[0].numel() if args[0].is_floating_point() else 0
        elif name in ("mm", "bmm"):
            self.flops += 2 * result.numel() * args[0].shape[-1]
        elif name in ("mv", "dot"):
            self.flops += 2 * args[0].numel()
        elif name == "_linalg_eigh":  # what LAPACK takes for all eigenvectors of a symmetric matrix
            self.flops += 9 * args[0].shape[-1] ** 3
        elif name not in FREE:
            raise LookupError(f"say in counting.py what {name} costs")
        return result


def count(fn: Callable[..., object], **arguments: object) -> int:
    """Operations of one call of a plain function."""
    with Count() as counter, torch.no_grad():
        fn(**arguments)
    return counter.flops


def is_float(value: object) -> bool:
    """Whether a value is a float tensor."""
    return isinstance(value, Tensor) and value.is_floating_point()
