"""Complexity and sparse attention."""

from itertools import pairwise

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.attention import attention
from glassformer.equations.masks import causal_mask
from glassformer.equations.parameter_counts import (
    attention_macs,
    crossover_length,
    layer_macs,
    projection_macs,
    quadratic_fraction,
)
from glassformer.equations.scaling import scaling_law_loss, training_flops
from glassformer.equations.sparse_masks import block_sparse_mask, dilated_mask, sliding_window_mask, visible_pairs


class ComplexityWalk(Walk):
    """What grows with the square of the length, what does not, and how attending to less saves work."""

    @step("Every pair meets", like="Shaking hands all around: twice the guests, about four times the handshakes.")
    def every_pair_meets(self) -> None:
        """Attention compares every token with every token. Twice the length is four times the work, however fast the
        machine. Work is counted here in multiply-adds, each of which is two floating-point operations.
        """
        given = self.given("attention-cost-quadratic")
        counts = [attention_macs(n, n, given.get("d", int)) for n in given.get("n", list[int])]
        self.show(counts[0])
        self.beside("attention-cost-quadratic", multiply_adds=counts, ratio=counts[1] / counts[0])
        n = given.get("n", list[int])
        self.claim("twice the length, four times the multiply-adds", (n[1], counts[1]) == (2 * n[0], 4 * counts[0]))
        answer = self.worked("attention-same-speed-claim")
        self.beside("attention-same-speed-claim", attention_ratio=answer.get("attention_ratio", float))

    @step(
        "But the matrices are larger",
        like="At a conference the talks take the week; the handshakes take the coffee break.",
    )
    def but_the_matrices_are_larger(self) -> None:
        """Each token also goes through the projections and the feed-forward sublayer, whose cost grows with the square
        of the width, but only in proportion to the length. In a wide model at ordinary lengths that is nearly all of
        the work.
        """
        given = self.given("self-attention-bottleneck-claim")
        n, d = given.get("n", int), given.get("d", int)
        share, cross = quadratic_fraction(n, d), crossover_length(d)
        self.show(share)
        self.show(cross)
        self.beside("self-attention-bottleneck-claim", quadratic_share=share, crossover_length=cross)
        self.table(
            ("part of one layer", "multiply-adds"),
            [
                ("pairs", attention_macs(n, n, d)),
                ("projections", projection_macs(n, d)),
                ("whole layer", layer_macs(n, d)),
            ],
        )
        lengths = [2**k for k in range(8, 19)]
        self.plot(
            "fraction of the work that is quadratic",
            {f"width {d}": (range(8, 19), [quadratic_fraction(length, d) for length in lengths])},
            "length, as a power of two",
        )
        rest = layer_macs(n, d) - attention_macs(n, n, d)
        self.claim(
            "the rest grows in proportion to the length",
            layer_macs(2 * n, d) - attention_macs(2 * n, 2 * n, d) == 2 * rest,
        )
        self.claim(
            "projections grow with the square of the width",
            projection_macs(n, 2 * d) == 4 * projection_macs(n, d),
        )
        self.less(f"at length {n} and width {d} the pairs take less than a twentieth of the work", share, 1 / 20)
        self.less("below the crossover the pairs cost less than the rest", quadratic_fraction(cross // 2, d), 0.5)
        self.less("beyond it they cost more", 0.5, quadratic_fraction(2 * cross, d))

    @step(
        "Attend to less",
        like="News in a village: you hear your neighbors directly, and the rest through one person from each street.",
    )
    def attend_to_less(self) -> None:
        """If each token sees only some of the others, there are fewer pairs: a sliding window of neighbors, a dilated
        window with gaps, or blocks in which the last token of each earlier block is its summary.
        """
        self.size = 16
        self.patterns = {
            "causal": causal_mask(self.size, dtype=torch.float64),
            "sliding window of four": sliding_window_mask(self.size, self.size, 4, dtype=torch.float64),
            "dilated window": dilated_mask(self.size, self.size, 4, 2, dtype=torch.float64),
            "block-sparse, four": block_sparse_mask(self.size, self.size, 4, dtype=torch.float64),
        }
        left = {name: visible_pairs(mask) for name, mask in self.patterns.items()}
        self.show(self.patterns["block-sparse, four"])
        self.table(("pattern", "pairs left"), [(name, int(count)) for name, count in left.items()])
        self.claim(
            "every pattern leaves fewer pairs",
            all(int(c) < int(left["causal"]) for c in list(left.values())[1:]),
        )

    @step(
        "Linear, with a window",
        like="Whispering down a row of people: no one hears far, and yet the message travels.",
    )
    def linear_with_a_window(self) -> None:
        """With a window of fixed width the pairs grow with the length, not with its square. What is farther away
        arrives through the layers: each layer reaches as far again as the first.
        """
        sizes = [16, 32, 64, 128]
        full = [int(visible_pairs(causal_mask(s))) for s in sizes]
        window = [int(visible_pairs(sliding_window_mask(s, s, 4))) for s in sizes]
        self.table(("length", "causal", "sliding window of four"), zip(sizes, full, window, strict=True))
        self.plot("pairs", {"causal": (sizes, full), "window": (sizes, window)}, "length")
        self.same("twice the length, about twice the pairs", window[3] / window[2], 2, within=0.1)
        self.same("and without the window about four times", full[3] / full[2], 4, within=0.1)
        sees = (self.patterns["sliding window of four"] == 0).double()
        reach = [int(seen[-1].flip(0).nonzero().max()) for seen in (sees, sees @ sees, sees @ sees @ sees)]
        self.claim(f"one layer reaches {reach[0]} tokens back, two {reach[1]}, three {reach[2]}", reach == [3, 6, 9])

    @step("The same equation", like="Blinders on a horse: the same eyes, a narrower view.")
    def same_equation(self) -> None:
        """Sparse attention is attention with a mask. Where a token's window holds all of its past, nothing changes."""
        q, k, v = torch.randn(3, self.size, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        whole, near = attention(q, k, v, causal=True), attention(q, k, v, self.patterns["sliding window of four"])
        self.show(near)
        self.same("the first four outputs are the same", whole[:4], near[:4])
        self.differ("later ones are not", whole[8:], near[8:], by=0.01)

    @step("What it buys", like="Practicing an instrument: the first hundred hours show most.")
    def what_it_buys(self) -> None:
        """Training takes about six floating-point operations for each parameter and token: one multiply-add forward
        and two backward. By a scaling law the loss falls as a power of both. More of either helps less and less, down
        to a loss that no model can avoid.
        """
        self.show(training_flops(1e9, 20e9))
        sizes = (1e8, 1e9, 1e10, 1e11)
        losses = [scaling_law_loss(n, 20 * n) for n in sizes]
        self.table(("parameters", "loss by the scaling law"), zip(sizes, losses, strict=True))
        gains = [before - after for before, after in pairwise(losses)]
        self.claim("each tenfold helps less than the one before", gains == sorted(gains, reverse=True))
        floor = scaling_law_loss(1e60, 1e60)
        self.less(f"without end the loss would still be {number(floor)}", 1.0, floor)

    def quiz(self) -> None:
        """Questions on it."""
        n, width = 128, 64
        self.ask(
            f"{n} queries, {n} keys, width {width}: how many multiply-adds do the scores and the weighted sum take?",
            lambda: attention_macs(n, n, width),
            "How many pairs are there, and what does each need for its score and for its part of the output?",
            tolerance=0.5,
        )
        self.ask(
            f"Pairs take two n² d multiply-adds, the rest of a layer twelve n d². At what length n are they equal in a "
            f"layer of width {width}?",
            lambda: crossover_length(width),
            "Divide both by what they have in common.",
            tolerance=0.5,
        )
        tokens, reach = 8, 3
        self.ask(
            f"{tokens} tokens, a causal window of {reach}: how many pairs are visible?",
            lambda: visible_pairs(sliding_window_mask(tokens, tokens, reach)),
            "Most tokens see a whole window, but the first ones see fewer.",
            tolerance=0.1,
        )
