"""Attention within short documents of packed rows by a Triton kernel, as one call for autograd and the compiler."""

import importlib
import importlib.util

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

KERNEL = importlib.util.find_spec("triton") is not None
LONGEST = 256  # tokens of a document: of a longer one the flash kernel shares the work between more programs
DIMS = (16, 32, 64, 128)  # of heads


def short_documents(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bounds: tuple[Tensor, Tensor],
    longest: int | None,
    causal: bool,
    scale: float | None,
    p: float,
) -> Tensor | None:
    """Attention of half precision on a GPU within documents of at most `longest` tokens, or None where it is not."""
    half = q.dtype in (torch.float16, torch.bfloat16)
    sizes = q.shape[1] == k.shape[1] and q.shape[-1] in DIMS and v.shape[-1] in DIMS
    if not (KERNEL and q.is_cuda and half and sizes) or longest is None or longest > LONGEST:
        return None
    c, e = (each.int().contiguous() for each in bounds)
    documents = [c, e] if p == 0 else [c, e, torch.randint(2**31 - 1, (1,), device=q.device)]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return _attention(*map(_dense, (q, k, v)), documents, longest, causal, scale, p)[0]


def _dense(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


# Of documents the operators take the bounds of queries and of keys, and where weights are dropped a seed.
@torch.library.custom_op("glassformer::document_attention", mutates_args=())
def _attention(
    q: Tensor, k: Tensor, v: Tensor, documents: list[Tensor], longest: int, causal: bool, scale: float, p: float
) -> tuple[Tensor, Tensor]:
    kernel = importlib.import_module("glassformer.equations.document_attention_kernel")
    return kernel.forward(q, k, v, kernel.DocumentBounds(documents, longest, causal, scale, p))


@_attention.register_fake
def _shapes(
    q: Tensor, k: Tensor, v: Tensor, documents: list[Tensor], longest: int, causal: bool, scale: float, p: float
) -> tuple[Tensor, Tensor]:
    return _token_by_token(q, v.shape[-1]), torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)


@torch.library.custom_op("glassformer::document_attention_backward", mutates_args=())
def _backward(
    o_bar: Tensor, saved: list[Tensor], documents: list[Tensor], longest: int, causal: bool, scale: float, p: float
) -> tuple[Tensor, Tensor, Tensor]:
    kernel = importlib.import_module("glassformer.equations.document_attention_kernel")
    return kernel.backward(_dense(o_bar), *saved, kernel.DocumentBounds(documents, longest, causal, scale, p))


@_backward.register_fake
def _gradient_shapes(
    o_bar: Tensor, saved: list[Tensor], documents: list[Tensor], longest: int, causal: bool, scale: float, p: float
) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = saved[:3]
    return _token_by_token(q, q.shape[-1]), _token_by_token(k, k.shape[-1]), _token_by_token(v, v.shape[-1])


def _token_by_token(like: Tensor, dim: int) -> Tensor:
    """Room for [batch, heads, seq, dim] with the heads of a token side by side, as a linear layer reads them."""
    batch, heads, tokens, _ = like.shape
    return like.new_empty(batch, tokens, heads, dim).transpose(1, 2)


Inputs = tuple[Tensor, Tensor, Tensor, list[Tensor], int, bool, float, float]


def _keep(ctx: FunctionCtx, inputs: Inputs, output: tuple[Tensor, Tensor]) -> None:
    q, k, v, documents, *settings = inputs
    ctx.save_for_backward(q, k, v, *output, *documents)
    ctx.settings = settings  # pyright: ignore[reportAttributeAccessIssue]


def _gradients(ctx: FunctionCtx, o_bar: Tensor, _: Tensor) -> tuple[Tensor | list[None] | None, ...]:
    saved, settings = ctx.saved_tensors, ctx.settings  # pyright: ignore[reportAttributeAccessIssue]
    documents = list(saved[5:])
    return *_backward(o_bar, list(saved[:5]), documents, *settings), [None] * len(documents), *[None] * 4


_attention.register_autograd(_gradients, setup_context=_keep)
