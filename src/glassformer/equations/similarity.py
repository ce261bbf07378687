"""How alike two vectors are, which vectors are nearest, and what chance alone would give."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.arithmetic import dot, factor, minus, number, total
from glassformer.equation import equation
from glassformer.equations.ranges import Require, finite, not_empty, not_negative, whole


def along_sphere(v_bar: Tensor, v: Tensor, length: Tensor) -> Tensor:
    """The part of a unit vector's gradient that turns it, at a radius of `length`; zero for a zero vector."""
    turn = v_bar - v * (v_bar * v).sum(-1, keepdim=True)
    return turn / _or_infinite(length).unsqueeze(-1)


def _or_infinite(length: Tensor) -> Tensor:
    """Lengths to divide by: division by a zero length gives zero, and so does its gradient."""
    return length.masked_fill(length == 0, torch.inf)


def _vectors(require: Require, /, **vectors: Tensor) -> None:
    not_empty(require, **vectors)
    finite(require, **vectors)


def _enough(require: Require, /, k: int, vectors: Tensor) -> None:
    require(k <= len(vectors), "k", k, f"from 1 to {len(vectors)}, the number of vectors")


def _spread(index: tuple[int, ...], *vectors: Tensor) -> list[Tensor]:
    """The vectors behind one output of a broadcast call."""
    lead = torch.broadcast_shapes(*(vector.shape[:-1] for vector in vectors))
    return [vector.expand(*lead, vector.shape[-1])[index] for vector in vectors]


@equation(
    r"s = u \cdot v = \sum_i u_i v_i",
    meaning="How far two vectors agree, counting their lengths.",
    intuition="Two shopping lists against two price lists: multiply item by item and add up.",
    symbols={"u": "one vector", "v": "the other", "s": "inner product"},
    flops=lambda batch, dim: 2 * batch * dim,
    where={"u v": _vectors},
    upcast=True,
)
def inner_product(u: Float[Tensor, "*#batch dim"], v: Float[Tensor, "*#batch dim"]) -> Float[Tensor, "*batch"]:
    """Multiply two vectors entry by entry and sum."""
    return (u * v).sum(-1)


@inner_product.def_gradient(r"\bar u = \bar s \, v, \quad \bar v = \bar s \, u")
def _inner_product_gradient(s_bar: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return s_bar.unsqueeze(-1) * v, s_bar.unsqueeze(-1) * u


inner_product.def_cell(lambda index, u, v: dot(*_spread(index, u, v)))


@equation(
    r"\|u\| = \sqrt{\textstyle\sum_i u_i^2}",
    meaning="The length of a vector.",
    intuition="The straight way across town, when you know how far you walked along every street.",
    symbols={"u": "vector", r"length=\lVert u \rVert": "its length"},
    flops=lambda batch, dim: 2 * batch * dim + batch,
    where={"u": _vectors},
    upcast=True,
)
def l2_norm(u: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch"]:
    """The Euclidean norm of each vector; its gradient at zero is taken as zero."""
    s = (u * u).sum(-1)
    return s.where(s > 0, 1).sqrt().where(s > 0, 0)  # the root of zero has no derivative, so it is never taken


l2_norm.def_fused(lambda u: torch.linalg.vector_norm(u, dim=-1))


@l2_norm.def_gradient(r"\bar u = \overline{\|u\|} \, \frac{u}{\|u\|}")
def _l2_norm_gradient(length_bar: Tensor, u: Tensor, length: Tensor) -> Tensor:
    return (length_bar / _or_infinite(length)).unsqueeze(-1) * u


l2_norm.def_cell(lambda index, u: _root_of_squares(u[index]))


@equation(
    r"\hat u = \frac{u}{\|u\|}",
    meaning="The same direction at length one.",
    intuition="A compass needle: it shows where to go, not how far.",
    symbols={"u": "vector", r"unit=\hat u": "the vector of length one in its direction"},
    flops=lambda batch, dim: 3 * batch * dim + batch,
    where={"u": _vectors},
    upcast=True,
)
def normalize(u: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
    """Scale each vector to length one; a zero vector has no direction and stays zero."""
    return u / _or_infinite(l2_norm.fn(u)).unsqueeze(-1)


@normalize.def_gradient(r"\bar u = \frac{1}{\|u\|} (\bar{\hat u} - \hat u \langle \bar{\hat u}, \hat u \rangle)")
def _normalize_gradient(unit_bar: Tensor, unit: Tensor, u: Tensor) -> Tensor:
    return along_sphere(unit_bar, unit, l2_norm.fn(u))


@normalize.def_cell
def _normalize_cell(index: tuple[int, ...], u: Tensor) -> str:
    u = u[index[:-1]]
    return f"{number(u[index[-1]])} / {_root_of_squares(u)}" if u.any() else "0"


@equation(
    r"\cos\theta = \frac{u \cdot v}{\|u\| \, \|v\|}",
    meaning="How far two vectors point the same way, whatever their lengths.",
    intuition="Two people facing the same way (1), at right angles (0) or away from each other (−1).",
    symbols={"u": "one vector", "v": "the other", r"cosine=\cos\theta": "cosine of the angle between them"},
    flops=lambda batch, dim, u, v: 2 * batch * dim + 3 * (u.numel() + v.numel()) + (u.numel() + v.numel()) // dim,
    where={"u v": _vectors},
    upcast=True,
)
def cosine_similarity(u: Float[Tensor, "*#batch dim"], v: Float[Tensor, "*#batch dim"]) -> Float[Tensor, "*batch"]:
    """The cosine of the angle between two vectors; 0 where one of them is zero."""
    return inner_product.fn(normalize.fn(u), normalize.fn(v))


@cosine_similarity.def_gradient(
    r"\bar u = \frac{\overline{\cos\theta}}{\|u\|} (\hat v - \hat u \cos\theta), \quad"
    r"\bar v = \frac{\overline{\cos\theta}}{\|v\|} (\hat u - \hat v \cos\theta)"
)
def _cosine_similarity_gradient(cosine_bar: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    u_hat, v_hat, bar = normalize.fn(u), normalize.fn(v), cosine_bar.unsqueeze(-1)
    return along_sphere(bar * v_hat, u_hat, l2_norm.fn(u)), along_sphere(bar * u_hat, v_hat, l2_norm.fn(v))


@cosine_similarity.def_cell
def _cosine_similarity_cell(index: tuple[int, ...], u: Tensor, v: Tensor) -> str:
    u, v = _spread(index, u, v)
    if not (u.any() and v.any()):
        return "0"
    return f"({dot(u, v)}) / ({_root_of_squares(u)}·{_root_of_squares(v)})"


@equation(
    r"d = \|u - v\|",
    meaning="The straight-line distance between two points.",
    intuition="A taut string between two pins.",
    symbols={"u": "one point", "v": "the other", "d": "distance"},
    flops=lambda batch, dim: 3 * batch * dim + batch,
    where={"u v": _vectors},
    upcast=True,
)
def euclidean_distance(u: Float[Tensor, "*#batch dim"], v: Float[Tensor, "*#batch dim"]) -> Float[Tensor, "*batch"]:
    """The norm of the difference of two vectors; its gradient at distance zero is taken as zero."""
    return l2_norm.fn(u - v)


euclidean_distance.def_fused(lambda u, v: torch.linalg.vector_norm(u - v, dim=-1))


@euclidean_distance.def_gradient(r"\bar u = \bar d \, \frac{u - v}{d}, \quad \bar v = -\bar u")
def _euclidean_distance_gradient(d_bar: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    away = d_bar.unsqueeze(-1) * normalize.fn(u - v)
    return away, -away


@euclidean_distance.def_cell
def _euclidean_distance_cell(index: tuple[int, ...], u: Tensor, v: Tensor) -> str:
    u, v = _spread(index, u, v)
    terms = [f"({minus(a, b)})^2" for a, b in zip(u, v, strict=True)]
    return f"√({total(terms, (u - v).square().tolist())})"


@equation(
    r"i_1, \dots, i_k = \operatorname{top-}k_i \; s_i, \quad s_i = q \cdot v_i",
    meaning="The vectors with the largest inner products with a query, best first.",
    intuition="Attention that makes up its mind: not a blend of all answers but the best few.",
    symbols={
        "query=q": "query vectors, q",
        "vectors=v": "vectors to search, v",
        "k": "number of neighbors",
        r"indices=i_1, \dots, i_k": "indices of the neighbors",
        "products=s": "their inner products with the query",
    },
    flops=lambda batch, n, dim: 2 * batch * n * dim,
    where={"query vectors": _vectors, "k": whole, "k vectors": _enough},
)
def nearest(
    query: Float[Tensor, "*batch dim"], vectors: Float[Tensor, "n dim"], k: int = 1
) -> tuple[Int[Tensor, "*batch k"], Float[Tensor, "*batch k"]]:
    """Exact maximum inner product search; equal products come in the order of the vectors."""
    s = query @ vectors.mT
    products, indices = s.sort(dim=-1, descending=True, stable=True)
    return indices[..., :k], products[..., :k]


@nearest.def_gradient(r"\bar q = \sum_j \bar s_j v_{i_j}, \quad \bar v_{i_j} = \bar s_j q")
def _nearest_gradient(products_bar: Tensor, indices: Tensor, query: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    s_bar = products_bar.new_zeros(*query.shape[:-1], len(vectors)).scatter(-1, indices, products_bar)
    return s_bar @ vectors, s_bar.reshape(-1, len(vectors)).T @ query.reshape(-1, vectors.shape[-1])


@equation(
    r"i_1, \dots, i_k = \operatorname{top-}k_i \; s_i, \quad s_i = \cos(q, v_i)",
    meaning="The vectors with the largest cosine similarity to a query, best first.",
    intuition="A thesaurus: the words used in the same way, however often they are used.",
    symbols={
        "query=q": "query vectors, q",
        "vectors=v": "vectors to search, v",
        "k": "number of neighbors",
        r"indices=i_1, \dots, i_k": "indices of the neighbors",
        "cosines=s": "their cosines with the query",
    },
    where={"query vectors": _vectors, "k": whole, "k vectors": _enough},
)
def nearest_by_cosine(
    query: Float[Tensor, "*batch dim"], vectors: Float[Tensor, "n dim"], k: int = 1
) -> tuple[Int[Tensor, "*batch k"], Float[Tensor, "*batch k"]]:
    """Nearest neighbors by cosine similarity; equal cosines come in the order of the vectors."""
    return nearest(normalize(query), normalize(vectors), k)


@equation(
    r"d = b - a + c",
    meaning="What stands to c as b stands to a.",
    intuition="From man to king is a step; take the same step from woman, and look who lives there: queen.",
    symbols={"a": "man", "b": "king", "c": "woman", "d": "near queen"},
    flops=lambda batch, dim, a, b: batch * dim + math.prod(torch.broadcast_shapes(a.shape, b.shape)),
    upcast=True,
)
def analogy(
    a: Float[Tensor, "*#batch dim"], b: Float[Tensor, "*#batch dim"], c: Float[Tensor, "*#batch dim"]
) -> Float[Tensor, "*batch dim"]:
    """Complete "a is to b as c is to …" by vector arithmetic (Mikolov et al., 2013)."""
    return b - a + c


@analogy.def_gradient(r"\bar a = -\bar d, \quad \bar b = \bar d, \quad \bar c = \bar d")
def _analogy_gradient(d_bar: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return -d_bar, d_bar, d_bar


@analogy.def_cell
def _analogy_cell(index: tuple[int, ...], a: Tensor, b: Tensor, c: Tensor) -> str:
    a, b, c = (vector[index[-1]] for vector in _spread(index[:-1], a, b, c))
    return f"{minus(b, a)} + {factor(c)}"


@equation(
    r"\sqrt{\mathbb{E}[\cos^2\theta]} = \frac{1}{\sqrt{d}}",
    meaning="The cosine that chance alone gives two random directions, typically.",
    intuition="In a hall with thousands of walls, almost everything is nearly at right angles to everything else.",
    symbols={
        "dim=d": "number of dimensions, d",
        r"cosine=\sqrt{\mathbb{E}[\cos^2\theta]}": "root mean square of the cosine",
    },
    where={"dim": whole},
)
def random_cosine_rms(dim: int) -> float:
    """The typical cosine of independent random directions: high dimensions are nearly orthogonal."""
    return 1 / math.sqrt(dim)


random_cosine_rms.def_cell(lambda index, dim: f"1 / √({number(dim)})")


@equation(
    r"\operatorname{Var}(q \cdot k) = d_k (\sigma^4 + 2 \mu^2 \sigma^2)",
    meaning="The variance of scores grows with the dimension of a head, which is why they are divided by its root.",
    intuition="Throw more dice and the sum strays further: keep the table the same size by shrinking the dice.",
    symbols={
        "head_dim=d_k": "dimension of queries and keys, d_k",
        r"sigma=\sigma": "standard deviation of their entries, σ",
        r"mu=\mu": "mean of their entries, μ",
        r"variance=\operatorname{Var}(q \cdot k)": "variance of one score",
    },
    where={"head_dim": whole, "sigma": not_negative},
)
def score_variance(head_dim: int, sigma: float, mu: float = 0.0) -> float:
    """The variance of one query-key product with independent entries; with mean zero it is d_k σ⁴."""
    return head_dim * (sigma**4 + 2 * mu**2 * sigma**2)


@score_variance.def_cell
def _score_variance_cell(index: tuple[int, ...], head_dim: int, sigma: float, mu: float) -> str:
    return f"{number(head_dim)}·({number(sigma)}^4 + 2·{factor(mu)}^2·{number(sigma)}^2)"


def _root_of_squares(vector: Tensor) -> str:
    return f"√({total([f'{factor(x)}^2' for x in vector], vector.square().tolist())})"
