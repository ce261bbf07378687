"""Changes to a run as plain data, and what each of them replaces."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec
import torch
from torch import Tensor

from glassformer.equations.algebra import residual
from glassformer.equations.attention import weighted_sum
from glassformer.equations.softmax import softmax
from glassformer.errors import TapeError
from glassformer.probes.attention_steps import attention_steps
from glassformer.probes.cells import full_index
from glassformer.probes.names import TOKEN_AXES
from glassformer.suggestions import did_you_mean

if TYPE_CHECKING:
    from glassformer.probes.trace import Trace

Edit: TypeAlias = Callable[[Tensor], tuple[Tensor, Tensor]]  # from values: where they are replaced, and by what
Donor: TypeAlias = Callable[[str, str | None], "Trace"]  # the run of another text, to take tensors from


class HeadOff(msgspec.Struct, tag="head", tag_field="kind", frozen=True, forbid_unknown_fields=True):
    """Switch off a head of an attention such as `layers.0.attention`: its output is zero."""

    module: str
    head: int


class ModuleOff(msgspec.Struct, tag="module", tag_field="kind", frozen=True, forbid_unknown_fields=True):
    """Switch off a layer or a sublayer, such as `layers.0.feed_forward`: it adds nothing to the residual stream.

    With post-norm, the norms of a layer still run.
    """

    module: str


class TokenOff(msgspec.Struct, tag="token", tag_field="kind", frozen=True, forbid_unknown_fields=True):
    """Switch off a token: no other position attends to it, in any layer, as its score is minus infinity there.

    Attention weights of the others are normalized again. Its own position is still computed.
    """

    position: int
    input: str = "ids"


class NewValue(msgspec.Struct, tag="cell", tag_field="kind", frozen=True, forbid_unknown_fields=True):
    """Another number at one index of a step's output; those that JSON cannot write are given by name."""

    step: str
    index: tuple[int, ...]
    value: float | Literal["NaN", "Infinity", "-Infinity"]


class Patched(msgspec.Struct, tag="patch", tag_field="kind", frozen=True, forbid_unknown_fields=True):
    """A step's output, or its part for one token, taken from the run of another text (activation patching)."""

    step: str
    text: str
    second: str | None = None
    token: int | None = None


RunChange: TypeAlias = HeadOff | ModuleOff | TokenOff | NewValue | Patched


def read_changes(text: str | bytes) -> tuple[RunChange, ...]:
    """Changes from JSON, such as `[{"kind": "head", "module": "layers.0.attention", "head": 1}]`."""
    try:
        return msgspec.json.decode(text or "[]", type=tuple[RunChange, ...])
    except msgspec.DecodeError as error:
        raise TapeError(f"the changes cannot be read: {error}") from None


def edits_of(outline: "Trace", change: RunChange, donor: Donor) -> Iterator[tuple[str, Edit]]:
    """The steps that a change replaces values of, by path, each with its edit; `outline` may have shapes alone."""
    match change:
        case HeadOff():
            yield _head_step(outline, change), _at((slice(None), change.head), 0.0)
        case ModuleOff():
            yield from ((path, _at((), 0.0)) for path in _added(outline, change.module))
        case TokenOff():
            yield from _score_steps(outline, change)
        case NewValue():
            name, value = change.step, _float_output(outline, change.step)
            yield outline.names.path(name), _at(full_index(name, value, change.index), float(change.value))
        case Patched():
            other = donor(change.text, change.second)[change.step].step.output.detach()
            old = _float_output(outline, change.step)
            if other.shape != old.shape:
                shapes = f"{list(old.shape)}, and {list(other.shape)} in the run of {change.text!r}"
                raise TapeError(f"{change.step} has shape {shapes}: take a text of as many tokens")
            yield outline.names.path(change.step), _at(_token_index(outline, change), other)


def _at(index: tuple[int | slice, ...], new: float | Tensor) -> Edit:
    """Replace what stands at an index by a number, or by what stands there in another tensor."""

    def edit(value: Tensor) -> tuple[Tensor, Tensor]:
        where = torch.zeros_like(value, dtype=torch.bool)
        where[index] = True
        return where, new.to(value) if isinstance(new, Tensor) else torch.full_like(value, new)

    return edit


def _float_output(outline: "Trace", name: str) -> Tensor:
    value = outline[name].step.output
    if not value.is_floating_point():
        raise TapeError(f"{name} has the dtype {str(value.dtype).removeprefix('torch.')}: only floats can be changed")
    return value


def _head_step(outline: "Trace", change: HeadOff) -> str:
    """The path of the output of an attention, by head."""
    found = {outline.names.modules.get(step.module, step.module): step for step in attention_steps(outline.tape.steps)}
    if change.module not in found:
        raise TapeError(f"no attention is called {change.module!r}; {did_you_mean(change.module, found)}")
    step = found[change.module]
    heads = step.output.shape[1]
    if not 0 <= change.head < heads:
        raise TapeError(f"{change.module} has no head {change.head}; there are heads 0 to {heads - 1}")
    return step.path


def _added(outline: "Trace", module: str) -> list[str]:
    """The paths of the steps inside a module whose results are added to a residual stream."""
    found = [name for name in _added_names(outline) if f"{name}.".startswith(f"{module}.")]
    if not found:
        raise TapeError(
            f"{module!r} adds nothing to a residual stream; {did_you_mean(module, residual_modules(outline))}"
        )
    return [outline.names.path(name) for name in found]


def _added_names(outline: "Trace") -> list[str]:
    added = [step.inputs["f"] for step in outline.tape.steps if step.equation is residual]
    return list(dict.fromkeys(outline.source_of(f) for f in added))


def residual_modules(outline: "Trace") -> list[str]:
    """Layers and sublayers that add to a residual stream, such as `layers.0` and `layers.0.attention`."""
    found: dict[str, None] = {}
    for name in _added_names(outline):
        parts = name.split(".")
        start = next((at for at, part in enumerate(parts) if part.isdecimal()), len(parts)) + 1
        found |= dict.fromkeys(".".join(parts[:count]) for count in (start, start + 1) if count <= len(parts))
    return list(found)


def _score_steps(outline: "Trace", change: TokenOff) -> Iterator[tuple[str, Edit]]:
    """The scores in every attention whose keys are the tokens of an input."""
    tokens = outline.inputs.get(change.input)
    if not isinstance(tokens, Tensor) or tokens.dim() != 2:
        names = [name for name, value in outline.inputs.items() if isinstance(value, Tensor) and value.dim() == 2]
        has = did_you_mean(change.input, names) if names else "it reads no tokens at all"
        raise TapeError(f"the model reads no tokens called {change.input!r}; {has}")
    if not 0 <= change.position < tokens.shape[1]:
        raise TapeError(f"{change.input} has no token {change.position}; there are tokens 0 to {tokens.shape[1] - 1}")
    every = [step for top in outline.tape.steps for step in top.walk()]
    made = {id(step.output): step for step in every if step.equation is softmax}
    scores = [(step, made[id(step.inputs["a"])].inputs["z"]) for step in every if step.equation is weighted_sum]
    found = False
    for step, z in scores:
        name, maker = outline.names[step.path], outline.origin(z)[1] if isinstance(z, Tensor) else None
        if maker is not None and _keys_are(change.input, name):
            found = True
            yield maker.path, _column(change.position, own=".cross_attention." not in f".{name}.")
    if not found:
        raise TapeError(f"no attention has the tokens of {change.input} as keys: the token cannot be masked out")


def _keys_are(name: str, step: str) -> bool:
    """Whether the keys of an attention are the tokens of an input: a decoder's cross-attention reads the source."""
    if name not in ("source", "target"):
        return True
    return (step.startswith("decoder.") and ".cross_attention." not in step) == (name == "target")


def _column(position: int, own: bool) -> Edit:
    """Minus infinity for a key, but for its own query where queries and keys are the same tokens."""

    def edit(scores: Tensor) -> tuple[Tensor, Tensor]:
        where = torch.zeros_like(scores, dtype=torch.bool)
        where[..., position] = True
        if own:
            where[..., position, position] = False
        return where, torch.full_like(scores, -math.inf)

    return edit


def _token_index(outline: "Trace", change: Patched) -> tuple[int | slice, ...]:
    if change.token is None:
        return ()
    step = outline[change.step]
    axis = next((axis for axis, name in enumerate(step.axes) if name in TOKEN_AXES), None)
    if axis is None:
        raise TapeError(f"{change.step} has the axes {', '.join(step.axes)}: there are no tokens on them")
    if not 0 <= change.token < step.shape[axis]:
        raise TapeError(f"{change.step} has no token {change.token}; there are tokens 0 to {step.shape[axis] - 1}")
    return (*[slice(None)] * axis, change.token)


def combined(edits: Sequence[Edit]) -> Edit:
    """Several edits of the same values as one; where they meet, the last one counts."""

    def edit(value: Tensor) -> tuple[Tensor, Tensor]:
        where, new = edits[0](value)
        for each in edits[1:]:
            more, newer = each(value)
            where, new = where | more, torch.where(more, newer, new)
        return where, new

    return edit
