"""A device as a plan knows it: memory, bandwidth, peak rates and the fractions of them that kernels reach."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class DeviceSpec:
    """What a device can do. Rates are operations per second by dtype, bandwidths bytes per second, memory bytes.

    `achievable` is the fraction of the peak rate that large matrix products reach, `attention` that of fused attention
    kernels, `bandwidth_fraction` and `pointwise` those of the bandwidth that products and copies, and fused elementwise
    kernels reach. `launch` is the seconds that starting a kernel takes on the device, `dispatch` those of a call from
    Python, which matter where nothing is compiled. `functions` are exponentials and the like per second, `first_touch`
    the bytes per second that are written into memory which the system hands out anew, as on a CPU for large tensors.
    `attention_rates` and `sums` were measured by dtype: operations per second of fused attention, and bytes per second
    of sums over rows, for kernels of a CPU can be far from its peak. `price` is US dollars per hour at the date
    `checked`, 0 where it is not rented.
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
    functions: float = math.inf
    first_touch: float = math.inf
    attention_rates: Mapping[str, float] = field(default_factory=dict)
    sums: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    checked: str = ""

    def peak(self, dtype: str) -> float:
        """Operations per second of a dtype at the device's peak; float32 where the dtype has no faster units."""
        return self.peaks.get(dtype, self.peaks["float32"])

    def matmul_rate(self, dtype: str) -> float:
        """Operations per second that large matrix products reach."""
        return self.achievable * self.peak(dtype)

    def attention_rate(self, dtype: str) -> float:
        """Operations per second that fused attention reaches."""
        return self.attention_rates.get(dtype, self.attention * self.peak(dtype))

    @property
    def copy_rate(self) -> float:
        """Bytes per second that copies reach: as products, or on a CPU, where those read slower, as other kernels."""
        return max(self.bandwidth_fraction, self.pointwise) * self.bandwidth

    @property
    def compiles(self) -> bool:
        """Whether training compiles the model there by default."""
        return self.kind == "cuda"
