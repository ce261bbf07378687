"""Tokens to vectors and back: look-up, one-hot rows, the scale of embeddings, the tied output."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from glassformer.arithmetic import dot, number
from glassformer.equation import equation
from glassformer.equations.ranges import Require, float_type, whole


def require_ids(require: Require, ids: Tensor, size: int, table: str) -> None:
    """Every id names a row that exists."""
    if ids.numel():
        low, high = int(ids.min()), int(ids.max())
        got = f"between {low} and {high}"
        require(low >= 0 and high < size, "ids", got, f"between 0 and {size - 1}, the rows of {table}")


def scatter_rows(rows: Tensor, ids: Tensor, like: Tensor) -> Tensor:
    """Add each row into the row of a table that its id names: a look-up, backward.

    Sums of half-precision rows are kept in float32, since a frequent id may name thousands.
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    table = torch.zeros(like.shape, dtype=dtype, device=like.device)
    rows = rows.reshape(ids.numel(), like.shape[1]).to(dtype)
    return table.index_add(0, ids.flatten().long(), rows).to(like.dtype)


@equation(
    r"e = E_{\text{id}}",
    meaning="Each token's vector is the row of the table that its id names.",
    intuition="A cloakroom: hand in the number, get back the coat.",
    symbols={"E": "table, one row per token of the vocabulary", "ids": "token ids", "e": "one vector per id"},
    flops=lambda: 0,
)
def embed(E: Float[Tensor, "vocab dim"], ids: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape dim"]:
    """Read one row of a table for each id."""
    return E[ids.long()]


@embed.def_fused
def _embed_fused(E: Tensor, ids: Tensor) -> Tensor:
    return functional.embedding(ids.long(), E)


@embed.def_gradient(r"\bar E_i = \sum_{\text{id} = i} \bar e")
def _embed_gradient(e_bar: Tensor, E: Tensor, ids: Tensor) -> Tensor:
    return scatter_rows(e_bar, ids, E)


@embed.def_check
def _embed_check(E: Tensor, ids: Tensor) -> None:
    require_ids(embed.require, ids, E.shape[0], "E")


@equation(
    r"x_i = [i = \text{id}]",
    meaning="A row of zeros with a single one at the id, so that a product with a table selects a row.",
    intuition="A panel of switches of which exactly one is on.",
    symbols={
        "ids": "token ids",
        "size": "number of different ids",
        "dtype": "number type of the result",
        "x": "one row per id",
    },
    flops=lambda: 0,
)
def one_hot(ids: Int[Tensor, "*shape"], size: int, dtype: torch.dtype = torch.float32) -> Float[Tensor, "*shape size"]:
    """Write each id as a row with a single one."""
    return (ids[..., None] == torch.arange(size, device=ids.device)).to(dtype)


@one_hot.def_check
def _one_hot_check(ids: Tensor, size: int, dtype: torch.dtype) -> None:
    whole(one_hot.require, 1, size=size)
    require_ids(one_hot.require, ids, size, f"a table of size {size}")
    float_type(one_hot.require, dtype)


@equation(
    r"y = x \sqrt{d}",
    meaning="Token vectors are scaled up before positions are added, so that positions do not drown them.",
    intuition="Turning up a quiet voice before the music is mixed in.",
    symbols={"x": "token vectors of width d", "y": "the same vectors, longer"},
    flops=lambda rows, dim: rows * dim,
    upcast=True,
)
def scale_embedding(x: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows dim"]:
    """Multiply token vectors by the square root of their width (Vaswani et al., 2017)."""
    return x * math.sqrt(x.shape[-1])


@scale_embedding.def_gradient(r"\bar x = \bar y \sqrt{d}")
def _scale_embedding_gradient(y_bar: Tensor) -> Tensor:
    return y_bar * math.sqrt(y_bar.shape[-1])


@scale_embedding.def_cell
def _scale_embedding_cell(index: tuple[int, ...], x: Tensor) -> str:
    return f"{number(x[index])}·√({x.shape[-1]})"


@equation(
    r"z = h E^\top",
    meaning="The score of each token is the inner product of the hidden vector with that token's own embedding.",
    intuition="Hold the thought against every word in the dictionary and see which fits.",
    symbols={
        "h": "hidden vectors",
        "E": "embedding table, the same that tokens came in through",
        "z": "scores, one per token of the vocabulary",
    },
    flops=lambda rows, dim, vocab: 2 * rows * dim * vocab,
)
def unembed(h: Float[Tensor, "*rows dim"], E: Float[Tensor, "vocab dim"]) -> Float[Tensor, "*rows vocab"]:
    """Score every token with the embedding table itself (weight tying: Press and Wolf, 2017)."""
    return h @ E.T


@unembed.def_fused
def _unembed_fused(h: Tensor, E: Tensor) -> Tensor:
    return functional.linear(h, E)


@unembed.def_gradient(r"\bar h = \bar z E, \quad \bar E = \bar z^\top h")
def _unembed_gradient(z_bar: Tensor, h: Tensor, E: Tensor) -> tuple[Tensor, Tensor]:
    return z_bar @ E, z_bar.reshape(-1, E.shape[0]).T @ h.reshape(-1, E.shape[1])


@unembed.def_cell
def _unembed_cell(index: tuple[int, ...], h: Tensor, E: Tensor) -> str:
    return dot(h[index[:-1]], E[index[-1]])
