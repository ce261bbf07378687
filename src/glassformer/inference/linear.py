"""Linear layers for inference: weights packed once for the CPU, or quantized to eight or four bits."""

import warnings

import torch
from torch import Tensor, nn
from torch.nn import functional

from glassformer.equation import MODE
from glassformer.equations.algebra import add, linear
from glassformer.equations.quantization import int4_linear, int8_linear, pack_nibbles, quantize_rows
from glassformer.onednn import onednn_is_faster, onednn_linear

# the kernel itself: its wrapper checks for tracing at every call, which costs as much as a small product
_ROUNDED_LINEAR = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default._op
# inputs are quantized to seven bits, −63 to 63 around 64: with eight, pairs of products overflow without AVX-512
_LEVELS, _ZERO = 63, 64
_SMALLEST = torch.finfo(torch.float32).tiny
_MKL = torch.backends.mkl.is_available()
LEAST_WEIGHTS = 2**16  # of a layer: with fewer, finding oneDNN's kernel takes longer than it saves
GROUP_SIZE = 32  # inputs that share a scale at four bits; all of them where it does not divide their number


class PackedLinear(nn.Module):
    """A linear layer whose weights are laid out for the CPU once instead of at every call, with the same results.

    MKL packs weights for a number of rows; it happens on the second call in a row with the same number. Where oneDNN
    is faster, it takes over on that call, since it keeps a kernel for every number of rows.
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        large = weight.is_cpu and weight.dtype == torch.float32 and weight.numel() >= LEAST_WEIGHTS
        self._onednn = large and onednn_is_faster()
        # [outputs, inputs] in memory, viewed as [inputs, outputs]: each output reads contiguous weights
        self.register_buffer("weight", weight.contiguous() if self._onednn else weight.T.contiguous().T)
        self.register_buffer("bias", bias)
        self._rows = 0
        self._pack: Tensor | None = None
        self._aligned: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Map the last axis."""
        if not x.is_cpu and torch.compiler.is_compiling() and self.bias is not None:
            # without the bias, the compiler turns a product with one row into a kernel and fuses what follows
            return add(linear(x, self.weight), self.bias)
        packable = _MKL and x.is_cpu and x.dtype == torch.float32
        if not packable or MODE.dispatcher is not None or torch.compiler.is_compiling():
            return linear(x, self.weight, self.bias)
        rows = x.numel() // x.shape[-1]
        if rows != self._rows:
            self._rows, self._pack = rows, None
            return linear(x, self.weight, self.bias)
        if self._onednn:
            return onednn_linear(x, self.weight.T, self.bias)
        if rows <= 1:
            return linear(x, self.weight, self.bias)
        if self._pack is None:
            self._pack = torch.ops.mkl._mkl_reorder_linear_weight(self.weight.T, rows)
        return torch.ops.mkl._mkl_linear(x, self._pack, self.weight.T, self.bias, rows)

    def aligned(self) -> Tensor:
        """Weights [outputs, inputs] padded to a multiple of eight outputs, for which GPUs have fast products."""
        rows, known = self.weight.T, self._aligned
        if len(rows) % 8 == 0:
            return rows
        if known is None or (known.device, known.dtype) != (rows.device, rows.dtype):
            self._aligned = known = functional.pad(rows, (0, 0, 0, -len(rows) % 8))
        return known


class Int8Linear(nn.Module):
    """A linear layer with int8 weights; on a CPU, without a tape, inputs are quantized to seven bits.

    Each row of inputs has its own scale, so no row depends on the others in its batch.
    """

    quantized: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        quantized, scales = quantize_rows(weight.T, 127)
        self.register_buffer("quantized", quantized.contiguous())
        self.register_buffer("scales", scales.squeeze(-1).to(weight.dtype))
        self.register_buffer("bias", bias)
        self._packed: object | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Map the last axis."""
        has_kernel = x.is_cpu and x.dtype == torch.float32
        if not has_kernel or MODE.dispatcher is not None or torch.compiler.is_compiling():
            return int8_linear(x, self.quantized, self.scales, self.bias)
        if self._packed is None:
            zeros = torch.zeros(len(self.scales), dtype=torch.long, device=self.scales.device)
            weight = self.quantized * self.scales[:, None]
            with warnings.catch_warnings():  # torch deprecates these tensors but has no other such kernel
                warnings.simplefilter("ignore")
                weight = torch.quantize_per_channel(weight, self.scales, zeros, 0, torch.qint8)
            self._packed = torch.ops.quantized.linear_prepack(weight, None)
        peaks = torch.linalg.vector_norm(x, torch.inf, -1, True).clamp_min_(_SMALLEST)
        y = _ROUNDED_LINEAR(x / peaks, 1 / _LEVELS, _ZERO, self._packed).mul_(peaks)
        return y if self.bias is None else y.add_(self.bias)


class Int4Linear(nn.Module):
    """A linear layer with int4 weights and a scale for each group of inputs."""

    quantized: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self._odd = len(weight) % 2  # two weights share a byte: an input that is always zero makes their number even
        weight = functional.pad(weight, (0, 0, 0, self._odd))
        groups = max(1, len(weight) // GROUP_SIZE) if len(weight) % GROUP_SIZE == 0 else 1
        quantized, scales = quantize_rows(weight.T.unflatten(-1, (groups, -1)), 7)
        self.register_buffer("quantized", pack_nibbles(quantized.flatten(-2)).contiguous())
        self.register_buffer("scales", scales.squeeze(-1).to(weight.dtype).contiguous())
        self.register_buffer("bias", bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map the last axis."""
        x = functional.pad(x, (0, 1)) if self._odd else x
        return int4_linear(x, self.quantized, self.scales, self.bias)
