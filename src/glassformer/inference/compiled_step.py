"""Decoding steps of fixed shape on static buffers: compiled whole, and on CUDA captured as a graph.

A step reads and writes tensors that never move, so one program serves every call with the same shapes. The host reads
the tokens only after several steps; those after an end token are discarded. Where our Triton kernels fit the model, the
step consists of them, and only the kernels are compiled.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import FunctionType, MethodType
from typing import Protocol, TypeVar, cast

import torch
from torch import Tensor

from glassformer.errors import DecodingError
from glassformer.inference.prepare import Generator
from glassformer.inference.triton_decoder import triton_decoder
from glassformer.layers.beam_cache import GRAIN, BeamCache, round_up
from glassformer.layers.cache import DecoderState, KVCache, LayerKV

STEPS_PER_SYNC = 16  # steps between two reads of the host
SOURCE_GRAIN = 16
MAX_PROGRAMS = 4  # per model, the latest ones
# makes matrix-vector products kernels that run at the speed of memory
GPU_OPTIONS: dict[str, str | int | bool | Callable[..., object]] = {"coordinate_descent_tuning": True}

Cache = TypeVar("Cache", bound=KVCache)


class TokenChoice(Protocol):
    """What a compiled step asks of a sampler; `key` holds everything a choice depends on beside its arguments."""

    unused: Tensor
    key: tuple[object, ...]
    takes_argmax: bool

    def __call__(self, logits: Tensor, step: Tensor, u: Tensor | None, seen: Tensor) -> tuple[Tensor, Tensor]:
        """The next token of each row of logits and its log-probability."""
        ...


class CompiledStep:
    """Read one token of each text and choose the next, with everything in static buffers."""

    def __init__(
        self, model: Generator, cache: KVCache, choose: TokenChoice, texts: int, width: int, max_tokens: int
    ) -> None:
        self.model, self.cache, self.choose, self.width = model, cache, choose, width
        device = model.embedding.weight.device
        dtype = torch.promote_types(model.embedding.weight.dtype, torch.float32)
        self.next, self.seen, self.ids = (
            torch.zeros(texts, size, dtype=torch.long, device=device) for size in (1, width + max_tokens, max_tokens)
        )
        self.step = torch.zeros(1, dtype=torch.long, device=device)
        self.numbers = torch.zeros(texts, max_tokens, dtype=torch.float64, device=device)
        self.log_probabilities = torch.zeros(texts, max_tokens, dtype=dtype, device=device)
        self.kernels = triton_decoder(model, cache)
        self.unused = self._mask_of_unused(device)
        step = cast(MethodType, self._step)
        self.run = compile_step(step, device) if self.kernels is None else capture(self._step_by_kernels, device)

    @classmethod
    def of(cls, model: Generator, cache: DecoderState, choose: TokenChoice, seen: Tensor, new: int) -> "CompiledStep":
        """The model's stored step for these shapes and up to `new` tokens."""
        cache, texts = require_kv_cache(model, cache), len(seen)
        width, max_tokens, source = round_up(seen.shape[1], GRAIN), round_up(new, STEPS_PER_SYNC), source_slots(cache)
        # the slots of a sliding window are a ring buffer, whose size decides where tokens lie
        slots = round_up(cache.count + max_tokens, GRAIN) if cache.window is None else cache.slots
        return stored(
            model,
            ("step", texts, slots, width, max_tokens, source, choose.key),
            lambda: cls(model, static_cache(cache, slots, source), choose, texts, width, max_tokens),
        )

    def begin(self, cache: DecoderState, next: Tensor, seen: Tensor, numbers: Tensor | None) -> None:
        """Start where a prefilled cache ends."""
        assert isinstance(cache, KVCache)
        fill_cache(self.cache, cache)
        self.next.copy_(next)
        self.step.zero_()
        self.seen.copy_(seen[:, :1].expand_as(self.seen))  # a token seen twice counts once, so it can fill the rest
        self.seen[:, self.width - seen.shape[1] : self.width] = seen
        if numbers is not None:
            self.numbers[:, : numbers.shape[1]] = numbers

    def tokens(self, start: int, stop: int) -> tuple[list[list[int]], list[list[float]]]:
        """Run the steps from `start` to `stop`; gives tokens and log-probabilities, [steps][texts]."""
        for _ in range(start, stop):
            self.run()
        return self.ids[:, start:stop].T.tolist(), self.log_probabilities[:, start:stop].T.tolist()

    def _mask_of_unused(self, device: torch.device) -> Tensor | None:
        """Mask [vocab] of the ids that are not tokens, or None: one pass over the logits, not a write for each id."""
        if not len(self.choose.unused):
            return None
        mask = torch.zeros(self.model.config.vocab, dtype=torch.bool, device=device)
        return mask.index_fill_(0, self.choose.unused, True)

    def _step(self) -> None:
        self._choose(self.model.decode_step(self.next, self.cache)[:, -1])

    def _step_by_kernels(self) -> None:
        assert self.kernels is not None
        logits = self.kernels.logits(self.next)
        if not self.choose.takes_argmax:
            self._choose(logits.float())
            return
        if self.unused is not None:  # not infinite: a program with no other logits would have no sum
            logits.masked_fill_(self.unused, torch.finfo(logits.dtype).min)
        write = self.kernels.kernels.write_argmax
        write(logits, self.step, self.next, self.ids, self.log_probabilities, self.seen)

    def _choose(self, logits: Tensor) -> None:
        u = self.numbers.index_select(1, self.step).squeeze(1)
        chosen, log_p = self.choose(logits, self.step, u, self.seen)
        self.seen.index_copy_(1, self.step + self.width, chosen[:, None])
        self.ids.index_copy_(1, self.step, chosen[:, None])
        self.log_probabilities.index_copy_(1, self.step, log_p[:, None])
        self.next.copy_(chosen[:, None])
        self.step.add_(1)


def static_cache(cache: Cache, slots: int, source: int) -> Cache:
    """An empty cache of the same kind, its length on the device, with a fixed number of slots for text and source."""
    rows, device = len(cache.self_kv[0].keys), cache.self_kv[0].keys.device

    def empty(layers: list[LayerKV], length: int) -> list[LayerKV]:
        tensors = ((kv.keys, kv.values) for kv in layers)
        return [LayerKV(*(t.new_zeros(*t.shape[:2], length, t.shape[3]) for t in pair)) for pair in tensors]

    cross_kv = empty(cache.cross_kv, source)
    return replace(
        cache,
        length=torch.zeros((), dtype=torch.long, device=device),
        padding=torch.zeros(rows, dtype=torch.long, device=device) if rows > 1 and not cross_kv else None,
        self_kv=empty(cache.self_kv, slots),
        cross_kv=cross_kv,
        source_mask=cross_kv[0].keys.new_zeros(len(cross_kv[0].keys), 1, 1, source) if cross_kv else None,
    )


def fill_cache(static: KVCache, cache: KVCache) -> None:
    """Copy a cache into a static one; what an earlier call left there is cleared."""
    assert isinstance(static.length, Tensor)
    static.length.fill_(cache.count)
    if static.padding is not None:
        static.padding.copy_(torch.zeros_like(static.padding) if cache.padding is None else cache.padding)
    held = min(cache.count, cache.slots)
    pairs = [(own, kv, held) for own, kv in zip(static.self_kv, cache.self_kv, strict=True)]
    pairs += [(own, kv, kv.keys.shape[2]) for own, kv in zip(static.cross_kv, cache.cross_kv, strict=True)]
    for own, kv, length in pairs:
        for buffer, values in ((own.keys, kv.keys), (own.values, kv.values)):
            buffer[:, :, :length].copy_(values[:, :, :length])
            buffer[:, :, length:].zero_()  # masked slots are still multiplied by a zero weight, and 0 · NaN is NaN
    if isinstance(static, BeamCache):
        static.begin(cache)
    if static.source_mask is not None:
        length = cache.cross_kv[0].keys.shape[2]
        mask = static.source_mask.new_zeros(1) if cache.source_mask is None else cache.source_mask
        static.source_mask.fill_(-torch.inf)
        static.source_mask[..., :length].copy_(mask)


def source_slots(cache: KVCache) -> int:
    """How many slots a static cache keeps for the encoder output."""
    return round_up(cache.cross_kv[0].keys.shape[2], SOURCE_GRAIN) if cache.cross_kv else 0


def require_kv_cache(model: Generator, state: DecoderState) -> KVCache:
    """The state, if it is a KV cache, which can be laid out in static buffers."""
    if not isinstance(state, KVCache):
        raise DecodingError(f"{type(model).__name__} cannot be run compiled: its state has no static buffers")
    return state


def compile_step(step: MethodType, device: torch.device) -> Callable[[], None]:
    """A step compiled as one graph; on CUDA it is captured too."""
    on_gpu = device.type == "cuda"
    # each program gets its own function, because the compiler gives up on one that it has compiled too often
    own = FunctionType(step.__func__.__code__.replace(), step.__func__.__globals__)
    run = partial(torch.compile(own, fullgraph=True, options=GPU_OPTIONS if on_gpu else None), step.__self__)
    return capture(run, device) if on_gpu else run


def capture(run: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """The kernels of a step as one CUDA graph."""
    with torch.cuda.device(device):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
    return graph.replay


class Programs(dict[object, object]):
    """The compiled programs of a model, kept on it so that they are freed with it; a copy of the model has none."""

    def __deepcopy__(self, memo: object) -> "Programs":
        return Programs()


def programs(model: Generator) -> Programs:
    """The programs stored on a model."""
    return vars(model).setdefault("_programs", Programs())


Program = TypeVar("Program")


def stored(model: Generator, key: object, make: Callable[[], Program]) -> Program:
    """A model's program for these shapes and for where its weights are now; made on first use, the latest are kept."""
    known, weight = programs(model), model.embedding.weight
    key = key, weight.dtype, weight.device, weight.data_ptr()
    program = known.pop(key, None)
    program = make() if program is None else cast(Program, program)
    known[key] = program
    while len(known) > MAX_PROGRAMS:
        known.pop(next(iter(known)))
    return program
