# pyright: basic, reportMissingImports=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false, reportGeneralTypeIssues=false
"""Triton kernels for decoding one token per text, where all time goes into reading weights and launching kernels.

Each kernel fuses several equations: a product takes in the norm before it and the activation, gate and residual after
it; attention applies rotary embeddings, appends to the KV cache and attends to all of it. Sums are float32 for every
dtype. From compute capability 9 on, programmatic dependent launch starts a kernel while the one before it still runs.
"""

from functools import cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

IDENTITY, GELU, GELU_TANH, SILU, RELU = range(5)  # activations
EARLY_BYTES = 2**25  # of weights: reading more takes so long that launch time does not matter
PROGRAMS = 1024  # enough to keep a GPU busy: with few texts, keys are split among several programs
LOGITS_PER_PROGRAM = 2048


class Norm(NamedTuple):
    """A norm before a product: its weight, its bias for layer norm (None for RMS norm), and its epsilon."""

    weight: Tensor
    bias: Tensor | None
    eps: float


class Weights(NamedTuple):
    """Weights [outputs, inputs], int8 ones with a scale for each output, and a bias."""

    rows: Tensor
    scales: Tensor | None
    bias: Tensor | None


class Rotation(NamedTuple):
    """Rotary embedding: a frequency for each pair, whether pairs are adjacent, and a factor on the result."""

    frequencies: Tensor
    adjacent: bool
    temperature: float


@cache
def _launch_options(device: torch.device) -> dict[str, bool]:
    """Launch options for programmatic dependent launch, where the device has it."""
    known = device.type == "cuda" and torch.version.hip is None and hasattr(tl.extra.cuda, "gdc_wait")
    return {"launch_pdl": True} if known and torch.cuda.get_device_capability(device) >= (9, 0) else {}


@triton.jit
def _wait_for_inputs(EARLY: tl.constexpr):
    """Let the next kernel launch, and wait for the results of those before this one."""
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()


@triton.jit
def _activate(z, activation: tl.constexpr):
    if activation == 1:
        z = 0.5 * z * (1 + tl.erf(z * 0.7071067811865476))
    elif activation == 2:
        z = z * tl.sigmoid(1.5957691216057308 * (z + 0.044715 * z * z * z))
    elif activation == 3:
        z = z * tl.sigmoid(z)
    elif activation == 4:
        z = tl.maximum(z, 0.0)
    return z


@triton.jit
def _moments(x, eps, inputs: tl.constexpr, CENTERED: tl.constexpr, BK: tl.constexpr):
    """The mean that a norm subtracts from a row, and the factor on the difference."""
    mean = 0.0
    if CENTERED:
        sums = tl.zeros((BK,), dtype=tl.float32)
        for k in range(0, inputs, BK):
            cols = k + tl.arange(0, BK)
            sums += tl.load(x + cols, mask=cols < inputs, other=0.0).to(tl.float32)
        mean = tl.sum(sums, 0) / inputs
    squares = tl.zeros((BK,), dtype=tl.float32)
    for k in range(0, inputs, BK):
        cols = k + tl.arange(0, BK)
        centered = tl.load(x + cols, mask=cols < inputs, other=0.0).to(tl.float32) - mean
        squares += tl.where(cols < inputs, centered * centered, 0.0)
    return mean, 1 / tl.sqrt(tl.sum(squares, 0) / inputs + eps)


@triton.jit
def _affine(row, gamma, beta, at, here, CENTERED: tl.constexpr):
    row *= tl.load(gamma + at, mask=here, other=0.0).to(tl.float32)
    if CENTERED:
        row += tl.load(beta + at, mask=here, other=0.0).to(tl.float32)
    return row


@triton.jit
def _product(
    x, w, w_scales, b, u, u_scales, ub, residual, gamma, beta, y, eps, outputs,
    inputs: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACTIVATION: tl.constexpr,
    SCALES: tl.constexpr, BIASED: tl.constexpr, GATE: tl.constexpr, RESIDUAL: tl.constexpr,
    NORM: tl.constexpr, CENTERED: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    text = tl.program_id(0)  # adjacent programs read the same weights
    x += text * inputs
    rows, cols = tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    inside = rows < outputs
    there = rows[:, None].to(tl.int64) * inputs + cols[None, :]
    both = inside[:, None] & (cols < inputs)[None, :]
    if EARLY:  # weights do not depend on the kernel before, everything else does
        tl.extra.cuda.gdc_launch_dependents()
        weights = tl.load(w + there, mask=both, other=0.0)
        tl.extra.cuda.gdc_wait()
    mean, unit = 0.0, 1.0
    if NORM:
        mean, unit = _moments(x, eps, inputs, CENTERED, BK)
    sums = tl.zeros((BN, BK), dtype=tl.float32)
    gates = tl.zeros((BN, BK), dtype=tl.float32)
    for k in range(0, inputs, BK):
        at = k + cols
        row = tl.load(x + at, mask=at < inputs, other=0.0).to(tl.float32)
        if NORM:
            row = _affine((row - mean) * unit, gamma, beta, at, at < inputs, CENTERED)
        both = inside[:, None] & (at < inputs)[None, :]
        if not EARLY:
            weights = tl.load(w + there + k, mask=both, other=0.0)
        sums += weights.to(tl.float32) * row[None, :]
        if GATE:
            gates += tl.load(u + there + k, mask=both, other=0.0).to(tl.float32) * row[None, :]
        if EARLY:
            weights = tl.load(w + there + k + BK, mask=inside[:, None] & (at + BK < inputs)[None, :], other=0.0)
    total = _scale_and_bias(tl.sum(sums, 1), w_scales, b, rows, inside, SCALES, BIASED)
    total = _activate(total, ACTIVATION)
    if GATE:
        total *= _scale_and_bias(tl.sum(gates, 1), u_scales, ub, rows, inside, SCALES, BIASED)
    if RESIDUAL:
        total += tl.load(residual + text * outputs + rows, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + text * outputs + rows, total.to(y.dtype.element_ty), mask=inside)


@triton.jit
def _scale_and_bias(total, scales, bias, rows, inside, SCALES: tl.constexpr, BIASED: tl.constexpr):
    if SCALES:
        total *= tl.load(scales + rows, mask=inside, other=0.0).to(tl.float32)
    if BIASED:
        total += tl.load(bias + rows, mask=inside, other=0.0).to(tl.float32)
    return total


def tiles(inputs: int, size: int) -> tuple[int, int, int]:
    """Outputs and inputs in a tile, and warps, for weights of `size` bytes: the fastest measured on an H200."""
    outputs, part, warps = 2, 256, 1
    if inputs > 1024:
        outputs, part, warps = (2, 2048, 8) if inputs % 2048 == 0 else (1, 1024, 4)
    return max(1, outputs * 2 // size), part, warps


def product(
    x: Tensor,
    weights: Weights,
    norm: Norm | None = None,
    activation: int = IDENTITY,
    up: Weights | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """Rows [texts, outputs]: residual + activation(norm(x) weights) ⊙ (norm(x) up), all but the product optional."""
    texts, inputs = x.shape
    outputs = len(weights.rows)
    y = torch.empty(texts, outputs, dtype=x.dtype, device=x.device)
    BN, BK, warps = tiles(inputs, weights.rows.element_size())
    other = weights if up is None else up
    gamma, beta, eps = (None, None, 0.0) if norm is None else norm
    given = (weights.rows, weights.scales, weights.bias, other.rows, other.scales, other.bias, residual, gamma, beta)
    small = weights.rows.numel() * weights.rows.element_size() < EARLY_BYTES
    early = _launch_options(x.device) if small else {}
    _product[(texts, triton.cdiv(outputs, BN))](
        x, *(x if tensor is None else tensor for tensor in given), y, eps, outputs, inputs, BN, BK, activation,
        weights.scales is not None, weights.bias is not None, up is not None, residual is not None,
        norm is not None, beta is not None, bool(early), num_warps=warps, **early,
    )  # fmt: skip
    return y


@triton.jit
def _rotate(
    pointer, frequencies, position, temperature, D: tl.constexpr, ROTATE: tl.constexpr, ADJACENT: tl.constexpr
):  # fmt: skip
    """A head's row, with the rotary embedding of its position where there is one."""
    d = tl.arange(0, D)
    row = tl.load(pointer + d).to(tl.float32)
    if ROTATE:
        pair, low, swap = d % (D // 2), d < D // 2, (d + D // 2) % D
        if ADJACENT:
            pair, low, swap = d // 2, d % 2 == 0, d + 1 - 2 * (d % 2)
        other = tl.load(pointer + swap).to(tl.float32)
        angle = tl.load(frequencies + pair).to(tl.float32) * position
        row = (row * tl.cos(angle) + tl.where(low, -other, other) * tl.sin(angle)) * temperature
    return row


@triton.jit
def _attend(
    qkv, keys, values, length, padding, frequencies, parts, arrived, y, scale, temperature, slots,
    heads: tl.constexpr, kv_heads: tl.constexpr, D: tl.constexpr, BS: tl.constexpr, SPLITS: tl.constexpr,
    PADDING: tl.constexpr, ROTATE: tl.constexpr, ADJACENT: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """One head of one text over a split of the keys; the first split appends to the cache, the last joins them."""
    _wait_for_inputs(EARLY)
    head, split, text = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    kv_head = head // (heads // kv_heads)
    d = tl.arange(0, D)
    count = tl.load(length).to(tl.int32)
    first = 0
    if PADDING:
        first = tl.load(padding + text).to(tl.int32)
    qkv += text * (heads + 2 * kv_heads) * D
    position = (count - first).to(tl.float32)
    q = _rotate(qkv + head * D, frequencies, position, temperature, D, ROTATE, ADJACENT) * scale
    base = (text * kv_heads + kv_head).to(tl.int64) * slots * D
    peak, total = tl.full((), -1e30, tl.float32), tl.full((), 0.0, tl.float32)
    mixed = tl.zeros((D,), dtype=tl.float32)
    if split == 0:
        k = _rotate(qkv + (heads + kv_head) * D, frequencies, position, temperature, D, ROTATE, ADJACENT)
        v = tl.load(qkv + (heads + kv_heads + kv_head) * D + d)
        key = k.to(keys.dtype.element_ty)
        if head % (heads // kv_heads) == 0:  # one query head of each group writes
            tl.store(keys + base + count * D + d, key)
            tl.store(values + base + count * D + d, v)
        peak, mixed = tl.sum(q * key.to(tl.float32), 0), v.to(tl.float32)
        total += 1.0
    split_size = tl.cdiv(tl.cdiv(count, SPLITS), BS) * BS
    for start in range(split * split_size, tl.minimum(count, (split + 1) * split_size), BS):
        at = start + tl.arange(0, BS)
        visible = (at < count) & (at >= first)
        there = base + at[:, None] * D + d[None, :]
        k_rows = tl.load(keys + there, mask=visible[:, None], other=0.0).to(tl.float32)
        v_rows = tl.load(values + there, mask=visible[:, None], other=0.0).to(tl.float32)
        scores = tl.where(visible, tl.sum(k_rows * q[None, :], 1), float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, 0))
        weights, decay = tl.exp(scores - higher), tl.exp(peak - higher)
        mixed = mixed * decay + tl.sum(v_rows * weights[:, None], 0)
        total = total * decay + tl.sum(weights, 0)
        peak = higher
    _join(parts, arrived, y, text * heads + head, split, peak, total, mixed, D, SPLITS)


@triton.jit
def _join(parts, arrived, y, row, split, peak, total, mixed, D: tl.constexpr, SPLITS: tl.constexpr):
    """Store a split's part where the others find it; the last split to arrive adds all parts up."""
    d, s = tl.arange(0, D), tl.arange(0, SPLITS)
    own = parts + (row * SPLITS + split) * (D + 2)
    tl.store(own + d, mixed)
    tl.store(own + D, peak)
    tl.store(own + D + 1, total)
    tl.debug_barrier()
    if tl.atomic_add(arrived + row, 1, sem="acq_rel") == SPLITS - 1:
        each = parts + (row * SPLITS + s) * (D + 2)
        peaks = tl.load(each + D, cache_modifier=".cg")
        weights = tl.exp(peaks - tl.max(peaks, 0))
        whole = tl.sum(weights * tl.load(each + D + 1, cache_modifier=".cg"), 0)
        rows = tl.load(each[:, None] + d[None, :], cache_modifier=".cg")
        tl.store(y + row * D + d, (tl.sum(rows * weights[:, None], 0) / whole).to(y.dtype.element_ty))
        tl.store(arrived + row, 0)


class Attend:
    """Attention of one new token per text: queries, keys and values side by side in, weighted sums of values out."""

    def __init__(self, texts: int, heads: int, head_dim: int, device: torch.device) -> None:
        self.heads = heads
        self.splits = splits = min(8, triton.next_power_of_2(max(1, PROGRAMS // (texts * heads))))
        self.parts = torch.empty(texts * heads * splits * (head_dim + 2), dtype=torch.float32, device=device)
        self.arrived = torch.zeros(texts * heads, dtype=torch.int32, device=device)

    def __call__(
        self, qkv: Tensor, keys: Tensor, values: Tensor, length: Tensor, padding: Tensor | None,
        scale: float, rotation: Rotation | None,
    ) -> Tensor:  # fmt: skip
        """Rows [texts, heads · head_dim]; the new key and value go into a cache [texts, kv_heads, slots, head_dim]."""
        texts, kv_heads, slots, head_dim = keys.shape
        y = torch.empty(texts, self.heads * head_dim, dtype=qkv.dtype, device=qkv.device)
        frequencies, adjacent, temperature = (length, False, 1.0) if rotation is None else rotation
        early, block = _launch_options(qkv.device), max(16, 4096 // head_dim)
        _attend[(self.heads, self.splits, texts)](
            qkv, keys, values, length, length if padding is None else padding, frequencies, self.parts, self.arrived, y,
            scale, temperature, slots, self.heads, kv_heads, head_dim, block, self.splits,
            padding is not None, rotation is not None, adjacent, bool(early), num_warps=2, **early,
        )  # fmt: skip
        return y


@triton.jit
def _add_norm(
    x, change, bias, gamma, beta, y, h, eps,
    inputs: tl.constexpr, BK: tl.constexpr, BIASED: tl.constexpr, CENTERED: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    _wait_for_inputs(EARLY)
    at = tl.arange(0, BK)
    here, there = at < inputs, tl.program_id(0) * inputs + at
    total = tl.load(x + there, mask=here, other=0.0).to(tl.float32)
    added = tl.load(change + there, mask=here, other=0.0).to(tl.float32)
    total += _scale_and_bias(added, x, bias, at, here, False, BIASED)
    rounded = total.to(y.dtype.element_ty)
    tl.store(y + there, rounded, mask=here)
    row = rounded.to(tl.float32)
    if CENTERED:
        row = tl.where(here, row - tl.sum(row, 0) / inputs, 0.0)
    row *= 1 / tl.sqrt(tl.sum(row * row, 0) / inputs + eps)
    tl.store(h + there, _affine(row, gamma, beta, at, here, CENTERED).to(h.dtype.element_ty), mask=here)


def add_norm(x: Tensor, change: Tensor, bias: Tensor | None, norm: Norm) -> tuple[Tensor, Tensor]:
    """The residual stream x + change + bias [texts, dim], and its norm."""
    texts, dim = x.shape
    y, h, early = torch.empty_like(x), torch.empty_like(x), _launch_options(x.device)
    BK = triton.next_power_of_2(dim)
    _add_norm[(texts,)](
        x, change, x if bias is None else bias, norm.weight, norm.weight if norm.bias is None else norm.bias, y, h,
        norm.eps, dim, BK, bias is not None, norm.bias is not None, bool(early),
        num_warps=min(8, max(1, BK // 256)), **early,
    )  # fmt: skip
    return y, h


@triton.jit
def _partial_argmax(
    logits, peaks, argmaxes, totals, step, stride, vocab, parts, BLOCK: tl.constexpr, EARLY: tl.constexpr
):  # fmt: skip
    _wait_for_inputs(EARLY)
    text, part = tl.program_id(0), tl.program_id(1)
    if (text == 0) & (part == 0):  # no other program reads it in this kernel
        tl.store(step, tl.load(step) + 1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    z = tl.load(logits + text * stride + at, mask=at < vocab, other=float("-inf")).to(tl.float32)
    peak = tl.max(z, 0)
    own = text * parts + part
    tl.store(peaks + own, peak)
    tl.store(argmaxes + own, tl.minimum(part * BLOCK + tl.argmax(z, 0), vocab - 1))  # an id even if all are NaN
    tl.store(totals + own, tl.sum(tl.exp(z - tl.maximum(peak, -1e30)), 0))


@triton.jit
def _write_argmax(
    peaks, argmaxes, totals, step, next_ids, ids, log_p, seen, parts, max_tokens, width,
    BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    _wait_for_inputs(EARLY)
    text, p = tl.program_id(0), tl.arange(0, BLOCK)
    now = tl.load(step) - 1
    each = tl.load(peaks + text * parts + p, mask=p < parts, other=float("-inf"))
    peak, best = tl.max(each, 0), tl.minimum(tl.argmax(each, 0), parts - 1)
    total = tl.sum(tl.load(totals + text * parts + p, mask=p < parts, other=0.0) * tl.exp(each - peak), 0)
    chosen = tl.load(argmaxes + text * parts + best).to(tl.int64)
    tl.store(next_ids + text, chosen)
    tl.store(ids + text * max_tokens + now, chosen)
    tl.store(seen + text * (width + max_tokens) + width + now, chosen)
    tl.store(log_p + text * max_tokens + now, -tl.log(total))


def write_argmax(
    logits: Tensor, step: Tensor, next_ids: Tensor, ids: Tensor, log_probabilities: Tensor, seen: Tensor
) -> None:
    """Write the argmax of each row of logits [texts, vocab], the first of equals, into the buffers of a step.

    It becomes the next id [texts, 1] and goes with its log-probability into column `step` of `ids` and
    `log_probabilities` [texts, max_tokens] and of the last columns of `seen`; then `step` advances by one.
    """
    (texts, vocab), max_tokens, early = logits.shape, ids.shape[1], _launch_options(logits.device)
    parts = triton.cdiv(vocab, LOGITS_PER_PROGRAM)
    peaks, totals = (torch.empty(texts, parts, dtype=torch.float32, device=logits.device) for _ in range(2))
    argmaxes = torch.empty(texts, parts, dtype=torch.int32, device=logits.device)
    _partial_argmax[(texts, parts)](
        logits, peaks, argmaxes, totals, step, logits.stride(0), vocab, parts, LOGITS_PER_PROGRAM, bool(early), **early
    )
    _write_argmax[(texts,)](
        peaks, argmaxes, totals, step, next_ids, ids, log_probabilities, seen, parts, max_tokens,
        seen.shape[1] - max_tokens, triton.next_power_of_2(parts), bool(early), **early,
    )  # fmt: skip
