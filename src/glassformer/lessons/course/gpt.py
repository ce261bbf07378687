"""GPT: “I love AI”."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.algebra import add, linear
from glassformer.equations.attention import weighted_sum
from glassformer.equations.counts import gpt_parameters
from glassformer.equations.losses import cross_entropy
from glassformer.equations.normalization import layer_norm
from glassformer.equations.probability import softmax
from glassformer.lessons.walk import Walk
from glassformer.models.build import build
from glassformer.models.gpt import GPTConfig

SENTENCE = ("I", "love", "AI")


def walk_gpt(walk: Walk) -> None:
    """A decoder alone: three words by hand, a real small GPT, and how large the large ones are."""
    walk.step(
        "Words and places",
        "No encoder, no second language: one text that continues itself. Each word's row gets the row of its place.",
        like="A serial novel: every instalment is written from the earlier ones alone.",
    )
    U, P = walk.given("gpt-h0").tensors("U", "W_p")
    h0 = add(U, P)
    walk.show(h0, (0, 0), (1, 0), rows=SENTENCE)
    walk.beside("gpt-h0", h0=h0)

    walk.step(
        "Love looks back",
        "The word in the middle mixes what it may see: a tenth of the word before, nine tenths of itself, nothing of the "
        "word to come. The source prints another mixture; the arithmetic decides.",
        like="A conversation in which you can answer what was said, not what will be.",
    )
    shares = walk.given("gpt-h1-love").tensor("weights")
    h1 = weighted_sum(shares[None], h0)
    walk.show(h1, (0, 0), (0, 1))
    walk.beside("gpt-h1-love", h1=h1[0])

    walk.step(
        "A matrix, a norm",
        "The mixture goes through a matrix. What is printed follows neither from the right mixture nor from the printed "
        "one. The heading promises a norm that is never taken; here it is.",
        like="A sum copied wrongly, then added up wrongly.",
    )
    W = walk.given("gpt-h2-love").tensor("W")
    h2 = linear(h1[0], W)
    walk.show(h2, (0,), (1,))
    walk.beside("gpt-h2-love", h2=h2)
    normed = layer_norm(h2, h2.new_ones(2), h2.new_zeros(2))
    walk.show(normed, (0,))
    walk.claim("of two numbers a norm keeps little but the order", float((normed.abs() - 1).abs().max()) < 0.01)

    walk.step(
        "A text teaches itself",
        "The words before are the question, the next word is the answer. Nobody has to label anything: every place of "
        "every text is an exercise with its solution printed behind it.",
        like="Covering the end of a proverb with your thumb and guessing it.",
    )
    given = walk.given("gpt-context-window")
    words, k = given.get("tokens", list[str]), given.get("k", int)
    walk.beside("gpt-context-window", context=words[-1 - k : -1], target=words[-1])

    walk.step(
        "A real one, small",
        "Two layers, width eight. One pass scores the next word at every place at once, and the causal mask keeps it "
        "honest. Untrained, it finds all words about equally likely.",
        like="A model ship: too small to sail, but every rope is where it belongs.",
    )
    model = build(GPTConfig(vocab=4, context=8, dim=8, layers=2, heads=2), seed=0).double()
    ids, begun = torch.tensor([[3, 0, 1]]), len(walk.tape.steps)
    with torch.no_grad():
        scores = model(ids)
        names = [step.path for step in walk.tape.steps[begun:]]
        loss = cross_entropy(scores[0], torch.tensor([0, 1, 2]))
        shares = softmax(scores[0])
    walk.table(("step", "where"), enumerate(names, 1))
    walk.show(shares, rows=("<start>", *SENTENCE[:2]), columns=(*SENTENCE, "<start>"))
    walk.show(loss)
    even = cross_entropy(torch.zeros(1, 4, dtype=torch.float64), torch.tensor([0]))
    walk.claim("its loss is near that of pure guessing", abs(float(loss - even)) < 0.2)
    with torch.no_grad():
        changed = model(torch.tensor([[3, 0, 2]]))
    walk.claim("changing the last word changes no score before it", bool((changed[:, :2] == scores[:, :2]).all()))

    walk.step(
        "How large they are",
        "Parameters follow from four sizes. The first GPT has some hundred and seventeen millions, not a hundred and "
        "fifty; the third has ninety-six layers, not as many as its billions.",
        like="A building's floor area from its plan: count the floors, measure one.",
    )
    given = walk.given("gpt1-parameter-count")
    first = gpt_parameters(*(given.get(name, int) for name in ("V", "n_ctx", "d", "L")), final_norm=False)
    walk.show(first)
    walk.beside("gpt1-parameter-count", parameters=first, millions=first / 1e6)
    sizes = walk.given("gpt2-gpt3-parameter-count")
    counts = {}
    for name in ("gpt2", "gpt3"):
        size = sizes.get(name, dict[str, int])
        counts[name] = gpt_parameters(size["V"], size["n_ctx"], size["d"], size["L"])
    walk.table(("model", "parameters"), counts.items())
    walk.beside("gpt2-gpt3-parameter-count", **counts, **{f"{name}_billions": n / 1e9 for name, n in counts.items()})
    third = walk.worked("gpt3-layers-and-width")
    walk.beside("gpt3-layers-and-width", layers=third["layers"], d_model=third["d_model"])

    a, rows = walk.tensor([[0.5, 0.5]]), walk.tensor([[1.0, 0.0], [0.0, 3.0]])
    walk.ask(f"Half of ({number(rows[0, 0])}, {number(rows[0, 1])}) and half of ({number(rows[1, 0])}, {number(rows[1, 1])}): "
             "what is the second number of the mixture?", lambda: weighted_sum(a, rows), "Half of each, added.", cell=(0, 1))
    walk.ask("What is h₁ of “love” in its first number, rightly?", lambda: weighted_sum(walk.given("gpt-h1-love").tensor("weights")[None], h0),
             "A tenth of the first row's number and nine tenths of the second's.", cell=(0, 0))
    vocab, context, dim, layers = 1000, 64, 32, 2
    walk.ask(f"A GPT with {vocab} tokens, {context} places, width {dim} and {layers} layers: how many parameters?",
             lambda: gpt_parameters(vocab, context, dim, layers), "Two tables, and for each layer twelve d² and thirteen d; the last norm has two d.",
             tolerance=0.5)
