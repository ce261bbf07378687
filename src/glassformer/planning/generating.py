"""One decoding step and the prefill before it, planned from recordings of both."""

from collections.abc import Mapping
from dataclasses import replace

import torch

from glassformer.equation import no_checks
from glassformer.inference.prepare import can_convert, for_inference
from glassformer.inference.triton_decoder import FEW_TEXTS
from glassformer.kernel_calls import KernelRecorder, pretending
from glassformer.layers.cache import DecoderState, KVCache, LayerKV
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.model import Model
from glassformer.layers.recurrent_state import RecurrentState
from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.figures import Generation
from glassformer.planning.kernel_data import Kernel, RecordedStep
from glassformer.planning.kernels import eager, fused
from glassformer.planning.recorded_step import Labels, block_names, recorded
from glassformer.planning.roofline import total_time
from glassformer.planning.shortened import pretended, shortened

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
ONE_ROW = 0.5  # fraction of the bandwidth that attention of one row reaches on a GPU
CACHED = ("write_slots", "repeat_kv")  # equations that work on the KV cache in place


def writes_text(model: Model) -> bool:
    """Whether a model generates token by token."""
    return isinstance(model, CausalLM | EncoderDecoder)


def plan_generation(model: Model, device: DeviceSpec, batch: int, length: int) -> Generation:
    """The time and the memory of generating with `length` tokens in the cache of each of `batch` sequences."""
    assert isinstance(model, CausalLM | EncoderDecoder)
    dtype = next((name for name in ("bfloat16", "float16") if name in device.peaks and device.kind != "cpu"), "float32")
    prefill, step, cache = _record(model, batch, length, dtype)
    size = torch.empty((), dtype=DTYPES[dtype]).element_size()
    weights = sum(weight.numel() for weight in model.parameters()) * size
    seconds = _step_seconds(step, device, dtype, batch, cache)
    kernels, host = zip(eager(prefill)[0], prefill.repeats, strict=True), device.dispatch
    return Generation(
        batch=batch,
        length=length,
        dtype=dtype,
        weights=weights,
        kv_cache=cache,
        prefill_seconds=length * seconds if model.loops else total_time(kernels, device, dtype, host).seconds,
        seconds_per_step=seconds,
        tokens_per_second=batch / seconds,
    )


def _step_seconds(step: RecordedStep, device: DeviceSpec, dtype: str, batch: int, cache: int) -> float:
    """Seconds of a decoding step: products and kernels by roofline, and one pass over the KV cache."""
    times = step.repeats
    if not device.compiles:
        kernels = [(kernel, times[kernel.at]) for kernel in map(_without_cache, eager(step)[0])]
        return total_time(kernels, device, dtype, device.dispatch).seconds + cache / device.copy_rate
    found = [(_without_cache(kernel), times[kernel.at]) for kernel in fused(step)[0]]
    if batch <= FEW_TEXTS:  # the Triton kernels of a few texts take norms, activations and sums into the products
        found = [(kernel, repeats) for kernel, repeats in found if kernel.kind != "other"]
    reading = cache / (ONE_ROW * device.copy_rate)
    return total_time(found, device, dtype, 0.0).seconds + reading


def _without_cache(kernel: Kernel) -> Kernel:
    """A kernel without the KV cache that it reads or writes into, which is counted once for all of them."""
    if kernel.kind == "attention" or kernel.tag.equation in CACHED:
        return replace(kernel, bytes=0, numbers=0)
    return kernel


def _record(model: Model, batch: int, length: int, dtype: str) -> tuple[RecordedStep, RecordedStep, int]:
    """The kernels of a prefill, those of a decoding step after it, and the bytes of the KV cache."""
    short, runs = shortened(model)
    with pretending(torch.device("cpu")), torch.no_grad(), no_checks():
        same = pretended(short, DTYPES[dtype]).eval()
        ready = for_inference(same, "packed", copy=False) if can_convert(same) else same
        labels, names = Labels(), block_names(ready)
        with labels.on(ready, names), KernelRecorder(labels.tag) as first:
            cache = _prefilled(ready, batch, length)
        ids = torch.zeros(batch, 1, dtype=torch.long)
        with labels.on(ready, names), KernelRecorder(labels.tag) as second:
            if isinstance(ready, EncoderDecoder):
                assert isinstance(cache, KVCache)
                ready.decode(ids, None, cache=cache)
            else:
                ready(ids, cache=cache)
        times = {run.names[1]: run.repeats for run in runs}
        size = _cache_bytes(ready, cache, times)
    return recorded(first, runs, batch * length), recorded(second, runs, batch), size


def _prefilled(model: Model, batch: int, length: int) -> DecoderState:
    """A cache with all but the last of `length` tokens, and the source of a model that reads one."""
    if isinstance(model, EncoderDecoder):
        cache = model.new_cache(torch.zeros(batch, length, dtype=torch.long), length)
        cache.length = length - 1
        return cache
    assert isinstance(model, CausalLM)
    cache = model.new_cache(batch, length)
    if length > 1 and not model.loops:
        model(torch.zeros(batch, length - 1, dtype=torch.long), cache=cache)
    return cache


def _cache_bytes(model: Model, cache: DecoderState, times: Mapping[str, int]) -> int:
    """Bytes of a cache, each block of a run counted as often as it stands in the whole model."""
    if isinstance(cache, RecurrentState):
        return sum(part.nbytes for cell in cache.cells if cell is not None for part in cell)
    assert isinstance(cache, KVCache)
    path = "decoder" if isinstance(model, EncoderDecoder) else "stack"
    repeats = [times.get(f"{path}.blocks.{number}", 1) for number in range(len(cache.self_kv))]
    both = zip(cache.self_kv, cache.cross_kv or [None] * len(repeats), repeats, strict=True)
    return sum(more * (_bytes(own) + (0 if cross is None else _bytes(cross))) for own, cross, more in both)


def _bytes(layer: LayerKV) -> int:
    return layer.keys.nbytes + layer.values.nbytes
