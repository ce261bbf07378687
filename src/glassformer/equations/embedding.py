"""Tokens to vectors and back: embedding lookup, one-hot vectors, scaling, and the tied output projection."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from glassformer.arithmetic import dot, number
from glassformer.equation import equation
from glassformer.equations.onednn_affine import affine
from glassformer.equations.ranges import require_ids


def scatter_add(vectors: Tensor, ids: Tensor, like: Tensor) -> Tensor:
    """Add each vector into the row of a table that its id names: the gradient of a lookup.

    Half-precision vectors are summed in float32, since a frequent id may occur thousands of times.
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    table = torch.zeros(like.shape, dtype=dtype, device=like.device)
    vectors = vectors.reshape(ids.numel(), like.shape[1]).to(dtype)
    return table.index_add(0, ids.flatten().long(), vectors).to(like.dtype)


@equation(
    r"e = E_{\text{id}}",
    meaning="Each token's vector is the row of the embedding table that its id names.",
    intuition="A cloakroom: hand in the number, get back the coat.",
    symbols={"E": "embedding table, one row per id", r"ids=\text{id}": "token ids or positions", "e": "embeddings"},
    flops=lambda: 0,
)
def embed(E: Float[Tensor, "vocab dim"], ids: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape dim"]:
    """Look up the embedding of each id, or the learned vector of each position."""
    return E[ids.long()]


embed.def_fused(lambda E, ids: functional.embedding(ids.long(), E))
embed.def_gradient(r"\bar E_i = \sum_{\text{id} = i} \bar e")(lambda e_bar, E, ids: scatter_add(e_bar, ids, E))


@embed.def_check
def _embed_check(E: Tensor, ids: Tensor) -> None:
    require_ids(embed.require, ids, E.shape[0], "E")


@equation(
    r"y = x \sqrt{d}",
    meaning="Embeddings are scaled up before positions are added, so that positions do not drown them.",
    intuition="Turning up a quiet voice before the music is mixed in.",
    symbols={"x": "embeddings of dimension d", "y": "scaled embeddings"},
    flops=lambda batch, dim: batch * dim,
    upcast=True,
)
def scale_embedding(x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
    """Multiply embeddings by the square root of their dimension (Vaswani et al., 2017)."""
    return x * math.sqrt(x.shape[-1])


scale_embedding.def_gradient(r"\bar x = \bar y \sqrt{d}")(lambda y_bar: y_bar * math.sqrt(y_bar.shape[-1]))
scale_embedding.def_cell(lambda index, x: f"{number(x[index])}·√({x.shape[-1]})")


@equation(
    r"z = h E^\top",
    meaning="The logit of each token is the inner product of the hidden state with that token's embedding.",
    intuition="Hold the thought against every word in the dictionary and see which fits.",
    symbols={"h": "hidden states", "E": "embedding table, shared with the input", "z": "logits, one per token"},
    flops=lambda batch, dim, vocab: 2 * batch * dim * vocab,
)
def unembed(h: Float[Tensor, "*batch dim"], E: Float[Tensor, "vocab dim"]) -> Float[Tensor, "*batch vocab"]:
    """Logits over the vocabulary from the embedding table itself (weight tying: Press and Wolf, 2017)."""
    return h @ E.T


unembed.def_fused(lambda h, E: affine(h, E.T))


@unembed.def_gradient(r"\bar h = \bar z E, \quad \bar E = \bar z^\top h")
def _unembed_gradient(z_bar: Tensor, h: Tensor, E: Tensor) -> tuple[Tensor, Tensor]:
    return z_bar @ E, z_bar.reshape(-1, E.shape[0]).T @ h.reshape(-1, E.shape[1])


unembed.def_cell(lambda index, h, E: dot(h[index[:-1]], E[index[-1]]))
