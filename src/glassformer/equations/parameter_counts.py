"""How many parameters a model holds, and how many multiply-adds one pass of it takes: each counts as two operations."""

from glassformer.equation import equation
from glassformer.equations.ranges import whole


@equation(
    r"N = d h d_h + 2 d h_\text{kv} d_h + h d_h d \;\; (= 4 d^2 \text{ where } h d_h = d)",
    meaning="Attention holds four matrices: queries, keys, values and output.",
    intuition="Three doors in and one door out, each as wide as all heads side by side.",
    symbols={
        "dim": "d, model width",
        "heads": "h, query heads",
        "head_dim": "d_h, width of a head, by default d / h",
        "kv_heads": "h_kv, key and value heads, by default h",
        "bias": "whether each matrix has a shift",
        "N": "parameters",
    },
)
def attention_parameters(
    dim: int, heads: int, head_dim: int | None = None, kv_heads: int | None = None, bias: bool = False
) -> int:
    """Count the parameters of an attention layer; grouped queries share keys and values (Ainslie et al., 2023)."""
    queries = heads * (head_dim or dim // heads)
    keys = (kv_heads or heads) * (head_dim or dim // heads)
    return 2 * dim * queries + 2 * dim * keys + (queries + 2 * keys + dim if bias else 0)


@attention_parameters.def_cell
def _attention_parameters_cell(
    index: tuple[int, ...], dim: int, heads: int, head_dim: int | None, kv_heads: int | None, bias: bool
) -> str:
    d_h, groups = head_dim or dim // heads, kv_heads or heads
    text = f"{dim}·{heads}·{d_h} + 2·{dim}·{groups}·{d_h} + {heads}·{d_h}·{dim}"
    return text + (f" + {heads}·{d_h} + 2·{groups}·{d_h} + {dim}" if bias else "")


@attention_parameters.def_check
def _attention_parameters_check(dim: int, heads: int, head_dim: int | None, kv_heads: int | None) -> None:
    require, groups = attention_parameters.require, heads if kv_heads is None else kv_heads
    whole(require, dim=dim, heads=heads, kv_heads=groups)
    require(heads % groups == 0, "kv_heads", groups, f"a divisor of heads = {heads}")
    if head_dim is None:
        require(dim % heads == 0, "heads", heads, f"a divisor of dim = {dim}, or a head_dim beside it")
    else:
        whole(require, head_dim=head_dim)


@equation(
    r"N = 2 d d_\text{ff} + d_\text{ff} + d \;\; (\text{gated: } 3 d d_\text{ff} + 2 d_\text{ff} + d)",
    meaning="A feed-forward layer holds one matrix up and one matrix down; a gated one holds two up.",
    intuition="A hall with a wide floor between two narrow corridors: most of the space is in the walls.",
    symbols={
        "dim": "d, model width",
        "hidden": "width in the middle",
        "bias": "whether each matrix has a shift",
        "gated": "whether a second matrix up works as a gate",
        "N": "parameters",
    },
    where={"dim hidden": whole},
)
def feed_forward_parameters(dim: int, hidden: int, bias: bool = True, gated: bool = False) -> int:
    """Count the parameters of a feed-forward layer, gated as in SwiGLU or not (Shazeer, 2020)."""
    up = 2 if gated else 1
    return (up + 1) * dim * hidden + (up * hidden + dim if bias else 0)


@feed_forward_parameters.def_cell
def _feed_forward_parameters_cell(index: tuple[int, ...], dim: int, hidden: int, bias: bool, gated: bool) -> str:
    up = 2 if gated else 1
    return f"{up + 1}·{dim}·{hidden}" + (f" + {up}·{hidden} + {dim}" if bias else "")


@equation(
    r"N = V d + n_\text{ctx} d + L (12 d^2 + 13 d) + 2 d",
    meaning="A GPT holds a row for each token, a row for each position, and the same block many times over.",
    intuition="A tower of identical storeys on a ground floor of word and place cards.",
    symbols={
        "vocab": "V, tokens in the vocabulary",
        "context": "n_ctx, positions",
        "dim": "d, model width",
        "layers": "L, blocks",
        "final_norm": "whether a last layer norm adds its 2d, as from GPT-2 on",
        "N": "parameters",
    },
    where={"vocab context dim layers": whole},
)
def gpt_parameters(vocab: int, context: int, dim: int, layers: int, final_norm: bool = True) -> int:
    """Count the parameters of a GPT with tied embeddings; GPT-1 has no final norm (Radford et al., 2018)."""
    return vocab * dim + context * dim + layers * (12 * dim**2 + 13 * dim) + (2 * dim if final_norm else 0)


@gpt_parameters.def_cell
def _gpt_parameters_cell(
    index: tuple[int, ...], vocab: int, context: int, dim: int, layers: int, final_norm: bool
) -> str:
    text = f"{vocab}·{dim} + {context}·{dim} + {layers}·(12·{dim}^2 + 13·{dim})"
    return text + (f" + 2·{dim}" if final_norm else "")


@equation(
    r"c = 2 \, n_q n_k d",
    meaning="Multiply-adds of attention: each pair takes d for its score and d for its part of the output.",
    intuition="A party where everybody shakes everybody's hand: twice the guests, four times the handshakes.",
    symbols={
        "queries": "n_q",
        "keys": "n_k",
        "dim": "d, width of all heads together",
        "c": "multiply-adds, each two floating-point operations",
    },
    where={"queries keys dim": whole},
)
def attention_operations(queries: int, keys: int, dim: int) -> int:
    """Count the multiply-adds of the scores and of the weighted sum (Vaswani et al., 2017)."""
    return 2 * queries * keys * dim


@attention_operations.def_cell
def _attention_operations_cell(index: tuple[int, ...], queries: int, keys: int, dim: int) -> str:
    return f"2·{queries}·{keys}·{dim}"


@equation(
    r"c = 4 \, n d^2",
    meaning="Every token goes through four square matrices once: query, key, value and output.",
    intuition="Four turnstiles, and everyone passes each of them once: twice the guests, twice the clicks.",
    symbols={"length": "n, tokens", "dim": "d, model width", "c": "multiply-adds, each two floating-point operations"},
    where={"length dim": whole},
)
def projection_operations(length: int, dim: int) -> int:
    """Count the multiply-adds of attention's four projections; they grow with the length, not with its square."""
    return 4 * length * dim**2


@projection_operations.def_cell
def _projection_operations_cell(index: tuple[int, ...], length: int, dim: int) -> str:
    return f"4·{length}·{dim}^2"


@equation(
    r"c = 4 n d^2 + 2 n^2 d + 2 n d \, d_\text{ff} \;\; (= 2 n^2 d + 12 n d^2 \text{ for } d_\text{ff} = 4d)",
    meaning="A layer's work is projections, attention between all pairs, and the feed-forward part.",
    intuition="A meeting: everyone prepares, everyone talks with everyone, everyone writes a report.",
    symbols={
        "length": "n, tokens",
        "dim": "d, model width",
        "hidden": "d_ff, width of the feed-forward part, by default 4d",
        "c": "multiply-adds, each two floating-point operations",
    },
)
def layer_operations(length: int, dim: int, hidden: int | None = None) -> int:
    """Count the multiply-adds of one Transformer layer over a whole sequence (Vaswani et al., 2017)."""
    feed_forward = length * feed_forward_parameters.fn(dim, hidden or 4 * dim, bias=False)
    return projection_operations.fn(length, dim) + attention_operations.fn(length, length, dim) + feed_forward


@layer_operations.def_cell
def _layer_operations_cell(index: tuple[int, ...], length: int, dim: int, hidden: int | None) -> str:
    return f"4·{length}·{dim}^2 + 2·{length}^2·{dim} + 2·{length}·{dim}·{hidden or 4 * dim}"


@layer_operations.def_check
def _layer_operations_check(length: int, dim: int, hidden: int | None) -> None:
    whole(layer_operations.require, length=length, dim=dim, hidden=4 * dim if hidden is None else hidden)


@equation(
    r"c = L \left(4 n d^2 + 2 n^2 d + 2 n d \, d_\text{ff}\right) + n d V",
    meaning="A model's work is that of its layers, and the scores of every token against the vocabulary.",
    intuition="As many meetings as there are floors, and a vote at the top.",
    symbols={
        "length": "n, tokens",
        "dim": "d, model width",
        "layers": "L, layers",
        "vocab": "V, tokens in the vocabulary; 0 leaves the scores out",
        "hidden": "d_ff, width of the feed-forward part, by default 4d",
        "c": "multiply-adds, each two floating-point operations",
    },
)
def model_operations(length: int, dim: int, layers: int, vocab: int = 0, hidden: int | None = None) -> int:
    """Count the multiply-adds of one pass of a decoder-only or encoder-only model over a whole sequence."""
    return layers * layer_operations.fn(length, dim, hidden) + length * dim * vocab


@model_operations.def_check
def _model_operations_check(length: int, dim: int, layers: int, vocab: int, hidden: int | None) -> None:
    hidden = 4 * dim if hidden is None else hidden
    whole(model_operations.require, length=length, dim=dim, layers=layers, hidden=hidden)
    whole(model_operations.require, 0, vocab=vocab)


@equation(
    r"r = \frac{2 n^2 d}{2 n^2 d + 12 n d^2} = \frac{n}{n + 6 d}",
    meaning="The share of a layer's work that grows with the square of the length.",
    intuition="Small talk takes over a meeting only once there are far more guests than things to prepare.",
    symbols={"length": "n, tokens", "dim": "d, model width", "r": "share, from 0 to 1"},
    where={"length dim": whole},
)
def quadratic_share(length: int, dim: int) -> float:
    """Say how much of a layer is attention between pairs; it is half at a length of six widths."""
    return length / (length + 6 * dim)


@quadratic_share.def_cell
def _quadratic_share_cell(index: tuple[int, ...], length: int, dim: int) -> str:
    return f"{length} / ({length} + 6·{dim})"


@equation(
    r"n^* = 6 d",
    meaning="The length at which attention between pairs costs as much as all the rest of a layer.",
    intuition="The number of guests at which small talk takes as long as the work.",
    symbols={"dim": "d, model width", "n": "n*, tokens"},
    where={"dim": whole},
)
def crossover_length(dim: int) -> int:
    """Find where the quadratic share reaches one half, for a feed-forward part four times as wide as the model."""
    return 6 * dim


@crossover_length.def_cell
def _crossover_length_cell(index: tuple[int, ...], dim: int) -> str:
    return f"6·{dim}"
