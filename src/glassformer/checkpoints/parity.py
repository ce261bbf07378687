"""Parity: one of our models and the same model in transformers, every named intermediate of one run compared."""

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

from glassformer.checkpoints.huggingface import HFModel, config_table, find_hf_model
from glassformer.checkpoints.load import Loaded, load
from glassformer.checkpoints.save import save
from glassformer.equations.positions import sinusoidal_positions
from glassformer.errors import CheckpointError
from glassformer.layers.basic import LearnedPositions
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.model import Model
from glassformer.layers.positions import RelativeBias

BOUNDS = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
LENGTH = 12
INPUT = ", input"
OUTPUTS = {"hidden": "last_hidden_state", "pooled": "pooler_output"}  # of encoders; of other heads the logits


@dataclass(frozen=True)
class Difference:
    """One intermediate: our name, theirs, and the largest difference, absolute and relative to their largest number."""

    place: str
    hf: str
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
        """The intermediate with the largest relative difference."""
        return max(self.differences, key=lambda row: row.relative)


class InFloat64(TorchFunctionMode):
    """Compute in float64 where transformers says float32.

    It does so inside norms, rotary tables and softmax, whatever the model's dtype, so that its float64 models are
    right to seven digits only.
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
    """Compare a model, or the one in a folder, with the model that transformers reads from the same files.

    A model is exported first, so that the files are compared as well. `step` chooses a checkpoint of a run.
    """
    with tempfile.TemporaryDirectory() as scratch:
        found = Loaded(model) if isinstance(model, Model) else load(model, step=step)
        if isinstance(model, Model) or found.hf_model is None:
            folder = Path(scratch)
            _export(found.model, folder)
        else:
            folder = Path(model)
        ours = load(folder, dtype=dtype)
        described = ours.hf_model or find_hf_model(ours.model.config)
        rows = list(_compare(ours.model, open_hf_model(folder, described, dtype), described, dtype, seed))
    return Parity(described.family.model_type, str(dtype).removeprefix("torch."), BOUNDS[dtype], tuple(rows))


def _export(model: Model, folder: Path) -> None:
    """Write a model for transformers, or raise if it has no family there."""
    try:
        find_hf_model(model.config)
    except CheckpointError as error:
        more = "parity needs one that can; `glassformer parity` alone compares one of every family"
        raise CheckpointError(f"{error}; {more}") from None
    save(model, folder, format="hf")


def open_hf_model(folder: Path, described: HFModel, dtype: torch.dtype) -> nn.Module:
    """The model in transformers, with eager attention."""
    (kind,) = config_table(described)["architectures"]  # pyright: ignore[reportGeneralTypeIssues]
    model_class = getattr(transformers, kind)
    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    with in_type(dtype):
        model = model_class.from_pretrained(folder, dtype=dtype, attn_implementation="eager", local_files_only=True)
        if described.family.model_type == "marian":  # its positions are float32 whatever the model's dtype
            for side in (model.model.encoder, model.model.decoder):
                waves = sinusoidal_positions(*side.embed_positions.weight.shape, layout="halves", dtype=dtype)
                assert torch.allclose(side.embed_positions.weight, waves, atol=1e-5, rtol=0)
                side.embed_positions.weight.data = waves
    return model.eval()


@contextmanager
def in_type(dtype: torch.dtype) -> Iterator[None]:
    """Make transformers compute in this dtype, tables included."""
    with torch.no_grad(), InFloat64() if dtype == torch.float64 else nullcontext():
        yield


def hf_inputs(ours: Model, pad: object, seed: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Random tokens under our names and theirs, without the padding token, which some of their models treat apart."""
    generator = torch.Generator().manual_seed(seed)
    vocab, length = ours.config.vocab, min(LENGTH, ours.config.context or LENGTH)
    ids = torch.randint(vocab, (2, length), generator=generator, device=generator.device)
    if isinstance(pad, int):
        ids[ids == pad] = (pad + 1) % vocab
    if isinstance(ours, EncoderDecoder):
        target = torch.randint(vocab, (2, length - 1), generator=generator, device=generator.device)
        return {"source": ids, "target": target}, {"input_ids": ids, "decoder_input_ids": target}
    return {"ids": ids}, {"input_ids": ids}


class _Listener:
    """The inputs and outputs of the named parts of a model, call by call, in the order they finished."""

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


def _compare(ours: Model, theirs: nn.Module, described: HFModel, dtype: torch.dtype, seed: int) -> Iterator[Difference]:
    """Run both and compare the values of their parts, in our order, then the outputs."""
    table = config_table(described)
    pairs = _counterparts(ours, described, embedding=not table.get("scale_embedding"))
    left = _Listener(ours, pairs)
    right = _Listener(theirs, {name for names in pairs.values() for name in names})
    mine, yours = hf_inputs(ours, table.get("pad_token_id"), seed)
    with torch.no_grad():
        output = ours(**mine)
    with in_type(dtype):
        answer = theirs(**yours)
    for label, call in left.order:
        name, suffix = label.removesuffix(INPUT), INPUT * label.endswith(INPUT)
        found = [calls for their in pairs[name] if (calls := right.heard.get(their + suffix))]
        if found:
            place = label + (f", call {call + 1}" if call else "")
            other = [value for calls in found for value in calls][call] if len(found) > 1 else found[0][call]
            yield _difference(place, pairs[name][0] + suffix, left.heard[label][call], other)
    if described.head != "sentence":  # theirs ends with the hidden states, which were the last intermediate
        key = OUTPUTS.get(described.head, "logits")
        yield _difference("output", key, output, getattr(answer, key))


def _counterparts(ours: Model, described: HFModel, embedding: bool) -> dict[str, list[str]]:
    """Parts of theirs that compute what parts of ours compute: those that hold the same tensors.

    Learned positions and relative biases of ours are already added, and a scaled `embedding` is not yet scaled.
    """
    pairs: dict[str, list[str]] = {}
    for row in described.written_rows:
        part = row.native.rpartition(".")[0]
        skipped = not embedding if part == "embedding" else False
        if part and not skipped and not isinstance(ours.get_submodule(part), (LearnedPositions, RelativeBias)):
            pairs[part] = [row.hf.rpartition(".")[0]]
    for row in described.written_rows:  # a tied table may be called by its other name
        if "embed_tokens" in row.hf and row.same_as and "embedding" in pairs:
            pairs["embedding"].append(row.hf.rpartition(".")[0])
    return pairs


def _difference(place: str, theirs: str, ours: Tensor, other: Tensor) -> Difference:
    if ours.shape != other.shape:
        return Difference(place, theirs, torch.inf, torch.inf)
    apart = float((ours - other).abs().max())
    size = max(1.0, float(other.abs().max()))
    return Difference(place, theirs, apart, apart / size)
