"""GPT: a sentence of three words, counts of parameters and operations, passes over a text."""

import torch

from glassformer.course.worked.recomputing import Answer, Given, recomputes
from glassformer.equations.algebra import add, linear
from glassformer.equations.attention import weighted_sum
from glassformer.equations.embedding import embed, unembed
from glassformer.equations.information import one_hot
from glassformer.equations.matrices import transpose
from glassformer.equations.parameter_counts import (
    attention_parameters,
    crossover_length,
    feed_forward_parameters,
    gpt_parameters,
    quadratic_fraction,
)
from glassformer.equations.sampling import greedy
from glassformer.equations.softmax import softmax
from glassformer.layers.model import Model
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import PRESETS, build
from glassformer.models.rnn import RNNConfig
from glassformer.recording import Tape

H1_IN_PRINT = (0.155, 0.458)  # what the document goes on with, wrong as it is


@recomputes("embedding-onehot-column")
def _embedding_onehot_column(given: Given) -> Answer:
    return {"embedding": linear(given.tensor("x"), transpose(given.tensor("W_e")))}  # a row for each word


@recomputes("weight-tying-logits")
def _weight_tying_logits(given: Given) -> Answer:
    E, h = given.tensors("E", "h_t")
    word = torch.tensor(given.get("i", int))
    logits = unembed(h, E)
    row = embed(E, word)
    if not torch.equal(row, linear(one_hot(word, len(E), E.dtype), E)):
        raise ArithmeticError("a lookup and a one-hot product differ")
    return {"logits": logits, "probabilities": softmax(logits), "e_i": row, "parameters_saved": E.numel()}


@recomputes("gpt-h0")
def _gpt_h0(given: Given) -> Answer:
    return {"h0": add(*given.tensors("U", "W_p"))}


@recomputes("gpt-h1-love")
def _gpt_h1_love(given: Given) -> Answer:
    return {"h1": weighted_sum(given.tensor("weights")[None], given.tensor("h0"))[0]}


@recomputes("gpt-h2-love")
def _gpt_h2_love(given: Given) -> Answer:
    W, printed = given.tensor("W"), torch.tensor(H1_IN_PRINT, dtype=torch.float64)
    return {
        "h2": linear(given.tensor("h1"), W),
        "h2_from_printed_h1": linear(printed, W),
        "h2_from_printed_h1_transposed_W": linear(printed, transpose(W)),
    }


@recomputes("gpt-context-window")
def _gpt_context_window(given: Given) -> Answer:
    tokens, k = given.get("tokens", list[str]), given.get("k", int)
    return {"context": tokens[-1 - k : -1], "target": tokens[-1]}


@recomputes("gpt1-parameter-count")
def _gpt1_parameter_count(given: Given) -> Answer:
    sizes = (given.get(name, int) for name in ("V", "n_ctx", "d", "L"))
    parameters = gpt_parameters(*sizes, final_norm=False)
    return {"parameters": parameters, "millions": parameters / 1e6}


@recomputes("gpt2-gpt3-parameter-count")
def _gpt2_gpt3_parameter_count(given: Given) -> Answer:
    answer: Answer = {}
    for model in ("gpt2", "gpt3"):
        sizes = given.get(model, dict[str, int])
        parameters = gpt_parameters(sizes["V"], sizes["n_ctx"], sizes["d"], sizes["L"])
        answer |= {model: parameters, f"{model}_billions": parameters / 1e9}
    return answer


def _weights_in_layers(layers: int, dim: int) -> int:
    return layers * (attention_parameters(dim, 1) + feed_forward_parameters(dim, 4 * dim, bias=False))


@recomputes("gpt3-layers-and-width")
def _gpt3_layers_and_width(given: Given) -> Answer:
    config = PRESETS["gpt3"]
    if not isinstance(config, GPTConfig):
        raise TypeError("the preset gpt3 is not a GPT")
    return {
        "layers": config.layers,
        "d_model": config.dim,
        "heads": config.heads,
        "params_from_96_12288": _weights_in_layers(config.layers, config.dim),
        "params_from_175_1024": _weights_in_layers(given.fact("layers", int), given.fact("d_model", int)),
    }


@recomputes("self-attention-bottleneck-claim")
def _self_attention_bottleneck_claim(given: Given) -> Answer:
    length, dim = given.get("n", int), given.get("d", int)
    share = quadratic_fraction(length, dim)
    terms = [term for term, part in (("n^2 d", share), ("n d^2", 1 - share)) if part > 0]
    return {
        "quadratic_share": share,
        "crossover_length": crossover_length(dim),
        "per_layer_cost": f"O({' + '.join(terms)})",
    }


@recomputes("parallel-inference-claim")
def _parallel_inference_claim(given: Given) -> Answer:
    length = given.get("T", int)
    model = build(GPTConfig(vocab=5, context=length, dim=4, layers=1, heads=1))
    ids, passes = torch.zeros(1, 1, dtype=torch.int64), 0
    for _ in range(length):
        logits, passes = model(ids), passes + 1
        ids = torch.cat([ids, greedy(logits[:, -1:])], 1)
    known = model(ids[:, :-1])  # one pass over a known text gives the logits of every next token at once
    return {"training_passes": length // known.shape[1], "generation_passes": passes}


def _steps(model: Model, length: int) -> int:
    """How many equations one pass over a text of some length runs."""
    with Tape() as tape:
        model(torch.zeros(1, length, dtype=torch.int64))
    return len(tape.steps)


@recomputes("bptt-claim")
def _bptt_claim(given: Given) -> Answer:
    gpt = build(GPTConfig(vocab=5, context=8, dim=4, layers=1, heads=1))
    rnn = build(RNNConfig(vocab=5, dim=4, hidden_dim=4))
    # To go back through time is to go back through steps that a longer text has more of.
    more, more_of_a_recurrence = (_steps(model, 8) - _steps(model, 4) for model in (gpt, rnn))
    if more_of_a_recurrence <= 0:
        raise ArithmeticError("a recurrence should take more steps over a longer text")
    return {"uses_bptt": more > 0, "recurrent_connections": more}
