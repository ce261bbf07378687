"""Parameters of a model, and multiply-adds (MACs) of one forward pass; one MAC is two FLOPs."""

from glassformer.equation import equation
from glassformer.equations.ranges import at_least, optional, whole


@equation(
    r"N = d h d_h + 2 d h_\text{kv} d_h + h d_h d \;\; (= 4 d^2 \text{ where } h d_h = d)",
    meaning="Attention has four weight matrices: query, key, value and output.",
    intuition="Three doors in and one door out, each as wide as all heads side by side.",
    symbols={
        "dim=d": "d, model dimension",
        "heads=h": "h, query heads",
        "head_dim=d_h": "d_h, dimension of a head, by default d / h",
        r"kv_heads=h_\text{kv}": "h_kv, key-value heads, by default h",
        "bias=": "whether each matrix has a bias",
        "N": "parameters",
    },
    where={"dim heads": whole, "head_dim kv_heads": optional(whole)},
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
    d_h, h_kv = head_dim or dim // heads, kv_heads or heads
    text = f"{dim}·{heads}·{d_h} + 2·{dim}·{h_kv}·{d_h} + {heads}·{d_h}·{dim}"
    return text + (f" + {heads}·{d_h} + 2·{h_kv}·{d_h} + {dim}" if bias else "")


@attention_parameters.def_check
def _attention_parameters_check(dim: int, heads: int, head_dim: int | None, kv_heads: int | None) -> None:
    require = attention_parameters.require
    require(heads % (kv_heads or heads) == 0, "kv_heads", kv_heads, f"a divisor of heads = {heads}")
    divides = head_dim is not None or dim % heads == 0
    require(divides, "heads", heads, f"a divisor of dim = {dim}, or a head_dim beside it")


@equation(
    r"N = 2 d d_\text{ff} + d_\text{ff} + d \;\; (\text{gated: } 3 d d_\text{ff} + 2 d_\text{ff} + d)",
    meaning="A feed-forward layer has an up and a down projection; a gated one has a gate projection too.",
    intuition="A hall with a wide floor between two narrow corridors: most of the space is in the walls.",
    symbols={
        "dim=d": "d, model dimension",
        r"ffn_dim=d_\text{ff}": "d_ff, dimension of the hidden layer",
        "bias=": "whether each matrix has a bias",
        r"gated=\text{gated}": "whether there is a gate projection",
        "N": "parameters",
    },
    where={"dim ffn_dim": whole},
)
def feed_forward_parameters(dim: int, ffn_dim: int, bias: bool = True, gated: bool = False) -> int:
    """Count the parameters of a feed-forward layer, gated as in SwiGLU or not (Shazeer, 2020)."""
    up = 2 if gated else 1
    return (up + 1) * dim * ffn_dim + (up * ffn_dim + dim if bias else 0)


@feed_forward_parameters.def_cell
def _feed_forward_parameters_cell(index: tuple[int, ...], dim: int, ffn_dim: int, bias: bool, gated: bool) -> str:
    up = 2 if gated else 1
    return f"{up + 1}·{dim}·{ffn_dim}" + (f" + {up}·{ffn_dim} + {dim}" if bias else "")


@equation(
    r"N = V d + n_\text{ctx} d + L (12 d^2 + 13 d) + 2 d",
    meaning="A GPT has an embedding for each token and each position, and many blocks of the same size.",
    intuition="A tower of identical floors on a ground floor of word and seat cards.",
    symbols={
        "vocab=V": "V, tokens in the vocabulary",
        r"context=n_\text{ctx}": "n_ctx, positions",
        "dim=d": "d, model dimension",
        "layers=L": "L, blocks",
        "final_norm=2 d": "whether a final LayerNorm adds its 2d, as from GPT-2 on",
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
    meaning="Each pair of query and key takes d multiply-adds for its score and d for its part of the output.",
    intuition="A party where everybody shakes everybody's hand: twice the guests, four times the handshakes.",
    symbols={
        "queries=n_q": "n_q",
        "keys=n_k": "n_k",
        "dim=d": "d, dimension of all heads together",
        "c": "multiply-adds (MACs), two FLOPs each",
    },
    where={"queries keys dim": whole},
)
def attention_macs(queries: int, keys: int, dim: int) -> int:
    """Multiply-adds of the scores and of the weighted sum (Vaswani et al., 2017)."""
    return 2 * queries * keys * dim


attention_macs.def_cell(lambda index, queries, keys, dim: f"2·{queries}·{keys}·{dim}")


@equation(
    r"c = 4 \, n d^2",
    meaning="Every token is multiplied by four square matrices: query, key, value and output.",
    intuition="Four turnstiles, and everyone passes each of them once: twice the guests, twice the clicks.",
    symbols={"length=n": "n, tokens", "dim=d": "d, model dimension", "c": "multiply-adds (MACs), two FLOPs each"},
    where={"length dim": whole},
)
def projection_macs(length: int, dim: int) -> int:
    """Multiply-adds of attention's four projections; they grow with the length, not with its square."""
    return 4 * length * dim**2


projection_macs.def_cell(lambda index, length, dim: f"4·{length}·{dim}^2")


@equation(
    r"c = 4 n d^2 + 2 n^2 d + 2 n d \, d_\text{ff} \;\; (= 2 n^2 d + 12 n d^2 \text{ for } d_\text{ff} = 4d)",
    meaning="A layer computes projections, attention between all pairs, and the feed-forward sublayer.",
    intuition="A meeting: everyone prepares, everyone talks with everyone, everyone writes a report.",
    symbols={
        "length=n": "n, tokens",
        "dim=d": "d, model dimension",
        r"ffn_dim=d_\text{ff}": "d_ff, dimension of the feed-forward layer, by default 4d",
        "c": "multiply-adds (MACs), two FLOPs each",
    },
    where={"length dim": whole, "ffn_dim": optional(whole)},
)
def layer_macs(length: int, dim: int, ffn_dim: int | None = None) -> int:
    """Multiply-adds of one Transformer layer over a whole sequence (Vaswani et al., 2017)."""
    feed_forward = length * feed_forward_parameters.fn(dim, ffn_dim or 4 * dim, bias=False)
    return projection_macs.fn(length, dim) + attention_macs.fn(length, length, dim) + feed_forward


@layer_macs.def_cell
def _layer_macs_cell(index: tuple[int, ...], length: int, dim: int, ffn_dim: int | None) -> str:
    return f"4·{length}·{dim}^2 + 2·{length}^2·{dim} + 2·{length}·{dim}·{ffn_dim or 4 * dim}"


@equation(
    r"c = L \left(4 n d^2 + 2 n^2 d + 2 n d \, d_\text{ff}\right) + n d V",
    meaning="A model computes its layers, and the logits of every token over the vocabulary.",
    intuition="As many meetings as there are floors, and a vote at the top.",
    symbols={
        "length=n": "n, tokens",
        "dim=d": "d, model dimension",
        "layers=L": "L, layers",
        "vocab=V": "V, tokens in the vocabulary; 0 leaves the logits out",
        r"ffn_dim=d_\text{ff}": "d_ff, dimension of the feed-forward layer, by default 4d",
        "c": "multiply-adds (MACs), two FLOPs each",
    },
    where={"length dim layers": whole, "vocab": at_least(0), "ffn_dim": optional(whole)},
)
def model_macs(length: int, dim: int, layers: int, vocab: int = 0, ffn_dim: int | None = None) -> int:
    """Multiply-adds of one forward pass of a decoder-only or encoder-only model over a whole sequence."""
    return layers * layer_macs.fn(length, dim, ffn_dim) + length * dim * vocab


@equation(
    r"r = \frac{2 n^2 d}{2 n^2 d + 12 n d^2} = \frac{n}{n + 6 d}",
    meaning="The fraction of a layer's work that grows with the square of the length.",
    intuition="Small talk takes over a meeting only once there are far more guests than things to prepare.",
    symbols={"length=n": "n, tokens", "dim=d": "d, model dimension", "r": "fraction, from 0 to 1"},
    where={"length dim": whole},
)
def quadratic_fraction(length: int, dim: int) -> float:
    """How much of a layer's work is attention between pairs: half of it at a length of 6d."""
    return length / (length + 6 * dim)


quadratic_fraction.def_cell(lambda index, length, dim: f"{length} / ({length} + 6·{dim})")


@equation(
    r"n^* = 6 d",
    meaning="The length at which attention between pairs costs as much as the rest of a layer.",
    intuition="The number of guests at which small talk takes as long as the work.",
    symbols={"dim=d": "d, model dimension", "n": "n*, tokens"},
    where={"dim": whole},
)
def crossover_length(dim: int) -> int:
    """Where the quadratic fraction reaches one half, for a feed-forward layer of dimension 4d."""
    return 6 * dim


crossover_length.def_cell(lambda index, dim: f"6·{dim}")
