"""FlashAttention by hand."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.attention import attention, attention_scores, weighted_sum
from glassformer.equations.probability import logsumexp, softmax
from glassformer.equations.tiled import tiled_attention
from glassformer.lessons.walk import Walk


def walk_flash_attention(walk: Walk) -> None:
    """Exact attention without ever holding all scores: block by block, with one number to remember for each row."""
    walk.step(
        "The whole, to compare with",
        "Four keys, one query. Plain attention makes all scores, then all shares, then the mixture. For long texts the "
        "table of scores is what fills the memory.",
        like="Counting an election by first carrying all ballots into one hall.",
    )
    q = walk.tensor([[1.0, 0.0]])
    k = walk.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [-1.0, 0.5]])
    v = walk.tensor([[1.0, 0.0], [0.0, 1.0], [4.0, 2.0], [-2.0, 3.0]])
    whole = attention(q, k, v)
    walk.show(walk.inside(attention_scores), (0, 0), (0, 2))
    walk.show(whole, (0, 0))

    walk.step(
        "One block by itself",
        "Take the first two keys as if there were no others: scores, shares, mixture. And remember one number, the "
        "logarithm of the sum of the exponentials: how much weight this block carries.",
        like="Counting one ward: its result, and how many voted there.",
    )
    scores = [attention_scores(q, k[i : i + 2]) for i in (0, 2)]
    mixtures = [weighted_sum(softmax(s), v[i : i + 2]) for s, i in zip(scores, (0, 2), strict=True)]
    weights = [logsumexp(s) for s in scores]
    walk.show(scores[0], (0, 0), (0, 1))
    walk.show(mixtures[0], (0, 0))
    walk.show(weights[0], (0,))

    walk.step(
        "The next block",
        "The same for the other two keys. Its largest score is higher, so it carries more weight.",
        like="The next ward, with a larger turnout.",
    )
    walk.show(mixtures[1], (0, 0))
    walk.show(weights[1], (0,))
    walk.claim("the second block weighs more", weights[1] > weights[0])

    walk.step(
        "Merge",
        "The remembered numbers are scores themselves: their softmax says what share each block has in the whole, and the "
        "mixtures are mixed with these shares. The result is exact, not an approximation.",
        like="The total of the town is the wards' results, each weighed by its turnout.",
    )
    shares = softmax(torch.stack(weights, -1))
    merged = weighted_sum(shares, torch.cat(mixtures))
    walk.show(shares, (0, 0))
    walk.show(merged, (0, 0), (0, 1))
    walk.claim("it is the whole result, to the last digits", float((merged - whole).abs().max()) < 1e-12)

    walk.step(
        "As a running count",
        "In practice the blocks come one after another. Kept are the largest score so far, the sum of exponentials below "
        "it, and the mixture; when a larger score appears, the old sums are scaled down to the new measure.",
        like="A scoreboard that changes its unit when the numbers grow too large: all old entries are restated.",
    )
    running = tiled_attention(q, k, v, block=2)
    walk.show(running)
    walk.claim("two at a time gives the whole result", float((running - whole).abs().max()) < 1e-12)
    for block in (1, 3, 4):
        walk.claim(f"so does a block of {block}", float((tiled_attention(q, k, v, block=block) - whole).abs().max()) < 1e-12)

    walk.step(
        "Backward too",
        "Shares are not kept; they are computed again from the scores and the remembered logarithm. The gradients are "
        "the same.",
        like="Keeping the receipts' total and the price list is enough to work out each item again.",
    )
    pull = torch.ones_like(whole)
    plain, tiled = walk.back(whole, pull), walk.back(running, pull)
    walk.show_gradient(tiled, k, "∂L/∂K")
    for name, tensor in (("queries", q), ("keys", k), ("values", v)):
        walk.claim(f"the gradients of the {name} agree", float((plain[tensor] - tiled[tensor]).abs().max()) < 1e-12)

    walk.step(
        "Large scores are safe",
        "Because the largest score is always taken off first, no exponential overflows, whichever block it comes in.",
        like="Measuring mountains from the highest peak down: no number is too large for the table.",
    )
    steep = 800 * q
    safe, straight = tiled_attention(steep, k, v, block=1), attention(steep, k, v)
    walk.show(safe)
    walk.claim("the result is finite and the same", bool(safe.isfinite().all()) and float((safe - straight).abs().max()) < 1e-9)

    a, b = walk.tensor([0.0, 0.0]), walk.tensor([1.0, 1.0])
    walk.ask(f"What does a block with two scores of {number(a[0])} weigh, as a logarithm?", lambda: logsumexp(a),
             "The logarithm of two.")
    walk.ask(f"And one with two scores of {number(b[0])}?", lambda: logsumexp(b), "One more than the other.")
    walk.ask("What share has the second block when the two are merged?",
             lambda: softmax(torch.stack([logsumexp(a), logsumexp(b)])), "The softmax of their weights.", cell=(1,))
