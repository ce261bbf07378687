"""Pitfalls: each going wrong, and right."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.course.worked.positions import wave
from glassformer.equations.algebra import linear
from glassformer.equations.attention import apply_mask, attention, attention_scores
from glassformer.equations.information import entropy
from glassformer.equations.masks import causal_mask
from glassformer.equations.matrices import transpose
from glassformer.equations.normalization import layer_norm
from glassformer.equations.other_norms import layer_norm_outside
from glassformer.equations.positions import sinusoidal_positions
from glassformer.equations.softmax import softmax


class PitfallsWalk(Walk):
    """Mistakes that run without an error: what each does, how to see it, and how it should be."""

    @step("Scores not scaled", like="A microphone turned up until only the loudest voice is left, distorted.")
    def scores_not_scaled(self) -> None:
        """Wrong: leave out the division by the square root of the width. Nothing fails; attention merely fixes on one
        token or two, and hardly learns. To see it, watch the entropy of the attention weights: e to the entropy says
        to how many tokens a query attends.
        """
        q, k = torch.randn(2, 32, 256, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        wrong, right = softmax(attention_scores(q, k, scale=1.0)), softmax(attention_scores(q, k))
        narrow, broad = entropy(wrong).mean(), entropy(right).mean()
        self.table(
            ("", "mean entropy of the weights", "e to it"),
            [("wrong: unscaled", narrow, narrow.exp()), ("right: scaled", broad, broad.exp())],
        )
        self.less("unscaled, a query attends to fewer than two tokens", narrow.exp(), 2)
        self.less(f"scaled, to more than ten of {len(k)}", 10, broad.exp())

    @step("A mask the wrong way around", like="A blindfold worn on the back of the head.")
    def mask_the_wrong_way_round(self) -> None:
        """Wrong: mask the past instead of the future. The shapes are the same, and in training the loss even looks
        good, since the model can read the answer. To see it, change a later token and watch the earlier outputs.
        """
        self.x = torch.randn(5, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        y = self.x.clone()
        y[4] += 1.0
        self.past = causal_mask(5, dtype=torch.float64)
        future = transpose(self.past)
        leak = (attention(self.x, self.x, self.x, future) - attention(y, y, y, future))[:4].abs().max()
        tight = (attention(self.x, self.x, self.x, self.past) - attention(y, y, y, self.past))[:4].abs().max()
        self.show(self.past)
        self.table(("", "how far earlier outputs move"), [("wrong: transposed mask", leak), ("right", tight)])
        self.claim("the right mask lets nothing through", float(tight) == 0)
        self.less("the wrong one lets the future in", 0.01, leak)

    @step("A mask after softmax", like="Crossing names off the bill after it was divided.")
    def mask_after_softmax(self) -> None:
        """Wrong: multiply the weights by zero and one after softmax. They no longer sum to one, and the masked tokens
        still take weight from those that are left.
        """
        scores = attention_scores(self.x, self.x)
        late, early = softmax(scores) * (self.past == 0), softmax(apply_mask(scores, self.past))
        self.table(
            ("sum of a query's weights", "first query", "last query"),
            [
                ("wrong: masked after", late.sum(-1)[0], late.sum(-1)[-1]),
                ("right: masked before", early.sum(-1)[0], early.sum(-1)[-1]),
            ],
        )
        self.same("masked before, every query's weights sum to one", early.sum(-1), 1)
        self.less("masked after, those of the first do not", late.sum(-1)[0], 0.9)
        self.claim("masked after, no weight is larger than it should be", (late <= early).all())

    @step("Softmax that overflows", like="Weighing a letter on a truck scale.")
    def softmax_that_overflows(self) -> None:
        """Wrong: raise e to the scores as they are, or subtract the largest of the whole table. The first overflows,
        the second divides zero by zero in every other row. Right: subtract each row's own largest.
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
        self.claim("as it is, the first row is lost", naive[0].isnan().all())
        self.claim("with one maximum for all, the second row is lost", starved[1].isnan().all())
        self.same("with each row's own maximum both are right", safe, 0.5)

    @step(
        "Sinusoids with the wrong exponents",
        like="A clock whose sine hand and cosine hand belong to different clocks.",
    )
    def waves_with_the_wrong_exponents(self) -> None:
        """Wrong: give each column its own frequency instead of each pair. The table looks plausible, but moving on by
        one position is no longer a fixed matrix, and inner products no longer depend on the distance alone.
        """
        right_rows = sinusoidal_positions(12, 4, dtype=torch.float64)
        wrong_rows = torch.stack([wave(12, column / 2, column) for column in range(4)], -1)
        self.show(right_rows, (1, 1))
        uneven = [float((rows[0] @ rows[3] - rows[8] @ rows[11]).abs()) for rows in (wrong_rows, right_rows)]
        self.table(("", "inner products at one distance differ by"), [("wrong", uneven[0]), ("right", uneven[1])])
        self.less("the right inner products depend on the distance alone", uneven[1], 1e-12)
        self.less("the wrong ones do not", 0.01, uneven[0])
        missed = [
            float((rows[:-1] @ torch.linalg.lstsq(rows[:-1], rows[1:]).solution - rows[1:]).abs().max())
            for rows in (wrong_rows, right_rows)
        ]
        self.less("a matrix moves the right ones on by one position", missed[1], 1e-9)
        self.less("no matrix does so with the wrong ones", 0.01, missed[0])

    @step("Epsilon outside the root", like="Two bridges that differ only in a flood.")
    def small_number_outside_the_root(self) -> None:
        """Wrong: add epsilon to the standard deviation instead of to the variance. For an ordinary vector the
        difference is hard to see; for a nearly constant one the two are far apart.
        """
        ordinary, quiet = self.tensor([[1.0, 2.0, 3.0, 4.0]]), self.tensor([[1.0, 1.0, 1.0, 1.001]])
        one, zero = quiet.new_ones(4), quiet.new_zeros(4)
        inside, outside = layer_norm(quiet, one, zero, 1e-5), layer_norm_outside(quiet, one, zero, 1e-5)
        self.show(inside, (0, 3))
        self.table(("", "last entry"), [("wrong: outside", outside[0, 3]), ("right: inside", inside[0, 3])])
        self.less(
            "on the nearly constant vector one is more than five times the other", 5, outside[0, 3] / inside[0, 3]
        )
        usual = layer_norm(ordinary, one, zero, 1e-5), layer_norm_outside(ordinary, one, zero, 1e-5)
        self.same("on an ordinary one they differ by less than a ten-thousandth", *usual, within=1e-4)

    @step(
        "A transposed matrix",
        like="Reading a train schedule down instead of across: real trains, wrong stations.",
    )
    def transposed_matrix(self) -> None:
        """Wrong: use a square matrix transposed. Every shape fits. One source does it in cross-attention, and its
        printed output is what the transpose gives.
        """
        given = self.given("cross-attention-output")
        encoder_output, W = given.tensors("encoder", "W_V")
        proper, swapped = linear(encoder_output, W), linear(encoder_output, transpose(W))
        self.show(proper, (0, 0), (0, 1))
        self.show(swapped, (0, 0), (0, 1))
        printed = self.tensor(given.fact("output", list[list[float]]))
        self.claim("the shapes are the same", proper.shape == swapped.shape)
        self.same(
            "the mean of the transposed matrix's values is what is printed", swapped.mean(0), printed, within=1e-06
        )
        self.differ("the right values give something else", proper.mean(0), printed, by=0.5)

    def quiz(self) -> None:
        """Questions on it."""
        row = self.tensor([[1000.0, 1000.0]])
        self.ask(
            f"What is the first weight of the softmax of the scores {number(row[0, 0])} and {number(row[0, 1])}?",
            lambda: softmax(row),
            "Subtract the largest first. What is left?",
            cell=(0, 0),
        )
        a, M = self.tensor([1.0, 0.0]), self.tensor([[1.0, 2.0], [3.0, 4.0]])
        self.ask(
            f"x = ({number(a[0])}, {number(a[1])}), and W has the rows ({number(M[0, 0])}, {number(M[0, 1])}) and "
            f"({number(M[1, 0])}, {number(M[1, 1])}). What is the second entry of xW?",
            lambda: linear(a, M),
            "This x picks out one row of W. Which one?",
            cell=(1,),
        )
        width, at = 4, 1
        self.ask(
            f"Sinusoidal positions of width {width}: what is the second number of position {at}?",
            lambda: sinusoidal_positions(at + 1, width, dtype=torch.float64),
            "It has the same frequency as the first number, which is a sine.",
            cell=(at, 1),
        )
