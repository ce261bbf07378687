"""Heads: several views of one sentence."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.algebra import linear
from glassformer.equations.attention import attention
from glassformer.equations.counts import attention_parameters
from glassformer.equations.heads import concat, merge_heads, split_heads
from glassformer.lessons.walk import Walk, step
from glassformer.worked.geometry import normalized


class HeadsWalk(Walk):
    """Cut each row into pieces, let each piece attend by itself, lay the answers end to end and mix them."""

    @step("Cut", like="A committee reading one letter: the lawyer reads it for clauses, the accountant for sums.")
    def cut(self) -> None:
        """A row is cut into equal pieces, one for each head. Each head then has a smaller space of its own to compare
        in, and can look for something of its own: the verb, the neighbour, the far antecedent.
        """
        self.X, self.WQ, self.WK, self.WV, self.WO = self.given("multihead-fused-equals-per-head").tensors(
            "X", "WQ", "WK", "WV", "WO"
        )
        self.count = self.given("multihead-fused-equals-per-head").get("h", int)
        self.q, self.k, self.v = (split_heads(linear(self.X, W), self.count) for W in (self.WQ, self.WK, self.WV))
        self.show(self.q, (1, 0, 0))
        self.claim("every number is still there", self.q.numel() == self.X.numel())

    @step(
        "Attend, each head by itself",
        like="Several conversations at one dinner, each audible only to its own end of the table.",
    )
    def attend_each_head_by_itself(self) -> None:
        """All heads run the same equation on their own pieces, side by side, without hearing each other."""
        self.apart = attention(self.q, self.k, self.v)
        self.show(self.apart)

    @step("Join and mix", like="The committee's chair turns five reports into one.")
    def join_and_mix(self) -> None:
        """The answers are laid end to end, which gives a row of the old width, and one more matrix mixes them. Without
        it the heads' findings would never meet.
        """
        joined = merge_heads(self.apart)
        output = linear(joined, self.WO)
        self.show(joined)
        self.show(output, (0, 0))
        self.beside("multihead-fused-equals-per-head", output=output)
        size = self.X.shape[-1] // self.count
        pieces = [slice(i * size, (i + 1) * size) for i in range(self.count)]
        loop = [
            attention(linear(self.X, self.WQ[:, i]), linear(self.X, self.WK[:, i]), linear(self.X, self.WV[:, i]))
            for i in pieces
        ]
        by_loop = linear(concat(loop), self.WO)
        self.same("head by head in a loop gives the same", by_loop, output)

    @step("What heads cost", like="Cutting a field into plots does not buy more land.")
    def what_heads_cost(self) -> None:
        """Splitting costs nothing: the matrices are as large with one head as with eight. Four of them, each as wide
        as the model squared.
        """
        given = self.given("multihead-split-512-8")
        dim, many = given.get("d_model", int), given.get("h", int)
        total = attention_parameters(dim, many)
        self.show(total)
        self.beside("multihead-split-512-8", total=total, d_k=dim // many)
        self.claim("one head would have as many", attention_parameters(dim, 1) == total)

    @step("Two full-width heads", like="Two painters with a whole canvas each, and a frame that takes both.")
    def two_full_width_heads(self) -> None:
        """A head need not be a fraction of the width. One source runs two heads of full width and needs a taller
        output matrix. It then shows the joined heads as if they were the result; the result is the product.
        """
        head_1, head_2 = self.given("multihead-concat").tensors("head_1", "head_2")
        both = concat([head_1, head_2])
        self.show(both, (0, 0), (0, 4))
        self.beside("multihead-concat", concat=both)
        taken, W_O = self.given("multihead-projection").tensors("concat", "W_O")
        mixed = linear(taken, W_O)
        self.show(mixed, (0, 0))
        self.beside("multihead-projection", M=mixed)
        self.beside(
            "multihead-final-output-main-text",
            output=linear(*self.given("multihead-final-output-main-text").tensors("concat", "W_O")),
        )

    @step("An output matrix that says nothing", like="A choir of one note.")
    def an_output_matrix_that_says(self) -> None:
        """The same source first fills the output matrix with one number. Then every column of the result is the same,
        and the norm that follows makes zeros of it.
        """
        given = self.given("multihead-wo-half")
        rows = given.tensor("concat")
        filled = linear(
            rows, torch.full((rows.shape[-1], rows.shape[-1] // 2), given.get("W_O_fill", float), dtype=torch.float64)
        )
        self.show(filled, (0, 0))
        self.beside("multihead-wo-half", output=filled)
        self.same("its norm is nothing but zeros", normalized(filled, 1e-6), 0.0, within=1e-06)

    def quiz(self) -> None:
        """Questions on it."""
        width, n = 768, 12
        self.ask(
            f"A model of width {width} has {n} heads. What shape have the queries of one sentence of five "
            "tokens, heads first?",
            lambda: tuple(split_heads(torch.zeros(5, width), n).shape),
            "Heads, tokens, width of a head.",
        )
        self.ask(
            "How many weights has its attention, without shifts?",
            lambda: attention_parameters(width, n),
            "Four square matrices.",
            tolerance=0.5,
        )
        row = self.tensor([[1.0, 2.0, 3.0, 4.0]])
        self.ask(
            f"The row {', '.join(map(number, row[0]))} is split into two heads. What is the first number of "
            "the second head?",
            lambda: split_heads(row, 2),
            "The second half of the row.",
            cell=(1, 0, 0),
        )
