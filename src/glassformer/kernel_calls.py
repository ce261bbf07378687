"""What torch's kernels do as they are called: memory, operations and time, by its dispatch modes, which are private."""

import importlib
import math
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, register_flop_formula, sdpa_backward_flop_count, sdpa_flop_count

GATHERS = ("embedding.", "index.", "index_select", "gather")  # in the names of kernels that copy some rows of a table
TILE = 128  # queries, and keys, that an attention kernel of a GPU computes together; a CPU's takes fewer
DEVICE_OF = getattr(torch.ops.prim.device, "default", None)  # what `tensor.device` calls where tensors are pretended
LABEL = "glassformer"  # of an autograd node, in its metadata


def _linear_flops(x: Sequence[int], weight: Sequence[int], *_: object, **__: object) -> int:
    """Operations of a linear layer with inputs [..., inputs] and weights [outputs, inputs]."""
    return 2 * math.prod(x) * weight[0]


ONEDNN_LINEAR = getattr(torch.ops.mkldnn, "_linear_pointwise", None)  # its products torch's own counter leaves out
if ONEDNN_LINEAR is not None and ONEDNN_LINEAR not in flop_registry:
    register_flop_formula(ONEDNN_LINEAR)(_linear_flops)


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
    there = torch.get_default_device() == device  # a context of a device would slow down every call
    with mode, nullcontext() if there else device:
        yield


@dataclass(slots=True)
class KernelCall:
    """One call of a kernel: its operations, and the storages it reads and writes, by number, with their bytes.

    `tiled` is the operations of attention that is computed in whole tiles of queries and keys, those above a causal
    mask left out; of other kernels it is all of them.
    """

    name: str
    kind: str
    flops: int
    tiled: int
    numbers: int
    reads: tuple[tuple[int, int], ...]
    writes: tuple[tuple[int, int], ...]
    tag: object


class KernelRecorder(TorchDispatchMode):
    """Records, while inside, every kernel call: `tag` says where each belongs, given that of the node that runs now.

    `born` and `died` have for each storage the number of calls before it was made and before it was freed; weights
    and inputs were made before the first call.
    """

    def __init__(self, tag: Callable[[object], object]) -> None:
        super().__init__()
        self.calls: list[KernelCall] = []
        self.bytes: list[int] = []
        self.born: list[int] = []
        self.died: dict[int, int] = {}
        self._tag = tag
        self._known: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Callable[..., object], types: object, args: tuple[object, ...] = (), kwargs: object = None
    ) -> object:
        named = kwargs if isinstance(kwargs, dict) else {}
        if func is DEVICE_OF and (found := getattr(args[0], "fake_device", None)) is not None:
            return found  # autograd asks many times for every kernel
        if str(func).startswith("prim."):
            return func(*args, **named)
        read = tensors_within((args, named))
        reads = self._touched(read, -1)
        out = func(*args, **named)
        made = tensors_within(out)
        if any(word in str(func) for word in GATHERS):  # reads only the rows that it copies
            most = sum(tensor.numel() * tensor.element_size() for tensor in made)
            reads = tuple((number, min(size, most)) for number, size in reads)
        mutates = bool(getattr(getattr(func, "_schema", None), "is_mutable", False))
        if not mutates and all(t.untyped_storage()._cdata in self._known for t in made):  # a view
            return out
        node = torch._C._current_autograd_node()  # pyright: ignore[reportAttributeAccessIssue]
        flops = _flops(func, args, named, out)
        self.calls.append(
            KernelCall(
                name=str(func),
                kind=_kind(func),
                flops=flops,
                tiled=_tiled(func, args, flops, _causal(func, args, named)),
                numbers=sum(t.numel() for t in made),
                reads=reads,
                writes=self._touched([*made, *_changed(func, args)], len(self.calls)),
                tag=self._tag(getattr(node, "metadata", None)),
            )
        )
        return out

    def _touched(self, tensors: list[Tensor], born: int) -> tuple[tuple[int, int], ...]:
        """The storages of tensors, by number, and the bytes of each that they have: expanded ones have fewer."""
        found: dict[int, int] = {}
        for tensor in tensors:
            key = self._number(tensor, born)
            found[key] = min(found.get(key, 0) + tensor.numel() * tensor.element_size(), self.bytes[key])
        return tuple(found.items())

    def _number(self, tensor: Tensor, born: int) -> int:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._known:
            self._known[key] = len(self.bytes)
            self.bytes.append(storage.nbytes())
            self.born.append(born)
            weakref.finalize(storage, self._free, key)
        return self._known[key]

    def _free(self, key: int) -> None:
        self.died[self._known.pop(key)] = len(self.calls)


class KernelTimer(TorchDispatchMode):
    """Measures, while inside, the seconds of every kernel call, summed by what `tag` says of each."""

    def __init__(self, tag: Callable[[object], str], wait: Callable[[], object]) -> None:
        super().__init__()
        self.seconds: dict[str, float] = {}
        self._tag, self._wait = tag, wait

    def __torch_dispatch__(
        self, func: Callable[..., object], types: object, args: tuple[object, ...] = (), kwargs: object = None
    ) -> object:
        node = torch._C._current_autograd_node()  # pyright: ignore[reportAttributeAccessIssue]
        began = time.perf_counter()
        out = func(*args, **(kwargs if isinstance(kwargs, dict) else {}))
        self._wait()
        label = self._tag(getattr(node, "metadata", None))
        self.seconds[label] = self.seconds.get(label, 0.0) + time.perf_counter() - began
        return out


def tensors_within(value: object) -> list[Tensor]:
    """Every tensor in nested lists, tuples and mappings."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in tensors_within(item)]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in tensors_within(item)]
    return []


def _changed(func: Callable[..., object], args: Sequence[object]) -> list[Tensor]:
    """The inputs that a kernel writes into and does not return."""
    schema = getattr(func, "_schema", None)
    if schema is None or not schema.is_mutable or (schema.returns and schema.returns[0].alias_info is not None):
        return []
    into = [bool(each.alias_info and each.alias_info.is_write) for each in schema.arguments]
    return tensors_within([value for value, written in zip(args, into, strict=False) if written])


def _packet(func: Callable[..., object]) -> object:
    return getattr(func, "_overloadpacket", func)


def _kind(func: Callable[..., object]) -> str:
    """What limits a kernel: "attention", "matmul" (convolutions too), or memory, as for all "other" ones."""
    if "scaled_dot_product" in str(func) or "flash_attention" in str(func):
        return "attention"
    return "matmul" if _packet(func) in flop_registry else "other"


def _flops(func: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object], out: object) -> int:
    """Operations of a matrix product, a convolution or fused attention, as `torch.utils.flop_counter` counts them."""
    if _packet(func) in flop_registry:
        return int(flop_registry[_packet(func)](*args, **kwargs, out_val=out))
    if "scaled_dot_product" not in str(func):
        return 0
    shapes = [t.shape for t in tensors_within(args)]
    if "backward" in str(func):  # the gradient of the output comes first
        return sdpa_backward_flop_count(*shapes[:4])
    return sdpa_flop_count(*shapes[:3])


def _tiled(func: Callable[..., object], args: tuple[object, ...], flops: int, causal: bool) -> int:
    """Operations of a kernel as it runs: attention skips the tiles that a causal mask hides, and fills the others."""
    if _kind(func) != "attention" or not flops:
        return flops
    shapes = [tensor.shape for tensor in tensors_within(args)]
    q, k = shapes[1:3] if "backward" in str(func) else shapes[:2]
    if q[-2] == 1:  # a decoding step reads the cache, whose bandwidth limits it
        return flops
    rows, columns = -(-q[-2] // TILE), -(-k[-2] // TILE)
    whole = flops * rows * columns * TILE**2 / (q[-2] * k[-2])
    return round(whole * (rows + 1) / (2 * rows) if causal and rows == columns else whole)


def _causal(func: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    """Whether fused attention leaves out what a causal mask hides."""
    schema = getattr(func, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema is not None else []
    if "is_causal" not in names:
        return False
    at = names.index("is_causal")
    return bool(args[at] if at < len(args) else kwargs.get("is_causal", False))


def label_nodes(tensors: Iterable[Tensor], label: object) -> None:
    """Label the autograd nodes behind tensors up to those that have a label, so that a backward pass names them."""
    found = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    while found:
        node = found.pop()
        metadata: object = node.metadata
        if not isinstance(metadata, dict) or LABEL in metadata or "AccumulateGrad" in node.name():
            continue
        metadata[LABEL] = label
        found.extend(next for next, _ in node.next_functions if next is not None)
