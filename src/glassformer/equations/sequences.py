"""Sequences: select one position, stack, concatenate, and average over positions."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.arithmetic import number, summed
from glassformer.equation import equation


@equation(
    r"y = x_t",
    meaning="The vector at one position of each sequence.",
    intuition="Asking one witness out of the queue.",
    symbols={"x": "sequences", "t": "position; negative counts from the end", "y": "vector at that position"},
    flops=lambda: 0,
)
def select_position(x: Float[Tensor, "*batch seq dim"], t: int) -> Float[Tensor, "*batch dim"]:
    """The vector at position `t` of every sequence."""
    return x[..., t, :]


@select_position.def_gradient(r"\bar x_t = \bar y, \; 0 \text{ elsewhere}")
def _select_position_gradient(y_bar: Tensor, x: Tensor, t: int) -> Tensor:
    x_bar = torch.zeros_like(x)
    x_bar[..., t, :] = y_bar
    return x_bar


select_position.def_cell(lambda index, x, t: number(x[(*index[:-1], t, index[-1])]))


@select_position.def_check
def _select_position_check(x: Tensor, t: int) -> None:
    select_position.require(-x.shape[-2] <= t < x.shape[-2], "t", t, f"a position of a sequence of {x.shape[-2]}")


@equation(
    r"y_b = x_{b, t_b}",
    meaning="The vector at one position of each sequence, its own for every sequence.",
    intuition="Opening every book at its own bookmark.",
    symbols={"x": "sequences", "t": "a position of each sequence", "y": "vectors at those positions"},
    flops=lambda: 0,
)
def select_each(x: Float[Tensor, "batch seq dim"], t: Int[Tensor, " batch"]) -> Float[Tensor, "batch dim"]:
    """The vector of each sequence at its own position, such as that of its EOS token."""
    return x[torch.arange(len(x), device=x.device), t.long()]


@select_each.def_gradient(r"\bar x_{b, t_b} = \bar y_b, \; 0 \text{ elsewhere}")
def _select_each_gradient(y_bar: Tensor, x: Tensor, t: Tensor) -> Tensor:
    x_bar = torch.zeros_like(x)
    x_bar[torch.arange(len(x), device=x.device), t.long()] = y_bar
    return x_bar


select_each.def_cell(lambda index, x, t: number(x[index[0], int(t[index[0]]), index[1]]))


@select_each.def_check
def _select_each_check(x: Tensor, t: Tensor) -> None:
    fits = bool(((t >= 0) & (t < x.shape[1])).all())
    select_each.require(fits, "t", t.tolist()[:5], f"positions of sequences of {x.shape[1]}")


@equation(
    r"y_t = x^{(t)}",
    meaning="Vectors computed one after another become a sequence.",
    intuition="Frames laid on one strip of film.",
    symbols={"steps=x": "vectors in order", "y": "the sequence"},
    flops=lambda: 0,
)
def stack_steps(steps: Sequence[Float[Tensor, "*batch dim"]]) -> Float[Tensor, "*batch seq dim"]:
    """Stack vectors along a new sequence axis before the last."""
    return torch.stack(list(steps), -2)


stack_steps.def_gradient(r"\bar x^{(t)} = \bar y_t")(lambda y_bar: list(y_bar.unbind(-2)))
stack_steps.def_cell(lambda index, steps: number(steps[index[-2]][(*index[:-2], index[-1])]))


@stack_steps.def_check
def _stack_steps_check(steps: Sequence[Tensor]) -> None:
    stack_steps.require(len(steps) > 0, "steps", "empty", "at least one vector")


@equation(
    r"y = [x_1; x_2; \dots]",
    meaning="Tensors are concatenated along one axis.",
    intuition="Beads of several strings threaded onto one.",
    symbols={"parts=x": "the tensors", "axis=": "the axis they are concatenated along", "y": "all of them in one"},
    flops=lambda: 0,
)
def concat(parts: Sequence[Float[Tensor, "..."]], axis: int = -1) -> Float[Tensor, "..."]:
    """Concatenate tensors along an axis; all other axes must agree."""
    return torch.cat(list(parts), axis)


@concat.def_gradient(r"\bar x_i = \text{the part of } \bar y \text{ that came from } x_i")
def _concat_gradient(y_bar: Tensor, parts: Sequence[Tensor], axis: int) -> list[Tensor]:
    return list(y_bar.split([part.shape[axis] for part in parts], axis))


concat.def_cell(lambda index, parts, axis: number(concat.fn(parts, axis)[index]))


@concat.def_check
def _concat_check(parts: Sequence[Tensor], axis: int) -> None:
    concat.require(len(parts) > 0, "parts", "empty", "at least one tensor")
    first = parts[0]
    concat.require(-first.dim() <= axis < first.dim(), "axis", axis, f"an axis of {list(first.shape)}")
    for part in parts[1:]:
        alike = part.dim() == first.dim() and all(
            part.shape[i] == first.shape[i] for i in range(first.dim()) if i != axis % first.dim()
        )
        concat.require(alike, "parts", [list(p.shape) for p in parts], f"shapes that agree except along axis {axis}")


@equation(
    r"y = x_{t^*}, \quad t^* = \max \{ t : m_t \}",
    meaning="A sequence becomes one vector: that of its last real token.",
    intuition="Only whoever has heard the whole story is asked about it.",
    symbols={"x": "sequences", "mask=m": "true for real tokens; all of them if not given", "y": "one vector each"},
    flops=lambda: 0,
)
def last_token(
    x: Float[Tensor, "*batch seq dim"], mask: Bool[Tensor, "*batch seq"] | None = None
) -> Float[Tensor, "*batch dim"]:
    """The vector of the last real token of every sequence; a sequence with none gives its first vector."""
    return x.gather(-2, _last_positions(x, mask)).squeeze(-2)


def _last_positions(x: Tensor, mask: Tensor | None) -> Tensor:
    """The index that picks the last real position of each sequence, for every dimension."""
    m = torch.ones_like(x[..., 0], dtype=torch.bool) if mask is None else mask
    t = (torch.arange(x.shape[-2], device=x.device) * m).amax(-1)
    return t[..., None, None].expand(*x.shape[:-2], 1, x.shape[-1])


@last_token.def_gradient(r"\bar x_{t^*} = \bar y, \; 0 \text{ elsewhere}")
def _last_token_gradient(y_bar: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
    return torch.zeros_like(x).scatter(-2, _last_positions(x, mask), y_bar.unsqueeze(-2))


@last_token.def_cell
def _last_token_cell(index: tuple[int, ...], x: Tensor, mask: Tensor | None) -> str:
    t = int(_last_positions(x, mask)[(*index[:-1], 0, index[-1])])
    return number(x[(*index[:-1], t, index[-1])])


@equation(
    r"y = \frac{\sum_t m_t x_t}{\sum_t m_t}",
    meaning="A sequence becomes one vector: the average of its real tokens.",
    intuition="The center of gravity of the words, padding weighing nothing.",
    symbols={"x": "sequences", "mask=m": "true for real tokens; all of them if not given", "y": "one vector each"},
    flops=lambda batch, seq, dim: batch * (2 * seq * dim + seq + 1 + dim),
    upcast=True,
)
def mean_pool(
    x: Float[Tensor, "*batch seq dim"], mask: Bool[Tensor, "*batch seq"] | None = None
) -> Float[Tensor, "*batch dim"]:
    """Average the vectors of real tokens; a sequence with none gives zeros."""
    m = torch.ones_like(x[..., :1]) if mask is None else mask.unsqueeze(-1).to(x.dtype)
    return (m * x).sum(-2) / m.sum(-2).clamp_min(1)


@mean_pool.def_gradient(r"\bar x_t = m_t \, \bar y / \textstyle\sum_t m_t")
def _mean_pool_gradient(y_bar: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
    m = torch.ones_like(x[..., :1]) if mask is None else mask.unsqueeze(-1).to(x.dtype)
    return m * (y_bar / m.sum(-2).clamp_min(1)).unsqueeze(-2)


@mean_pool.def_cell
def _mean_pool_cell(index: tuple[int, ...], x: Tensor, mask: Tensor | None) -> str:
    column = x[(*index[:-1], slice(None), index[-1])]
    kept = column if mask is None else column[mask[index[:-1]]]
    return f"({summed(kept)}) / {max(len(kept), 1)}"
