"""Pitfalls: each going wrong, and right."""

import torch

from glassformer.equations.algebra import linear, transpose
from glassformer.equations.attention import apply_mask, attention, attention_scores
from glassformer.equations.masks import causal_mask
from glassformer.equations.normalization import layer_norm, layer_norm_outside
from glassformer.equations.positions import sinusoidal_positions
from glassformer.equations.probability import entropy, softmax
from glassformer.lessons.walk import Walk, step
from glassformer.worked.positions import wave


class PitfallsWalk(Walk):
    """Six mistakes that run without complaint: what each does, how to see it, and the way it should be."""

    @step("Scores not scaled", like="A microphone turned up until only the loudest voice is left, distorted.")
    def scores_not_scaled(self) -> None:
        """Wrong: leave out the division by the root of the width. Nothing fails; attention merely fixes on one token
        and stops learning. To see it, watch the entropy of the shares.
        """
        q, k = torch.randn(2, 32, 256, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        wrong, right = softmax(attention_scores(q, k, scale=1.0)), softmax(attention_scores(q, k))
        narrow, broad = entropy(wrong).mean(), entropy(right).mean()
        self.table(("", "mean entropy of the shares"), [("wrong: unscaled", narrow), ("right: scaled", broad)])
        self.claim("unscaled shares are nearly certain of one token", narrow < broad / 2)

    @step("A mask the wrong way round", like="A blindfold worn on the back of the head.")
    def mask_the_wrong_way_round(self) -> None:
        """Wrong: mask the past instead of the future. The shapes are the same, training even goes well, since the
        model reads the answer. To see it, change a later token and watch an earlier row.
        """
        self.x = torch.randn(5, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        y = self.x.clone()
        y[4] += 1.0
        self.past = causal_mask(5, dtype=torch.float64)
        future = transpose(self.past)
        leak = (attention(self.x, self.x, self.x, future) - attention(y, y, y, future))[:4].abs().max()
        tight = (attention(self.x, self.x, self.x, self.past) - attention(y, y, y, self.past))[:4].abs().max()
        self.show(self.past)
        self.table(("", "how far earlier rows move"), [("wrong: transposed mask", leak), ("right", tight)])
        self.claim("the right mask lets nothing through", float(tight) == 0)
        self.less("the wrong one lets the future in", 0.01, leak)

    @step("A mask after softmax", like="Crossing names off the bill after it was divided.")
    def mask_after_softmax(self) -> None:
        """Wrong: multiply the shares by zero and one. They no longer sum to one, and the hidden tokens still press on
        those that are left.
        """
        scores = attention_scores(self.x, self.x)
        late, early = softmax(scores) * (self.past == 0), softmax(apply_mask(scores, self.past))
        self.table(
            ("sum of a row's shares", "first", "last"),
            [
                ("wrong: masked after", late.sum(-1)[0], late.sum(-1)[-1]),
                ("right: masked before", early.sum(-1)[0], early.sum(-1)[-1]),
            ],
        )
        self.same("rightly masked rows sum to one", early.sum(-1), 1)
        self.less("the others do not", late.sum(-1)[0], 0.9)

    @step("Softmax that overflows", like="Weighing a letter on a lorry scale.")
    def softmax_that_overflows(self) -> None:
        """Wrong: raise e to the scores as they are, or take off the largest of the whole table. The first overflows,
        the second starves every other row. Right: take off each row's own largest.
        """
        table = self.given("softmax-global-max-pitfall").tensor("scores")
        naive = table.exp() / table.exp().sum(-1, keepdim=True)
        shared = (table - table.max()).exp()
        starved = shared / shared.sum(-1, keepdim=True)
        safe = softmax(table)
        self.table(
            ("", "first row", "second row"),
            [
                ("wrong: as it is", *naive),
                ("wrong: one maximum for all", *starved),
                ("right", *safe),
            ],
        )
        self.show(safe)
        self.beside("softmax-global-max-pitfall", row_max_softmax=safe)
        self.claim("as it is, the first row is lost", bool(naive[0].isnan().all()))
        self.claim("with one maximum the second row is lost", bool(starved[1].isnan().all()))

    @step(
        "Waves with the wrong exponents",
        like="A clock whose sine hand and cosine hand belong to different clocks.",
    )
    def waves_with_the_wrong_exponents(self) -> None:
        """Wrong: give each column a speed of its own instead of each pair. The table looks plausible, but a shift of
        position is no longer a fixed turn, and inner products no longer depend on the distance alone.
        """
        right_rows = sinusoidal_positions(12, 4, dtype=torch.float64)
        wrong_rows = torch.stack([wave(12, column / 2, column) for column in range(4)], -1)
        self.show(right_rows, (1, 1))
        uneven = [float((rows[0] @ rows[3] - rows[8] @ rows[11]).abs()) for rows in (wrong_rows, right_rows)]
        self.table(("", "inner products at one distance differ by"), [("wrong", uneven[0]), ("right", uneven[1])])
        self.less("the right waves know the distance alone", uneven[1], 1e-12)
        self.less("the wrong ones do not", 0.01, uneven[0])

    @step("The small number outside the root", like="Two bridges that differ only in a flood.")
    def small_number_outside_the_root(self) -> None:
        """Wrong: add it to the spread instead of to the variance. For ordinary rows one cannot tell; for a nearly
        constant row the two are far apart.
        """
        quiet = self.tensor([[1.0, 1.0, 1.0, 1.0001]])
        one, zero = quiet.new_ones(4), quiet.new_zeros(4)
        inside, outside = layer_norm(quiet, one, zero, 1e-5), layer_norm_outside(quiet, one, zero, 1e-5)
        self.show(inside, (0, 3))
        self.table(("", "last entry"), [("wrong: outside", outside[0, 3]), ("right: inside", inside[0, 3])])
        self.less("on a quiet row they differ by far", 10, outside[0, 3] / inside[0, 3])

    @step(
        "A transposed matrix",
        like="Reading a railway timetable down instead of across: real trains, wrong stations.",
    )
    def transposed_matrix(self) -> None:
        """Wrong: use a square matrix the other way round. Every shape fits. One source does it in cross-attention, and
        its printed output is what the transpose gives.
        """
        given = self.given("cross-attention-output")
        memory, W = given.tensors("encoder", "W_V")
        proper, swapped = linear(memory, W), linear(memory, transpose(W))
        self.show(proper, (0, 0), (0, 1))
        self.show(swapped, (0, 0), (0, 1))
        printed = self.tensor(given.fact("output", list[list[float]]))
        self.same("the mean of the swapped values is what is printed", swapped.mean(0), printed, within=1e-06)
        self.differ("the proper ones give something else", proper.mean(0), printed, by=0.5)

    def quiz(self) -> None:
        """Questions on it."""
        row = self.tensor([[1000.0, 1000.0]])
        self.ask(
            "Softmax of two equal, huge scores: what is each share, rightly?",
            lambda: softmax(row),
            "Take off the largest first.",
            cell=(0, 0),
        )
        a, M = self.tensor([1.0, 0.0]), self.tensor([[1.0, 2.0], [3.0, 4.0]])
        self.ask(
            "x = one, zero and W has the rows one, two and three, four. What is the second entry of xW, not of "
            "the transposed product?",
            lambda: linear(a, M),
            "The first row of the matrix.",
            cell=(1,),
        )
        width, at = 4, 1
        self.ask(
            "Waves of width four: the second number at position one?",
            lambda: sinusoidal_positions(at + 1, width, dtype=torch.float64),
            "The cosine of one: it shares the speed of the first.",
            cell=(at, 1),
        )
