"""Complexity and sparse attention."""

import torch

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
from glassformer.lessons.walk import Walk, step


class ComplexityWalk(Walk):
    """What grows with the square of the length, what does not, and how looking at less saves work."""

    @step("Every pair meets", like="Shaking hands all round: twice the guests, four times the handshakes.")
    def every_pair_meets(self) -> None:
        """Attention compares every token with every token. Twice the length is four times the work, however fast the
        machine.
        """
        given = self.given("attention-cost-quadratic")
        counts = [attention_operations(n, n, given.get("d", int)) for n in given.get("n", list[int])]
        self.show(counts[0])
        self.beside("attention-cost-quadratic", multiply_adds=counts, ratio=counts[1] / counts[0])
        answer = self.worked("attention-same-speed-claim")
        self.beside("attention-same-speed-claim", attention_ratio=answer.get("attention_ratio", float))

    @step(
        "But the matrices are larger",
        like="At a conference the talks take the week; the handshakes take the coffee break.",
    )
    def but_the_matrices_are_larger(self) -> None:
        """Each token also goes through the projections and the feed-forward part, which cost the square of the width,
        once for each token. In a wide model at ordinary lengths that is nearly everything.
        """
        given = self.given("self-attention-bottleneck-claim")
        n, d = given.get("n", int), given.get("d", int)
        share, cross = quadratic_share(n, d), crossover_length(d)
        self.show(share)
        self.show(cross)
        self.beside("self-attention-bottleneck-claim", quadratic_share=share, crossover_length=cross)
        self.table(
            ("part of one layer", "multiply-adds"),
            [
                ("pairs", attention_operations(n, n, d)),
                ("projections", projection_operations(n, d)),
                ("whole layer", layer_operations(n, d)),
            ],
        )
        lengths = [2**k for k in range(8, 19)]
        self.plot(
            "share of the quadratic part",
            {"GPT-sized width": (range(8, 19), [quadratic_share(length, d) for length in lengths])},
            "length, as a power of two",
        )
        self.less("below the crossing the pairs cost less than the rest", quadratic_share(cross // 2, d), 0.5)
        self.less("beyond it they cost more", 0.5, quadratic_share(2 * cross, d))

    @step(
        "Look at less",
        like="News in a village: you hear your neighbours directly, and the rest through one person from each street.",
    )
    def look_at_less(self) -> None:
        """If each token sees only some others the pairs are fewer: a window of neighbours, a window with gaps, blocks
        with a summary of each earlier one.
        """
        self.size = 16
        self.patterns = {
            "all of the past": causal_mask(self.size, dtype=torch.float64),
            "window of four": sliding_window_mask(self.size, self.size, 4, dtype=torch.float64),
            "window with gaps": dilated_mask(self.size, self.size, 4, 2, dtype=torch.float64),
            "blocks of four": block_sparse_mask(self.size, self.size, 4, dtype=torch.float64),
        }
        left = {name: visible_pairs(mask) for name, mask in self.patterns.items()}
        self.show(self.patterns["blocks of four"])
        self.table(("who sees whom", "pairs left"), [(name, int(count)) for name, count in left.items()])
        self.claim(
            "every pattern leaves fewer pairs",
            all(int(c) < int(left["all of the past"]) for c in list(left.values())[1:]),
        )

    @step(
        "Linear, with a window",
        like="Whispering down a row of people: no one hears far, and yet the message travels.",
    )
    def linear_with_a_window(self) -> None:
        """With a window of fixed width the pairs grow with the length, not with its square. What is farther away
        arrives through the layers: each adds another window's reach.
        """
        sizes = [16, 32, 64, 128]
        full = [int(visible_pairs(causal_mask(s))) for s in sizes]
        window = [int(visible_pairs(sliding_window_mask(s, s, 4))) for s in sizes]
        self.table(("length", "all of the past", "window of four"), zip(sizes, full, window, strict=True))
        self.plot("pairs", {"all of the past": (sizes, full), "window": (sizes, window)}, "length")
        self.less("twice the length, about twice the pairs", window[3] / window[2], 2.1)
        self.less("and without the window about four times", 3.9, full[3] / full[2])

    @step("The same equation", like="Blinkers on a horse: the same eyes, a narrower view.")
    def same_equation(self) -> None:
        """Sparse attention is attention with a mask. Where a token's window holds all of its past, nothing changes."""
        q, k, v = torch.randn(3, self.size, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        whole, near = attention(q, k, v, causal=True), attention(q, k, v, self.patterns["window of four"])
        self.show(near)
        self.same("the first four rows are the same", whole[:4], near[:4])
        self.differ("later ones are not", whole[8:], near[8:], by=0.01)

    @step("What it buys", like="Practising an instrument: the first hundred hours show most.")
    def what_it_buys(self) -> None:
        """Training takes about six operations for each parameter and token, and the loss falls as a power of both.
        More of either helps less and less, down to what no model can know.
        """
        self.show(training_flops(1e9, 20e9))
        losses = [scaling_law_loss(n, 20 * n) for n in (1e8, 1e9, 1e10)]
        self.table(("parameters", "loss by the law"), zip((1e8, 1e9, 1e10), losses, strict=True))
        self.claim("each tenfold helps less than the one before", losses[0] - losses[1] > losses[1] - losses[2])

    def quiz(self) -> None:
        """Questions on it."""
        n, width = 128, 64
        self.ask(
            f"{n} queries, {n} keys, width {width}: how many multiply-adds for scores and mixture?",
            lambda: attention_operations(n, n, width),
            "Once for the score and once for the mixture.",
            tolerance=0.5,
        )
        self.ask(
            f"At what length do the pairs cost as much as the rest of a layer of width {width}?",
            lambda: crossover_length(width),
            "Six times the width.",
            tolerance=0.5,
        )
        tokens, reach = 8, 3
        self.ask(
            f"{tokens} tokens, a causal window of {reach}: how many pairs?",
            lambda: visible_pairs(sliding_window_mask(tokens, tokens, reach)),
            "Three for each token, but the first two see fewer.",
            tolerance=0.1,
        )
