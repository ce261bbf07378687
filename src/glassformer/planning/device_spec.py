"""A device as a plan knows it: memory, bandwidth, peak rates and the fractions of them that kernels reach."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class KernelRates:
    """What single kernels of a CPU were measured to do in a dtype, which can be far from its peaks.

    `attention` is the operations per second of fused attention with many keys, `few_keys` the keys at which it reaches
    half of them, `sums` the bytes per second of sums over rows. A product takes `product_start` seconds beyond those of
    its operations, and a kernel `kernel_start` seconds longer in a training step than alone.
    """

    attention: float = math.inf
    few_keys: float = 0.0
    sums: float = math.inf
    product_start: float = 0.0
    kernel_start: float = 0.0


NONE = KernelRates()  # of a device whose kernels reach the fractions of its peaks


@dataclass(frozen=True, kw_only=True)
class DeviceSpec:
    """What a device can do. Rates are operations per second by dtype, bandwidths bytes per second, memory bytes.

    `achievable` is the fraction of the peak rate that large matrix products reach, `attention` that of fused
    attention kernels, `bandwidth_fraction` and `pointwise` those of the bandwidth that products and copies, and
    fused elementwise kernels reach. `launch` is the seconds that starting a kernel takes on the device, `dispatch`
    those of a call from Python, which matter where nothing is compiled, and `cold_dispatch` those where weights
    that no cache holds are read between two calls, as in decoding on a CPU (as `dispatch` if it is 0). `functions`
    are exponentials and the like per second, `first_touch` the bytes per second that are written into memory which
    the system hands out anew, as on a CPU for large tensors. `kernels` were measured by dtype. `price` is US
    dollars per hour at the date `checked`, 0 where it is not rented.
    """

    name: str
    kind: str
    memory: float
    bandwidth: float
    peaks: Mapping[str, float]
    interconnect: float = 0.0
    power: float = 0.0
    price: float = 0.0
    achievable: float = 0.76
    attention: float = 0.275
    bandwidth_fraction: float = 0.88
    pointwise: float = 0.66
    launch: float = 3e-6
    dispatch: float = 40e-6
    cold_dispatch: float = 0.0
    functions: float = math.inf
    first_touch: float = math.inf
    kernels: Mapping[str, KernelRates] = field(default_factory=dict)
    source: str = ""
    checked: str = ""

    def peak(self, dtype: str) -> float:
        """Operations per second of a dtype at the device's peak; float32 where the dtype has no faster units."""
        return self.peaks.get(dtype, self.peaks["float32"])

    def matmul_rate(self, dtype: str) -> float:
        """Operations per second that large matrix products reach."""
        return self.achievable * self.peak(dtype)

    def kernels_of(self, dtype: str) -> KernelRates:
        """What single kernels were measured to do, if they were."""
        return self.kernels.get(dtype, NONE)

    def attention_rate(self, dtype: str, keys: float) -> float:
        """Operations per second that fused attention reaches over this many keys."""
        found = self.kernels_of(dtype)
        most = self.attention * self.peak(dtype) if math.isinf(found.attention) else found.attention
        return most / (1 + found.few_keys / max(keys, 1.0))

    def start(self, dtype: str) -> float:
        """Seconds that every kernel takes to begin."""
        return self.launch + self.kernels_of(dtype).kernel_start

    @property
    def copy_rate(self) -> float:
        """Bytes per second that copies reach: as products, or on a CPU, where those read slower, as other kernels."""
        return max(self.bandwidth_fraction, self.pointwise) * self.bandwidth

    @property
    def compiles(self) -> bool:
        """Whether training compiles the model there by default."""
        return self.kind == "cuda"
