"""One decoding step and the prefill before it, planned from recordings of both."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from glassformer.equation import no_checks
from glassformer.inference.prepare import can_convert, for_inference
from glassformer.inference.triton_decoder import has_few_texts, kernels_fit
from glassformer.kernel_calls import KernelRecorder, pretending
from glassformer.layers.cache import DecoderState, KVCache, LayerKV
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.model import Model
from glassformer.layers.recurrent_state import RecurrentState
from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.figures import Generation
from glassformer.planning.kernel_data import RecordedStep
from glassformer.planning.kernels import ATTENTION, eager, fused
from glassformer.planning.limits import MOST
from glassformer.planning.memory import WORKSPACE
from glassformer.planning.recorded_step import Labels, block_names, recorded
from glassformer.planning.roofline import total_time
from glassformer.planning.shortened import pretended, shortened

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
ONE_ROW = 0.5  # fraction of the bandwidth that attention of one row reaches on a GPU
CUBLAS = 2e-6  # seconds that a product of a GPU's library takes more than a kernel of ours to begin
CACHES = 2**25  # bytes of weights that no cache of a CPU holds
CACHED = ("write_slots", "repeat_kv")  # equations that work on the KV cache in place


@dataclass(frozen=True)
class _Recorded:
    """The kernels of a prefill and of a step, the bytes of KV cache and weights, and whether few kernels step."""

    prefill: RecordedStep
    step: RecordedStep
    cache: int
    weights: int
    few_kernels: bool


def writes_text(model: Model) -> bool:
    """Whether a model generates token by token."""
    return isinstance(model, CausalLM | EncoderDecoder)


def plan_generation(model: Model, device: DeviceSpec, batch: int, length: int) -> Generation:
    """The time and the memory of generating with `length` tokens in the cache of each of `batch` sequences."""
    assert isinstance(model, CausalLM | EncoderDecoder)
    dtype = next((name for name in ("bfloat16", "float16") if name in device.peaks and device.kind != "cpu"), "float32")
    found = _record(model, batch, length, dtype)
    prefill, cache = found.prefill, found.cache
    weights = found.weights
    seconds = _step_seconds(found, device, dtype)
    room = device.memory - weights - WORKSPACE
    largest = min(max(int(room * batch // max(cache, 1)), 0), MOST)
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
        fits=batch <= largest,
        largest_batch=largest,
    )


def _step_seconds(recorded: _Recorded, device: DeviceSpec, dtype: str) -> float:
    """Seconds of a decoding step: products and kernels by roofline, and one pass over the KV cache."""
    step, cache, times = _without_cache(recorded.step), recorded.cache, recorded.step.repeats
    if not device.compiles:
        flushed = recorded.weights > CACHES and device.cold_dispatch > 0
        host = device.cold_dispatch if flushed else device.dispatch
        kernels = [(kernel, times[kernel.at]) for kernel in eager(step)[0]]
        return total_time(kernels, device, dtype, host).seconds + cache / device.copy_rate
    found = [(kernel, times[kernel.at]) for kernel in fused(step)[0]]
    reading = cache / (ONE_ROW * device.copy_rate)
    if recorded.few_kernels:  # the Triton kernels of a few texts take norms, activations and sums into the products
        found = [(kernel, repeats) for kernel, repeats in found if kernel.kind != "other"]
    else:
        reading += CUBLAS * sum(repeats for kernel, repeats in found if kernel.kind == "matmul")
    return total_time(found, device, dtype, 0.0).seconds + reading


def _without_cache(step: RecordedStep) -> RecordedStep:
    """A step without the traffic of the KV cache, which is counted once for all kernels that read it or write to it."""
    calls = [
        replace(call, reads=(), writes=(), numbers=0) if call.kind == ATTENTION or tag.equation in CACHED else call
        for call, tag in zip(step.calls, step.tags, strict=True)
    ]
    return replace(step, calls=calls)


def _record(model: Model, batch: int, length: int, dtype: str) -> _Recorded:
    """Record a prefill, and a decoding step with `length` tokens in the cache."""
    short, runs = shortened(model)
    with pretending(torch.device("cpu")), torch.no_grad(), no_checks():
        same = pretended(short, DTYPES[dtype]).eval()
        ready = for_inference(same, "packed", copy=False) if can_convert(same) else same
        labels, names = Labels(), block_names(ready)
        with labels.on(ready, names), KernelRecorder(labels.tag) as first:
            cache = _prefill(ready, batch, length)
        if isinstance(ready, CausalLM):  # that of a prefill has room to write all of its tokens at once
            cache = ready.new_cache(batch, length)
        if isinstance(cache, KVCache):
            cache.length = length - 1
        ids = torch.zeros(batch, 1, dtype=torch.long)
        with labels.on(ready, names), KernelRecorder(labels.tag) as second:
            if isinstance(ready, EncoderDecoder):
                assert isinstance(cache, KVCache)
                ready.decode(ids, None, cache=cache)
            else:
                ready(ids, cache=cache)
        times = {run.names[1]: run.repeats for run in runs}
        size = _cache_bytes(ready, cache, times)
        few = isinstance(cache, KVCache) and has_few_texts(cache) and kernels_fit(ready, cache)
    weights = sum(weight.numel() for weight in model.parameters()) * torch.empty((), dtype=DTYPES[dtype]).element_size()
    return _Recorded(recorded(first, runs, batch * length), recorded(second, runs, batch), size, weights, few)


def _prefill(model: Model, batch: int, length: int) -> DecoderState:
    """Read all but the last of `length` tokens, or the source of a model that reads one, into a new cache."""
    if isinstance(model, EncoderDecoder):
        return model.new_cache(torch.zeros(batch, length, dtype=torch.long), length)
    assert isinstance(model, CausalLM)
    cache = model.new_cache(batch, length, headroom=length)
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
