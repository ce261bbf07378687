"""One training step of a model as the kernels it calls, recorded from tensors that have shapes only."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from glassformer.equation import MODE, AnyEquation, no_checks, tensors_in
from glassformer.equations.attention import attention, better_in_float32
from glassformer.equations.linear_cross_entropy import linear_cross_entropy, loss_in_pieces
from glassformer.equations.packed_attention import packed_attention
from glassformer.equations.regularization import apply_dropout, dropout, uniform_mask
from glassformer.equations.window_attention import window_attention
from glassformer.kernel_calls import LABEL, KernelRecorder, label_nodes, pretending
from glassformer.layers.block import Attention, Block
from glassformer.layers.model import Model
from glassformer.planning.example_batch import example_batch
from glassformer.planning.kernel_data import BACKWARD, FORWARD, EqualBlocks, RecordedStep, Tag
from glassformer.planning.shortened import on_meta, pretended, shortened
from glassformer.training.objective import LossModule, Objective


def _documents_as_rows(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    c: Tensor,
    e: Tensor,
    longest: int,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Packed attention of a GPU where all documents are equally long: it computes what rows of one document take."""
    del c, e
    q, k, v = (t.transpose(1, 2).unflatten(1, (-1, longest)).flatten(0, 1).transpose(1, 2) for t in (q, k, v))
    o = attention.kernel(q, k, v, None, None, causal, scale)
    return o.transpose(1, 2).reshape(1, -1, *o.shape[1::2]).transpose(1, 2)


def _attention_of_cpu(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
) -> Tensor:
    """Attention as a CPU trains it: in float32 where that is faster."""
    if softcap is not None or not better_in_float32(q, k):
        return attention.kernel(q, k, v, mask, bias, causal, scale, softcap)
    mask, bias = (t if t is None or t.dtype == torch.bool else t.float() for t in (mask, bias))
    with torch.autocast("cpu", enabled=False):
        return attention.kernel(q.float(), k.float(), v.float(), mask, bias, causal, scale).to(q.dtype)


def _dropout_of_gpu(x: Tensor, p: float, generator: torch.Generator | None = None) -> Tensor:
    """Dropout as it is compiled for a GPU."""
    return apply_dropout.fn(x, uniform_mask(x, p, generator), p)


def _window_of_gpu(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w: int,
    d: int = 1,
    mask: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Tensor:
    """A window that is short beside the text, as the flash kernel of a GPU computes it: a query attends to w keys."""
    if 2 * w * d > k.shape[-2]:
        return window_attention.kernel(q, k, v, w, d, mask, scale, softcap)
    return attention.kernel(q, k[..., :w, :], v[..., :w, :], None, None, False, scale)


# What is recorded in place of an equation's own kernel, by the type of the planned device: tensors of a CPU stand for
# those of a GPU, and the loss has as many calls for every size of a batch.
KERNELS: Mapping[str, Mapping[str, Callable[..., object]]] = {
    "cpu": {
        linear_cross_entropy.name: partial(loss_in_pieces, planned="cpu"),
        attention.name: _attention_of_cpu,
    },
    "cuda": {
        linear_cross_entropy.name: partial(loss_in_pieces, planned="cuda"),
        packed_attention.name: _documents_as_rows,
        dropout.name: _dropout_of_gpu,
        window_attention.name: _window_of_gpu,
    },
}
HALF_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Labels:
    """Runs equations by their kernels, or as a plan for a type of device records them, and knows which one runs."""

    def __init__(self, planned: str = "") -> None:
        self.kernels = KERNELS.get(planned, {})
        self.equation = self.block = ""
        self.phase = FORWARD
        self.last = ""  # block of the last kernel, to which the engine's own sums belong

    def record(self, equation: AnyEquation, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Run an equation's kernel, and mark what goes back through it."""
        outer, self.equation = self.equation, self.equation or equation.name
        MODE.dispatcher = None
        try:
            result = self.kernels.get(equation.name, equation.kernel)(*args, **kwargs)
        finally:
            MODE.dispatcher = self
            self.equation = outer
        label_nodes(tensors_in(result), (equation.name, self.block))
        return result

    def tag(self, metadata: object) -> Tag:
        """The tag of the kernel that runs now, by the autograd node that runs it."""
        if self.phase == FORWARD:
            return Tag(self.equation, FORWARD, self.block)
        equation, block = metadata.get(LABEL, ("", self.last)) if isinstance(metadata, dict) else ("", self.last)
        self.last = block
        return Tag(equation, BACKWARD, block)

    @contextmanager
    def on(self, model: nn.Module, blocks: Sequence[str]) -> Iterator[None]:
        """Label equations, and the blocks they run in, while inside."""
        modules = dict(model.named_modules(remove_duplicate=False))
        ids: dict[int, list[str]] = {}
        for name in blocks:
            ids.setdefault(id(modules[name]), []).append(name)
        with ExitStack() as stack:
            for key, names in ids.items():
                module = next(modules[name] for name in names if id(modules[name]) == key)
                enter, leave = partial(self._enter, iter(names)), self._leave
                stack.callback(module.register_forward_pre_hook(enter).remove)
                stack.callback(module.register_forward_hook(leave).remove)
            before, MODE.dispatcher = MODE.dispatcher, self
            stack.callback(setattr, MODE, "dispatcher", before)
            yield

    def _enter(self, names: Iterator[str], *_: object) -> None:
        self.block = next(names)

    def _leave(self, _module: nn.Module, _args: object, result: object) -> None:
        label_nodes(tensors_in(result), ("", self.block))
        self.block = ""


def record_step(
    model: Model, objective: Objective, batch: int, length: int, dtype: str, device: str = "cpu", whole: bool = False
) -> RecordedStep:
    """Forward and backward pass of a model on a batch, by the kernels of a type of device.

    Of many equal blocks only four run, unless it is `whole`.
    """
    one = example_batch(model, objective, 1, length)
    short, runs = (on_meta(model), []) if whole else shortened(model)
    with pretending(torch.device("cpu")):
        same = pretended(short)
        for part in same.modules():
            if isinstance(part, Attention) and device == "cuda":
                part.dropout = 0.0  # its kernels drop weights on their way, those of a CPU cannot
        inputs = example_batch(same, objective, batch, length)
        module, labels = LossModule(same, objective).train(), Labels(device)
        with no_checks(), labels.on(same, block_names(same)), KernelRecorder(labels.tag) as recorder:
            with _autocast(dtype):
                loss = module(inputs)[0]
            labels.phase = BACKWARD
            loss.backward()
            del loss
    return recorded(recorder, runs, batch * objective.tokens(model, one))


def recorded(recorder: KernelRecorder, runs: Sequence[EqualBlocks], tokens: int) -> RecordedStep:
    """What a recorder saw of a model with these runs of equal blocks."""
    calls, last = recorder.calls, len(recorder.calls)
    died = [recorder.died.get(number, last) for number in range(len(recorder.bytes))]
    tags = [call.tag for call in calls if isinstance(call.tag, Tag)]
    return RecordedStep(calls, tags, recorder.bytes, recorder.born, died, runs, tokens)


def block_names(model: nn.Module) -> list[str]:
    """The blocks of a model by name, those with shared weights once for each place."""
    return [name for name, part in model.named_modules(remove_duplicate=False) if isinstance(part, Block)]


def _autocast(dtype: str) -> torch.autocast:
    half = HALF_DTYPES.get(dtype)
    return torch.autocast("cpu", half or torch.bfloat16, enabled=half is not None)
