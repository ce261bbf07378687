"""Complexity and sparse attention."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.attention import attention
from glassformer.equations.counts import (
    attention_operations,
    crossover_length,
    layer_operations,
    projection_operations,
    quadratic_share,
)
from glassformer.equations.masks import block_sparse_mask, causal_mask, dilated_mask, sliding_window_mask, visible_pairs
from glassformer.equations.scaling import scaling_law_loss, training_flops
from glassformer.lessons.walk import Walk


def walk_complexity(walk: Walk) -> None:
    """What grows with the square of the length, what does not, and how looking at less saves work."""
    walk.step(
        "Every pair meets",
        "Attention compares every token with every token. Twice the length is four times the work, however fast the "
        "machine.",
        like="Shaking hands all round: twice the guests, four times the handshakes.",
    )
    given = walk.given("attention-cost-quadratic")
    counts = [attention_operations(n, n, given.get("d", int)) for n in given.get("n", list[int])]
    walk.show(counts[0])
    walk.beside("attention-cost-quadratic", multiply_adds=counts, ratio=counts[1] / counts[0])
    answer = walk.worked("attention-same-speed-claim")
    walk.beside("attention-same-speed-claim", attention_ratio=answer["attention_ratio"])

    walk.step(
        "But the matrices are larger",
        "Each token also goes through the projections and the feed-forward part, which cost the square of the width, once "
        "for each token. In a wide model at ordinary lengths that is nearly everything.",
        like="At a conference the talks take the week; the handshakes take the coffee break.",
    )
    given = walk.given("self-attention-bottleneck-claim")
    n, d = given.get("n", int), given.get("d", int)
    share, cross = quadratic_share(n, d), crossover_length(d)
    walk.show(share)
    walk.show(cross)
    walk.beside("self-attention-bottleneck-claim", quadratic_share=share, crossover_length=cross)
    walk.table(("part of one layer", "multiply-adds"), [
        ("pairs", attention_operations(n, n, d)), ("projections", projection_operations(n, d)), ("whole layer", layer_operations(n, d)),
    ])
    lengths = [2**k for k in range(8, 19)]
    walk.plot("share of the quadratic part", {"GPT-sized width": (range(8, 19), [quadratic_share(length, d) for length in lengths])},
              "length, as a power of two")
    walk.claim("beyond the crossing the pairs cost most", quadratic_share(2 * cross, d) > 0.5 > quadratic_share(cross // 2, d))

    walk.step(
        "Look at less",
        "If each token sees only some others the pairs are fewer: a window of neighbours, a window with gaps, blocks with "
        "a summary of each earlier one.",
        like="News in a village: you hear your neighbours directly, and the rest through one person from each street.",
    )
    size = 16
    patterns = {
        "all of the past": causal_mask(size, dtype=torch.float64),
        "window of four": sliding_window_mask(size, size, 4, dtype=torch.float64),
        "window with gaps": dilated_mask(size, size, 4, 2, dtype=torch.float64),
        "blocks of four": block_sparse_mask(size, size, 4, dtype=torch.float64),
    }
    left = {name: visible_pairs(mask) for name, mask in patterns.items()}
    walk.show(patterns["blocks of four"])
    walk.table(("who sees whom", "pairs left"), [(name, int(count)) for name, count in left.items()])
    walk.claim("every pattern leaves fewer pairs", all(int(c) < int(left["all of the past"]) for c in list(left.values())[1:]))

    walk.step(
        "Linear, with a window",
        "With a window of fixed width the pairs grow with the length, not with its square. What is farther away arrives "
        "through the layers: each adds another window's reach.",
        like="Whispering down a row of people: no one hears far, and yet the message travels.",
    )
    sizes = [16, 32, 64, 128]
    full = [int(visible_pairs(causal_mask(s))) for s in sizes]
    window = [int(visible_pairs(sliding_window_mask(s, s, 4))) for s in sizes]
    walk.table(("length", "all of the past", "window of four"), zip(sizes, full, window, strict=True))
    walk.plot("pairs", {"all of the past": (sizes, full), "window": (sizes, window)}, "length")
    walk.claim("twice the length, about twice the pairs", window[3] / window[2] < 2.1)
    walk.claim("and without the window about four times", full[3] / full[2] > 3.9)

    walk.step(
        "The same equation",
        "Sparse attention is attention with a mask. Where a token's window holds all of its past, nothing changes.",
        like="Blinkers on a horse: the same eyes, a narrower view.",
    )
    q, k, v = torch.randn(3, size, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    whole, near = attention(q, k, v, causal=True), attention(q, k, v, patterns["window of four"])
    walk.show(near)
    walk.claim("the first four rows are the same", float((whole[:4] - near[:4]).abs().max()) < 1e-12)
    walk.claim("later ones are not", float((whole[8:] - near[8:]).abs().max()) > 0.01)

    walk.step(
        "What it buys",
        "Training takes about six operations for each parameter and token, and the loss falls as a power of both. More of "
        "either helps less and less, down to what no model can know.",
        like="Practising an instrument: the first hundred hours show most.",
    )
    walk.show(training_flops(1e9, 20e9))
    losses = [scaling_law_loss(n, 20 * n) for n in (1e8, 1e9, 1e10)]
    walk.table(("parameters", "loss by the law"), zip((1e8, 1e9, 1e10), losses, strict=True))
    walk.claim("each tenfold helps less than the one before", losses[0] - losses[1] > losses[1] - losses[2])

    n, width = 128, 64
    walk.ask(f"{n} queries, {n} keys, width {width}: how many multiply-adds for scores and mixture?",
             lambda: attention_operations(n, n, width), "Once for the score and once for the mixture.", tolerance=0.5)
    walk.ask(f"At what length do the pairs cost as much as the rest of a layer of width {width}?", lambda: crossover_length(width),
             "Six times the width.", tolerance=0.5)
    tokens, reach = 8, 3
    walk.ask(f"{tokens} tokens, a causal window of {reach}: how many pairs?", lambda: visible_pairs(sliding_window_mask(tokens, tokens, reach)),
             "Three for each token, but the first two see fewer.", tolerance=0.1)
    walk.say(f"A last comparison: {number(quadratic_share(1024, 768))} of the work of a small GPT's layer is pairs at its full length.")
