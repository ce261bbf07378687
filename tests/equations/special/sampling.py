"""Arguments of sampling: cuts that leave something, a finite fill so that differences can be taken."""

import torch

from tests.equations.drawing import Draw


def temperature(draw: Draw) -> dict[str, object]:
    """Scores and a temperature above zero."""
    return {"z": draw.normal(*draw.lead(), draw.integer(1, 8)), "tau": draw.number(0.1, 3)}


def top_k(draw: Draw) -> dict[str, object]:
    """Scores and how many to keep."""
    z = draw.normal(*draw.lead(), draw.integer(1, 8))
    return {"z": z, "k": draw.integer(1, z.shape[-1]), "fill": -50.0}


def top_p(draw: Draw) -> dict[str, object]:
    """Scores and a share to hold."""
    z = draw.normal(*draw.lead(), draw.integer(1, 8))
    return {"z": z, "p": draw.choose(0.01, 0.5, 0.9, 1.0), "fill": -50.0}


def min_p(draw: Draw) -> dict[str, object]:
    """Scores and a share of the best."""
    return top_p(draw)


def repetition_penalty(draw: Draw) -> dict[str, object]:
    """Scores, ids seen so far (perhaps none, perhaps twice), and a penalty."""
    rows, vocab = draw.lead(), draw.integer(1, 8)
    ids = draw.below(vocab, *rows, draw.integer(0, 4))
    return {"z": draw.normal(*rows, vocab), "ids": ids, "penalty": draw.choose(1.0, 1.2, 0.8)}


def sample(draw: Draw) -> dict[str, object]:
    """Distributions and a generator."""
    generator = torch.Generator().manual_seed(draw.integer(0, 1000))
    return {"p": draw.distribution(*draw.lead(), draw.integer(1, 8)), "generator": generator}


def length_penalty(draw: Draw) -> dict[str, object]:
    """A length and a strength."""
    return {"length": draw.integer(0, 100), "alpha": draw.number(-1, 2)}


def suppress_tokens(draw: Draw) -> dict[str, object]:
    """Scores and some ids, perhaps none."""
    vocab = draw.integer(1, 8)
    return {"z": draw.normal(*draw.lead(), vocab), "ids": draw.below(vocab, draw.integer(0, 3)), "fill": -50.0}


def sample_from_uniform(draw: Draw) -> dict[str, object]:
    """Distributions and a number for each."""
    rows = draw.lead()
    u = torch.rand(rows, generator=draw.generator, dtype=torch.float64)
    return {"p": draw.distribution(*rows, draw.integer(1, 8)), "u": u.to(draw.dtype).clamp_max(0.99)}


def acceptance(draw: Draw) -> dict[str, object]:
    """Shares of drawn guesses."""
    rows = draw.lead()
    return {"p": draw.positive(*rows) / 2, "q": draw.positive(*rows) / 2}


def residual_distribution(draw: Draw) -> dict[str, object]:
    """Two distributions over the same choices."""
    rows, vocab = draw.lead(), draw.integer(2, 8)
    return {"p": draw.distribution(*rows, vocab), "q": draw.distribution(*rows, vocab)}


def classifier_free_guidance(draw: Draw) -> dict:
    """Logits after a prompt and after none, and a scale."""
    shape = (*draw.lead(), draw.integer(1, 5))
    return {"z": draw.normal(*shape), "z_empty": draw.normal(*shape), "s": draw.choose(0.0, 1.0, 3.5)}


def no_repeat_ngram(draw: Draw) -> dict[str, object]:
    """Scores, the tokens of a text from a few kinds, some of them no token, and a length of runs."""
    rows, vocab = draw.lead(), draw.integer(1, 8)
    ids = draw.below(min(vocab, 3) + 1, *rows, draw.integer(0, 9)) - 1
    return {"z": draw.normal(*rows, vocab), "ids": ids, "n": draw.integer(1, 4), "fill": -50.0}
