"""“You are welcome” through an encoder: queries, keys, values, heads, norm and feed-forward."""

import torch

from glassformer.course.worked.attention import attended
from glassformer.course.worked.geometry import normalized
from glassformer.course.worked.recomputing import CLAIMS, Answer, Given, loaded, output_of, recomputes
from glassformer.equations.activations import relu
from glassformer.equations.algebra import linear, residual
from glassformer.equations.attention import attention
from glassformer.equations.parameter_counts import (
    attention_macs,
    attention_parameters,
    feed_forward_parameters,
    layer_macs,
)
from glassformer.equations.sequences import concat
from glassformer.equations.softmax import softmax
from glassformer.layers.basic import FeedForward, LayerNorm, Linear
from glassformer.layers.block import Attention, AttentionShape
from glassformer.layers.positions import SinusoidalPositions
from glassformer.recording import Tape


@recomputes("q-input-from-expressions")
def _q_input_from_expressions(given: Given) -> Answer:
    return {"Q": linear(given.tensor("X_plus_PE"), given.tensor("W_Q"))}


@recomputes("q-input-main-text")
def _q_input_main_text(given: Given) -> Answer:
    return {"Q": linear(given.tensor("X_plus_PE"), given.tensor("W_Q"))}


@recomputes("q13-hand-calculation")
def _q13_hand_calculation(given: Given) -> Answer:
    return {"Q13": linear(given.tensor("row"), given.tensor("column")[:, None])[0]}


@recomputes("q-first-row-hand-calculation")
def _q_first_row_hand_calculation(given: Given) -> Answer:
    row = linear(given.tensor("row"), given.tensor("W_Q"))
    return {"Q11": row[0], "Q12": row[1], "Q14": row[3]}


@recomputes("k-input-main-text")
def _k_input_main_text(given: Given) -> Answer:
    return {"K": linear(given.tensor("X_plus_PE"), given.tensor("W_K"))}


@recomputes("v-input-main-text")
def _v_input_main_text(given: Given) -> Answer:
    x, first, beside = given.tensors("X_plus_PE", "W_V_defined_first", "W_V_printed_beside")
    # The document goes on with the values of the matrix it defined first, so that is the matrix.
    return {"V": linear(x, first), "W_V": first, "V_from_matrix_printed_beside": linear(x, beside)}


def _projections(given: Given, rows: str) -> Answer:
    x = given.tensor(rows)
    return {name: linear(x, given.tensor(f"W_{name}")) for name in ("Q", "K", "V")}


@recomputes("qkv-input")
def _qkv_input(given: Given) -> Answer:
    return _projections(given, "X_plus_PE")


@recomputes("qkv-output")
def _qkv_output(given: Given) -> Answer:
    return _projections(given, "Y_plus_PE")


@recomputes("attention-input-weights")
def _attention_input_weights(given: Given) -> Answer:
    Q, K = given.tensors("Q", "K")
    found = attended(Q, K, torch.eye(len(K), dtype=K.dtype))  # what is asked for are the weights
    return {"scores": found.scores, "weights": found.weights, "row_sums": found.weights.sum(-1)}


@recomputes("attention-input-output")
def _attention_input_output(given: Given) -> Answer:
    q, k, v = given.tensors("Q", "K", "V")
    return {"output": attention(q, k, v)}


@recomputes("multihead-concat")
def _multihead_concat(given: Given) -> Answer:
    return {"concat": concat(list(given.tensors("head_1", "head_2")))}


@recomputes("multihead-projection")
def _multihead_projection(given: Given) -> Answer:
    return {"M": linear(*given.tensors("concat", "W_O"))}


@recomputes("multihead-final-output-main-text")
def _multihead_final_output_main_text(given: Given) -> Answer:
    return {"output": linear(*given.tensors("concat", "W_O"))}


@recomputes("multihead-wo-half")
def _multihead_wo_half(given: Given) -> Answer:
    heads = given.tensor("concat")
    filled = torch.full((heads.shape[-1], heads.shape[-1] // 2), given.get("W_O_fill", float), dtype=heads.dtype)
    output = linear(heads, filled)
    # Constant rows have a norm of zeros; the document goes on with rows that differ.
    differ = not torch.allclose(normalized(output, 1e-6), torch.zeros_like(output), atol=1e-6)
    return {"output": output, CLAIMS: {"W_O": differ}}


@recomputes("attention-same-speed-claim")
def _attention_same_speed_claim(given: Given) -> Answer:
    (short, long), dim = given.get("n", list[int]), given.get("d", int)
    ratio = attention_macs(long, long, dim) / attention_macs(short, short, dim)
    return {
        "attention_ratio": ratio,
        "whole_layer_ratio": layer_macs(long, dim) / layer_macs(short, dim),
        "independent_of_length": ratio == 1,
    }


@recomputes("ffn-output")
def _ffn_output(given: Given) -> Answer:
    x, W1, b1, W2, b2 = given.tensors("x", "W1", "b1", "W2", "b2")
    z1 = linear(x, W1, b1)
    a1 = relu(z1)
    return {"z1": z1, "a1": a1, "output": linear(a1, W2, b2)}


@recomputes("ffn-row1-col1")
def _ffn_row1_col1(given: Given) -> Answer:
    x, W1, b1, column, bias = given.tensors("x_row1", "W1", "b1", "W2_col1", "b2_col1")
    return {"z2_11": linear(relu(linear(x, W1, b1)), column[:, None], bias[None])[0]}


@recomputes("ffn-expansion-dimensions")
def _ffn_expansion_dimensions(given: Given) -> Answer:
    dim = given.get("n", int)
    hidden = 4 * dim
    weights = feed_forward_parameters(dim, hidden, bias=False)
    return {
        "hidden": hidden,
        "weights": weights,
        "share_of_layer_weights": weights / (weights + attention_parameters(dim, 1)),
    }


def one_head(given: Given, names: tuple[str, str, str, str | None], layer: Attention) -> Attention:
    """Load an attention layer of one head; without an output matrix the head comes out as it is."""
    *projections, output = names
    dim = layer.shape.dim
    last = torch.eye(dim, dtype=torch.float64) if output is None else given.tensor(output)
    paths = ("query.weight", "key.weight", "value.weight")
    weights = {path: given.tensor(str(name)) for path, name in zip(paths, projections, strict=True)}
    return loaded(layer, {**weights, "output.weight": last})


def _feed_forward(given: Given) -> FeedForward:
    W1, b1, W2, b2 = given.tensors("W1", "b1", "W2", "b2")
    weights = {"up.weight": W1, "up.bias": b1, "down.weight": W2, "down.bias": b2}
    dim, hidden = W1.shape
    return loaded(FeedForward(dim, hidden, relu), weights)


@recomputes("encoder-chain-correct-pe")
def _encoder_chain_correct_pe(given: Given) -> Answer:
    X, head_2, W_O = given.tensors("X", "head_2", "W_O")
    dim, eps = X.shape[-1], given.get("eps", float)
    x = SinusoidalPositions()(X)
    layer = one_head(
        given, ("W_Q", "W_K", "W_V", None), Attention(AttentionShape.of(dim=dim, heads=1, head_dim=dim, bias=False))
    )
    with Tape() as tape:
        head_1 = layer(x)
    # The document makes its second head up, so the heads are joined here and not in the layer.
    joined = loaded(Linear(*W_O.shape, bias=False), {"weight": W_O})(concat([head_1, head_2]))
    norm = loaded(LayerNorm(dim, eps))
    rows = norm(joined)
    out = _feed_forward(given)(rows)
    Q, K, V = (part(x) for part in (layer.query, layer.key, layer.value))
    return {
        **{"X_plus_PE": x, "Q": Q, "K": K, "V": V, "weights": output_of(tape, softmax)[0], "head_1": head_1},
        **{"M": joined, "LN_M": rows, "FFN": out, "LN_FFN": norm(out)},
    }


@recomputes("encoder-block-with-residuals")
def _encoder_block_with_residuals(given: Given) -> Answer:
    x, mixed = given.tensors("X_plus_PE", "M")
    norm = loaded(LayerNorm(x.shape[-1], given.get("eps", float)))
    h = norm(residual(x, mixed))
    return {"h": h, "y": norm(residual(h, _feed_forward(given)(h)))}
