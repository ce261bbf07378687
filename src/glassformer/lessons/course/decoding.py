"""Decoding and the cache."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.algebra import add
from glassformer.equations.probability import log_softmax, softmax
from glassformer.equations.sampling import greedy, length_penalty, sample, temperature, top_k, top_p
from glassformer.equations.scaling import cache_bytes
from glassformer.lessons.walk import Walk
from glassformer.models.build import build
from glassformer.models.gpt import GPTConfig

NEXT = ("mat", "sofa", "roof", "moon")


def walk_decoding(walk: Walk) -> None:
    """From shares to words: the best, a drawn one, the best sentence; and never the same work twice."""
    walk.step(
        "The best word, every time",
        "Greedy decoding takes the largest score and goes on. It is quick and repeatable, and it never says anything "
        "unexpected.",
        like="Always ordering the dish of the day.",
    )
    z = walk.tensor([2.0, 1.5, 0.5, -1.0])
    shares = softmax(z)
    best = greedy(z)
    walk.show(shares, (0,), columns=NEXT)
    walk.show(best)
    walk.say(f"The cat sat on the {NEXT[int(best)]}.")

    walk.step(
        "Warmer, colder",
        "Dividing the scores by a temperature flattens the shares when it is high and sharpens them when it is low. At "
        "one nothing changes; near zero only the best is left.",
        like="Ice keeps its shape, water gives a little, steam goes everywhere.",
    )
    rows = [(tau, *softmax(temperature(z, tau))) for tau in (0.25, 1.0, 4.0)]
    walk.table(("temperature", *NEXT), rows)
    walk.claim("the colder, the surer", rows[0][1] > rows[1][1] > rows[2][1])

    walk.step(
        "Cut the tail",
        "Thousands of unlikely words together are likely. Keep only the few best, or the fewest that hold a given share, "
        "and what is left shares the whole.",
        like="A shortlist before the vote.",
    )
    few, most = softmax(top_k(z, 2)), softmax(top_p(z, 0.9))
    walk.table(("", *NEXT), [("all", *shares), ("the two best", *few), ("nine tenths", *most)])
    walk.claim("what was cut has no share", float(few[2:].sum()) == 0)
    walk.claim("the rest still sums to one", abs(float(few.sum()) - 1) < 1e-12)

    walk.step(
        "Draw",
        "A word is drawn with the probability of its share. Over many draws the counts come out as the shares.",
        like="A roulette wheel with fields as wide as the shares.",
    )
    drawn = sample(shares.expand(4000, -1), torch.Generator().manual_seed(0))
    counts = torch.bincount(drawn, minlength=4).double() / len(drawn)
    walk.table(("", *NEXT), [("share", *shares), ("drawn", *counts)])
    walk.claim("counts follow shares", float((counts - shares).abs().max()) < 0.03)

    walk.step(
        "The best sentence",
        "The best first word need not begin the best sentence. A beam keeps the best few beginnings and extends them all. "
        "Log-probabilities add up along a sentence, and a penalty keeps short ones from winning by being short.",
        like="Chess: a player who looks two moves ahead lets a pawn go.",
    )
    first = log_softmax(walk.tensor([1.0, 0.8]))
    second = log_softmax(walk.tensor([[0.1, 0.0, 0.0], [3.0, 0.0, 0.0]]))
    sentences = add(first[:, None].expand(2, 3), second)
    walk.show(sentences, (0, 0), (1, 0), rows=("begins with the best", "begins with the second"))
    winner = int(sentences.flatten().argmax()) // 3
    walk.claim("greedy begins with the first word", int(first.argmax()) == 0)
    walk.claim("the best sentence begins with the other", winner == 1)
    divisor = length_penalty(3, 0.6)
    walk.show(divisor)

    walk.step(
        "Do not work anything out twice",
        "A causal model's rows for earlier tokens never change, so their keys and values are kept. Each new token brings "
        "one query and looks at what is kept. The scores are the same; the work is a fraction.",
        like="Reading on from a bookmark instead of from the first page.",
    )
    model = build(GPTConfig(vocab=6, context=16, dim=8, layers=2, heads=2), seed=0).double()
    ids = torch.tensor([[0, 1, 2, 3, 4, 5]])
    with torch.no_grad():
        whole = model(ids)
        cache = model.cache(1, 16)
        one_by_one = torch.cat([model(ids[:, i : i + 1], cache=cache) for i in range(ids.shape[1])], 1)
    walk.claim("token by token with the cache gives the same scores", float((whole - one_by_one).abs().max()) < 1e-12)
    answer = walk.worked("parallel-inference-claim")
    walk.beside("parallel-inference-claim", generation_passes=answer["generation_passes"])
    walk.say("Training sees a known text in one pass; writing takes a pass for each new token, with or without a cache.")

    walk.step(
        "What keeping costs",
        "The price of the cache is memory: a key and a value for each layer, head and token. Sharing keys and values "
        "among heads makes it smaller.",
        like="A desk covered with open books: nothing to look up again, and no room for coffee.",
    )
    size, shared = cache_bytes(32, 32, 128, 4096), cache_bytes(32, 8, 128, 4096)
    walk.show(size)
    walk.table(("heads of keys", "bytes for four thousand tokens"), [(32, size), (8, shared)])
    walk.claim("a quarter of the heads, a quarter of the bytes", shared * 4 == size)

    pair, tau = walk.tensor([2.0, 0.0]), 2.0
    walk.ask(f"Scores {number(pair[0])} and {number(pair[1])} at temperature {number(tau)}: what share has the first?",
             lambda: softmax(temperature(pair, tau)), "The scores are halved.", cell=(0,))
    three = walk.tensor([1.0, 1.0, -5.0])
    walk.ask(f"Scores {', '.join(map(number, three))}, and only the two best are kept. What share has the first?",
             lambda: softmax(top_k(three, 2)), "Two equals share the whole.", cell=(0,))
    layers, heads, width, tokens = 2, 4, 16, 100
    walk.ask(f"{layers} layers, {heads} heads of width {width}, {tokens} tokens, two bytes a number: how many bytes of cache?",
             lambda: cache_bytes(layers, heads, width, tokens), "Twice, for key and value.", tolerance=0.5)
