# pyright: basic, reportMissingImports=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false, reportGeneralTypeIssues=false
"""Kernels for a step of one row a text, on CUDA: at one row all time goes into reading weights and starting kernels.

So each kernel does all that touches its numbers: a product takes in the norm before it and the activation, the gate
and the residual after it; attention turns its query and key, keeps what is new and looks at all that is kept.
Sums are kept in float32 whatever the type of the numbers. Where the device can (from compute capability 9 on), a
kernel starts while the one before it still runs, fetches its first weights, and waits for the rest.
"""

from functools import cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

UNBENT, GELU, GELU_TANH, SILU, RELU = range(5)  # activations
EARLY_BYTES = 2**25  # of weights: reading more takes so long that the start of a kernel does not matter
PROGRAMS = 1024  # that keep a GPU busy: few texts are looked at in several stretches at once
SCORES_EACH = 2048  # scores that one program of a choice looks through


class Norm(NamedTuple):
    """A norm before a product: its scale, its shift where rows are centred first, and its epsilon."""

    weight: Tensor
    bias: Tensor | None
    eps: float


class Weights(NamedTuple):
    """Weights [outputs, inputs], eight-bit ones with a scale for each output, and a shift."""

    rows: Tensor
    scales: Tensor | None
    bias: Tensor | None


class Turn(NamedTuple):
    """A rotary turn: frequencies of the pairs, whether pairs are neighbours, what rows are multiplied with after."""

    frequencies: Tensor
    adjacent: bool
    temperature: float


@cache
def _early(device: torch.device) -> dict[str, bool]:
    """How to start a kernel before the one before it has ended, where that is possible."""
    known = device.type == "cuda" and torch.version.hip is None and hasattr(tl.extra.cuda, "gdc_wait")
    return {"launch_pdl": True} if known and torch.cuda.get_device_capability(device) >= (9, 0) else {}


@triton.jit
def _take_turn(EARLY: tl.constexpr):
    """Let the next kernel start, and wait for what those before this one write."""
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()


@triton.jit
def _bent(z, activation: tl.constexpr):
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
def _moments(x, eps, inputs: tl.constexpr, CENTRED: tl.constexpr, BK: tl.constexpr):
    """The mean that a norm takes off a row, and what it multiplies the rest with."""
    mean = 0.0
    if CENTRED:
        sums = tl.zeros((BK,), dtype=tl.float32)
        for k in range(0, inputs, BK):
            cols = k + tl.arange(0, BK)
            sums += tl.load(x + cols, mask=cols < inputs, other=0.0).to(tl.float32)
        mean = tl.sum(sums, 0) / inputs
    squares = tl.zeros((BK,), dtype=tl.float32)
    for k in range(0, inputs, BK):
        cols = k + tl.arange(0, BK)
        apart = tl.load(x + cols, mask=cols < inputs, other=0.0).to(tl.float32) - mean
        squares += tl.where(cols < inputs, apart * apart, 0.0)
    return mean, 1 / tl.sqrt(tl.sum(squares, 0) / inputs + eps)


@triton.jit
def _normed(row, gamma, beta, at, here, CENTRED: tl.constexpr):
    row *= tl.load(gamma + at, mask=here, other=0.0).to(tl.float32)
    if CENTRED:
        row += tl.load(beta + at, mask=here, other=0.0).to(tl.float32)
    return row


@triton.jit
def _product(
    x, w, w_scales, b, u, u_scales, ub, past, gamma, beta, y, eps, outputs,
    inputs: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACTIVATION: tl.constexpr,
    SCALED: tl.constexpr, SHIFTED: tl.constexpr, GATED: tl.constexpr, PAST: tl.constexpr,
    NORMED: tl.constexpr, CENTRED: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    text = tl.program_id(0)  # neighbours read the same weights
    x += text * inputs
    rows, cols = tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    inside = rows < outputs
    there = rows[:, None].to(tl.int64) * inputs + cols[None, :]
    both = inside[:, None] & (cols < inputs)[None, :]
    if EARLY:  # these weights need not wait, what is read after them does
        tl.extra.cuda.gdc_launch_dependents()
        weights = tl.load(w + there, mask=both, other=0.0)
        tl.extra.cuda.gdc_wait()
    mean, unit = 0.0, 1.0
    if NORMED:
        mean, unit = _moments(x, eps, inputs, CENTRED, BK)
    sums = tl.zeros((BN, BK), dtype=tl.float32)
    gates = tl.zeros((BN, BK), dtype=tl.float32)
    for k in range(0, inputs, BK):
        at = k + cols
        row = tl.load(x + at, mask=at < inputs, other=0.0).to(tl.float32)
        if NORMED:
            row = _normed((row - mean) * unit, gamma, beta, at, at < inputs, CENTRED)
        both = inside[:, None] & (at < inputs)[None, :]
        if not EARLY:
            weights = tl.load(w + there + k, mask=both, other=0.0)
        sums += weights.to(tl.float32) * row[None, :]
        if GATED:
            gates += tl.load(u + there + k, mask=both, other=0.0).to(tl.float32) * row[None, :]
        if EARLY:
            weights = tl.load(w + there + k + BK, mask=inside[:, None] & (at + BK < inputs)[None, :], other=0.0)
    total = _finished(tl.sum(sums, 1), w_scales, b, rows, inside, SCALED, SHIFTED)
    total = _bent(total, ACTIVATION)
    if GATED:
        total *= _finished(tl.sum(gates, 1), u_scales, ub, rows, inside, SCALED, SHIFTED)
    if PAST:
        total += tl.load(past + text * outputs + rows, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + text * outputs + rows, total.to(y.dtype.element_ty), mask=inside)


@triton.jit
def _finished(total, scales, bias, rows, inside, SCALED: tl.constexpr, SHIFTED: tl.constexpr):
    if SCALED:
        total *= tl.load(scales + rows, mask=inside, other=0.0).to(tl.float32)
    if SHIFTED:
        total += tl.load(bias + rows, mask=inside, other=0.0).to(tl.float32)
    return total


def tiles(inputs: int, size: int) -> tuple[int, int, int]:
    """Outputs and inputs that one program takes at a time, and its warps, for numbers of so many bytes.

    The fastest of a dozen on an H200 for two bytes; others have as many bytes.
    """
    outputs, part, warps = 2, 256, 1
    if inputs > 1024:
        outputs, part, warps = (2, 2048, 8) if inputs % 2048 == 0 else (1, 1024, 4)
    return max(1, outputs * 2 // size), part, warps


def product(
    x: Tensor,
    weights: Weights,
    norm: Norm | None = None,
    activation: int = UNBENT,
    up: Weights | None = None,
    past: Tensor | None = None,
) -> Tensor:
    """Rows [texts, outputs]: past + activation(norm(x) weights) ⊙ (norm(x) up), of which only the product must be."""
    texts, inputs = x.shape
    outputs = len(weights.rows)
    y = torch.empty(texts, outputs, dtype=x.dtype, device=x.device)
    BN, BK, warps = tiles(inputs, weights.rows.element_size())
    other = weights if up is None else up
    gamma, beta, eps = (None, None, 0.0) if norm is None else norm
    given = (weights.rows, weights.scales, weights.bias, other.rows, other.scales, other.bias, past, gamma, beta)
    small = weights.rows.numel() * weights.rows.element_size() < EARLY_BYTES
    early = _early(x.device) if small else {}
    _product[(texts, triton.cdiv(outputs, BN))](
        x, *(x if tensor is None else tensor for tensor in given), y, eps, outputs, inputs, BN, BK, activation,
        weights.scales is not None, weights.bias is not None, up is not None, past is not None,
        norm is not None, beta is not None, bool(early), num_warps=warps, **early,
    )  # fmt: skip
    return y


@triton.jit
def _turned(
    pointer, frequencies, place, temperature, D: tl.constexpr, TURNED: tl.constexpr, ADJACENT: tl.constexpr
):  # fmt: skip
    """A row as it is, or turned by its place."""
    d = tl.arange(0, D)
    row = tl.load(pointer + d).to(tl.float32)
    if TURNED:
        pair, low, swap = d % (D // 2), d < D // 2, (d + D // 2) % D
        if ADJACENT:
            pair, low, swap = d // 2, d % 2 == 0, d + 1 - 2 * (d % 2)
        other = tl.load(pointer + swap).to(tl.float32)
        angle = tl.load(frequencies + pair).to(tl.float32) * place
        row = (row * tl.cos(angle) + tl.where(low, -other, other) * tl.sin(angle)) * temperature
    return row


@triton.jit
def _attend(
    every, keys, values, filled, padding, frequencies, parts, arrived, y, scale, temperature, slots,
    heads: tl.constexpr, groups: tl.constexpr, D: tl.constexpr, BS: tl.constexpr, SPLITS: tl.constexpr,
    PADDED: tl.constexpr, TURNED: tl.constexpr, ADJACENT: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """A stretch of what one head of one text sees; the first keeps the new row, the last to end joins them all."""
    _take_turn(EARLY)
    head, split, text = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    group = head // (heads // groups)
    d = tl.arange(0, D)
    count = tl.load(filled).to(tl.int32)
    first = 0
    if PADDED:
        first = tl.load(padding + text).to(tl.int32)
    every += text * (heads + 2 * groups) * D
    place = (count - first).to(tl.float32)
    q = _turned(every + head * D, frequencies, place, temperature, D, TURNED, ADJACENT) * scale
    base = (text * groups + group).to(tl.int64) * slots * D
    peak, total = tl.full((), -1e30, tl.float32), tl.full((), 0.0, tl.float32)
    mixed = tl.zeros((D,), dtype=tl.float32)
    if split == 0:
        k = _turned(every + (heads + group) * D, frequencies, place, temperature, D, TURNED, ADJACENT)
        v = tl.load(every + (heads + groups + group) * D + d)
        kept = k.to(keys.dtype.element_ty)
        if head % (heads // groups) == 0:  # one head of a group keeps it
            tl.store(keys + base + count * D + d, kept)
            tl.store(values + base + count * D + d, v)
        peak, mixed = tl.sum(q * kept.to(tl.float32), 0), v.to(tl.float32)
        total += 1.0
    stretch = tl.cdiv(tl.cdiv(count, SPLITS), BS) * BS
    for start in range(split * stretch, tl.minimum(count, (split + 1) * stretch), BS):
        at = start + tl.arange(0, BS)
        seen = (at < count) & (at >= first)
        there = base + at[:, None] * D + d[None, :]
        k_rows = tl.load(keys + there, mask=seen[:, None], other=0.0).to(tl.float32)
        v_rows = tl.load(values + there, mask=seen[:, None], other=0.0).to(tl.float32)
        scores = tl.where(seen, tl.sum(k_rows * q[None, :], 1), float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, 0))
        share, faded = tl.exp(scores - higher), tl.exp(peak - higher)
        mixed = mixed * faded + tl.sum(v_rows * share[:, None], 0)
        total = total * faded + tl.sum(share, 0)
        peak = higher
    _join(parts, arrived, y, text * heads + head, split, peak, total, mixed, D, SPLITS)


@triton.jit
def _join(parts, arrived, y, row, split, peak, total, mixed, D: tl.constexpr, SPLITS: tl.constexpr):
    """Leave a stretch's part where the others find it; who comes last weighs all parts and adds them up."""
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
    """Attention of one new row a text: queries, keys and values side by side in, mixed values out."""

    def __init__(self, texts: int, heads: int, width: int, device: torch.device) -> None:
        self.heads = heads
        self.splits = splits = min(8, triton.next_power_of_2(max(1, PROGRAMS // (texts * heads))))
        self.parts = torch.empty(texts * heads * splits * (width + 2), dtype=torch.float32, device=device)
        self.arrived = torch.zeros(texts * heads, dtype=torch.int32, device=device)

    def __call__(
        self, every: Tensor, keys: Tensor, values: Tensor, filled: Tensor, padding: Tensor | None,
        scale: float, turn: Turn | None,
    ) -> Tensor:  # fmt: skip
        """Rows [texts, heads · width]; keys and values [texts, groups, slots, width] take in the new ones."""
        texts, groups, slots, width = keys.shape
        y = torch.empty(texts, self.heads * width, dtype=every.dtype, device=every.device)
        frequencies, adjacent, temperature = (filled, False, 1.0) if turn is None else turn
        early = _early(every.device)
        _attend[(self.heads, self.splits, texts)](
            every, keys, values, filled, filled if padding is None else padding, frequencies, self.parts,
            self.arrived, y, scale, temperature, slots, self.heads, groups, width, max(16, 4096 // width), self.splits,
            padding is not None, turn is not None, adjacent, bool(early), num_warps=2, **early,
        )  # fmt: skip
        return y


@triton.jit
def _add_normed(
    x, change, bias, gamma, beta, y, h, eps,
    inputs: tl.constexpr, BK: tl.constexpr, SHIFTED: tl.constexpr, CENTRED: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    _take_turn(EARLY)
    at = tl.arange(0, BK)
    here, there = at < inputs, tl.program_id(0) * inputs + at
    total = tl.load(x + there, mask=here, other=0.0).to(tl.float32)
    total += _finished(tl.load(change + there, mask=here, other=0.0).to(tl.float32), x, bias, at, here, False, SHIFTED)
    kept = total.to(y.dtype.element_ty)
    tl.store(y + there, kept, mask=here)
    row = kept.to(tl.float32)
    if CENTRED:
        row = tl.where(here, row - tl.sum(row, 0) / inputs, 0.0)
    row *= 1 / tl.sqrt(tl.sum(row * row, 0) / inputs + eps)
    tl.store(h + there, _normed(row, gamma, beta, at, here, CENTRED).to(h.dtype.element_ty), mask=here)


def add_normed(x: Tensor, change: Tensor, bias: Tensor | None, norm: Norm) -> tuple[Tensor, Tensor]:
    """Rows [texts, dim] with what a block adds to them, x + change + bias, and a norm of that."""
    texts, dim = x.shape
    y, h, early = torch.empty_like(x), torch.empty_like(x), _early(x.device)
    BK = triton.next_power_of_2(dim)
    _add_normed[(texts,)](
        x, change, x if bias is None else bias, norm.weight, norm.weight if norm.bias is None else norm.bias, y, h,
        norm.eps, dim, BK, bias is not None, norm.bias is not None, bool(early),
        num_warps=min(8, max(1, BK // 256)), **early,
    )  # fmt: skip
    return y, h


@triton.jit
def _peaks(scores, peaks, places, totals, step, stride, vocab, portions, BLOCK: tl.constexpr, EARLY: tl.constexpr):
    _take_turn(EARLY)
    text, portion = tl.program_id(0), tl.program_id(1)
    if (text == 0) & (portion == 0):  # nobody else looks at it now
        tl.store(step, tl.load(step) + 1)
    at = portion * BLOCK + tl.arange(0, BLOCK)
    z = tl.load(scores + text * stride + at, mask=at < vocab, other=float("-inf")).to(tl.float32)
    peak = tl.max(z, 0)
    own = text * portions + portion
    tl.store(peaks + own, peak)
    tl.store(places + own, tl.minimum(portion * BLOCK + tl.argmax(z, 0), vocab - 1))  # whatever is not a number
    tl.store(totals + own, tl.sum(tl.exp(z - tl.maximum(peak, -1e30)), 0))


@triton.jit
def _choose(
    peaks, places, totals, step, next_ids, ids, log_p, seen, portions, room, before,
    BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    _take_turn(EARLY)
    text, p = tl.program_id(0), tl.arange(0, BLOCK)
    now = tl.load(step) - 1
    each = tl.load(peaks + text * portions + p, mask=p < portions, other=float("-inf"))
    peak, best = tl.max(each, 0), tl.minimum(tl.argmax(each, 0), portions - 1)
    total = tl.sum(tl.load(totals + text * portions + p, mask=p < portions, other=0.0) * tl.exp(each - peak), 0)
    chosen = tl.load(places + text * portions + best).to(tl.int64)
    tl.store(next_ids + text, chosen)
    tl.store(ids + text * room + now, chosen)
    tl.store(seen + text * (before + room) + before + now, chosen)
    tl.store(log_p + text * room + now, -tl.log(total))


def write_likeliest(
    scores: Tensor, step: Tensor, next_ids: Tensor, ids: Tensor, log_probabilities: Tensor, seen: Tensor
) -> None:
    """Choose the likeliest token of each row of scores [texts, vocab], the first of equals, and write it down.

    It becomes the next id [texts, 1], is put with its log-probability into column `step` of `ids` and
    `log_probabilities` [texts, room] and as far into the last columns of `seen`; then `step` is one more.
    """
    (texts, vocab), room, early = scores.shape, ids.shape[1], _early(scores.device)
    portions = triton.cdiv(vocab, SCORES_EACH)
    peaks, totals = (torch.empty(texts, portions, dtype=torch.float32, device=scores.device) for _ in range(2))
    places = torch.empty(texts, portions, dtype=torch.int32, device=scores.device)
    _peaks[(texts, portions)](
        scores, peaks, places, totals, step, scores.stride(0), vocab, portions, SCORES_EACH, bool(early), **early
    )
    _choose[(texts,)](
        peaks, places, totals, step, next_ids, ids, log_probabilities, seen, portions, room,
        seen.shape[1] - room, triton.next_power_of_2(portions), bool(early), **early,
    )  # fmt: skip
