"""Attention, forward and backward."""

from glassformer.arithmetic import number
from glassformer.equations.attention import attention, attention_scores, weighted_sum
from glassformer.equations.gradients import difference_quotient
from glassformer.equations.probability import softmax
from glassformer.equations.similarity import inner_product
from glassformer.lessons.walk import Walk


def walk_attention(walk: Walk) -> None:
    """Queries meet keys, scores become shares, shares mix values; then the whole thing backward."""
    walk.step(
        "Ask, compare, mix",
        "Each token asks with a query, offers itself with a key and says something with a value. A query is compared "
        "with every key; the better the match, the larger the share of that token's value in the answer.",
        like="A librarian compares your question with the labels on the shelves and hands you a stack of books, most of "
        "it from the shelves that fit best.",
    )
    Q, K, V = walk.given("toy-attention-weights-output").tensors("Q", "K", "V")
    raw = attention_scores(Q, K, scale=1.0)
    walk.show(raw, (0, 0), (2, 2))
    walk.beside("toy-attention-scores", QKt=raw)
    scores = attention_scores(Q, K)
    weights = softmax(scores)
    output = weighted_sum(weights, V)
    walk.show(scores, (2, 2))
    walk.show(weights, (0, 0))
    walk.show(output, (0, 0), (1, 0))
    walk.beside("toy-attention-weights-output", scaled=scores, weights=weights, output=output)
    walk.claim("every row of shares sums to one", bool((weights.sum(-1) - 1).abs().max() < 1e-12))
    walk.claim("the whole equation gives the same as its parts", bool((attention(Q, K, V) - output).abs().max() < 1e-12))

    walk.step(
        "By hand, with two tokens",
        "The second example is small enough for pencil and paper: two tokens, three numbers each. The source rounds on "
        "the way and carries the rounding along; the right numbers stand beside the printed ones.",
        like="Doing a sum in your head and rounding each part: the total is off by a little more than any part.",
    )
    Q, K, V = walk.given("tiny-attention-weights").tensors("Q", "K", "V")
    scores = attention_scores(Q, K)
    weights = softmax(scores)
    output = weighted_sum(weights, V)
    walk.show(scores, (0, 0), (0, 1))
    walk.show(weights, (0, 0), (0, 1))
    walk.show(output, (0, 0))
    walk.beside("tiny-attention-scaled-scores", S=scores)
    walk.beside("tiny-attention-weights", A=weights)
    walk.beside("tiny-attention-output", O=output)

    walk.step(
        "Backward: the values",
        "Say the loss pulls at the output. Each value is told what its readers felt, weighed by the shares they took of "
        "it: the same shares, the other way.",
        like="An author gets royalties from each reader in proportion to how much they read.",
    )
    pull = walk.given("tiny-attention-dV").tensor("G_O")
    found = walk.back(output, pull)
    walk.table(("the pull on the output", ""), [(f"token {i}", row) for i, row in enumerate(pull)])
    walk.show_gradient(found, V, "∂L/∂V")
    walk.beside("tiny-attention-dV", dV=found[V])

    walk.step(
        "Backward: the shares, the scores",
        "A share is told how useful its value was. Softmax passes on only how much more useful than the average of its "
        "row, since shares must sum to one: to give one more is to give the others less.",
        like="In a fixed budget every department asks for more; what counts is who asks better than the rest.",
    )
    walk.show_gradient(found, weights, "∂L/∂A")
    walk.show_gradient(found, scores, "∂L/∂S")
    walk.claim("each row of the scores' gradient sums to zero", float(found[scores].sum(-1).abs().max()) < 1e-12)

    walk.step(
        "Backward: queries and keys",
        "A query is pulled towards the keys it should have listened to more; a key towards the queries that should have "
        "listened to it.",
        like="Two people who missed each other in a crowd each take a step towards where the other stood.",
    )
    walk.show_gradient(found, Q, "∂L/∂Q")
    walk.show_gradient(found, K, "∂L/∂K")
    walk.beside("tiny-attention-dQ-dK", dP=found[weights], dS=found[scores], dQ=found[Q], dK=found[K])
    for name, tensor in (("Q", Q), ("K", K), ("V", V)):
        walk.claim(f"the gradient of {name} has the shape of {name}", found[tensor].shape == tensor.shape)

    walk.step(
        "Checked by nudging",
        "One entry of the queries is moved a little, and the whole is run again. The pulled output changes as the "
        "gradient promised.",
        like="Trust the map, and still look out of the window once.",
    )
    nudge, nudged = 1e-6, Q.clone()
    nudged[0, 0] += nudge
    here = inner_product(output.flatten(), pull.flatten())
    there = inner_product(attention(nudged, K, V).flatten(), pull.flatten())
    measured = difference_quotient(there, here, nudge)
    walk.show(measured)
    walk.say(f"Measured {number(measured)}, by the rule {number(found[Q][0, 0])}.")
    walk.claim("they agree", abs(float(measured - found[Q][0, 0])) < 1e-5)

    q, k = walk.tensor([[1.0, 1.0, 0.0, 0.0]]), walk.tensor([[2.0, 0.0, 1.0, 0.0]])
    walk.ask(
        f"A query ({', '.join(map(number, q[0]))}) and a key ({', '.join(map(number, k[0]))}): what is the scaled score?",
        lambda: attention_scores(q, k), "The inner product divided by the root of four.", cell=(0, 0),
    )
    shares, values = walk.tensor([[0.25, 0.75]]), walk.tensor([[4.0], [8.0]])
    walk.ask(
        f"Shares {number(shares[0, 0])} and {number(shares[0, 1])} of the values {number(values[0, 0])} and "
        f"{number(values[1, 0])}: what comes out?",
        lambda: weighted_sum(shares, values), "Each value times its share, added up.", cell=(0, 0),
    )
    walk.ask(f"V has shape {V.shape[0]}×{V.shape[1]}. What shape has its gradient?", lambda: tuple(V.shape), "Its own shape.")
