"""Steps of fixed shape, compiled whole: on CUDA a captured graph that never waits for the host.

All that a step reads and writes lies in tensors that stay where they are, so one program serves every call with
the same shapes. Some tokens are written before the host looks; what comes after an end is thrown away. Where kernels
of our own fit the model a step is put together from them, and there is nothing left for a compiler.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from types import FunctionType, MethodType
from typing import TypeVar, cast

import torch
from torch import Tensor
from torch.nn import functional

from glassformer.decoding.beam import Beam, BeamSearch, BeamState
from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.loop import DecodeLoop, Generator, Prompts
from glassformer.decoding.next_token import log_probability, next_token, without_ids
from glassformer.errors import DecodingError
from glassformer.inference.triton_decoder import triton_decoder
from glassformer.layers.beam_cache import GRAIN, BeamCache, expand_cache, prompt_slots_of, round_up
from glassformer.layers.cache import DecoderState, KVCache, LayerKV

BURST = 16  # tokens written between two looks of the host
SOURCE_GRAIN = 16
KEPT = 4  # programs kept for a model, the latest ones
FASTEST: dict[str, str | int | bool | Callable[..., object]] = {
    "coordinate_descent_tuning": True
}  # matrix times vector as a kernel of its own, at the speed of memory

Kept = TypeVar("Kept", bound=KVCache)


def fixed(cache: Kept, slots: int, width: int) -> Kept:
    """An empty cache of the same kind, its count on the device, with so many slots and room for so long a source."""
    rows, device = len(cache.self_kv[0].keys), cache.self_kv[0].keys.device

    def stretched(store: Tensor, length: int) -> Tensor:
        return store.new_zeros(*store.shape[:2], length, store.shape[3])

    mask = None
    if cache.cross_kv:
        mask = cache.cross_kv[0].keys.new_zeros(len(cache.cross_kv[0].keys), 1, 1, width)
    return replace(
        cache,
        length=torch.zeros((), dtype=torch.long, device=device),
        padding=torch.zeros(rows, dtype=torch.long, device=device) if rows > 1 and not cache.cross_kv else None,
        self_kv=[LayerKV(stretched(own.keys, slots), stretched(own.values, slots)) for own in cache.self_kv],
        cross_kv=[LayerKV(stretched(far.keys, width), stretched(far.values, width)) for far in cache.cross_kv],
        source_mask=mask,
    )


def fill(still: KVCache, cache: KVCache) -> None:
    """Copy what a cache holds into one of fixed shape; what is left in it from another time is wiped out."""
    assert isinstance(still.length, Tensor)
    still.length.fill_(cache.count)
    if still.padding is not None:
        still.padding.copy_(torch.zeros_like(still.padding) if cache.padding is None else cache.padding)
    held = min(cache.count, cache.slots)
    for mine, theirs in zip(still.self_kv, cache.self_kv, strict=True):
        _take(mine, theirs, held)
    for mine, theirs in zip(still.cross_kv, cache.cross_kv, strict=True):
        _take(mine, theirs, theirs.keys.shape[2])
    if isinstance(still, BeamCache):
        still.begin(cache)
    if still.source_mask is not None:
        length = cache.cross_kv[0].keys.shape[2]
        mask = still.source_mask.new_zeros(1) if cache.source_mask is None else cache.source_mask
        still.source_mask.fill_(-torch.inf)
        still.source_mask[..., :length].copy_(mask)


def _take(mine: LayerKV, theirs: LayerKV, held: int) -> None:
    for still, store in ((mine.keys, theirs.keys), (mine.values, theirs.values)):
        still[:, :, :held].copy_(store[:, :, :held])
        still[:, :, held:].zero_()  # what is hidden is multiplied too, and by zero only a number is nothing


def program(step: MethodType, device: torch.device) -> Callable[[], None]:
    """A step, compiled whole; on CUDA captured as a graph too."""
    on_gpu = device.type == "cuda"
    # a function of its own for each program, for the compiler gives up on one that it has compiled too often
    own = FunctionType(step.__func__.__code__.replace(), step.__func__.__globals__)
    run = partial(torch.compile(own, fullgraph=True, options=FASTEST if on_gpu else None), step.__self__)
    return captured(run, device) if on_gpu else run


def captured(run: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Work for a GPU as a graph of its kernels, which is started as one."""
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


@dataclass
class StaticBuffers:
    """Where a program's texts lie: the token to read next, and all that were written."""

    next: Tensor
    step: Tensor
    seen: Tensor
    numbers: Tensor
    ids: Tensor
    log_probabilities: Tensor

    def fill(self, other: "StaticBuffers") -> None:
        """Take over another board's numbers, in place."""
        for name in (field.name for field in fields(self)):
            getattr(self, name).copy_(getattr(other, name))


class GraphedStep:
    """A program of model and choice for one shape."""

    def __init__(self, like: DecodeLoop, cache: KVCache, board: StaticBuffers) -> None:
        self.model, self.config = like.model, like.config
        self.stop, self.unused = like.stop.clone(), like.unused.clone()
        self.cache = cache
        self.board = board
        self.width = board.seen.shape[1] - board.ids.shape[1]
        self.rows, device = triton_decoder(self.model, cache), board.ids.device
        step = cast(MethodType, self._step)
        self.run = program(step, device) if self.rows is None else captured(self._step_by_rows, device)

    def _step(self) -> None:
        scores = self.model.decode_step(self.board.next, self.cache)[:, -1]
        self._write(*self._choose(without_ids(scores, self.unused)))

    def _step_by_rows(self) -> None:
        assert self.rows is not None
        scores, config, board = self.rows.scores(self.board.next), self.config, self.board
        if len(self.unused):  # not infinite: a portion of nothing else would have no sum
            scores.index_fill_(1, self.unused, torch.finfo(scores.dtype).min)
        if config.temperature or config.repetition_penalty != 1 or config.min_new_tokens:
            self._write(*self._choose(scores.float()))
            return
        write = self.rows.kernels.write_likeliest
        write(scores, board.step, board.next, board.ids, board.log_probabilities, board.seen)

    def _choose(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        board = self.board
        if self.config.min_new_tokens:
            scores = torch.where(board.step < self.config.min_new_tokens, without_ids(scores, self.stop), scores)
        u = board.numbers.index_select(1, board.step).squeeze(1)
        chosen = next_token(scores, self.config, u, board.seen)
        return chosen, log_probability(scores, chosen)

    def _write(self, chosen: Tensor, log_p: Tensor) -> None:
        board = self.board
        board.seen.index_copy_(1, board.step + self.width, chosen[:, None])
        board.ids.index_copy_(1, board.step, chosen[:, None])
        board.log_probabilities.index_copy_(1, board.step, log_p[:, None])
        board.next.copy_(chosen[:, None])
        board.step.add_(1)


class Programs(dict[object, object]):
    """The programs of a model, kept on it so that they go when it goes; a copy of the model has none yet."""

    def __deepcopy__(self, memo: object) -> "Programs":
        return Programs()


def programs(model: Generator) -> Programs:
    """The programs that a model has."""
    return vars(model).setdefault("_programs", Programs())


def stored(model: Generator, key: object, make: Callable[[], object]) -> object:
    """A model's program for these shapes and where its weights lie now, made on first use; the latest few are kept."""
    known, weight = programs(model), model.embedding.weight
    key = key, weight.dtype, weight.device, weight.data_ptr()
    made = known.pop(key, None)
    known[key] = make() if made is None else made
    while len(known) > KEPT:
        known.pop(next(iter(known)))
    return known[key]


class CompiledSession(DecodeLoop):
    """A session whose steps are a stored program; it begins as any other."""

    def __init__(
        self,
        model: Generator,
        prompts: Prompts,
        slots: int,
        config: GenerationConfig,
        ends: Sequence[int],
        first: int,
        unused: Sequence[int] = (),
    ) -> None:
        super().__init__(model, prompts, slots, config, ends, first, unused)
        require_kv_cache(model, self.cache)
        assert isinstance(self.cache, KVCache)
        room = round_up(config.max_new_tokens, BURST)
        source = round_up(self.cache.cross_kv[0].keys.shape[2], SOURCE_GRAIN) if self.cache.cross_kv else 0
        # where there is a window the slots are a ring, which goes by its own number
        size = round_up(self.cache.count + room, GRAIN) if self.cache.window is None else self.cache.slots
        choice = (
            config.temperature,
            config.top_k,
            config.top_p,
            config.min_p,
            config.repetition_penalty,
            config.min_new_tokens,
        )
        board, cache = self._board(room), self.cache
        key = ("steps", len(self.next), size, board.seen.shape[1], room, source, choice, tuple(ends), tuple(unused))
        steps = stored(model, key, lambda: GraphedStep(self, fixed(cache, size, source), self._board(room)))
        assert isinstance(steps, GraphedStep)
        self.steps = steps
        steps.board.fill(board)
        fill(steps.cache, cache)
        self.given = 0

    def _board(self, room: int) -> StaticBuffers:
        rows, device = len(self.next), self.next.device
        numbers = torch.zeros(rows, room, dtype=torch.float64, device=device)
        if self.numbers is not None:
            numbers[:, : self.numbers.shape[1]] = self.numbers
        width = round_up(self.seen.shape[1], GRAIN)
        before = functional.pad(self.seen, (width - self.seen.shape[1], 0), value=-1)
        before = torch.where(before < 0, self.seen[:, :1], before)
        return StaticBuffers(
            next=self.next.clone(),
            step=torch.zeros(1, dtype=torch.long, device=device),
            seen=torch.cat([before, before[:, :1].expand(-1, room)], 1),
            numbers=numbers,
            ids=torch.zeros(rows, room, dtype=torch.long, device=device),
            log_probabilities=torch.zeros(rows, room, dtype=self._score_type(), device=device),
        )

    def _score_type(self) -> torch.dtype:
        return torch.promote_types(self.model.embedding.weight.dtype, torch.float32)

    def next_tokens(self) -> tuple[list[list[int]], list[list[float]]]:
        """The next tokens of every text and their log-probabilities, [tokens][texts], a burst at once."""
        board, start = self.steps.board, self.given
        self.given += min(BURST, self.config.max_new_tokens - start)
        for _ in range(start, self.given):
            self.steps.run()
        return (
            board.ids[:, start : self.given].T.tolist(),
            board.log_probabilities[:, start : self.given].T.tolist(),
        )

    def compact(self, rows: Sequence[int]) -> bool:
        """Shapes are fixed: texts that have ended run along unread."""
        return False


class BeamSteps(BeamState):
    """A compiled step of model and beam for one shape, on tensors of its own."""

    def __init__(self, like: BeamSearch, cache: BeamCache, most: int) -> None:
        self.model, self.config = like.model, like.config
        self.cache = cache
        self.next, self.stop, self.unused = like.next.clone(), like.stop.clone(), like.unused.clone()
        self.step = torch.zeros((), dtype=torch.long, device=self.next.device)
        self.beam = Beam.empty([most] * len(like.next), like.config.num_beams, like.model.embedding.weight)
        self.run = program(cast(MethodType, self._step), self.next.device)

    def _step(self) -> None:
        token, parents = self.extend()
        self.cache.follow(parents)
        self.next.copy_(token)


class CompiledSearch(BeamSearch):
    """A beam search whose steps are a stored program; it begins as any other."""

    def __init__(
        self,
        model: Generator,
        prompts: Prompts,
        most: Sequence[int],
        config: GenerationConfig,
        ends: Sequence[int],
        first: int,
        unused: Sequence[int] = (),
    ) -> None:
        self.special = tuple(ends), tuple(unused)
        self.left = max(1, *most)
        super().__init__(model, prompts, most, config, ends, first, unused)

    def carry(self, past: DecoderState, steps: int) -> BeamCache:
        """Set a stored program to where the prompts end; its beam and its cache become those of this search."""
        require_kv_cache(self.model, past)
        assert isinstance(past, KVCache)
        config, room = self.config, round_up(self.config.max_new_tokens, BURST)
        source = round_up(past.cross_kv[0].keys.shape[2], SOURCE_GRAIN) if past.cross_kv else 0
        key = (
            "beam",
            len(self.next),
            config.num_beams,
            prompt_slots_of(past),
            room,
            source,
            config.min_new_tokens,
            self.special,
        )
        made = stored(self.model, key, lambda: self._program(past, room, source))
        assert isinstance(made, BeamSteps) and isinstance(made.cache, BeamCache)
        self.steps = made
        fill(made.cache, past)
        made.next.copy_(self.next)
        made.step.zero_()
        made.beam.fill(
            Beam.empty([room] * len(self.next), config.num_beams, self.model.embedding.weight), self.beam.most
        )
        self.beam = made.beam
        return made.cache

    def _program(self, past: KVCache, room: int, source: int) -> BeamSteps:
        cache = expand_cache(past, self.config.num_beams, room)
        return BeamSteps(self, fixed(cache, cache.slots, source), room)

    def next_tokens(self) -> None:
        """Several steps of all beams."""
        for _ in range(min(BURST, self.left)):
            self.steps.run()
        self.left -= BURST

    def compact(self, going: Sequence[int]) -> bool:
        """Shapes are fixed: beams that are settled run along unread."""
        return False


def require_kv_cache(model: Generator, state: DecoderState) -> None:
    """Refuse a model whose state is not a KV cache: it has no static buffers."""
    if not isinstance(state, KVCache):
        raise DecodingError(f"{type(model).__name__} cannot be run compiled: its state has no static buffers")
