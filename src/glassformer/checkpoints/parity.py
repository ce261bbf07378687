"""Parity: one of our models and its twin in transformers, every named intermediate of one run compared in order."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import transformers
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer.checkpoints.huggingface import HFModel, find_hf_model
from glassformer.checkpoints.load import Loaded, load
from glassformer.checkpoints.save import save
from glassformer.equations.positions import sinusoidal_positions
from glassformer.errors import CheckpointError
from glassformer.layers.embedding import LearnedPositions
from glassformer.layers.model import Model
from glassformer.layers.positions import RelativeBias
from glassformer.models.encoder import EncoderConfig
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.models.t5 import T5Config

BOUNDS = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
LENGTH = 12
INPUT = ", input"


@dataclass(frozen=True)
class Difference:
    """One intermediate: our name, theirs, and how far apart the numbers are, also against the largest of theirs."""

    place: str
    theirs: str
    largest: float
    relative: float


@dataclass(frozen=True)
class Parity:
    """Every intermediate of one run in order; the output is the last."""

    family: str
    dtype: str
    bound: float
    differences: tuple[Difference, ...]

    @property
    def first_divergence(self) -> Difference | None:
        """The first intermediate beyond the bound."""
        return next((row for row in self.differences if not row.relative <= self.bound), None)

    @property
    def worst(self) -> Difference:
        """The intermediate that is farthest apart."""
        return max(self.differences, key=lambda row: row.relative)


class InFloat64(TorchFunctionMode):
    """Compute in float64 where transformers says float32.

    It does inside norms, rotary tables and softmax, whatever the model's type, so that its float64
    models are right to seven digits only.
    """

    def __torch_function__(
        self, func: Callable[..., object], types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        """Run the same function with float64 in place of float32."""
        wide = {torch.float32: torch.float64}
        swap = lambda value: wide.get(value, value) if isinstance(value, torch.dtype) else value  # noqa: E731
        named = {key: swap(value) for key, value in (kwargs or {}).items()}
        return args[0].double() if func is Tensor.float else func(*map(swap, args), **named)


def parity(
    model: Model | Path | str, dtype: torch.dtype = torch.float32, seed: int = 0, step: int | None = None
) -> Parity:
    """Compare a model, or the one in a folder, with what transformers makes of the same files.

    A model is exported first, so that the files are put to the proof as well. `step` chooses a checkpoint of a run.
    """
    with tempfile.TemporaryDirectory() as scratch:
        found = Loaded(model) if isinstance(model, Model) else load(model, step=step)
        if isinstance(model, Model) or found.hf_model is None:
            folder = Path(scratch)
            _export(found.model, folder)
        else:
            folder = Path(model)
        ours = load(folder, dtype=dtype)
        twin = ours.hf_model or find_hf_model(ours.model.config)
        rows = list(_compare(ours.model, open_hf_model(folder, twin, dtype), twin, dtype, seed))
    return Parity(twin.family.model_type, str(dtype).removeprefix("torch."), BOUNDS[dtype], tuple(rows))


def _export(model: Model, folder: Path) -> None:
    """Write a model for transformers, or say that there is none to compare it with."""
    try:
        find_hf_model(model.config)
    except CheckpointError as error:
        more = "parity needs one that can; `glassformer parity` alone compares one of every family"
        raise CheckpointError(f"{error}; {more}") from None
    save(model, folder, format="hf")


def open_hf_model(folder: Path, twin: HFModel, dtype: torch.dtype) -> nn.Module:
    """The twin as transformers opens it, with attention written out."""
    (kind,) = twin.family.write(twin.config)["architectures"]  # pyright: ignore[reportGeneralTypeIssues]
    model_class = getattr(transformers, kind)
    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    with in_type(dtype):
        model = model_class.from_pretrained(folder, dtype=dtype, attn_implementation="eager", local_files_only=True)
        if twin.family.model_type == "marian":  # its waves are float32 numbers whatever the model's type
            for side in (model.model.encoder, model.model.decoder):
                waves = sinusoidal_positions(*side.embed_positions.weight.shape, layout="halves", dtype=dtype)
                assert torch.allclose(side.embed_positions.weight, waves, atol=1e-5, rtol=0)
                side.embed_positions.weight.data = waves
    return model.eval()


@contextmanager
def in_type(dtype: torch.dtype) -> Iterator[None]:
    """Where transformers computes in this type, tables included."""
    with torch.no_grad(), InFloat64() if dtype == torch.float64 else nullcontext():
        yield


def hf_inputs(twin: HFModel, seed: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Random tokens under our names and theirs; the padding token, which some of theirs treat apart, is not drawn."""
    config = twin.config
    generator = torch.Generator().manual_seed(seed)
    length = min(LENGTH, getattr(config, "context", None) or LENGTH)
    vocab: int = getattr(config, "vocab")  # noqa: B009 - every configuration that has a twin has one
    ids = torch.randint(vocab, (2, length), generator=generator, device=generator.device)
    pad = getattr(config, "position_offset", 0) - 1 if isinstance(config, EncoderConfig) else -1
    ids[ids == pad] = (pad + 1) % vocab
    if isinstance(config, (Seq2SeqConfig, T5Config)):
        target = torch.randint(vocab, (2, length - 1), generator=generator, device=generator.device)
        return {"source": ids, "target": target}, {"input_ids": ids, "decoder_input_ids": target}
    return {"ids": ids}, {"input_ids": ids}


class _Listener:
    """What the named parts of a model were given and gave, call by call, in the order they finished."""

    def __init__(self, model: nn.Module, names: Iterable[str]) -> None:
        self.heard: dict[str, list[Tensor]] = {}
        self.order: list[tuple[str, int]] = []
        for name in names:
            model.get_submodule(name).register_forward_hook(partial(self._hear, name))

    def _hear(self, name: str, module: nn.Module, given: tuple, gave: object) -> None:
        first = gave[0] if isinstance(gave, tuple) else gave
        before = given[0] if given and not any(module.children()) else None  # a whole may begin at another part
        if isinstance(before, Tensor) and before.is_floating_point():
            self._keep(f"{name}{INPUT}", before)
        if isinstance(first, Tensor):
            self._keep(name, first)

    def _keep(self, label: str, value: Tensor) -> None:
        calls = self.heard.setdefault(label, [])
        self.order.append((label, len(calls)))
        calls.append(value)


def _compare(ours: Model, theirs: nn.Module, twin: HFModel, dtype: torch.dtype, seed: int) -> Iterator[Difference]:
    """Run both and compare what their parts gave, in our order, then what came out."""
    pairs = _counterparts(ours, twin)
    left = _Listener(ours, [name for names in pairs for name in names])
    right = _Listener(theirs, {name for names in pairs.values() for name in names})
    mine, yours = hf_inputs(twin, seed)
    with torch.no_grad():
        output = ours(**mine)
    with in_type(dtype):
        answer = theirs(**yours)
    last = {names[-1]: names for names in pairs}
    for label, call in left.order:
        name, suffix = label.removesuffix(INPUT), INPUT * label.endswith(INPUT)
        found = [calls for their in pairs.get(last.get(name, ()), ()) if (calls := right.heard.get(their + suffix))]
        if name in last and found:
            value = _as_one([left.heard[part + suffix][call] for part in last[name]], bool(suffix))
            place = " + ".join(last[name]) + suffix + (f", call {call + 1}" if call else "")
            other = [value for calls in found for value in calls][call] if len(found) > 1 else found[0][call]
            yield _apart_by(place, pairs[last[name]][0] + suffix, value, other)
    head = twin.config.head if isinstance(twin.config, EncoderConfig) else ""
    key = {"hidden": "last_hidden_state", "pooled": "pooler_output"}.get(head, "logits")
    if head != "sentence":  # theirs ends with the rows, which were the last intermediate
        yield _apart_by("output", key, output, getattr(answer, key))


def _counterparts(ours: Model, twin: HFModel) -> dict[tuple[str, ...], list[str]]:
    """Which parts of theirs do what parts of ours do: those that hold the same tensors, and whole blocks."""
    pairs: dict[tuple[str, ...], list[str]] = {}
    for row in twin.written_rows:
        places = tuple(dict.fromkeys(name.rpartition(".")[0] for name in row.names))
        if all(places) and places and _comparable(ours, places[0], twin):
            pairs[places] = [row.theirs.rpartition(".")[0]]
    for row in twin.written_rows:  # a tied table may be called by its other name
        if "embed_tokens" in row.theirs and row.same_as and ("embedding",) in pairs:
            pairs["embedding",].append(row.theirs.rpartition(".")[0])
    return pairs


def _comparable(ours: Model, place: str, twin: HFModel) -> bool:
    """Not all parts with the same tensor give the same: some of ours have added or not yet scaled."""
    part = ours.get_submodule(place)
    scaled = place == "embedding" and isinstance(twin.config, Seq2SeqConfig) and twin.config.scale_embeddings
    return not (scaled or isinstance(part, (LearnedPositions, RelativeBias)))


def _as_one(parts: list[Tensor], same: bool) -> Tensor:
    """Several of ours as the one that they are there; what they were given is the same for all."""
    return parts[0] if same or len(parts) == 1 else torch.cat(parts, -1)


def _apart_by(place: str, theirs: str, ours: Tensor, other: Tensor) -> Difference:
    if ours.shape != other.shape:
        return Difference(place, theirs, torch.inf, torch.inf)
    apart = float((ours - other).abs().max())
    size = max(1.0, float(other.abs().max()))
    return Difference(place, theirs, apart, apart / size)
