"""Parity: compare every named intermediate of a model with the same model in transformers."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
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
from glassformer.layers.image_classifier import ImageClassifier
from glassformer.layers.model import Model
from glassformer.layers.positions import RelativeBias
from glassformer.models.causal_classifier import CausalClassifier
from glassformer.models.clip import CLIP

BOUNDS = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
LENGTH = 12
INPUT = ", input"
PAIR_LOGITS = "logits_per_image"  # the output of CLIP
OUTPUTS = {  # of encoders; of other heads the logits
    "hidden": ("last_hidden_state",), "pooled": ("pooler_output",), "span": ("start_logits", "end_logits")
}  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """One intermediate: its name here and in transformers, and the largest difference, absolute and relative."""

    native: str
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

    Norms, rotary tables and softmax of transformers are float32 whatever the model's dtype, so that its float64 models
    are correct to seven digits only.
    """

    def __torch_function__(
        self, func: Callable[..., object], types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        """Run the same function with float64 in place of float32."""
        swap = lambda value: torch.float64 if value is torch.float32 else value  # noqa: E731
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
        folder = Path(scratch) if isinstance(model, Model) or found.hf_model is None else Path(model)
        if folder == Path(scratch):
            try:
                find_hf_model(found.model.config)
            except CheckpointError as error:
                more = "parity needs one that can; `glassformer parity` alone compares one of every family"
                raise CheckpointError(f"{error}; {more}") from None
            save(found.model, folder, format="hf")
        native = load(folder, dtype=dtype)
        described = native.hf_model or find_hf_model(native.model.config)
        rows = tuple(_compare(native.model, _open_hf_model(folder, described, dtype), described, dtype, seed))
    return Parity(described.family.model_type, str(dtype).removeprefix("torch."), BOUNDS[dtype], rows)


def _open_hf_model(folder: Path, described: HFModel, dtype: torch.dtype) -> nn.Module:
    """The model in transformers, with eager attention."""
    (kind,) = config_table(described)["architectures"]  # pyright: ignore[reportGeneralTypeIssues]
    model_class = getattr(transformers, kind)
    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    with torch.no_grad(), InFloat64() if dtype == torch.float64 else nullcontext():
        model = model_class.from_pretrained(folder, dtype=dtype, attn_implementation="eager", local_files_only=True)
        if described.family.model_type == "marian":  # its positions are float32 whatever the model's dtype
            for side in (model.model.encoder, model.model.decoder):
                waves = sinusoidal_positions(*side.embed_positions.weight.shape, layout="halves", dtype=dtype)
                assert torch.allclose(side.embed_positions.weight, waves, atol=1e-5, rtol=0)
                side.embed_positions.weight.data = waves
    return model.eval()


def _inputs(model: Model, pad: object, seed: int) -> dict[str, Tensor]:
    """Random tokens under the names of transformers, without padding, which some of its models treat differently."""
    generator = torch.Generator().manual_seed(seed)
    if isinstance(model, ImageClassifier):
        return _pictures(model, generator)
    vocab, length = model.config.vocab, min(LENGTH, model.config.context or LENGTH)
    rows = 1 if isinstance(model, CausalClassifier) and pad is None else 2  # without padding transformers takes one
    ids = torch.randint(vocab, (rows, length), generator=generator, device=generator.device)
    if isinstance(pad, int):
        ids[ids == pad] = (pad + 1) % vocab
    if isinstance(model, CLIP):
        return _pictures(model, generator) | {"input_ids": _with_eos(ids, model.config.eos)}
    if not isinstance(model, EncoderDecoder):
        return {"input_ids": ids}
    target = torch.randint(vocab, (2, length - 1), generator=generator, device=generator.device)
    return {"input_ids": ids, "decoder_input_ids": target}


def _pictures(model: CLIP | ImageClassifier, generator: torch.Generator) -> dict[str, Tensor]:
    size = (2, model.config.channels, model.config.image_size, model.config.image_size)
    dtype = next(model.parameters()).dtype
    return {"pixel_values": torch.randn(size, generator=generator, device=generator.device).to(dtype)}


def _with_eos(ids: Tensor, eos: int | None) -> Tensor:
    """Texts that hold an EOS, at which CLIP reads them, each elsewhere."""
    if eos is not None:
        for row in range(len(ids)):
            ids[row, -1 - row] = eos
    return ids


class _Listener:
    """Record the inputs and outputs of the named modules of a model, call by call, in the order they finish."""

    def __init__(self, model: nn.Module, names: Iterable[str]) -> None:
        self.heard: dict[str, list[Tensor]] = {}
        self.order: list[tuple[str, int]] = []
        for name in names:
            model.get_submodule(name).register_forward_hook(partial(self._hear, name))

    def _hear(self, name: str, module: nn.Module, given: tuple, gave: object) -> None:
        before = given[0] if given and not any(module.children()) else None  # composite modules may start elsewhere
        after = gave[0] if isinstance(gave, tuple) else gave
        if not isinstance(before, Tensor) or not before.is_floating_point():
            before = None
        for label, value in ((f"{name}{INPUT}", before), (name, after)):
            if isinstance(value, Tensor):
                calls = self.heard.setdefault(label, [])
                self.order.append((label, len(calls)))
                calls.append(value)


def _compare(
    native: Model, hf_model: nn.Module, described: HFModel, dtype: torch.dtype, seed: int
) -> Iterator[Difference]:
    """Run both models and compare the values of their modules, in the order of the native one, then the outputs."""
    table = config_table(described)
    pairs = _counterparts(native, described, embedding=not table.get("scale_embedding"))
    left = _Listener(native, pairs)
    right = _Listener(hf_model, {name for names in pairs.values() for name in names})
    inputs = _inputs(native, table.get("pad_token_id"), seed)
    with torch.no_grad():
        output = native(*inputs.values())
    with torch.no_grad(), InFloat64() if dtype == torch.float64 else nullcontext():
        answer = hf_model(**inputs)
    for label, call in left.order:
        name, suffix = label.removesuffix(INPUT), INPUT * label.endswith(INPUT)
        found = [calls for each in pairs[name] if (calls := right.heard.get(each + suffix))]
        if found:
            which = label + (f", call {call + 1}" if call else "")
            other = [value for calls in found for value in calls][call] if len(found) > 1 else found[0][call]
            yield _difference(which, pairs[name][0] + suffix, left.heard[label][call], other)
    if described.head != "sentence":  # transformers ends with the hidden states, which were the last intermediate
        keys = (PAIR_LOGITS,) if isinstance(native, CLIP) else OUTPUTS.get(described.head, ("logits",))
        found = [getattr(answer, key) for key in keys]
        yield _difference("output", ", ".join(keys), output, torch.stack(found, 1) if len(found) > 1 else found[0])


def _counterparts(native: Model, described: HFModel, embedding: bool) -> dict[str, list[str]]:
    """The modules of transformers that compute the same as native ones: those that hold the same tensors.

    Native learned positions and relative biases are left out because their output is already the sum, and so are an
    `embedding` that transformers scales before it returns, what is a convolution there, and the classifier of a
    decoder, which there reads every token before the last is chosen.
    """
    pairs: dict[str, list[str]] = {}
    convolutions = {row.native.rpartition(".")[0] for row in described.written_rows if row.reshaped is not None}
    for row in described.written_rows:
        part, hf = row.native.rpartition(".")[0], described.family.module(row.hf)
        skipped = not part or part in convolutions or (part == "embedding" and not embedding)
        skipped |= part == "classifier" and isinstance(native, CausalClassifier)
        if not skipped and not isinstance(native.get_submodule(part), (LearnedPositions, RelativeBias)):
            pairs[part] = [hf]
        if "embed_tokens" in row.hf and row.same_as and "embedding" in pairs:  # a tied table may be called by this name
            pairs["embedding"].append(hf)
    return pairs


def _difference(native: str, hf: str, value: Tensor, other: Tensor) -> Difference:
    if value.shape != other.shape:
        return Difference(native, hf, torch.inf, torch.inf)
    largest = float((value - other).abs().max())
    return Difference(native, hf, largest, largest / max(1.0, float(other.abs().max())))
