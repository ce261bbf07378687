"""Spans: where an answer starts and ends in a text, from two rows of logits."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.equation import equation
from glassformer.equations.ranges import valid_logits, whole


@equation(
    r"z_{k,t} = x_{t,k} \text{ if } m_t, \text{ else } -\infty",
    meaning="Two numbers for each token become two rows of logits over the tokens: for the start and for the end.",
    intuition="Every word votes twice: the answer begins with me, the answer ends with me.",
    symbols={
        "x": "numbers for start and end at each position",
        "mask=m": "true for real tokens; all of them if not given",
        r"fill=-\infty": "logit of positions that are padding, −∞ or a number far below all others",
        "z": "logits over the positions, of the start and of the end",
    },
    flops=lambda: 0,
)
def span_logits(
    x: Float[Tensor, "*batch seq sides"], mask: Bool[Tensor, "*batch seq"] | None = None, fill: float = -math.inf
) -> Float[Tensor, "*batch sides seq"]:
    """Logits of start and end over the positions (Devlin et al., 2018); their cross-entropy is the loss of a span."""
    z = x.transpose(-2, -1)
    return z.clone() if mask is None else z.masked_fill(~mask.unsqueeze(-2), fill)


@span_logits.def_gradient(r"\bar x_{t,k} = \bar z_{k,t} \text{ where } t \text{ is a real token, else } 0")
def _span_logits_gradient(z_bar: Tensor, mask: Tensor | None) -> Tensor:
    x_bar = z_bar.transpose(-2, -1)
    return x_bar if mask is None else x_bar.masked_fill(~mask.unsqueeze(-1), 0)


@span_logits.def_cell
def _span_logits_cell(index: tuple[int, ...], x: Tensor, mask: Tensor | None, fill: float) -> str:
    *rows, side, position = index
    real = mask is None or bool(mask[(*rows, position)])
    return number(x[(*rows, position, side)]) if real else number(fill)


@equation(
    r"S_{st} = z^{\text{start}}_s + z^{\text{end}}_t \text{ if } s \le t < s + n, \text{ else } -\infty",
    meaning="The score of every span: the logit of its start plus the logit of its end.",
    intuition="A table of all ways to cut a strip of paper twice: the second cut never before the first.",
    symbols={
        "z": "logits of the start and of the end over the positions",
        "n": "most tokens of a span",
        "mask=": "true for positions where a span may start and end; all of them if not given",
        r"fill=-\infty": "score of a pair that is not a span: −∞, or a number far below all others",
        "S": "score of each span, by start and by end",
    },
    names={"S": "span_scores"},
    flops=lambda batch, seq: batch * seq * seq,
    where={"z": valid_logits, "n": whole},
    upcast=True,
)
def span_scores(
    z: Float[Tensor, "*batch 2 seq"], n: int, mask: Bool[Tensor, "*batch seq"] | None = None, fill: float = -math.inf
) -> Float[Tensor, "*batch seq seq"]:
    """Scores of all spans of at most `n` tokens; rows are starts and columns are ends."""
    S = z[..., 0, :, None] + z[..., 1, None, :]
    return S.masked_fill(~_is_span(z, n, mask), fill)


@span_scores.def_gradient(
    r"\bar z^{\text{start}}_s = \textstyle\sum_t \bar S_{st}, \; \bar z^{\text{end}}_t = \sum_s \bar S_{st}"
    r"\text{ over the spans}"
)
def _span_scores_gradient(S_bar: Tensor, z: Tensor, n: int, mask: Tensor | None) -> Tensor:
    S_bar = S_bar.masked_fill(~_is_span(z, n, mask), 0)
    return torch.stack([S_bar.sum(-1), S_bar.sum(-2)], -2)


@span_scores.def_cell
def _span_scores_cell(index: tuple[int, ...], z: Tensor, n: int, mask: Tensor | None, fill: float) -> str:
    *rows, start, end = index
    if not _is_span(z, n, mask).expand(*z.shape[:-2], -1, -1)[index]:
        return number(fill)
    return f"{number(z[(*rows, 0, start)])} + {number(z[(*rows, 1, end)])}"


@equation(
    r"(s, t) = \arg\max_{s \le t < s + n} \; z^{\text{start}}_s + z^{\text{end}}_t",
    meaning="The most likely span: the best start and end that belong together.",
    intuition="Of all the ways to underline a stretch of a sentence, the one that both ends agree on.",
    symbols={
        "z": "logits of the start and of the end over the positions",
        "n": "most tokens of a span",
        "mask=": "true for positions where a span may start and end; all of them if not given",
        "span=(s, t)": "first and last position of the best span",
    },
    flops=lambda batch, seq: batch * seq * seq,
    where={"z": valid_logits, "n": whole},
)
def best_span(
    z: Float[Tensor, "*batch 2 seq"], n: int, mask: Bool[Tensor, "*batch seq"] | None = None
) -> Int[Tensor, "*batch 2"]:
    """First and last position of the span with the highest score; among equal ones, the first."""
    seq = z.shape[-1]
    best = span_scores.fn(z, n, mask).flatten(-2).argmax(-1)
    return torch.stack([best // seq, best % seq], -1)


def _is_span(z: Tensor, n: int, mask: Tensor | None) -> Tensor:
    """Which pairs of positions [*batch, seq, seq] are a span: the end not before the start, and not too far after."""
    at = torch.arange(z.shape[-1], device=z.device)
    length = at - at[:, None]
    inside = (length >= 0) & (length < n)
    return inside if mask is None else inside & mask.unsqueeze(-1) & mask.unsqueeze(-2)
