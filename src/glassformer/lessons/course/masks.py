"""Masks: who may look at whom."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.attention import apply_mask, attention, attention_scores, weighted_sum
from glassformer.equations.masks import causal_mask, combine_masks, padding_mask, visible_pairs
from glassformer.equations.probability import softmax
from glassformer.lessons.walk import Walk


def walk_masks(walk: Walk) -> None:
    """A number added to the scores before softmax decides what is seen: no future, no filler, never nothing."""
    walk.step(
        "The past alone",
        "A model that predicts the next word must not see it. The causal mask adds minus infinity to every score of a "
        "later token, so that softmax leaves it no share at all.",
        like="An exam with the answers covered by a sheet that slides down line by line.",
    )
    mask = causal_mask(4, dtype=torch.float64)
    walk.show(mask)
    Q, K, V = walk.given("causal-mask-tiny").tensors("Q", "K", "V")
    scores = attention_scores(Q, K)
    masked = apply_mask(scores, causal_mask(2, dtype=torch.float64))
    weights = softmax(masked)
    output = weighted_sum(weights, V)
    walk.show(masked, (0, 1), (1, 0))
    walk.show(weights, (1, 0))
    walk.show(output, (1, 0))
    walk.beside("causal-mask-tiny", weights=weights, output=output)

    walk.step(
        "The past does not change",
        "Because nobody sees ahead, a new word at the end leaves every earlier row as it was. This is what makes it "
        "possible to train on all positions at once, and to keep what was computed while writing.",
        like="Adding a chapter to a diary does not rewrite the pages before it.",
    )
    random = torch.Generator().manual_seed(1)
    q, k, v = torch.randn(3, 5, 4, generator=random, dtype=torch.float64)
    whole, shorter = attention(q, k, v, causal=True), attention(q[:4], k[:4], v[:4], causal=True)
    walk.show(whole)
    walk.claim("the rows of the shorter text are the first rows of the longer one",
               float((whole[:4] - shorter).abs().max()) < 1e-12)
    pull = torch.zeros_like(whole)
    pull[1] = 1.0
    found = walk.back(whole, pull)
    walk.show_gradient(found, v, "gradient of V when only row one is pulled")
    walk.claim("no later value is told anything", float(found[v][2:].abs().max()) == 0)

    walk.step(
        "No fillers",
        "Short sentences in a batch are filled up, and a padding mask hides the fillers. Both masks are added to the "
        "scores, so they combine by adding: what either hides is hidden.",
        like="Two sunglasses, one over the other: what either blocks stays dark.",
    )
    row, keep = walk.given("padding-mask-weights").tensors("scores", "keep")
    fillers = padding_mask(keep[None], dtype=torch.float64)
    shares = softmax(apply_mask(row[None], fillers[0, 0]))
    walk.show(shares, (0, 0), (0, 4))
    walk.beside("padding-mask-weights", weights=shares[0])
    both = combine_masks(causal_mask(5, dtype=torch.float64), fillers[0, 0])
    walk.show(both)
    pairs = visible_pairs(both)
    walk.say(f"Of twenty-five pairs {int(pairs)} are left.")

    walk.step(
        "Multiply afterwards, and it leaks",
        "Zeroing shares after softmax is not the same: the hidden tokens have already taken part in the sum, and what is "
        "left no longer sums to one.",
        like="Dividing a cake among five and then sending two home: the rest get no more than before.",
    )
    late = softmax(row) * keep
    walk.table(("", *(f"token {i}" for i in range(len(row)))), [("masked before", *shares[0]), ("zeroed after", *late)])
    walk.claim("masked before, the shares sum to one", abs(float(shares.sum()) - 1) < 1e-12)
    walk.claim("zeroed after, they do not", float(late.sum()) < 0.9)

    walk.step(
        "A row with nothing to see",
        "If everything is hidden, minus infinity leaves softmax dividing zero by zero. A large finite number instead "
        "lets the row keep its old shares, which is harmless only if nobody reads it. Here such a row gets zeros.",
        like="Asking an empty room to vote: someone has to decide what silence means.",
    )
    given = walk.given("fully-masked-row")
    scores, low = given.tensor("scores"), given.get("mask_value", float)
    finite = softmax(scores + low)
    empty = softmax(torch.full_like(scores, -torch.inf))
    walk.show(finite)
    walk.show(empty)
    walk.beside("fully-masked-row", weights_finite_mask=finite)
    walk.claim("no number is lost on the way", bool(empty.isfinite().all()))

    size = 6
    walk.ask(f"How many pairs does a causal mask over {size} tokens leave?",
             lambda: visible_pairs(causal_mask(size, dtype=torch.float64)), "One for the first token, two for the second, and so on.")
    pair = walk.tensor([[1.0, 3.0, 2.0]])
    hidden = walk.tensor([[0.0, -torch.inf, 0.0]])
    walk.ask(f"Scores {', '.join(map(number, pair[0]))}, and the second is masked. What share has the third?",
             lambda: softmax(apply_mask(pair, hidden)), "Only the first and the third take part.", cell=(0, 2))
