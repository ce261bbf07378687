"""Conventions: how to read every formula and every shape here."""

import torch

from glassformer.arithmetic import number
from glassformer.course.page import value_text
from glassformer.course.walk import Walk, step
from glassformer.equations.algebra import add, linear
from glassformer.equations.attention import apply_mask, attention
from glassformer.equations.heads import split_heads
from glassformer.equations.masks import padding_mask
from glassformer.equations.matrices import matmul
from glassformer.equations.positions import sinusoidal_positions
from glassformer.equations.softmax import softmax
from glassformer.errors import EquationError
from glassformer.views.terminal import shape_text


class ConventionsWalk(Walk):
    """Row vectors, counting from zero, shapes, dtypes, softmax, masks, and gradients that go back by transposes."""

    @step(
        "Vectors are rows",
        like="A spreadsheet: one line for each thing, and a formula that is filled down works on every line alike.",
    )
    def vectors_are_rows(self) -> None:
        """A vector is a row and a matrix acts on it from the right. A sequence is one row for each token, so one
        product treats all tokens at once, and each row of the result is the product of that row alone.
        """
        H, W = self.given("block-row-matmul").tensors("H", "W")
        together = linear(H, W)
        self.show(together, (0, 0))
        self.beside("block-row-matmul", HW=together)
        alone = [linear(row, W) for row in H]
        self.same("row by row gives the same as all at once", torch.stack(alone), together)

    @step("Counting begins at zero", like="The ground floor of a house in which the first floor is upstairs.")
    def counting_begins_at_zero(self) -> None:
        """Positions, tokens, heads and layers are numbered from zero. The first token stands at position zero, where
        every sine is zero and every cosine one.
        """
        given = self.given("positional-encoding-d4")
        first = sinusoidal_positions(
            len(given.get("positions", list[int])), given.get("d_model", int), dtype=torch.float64
        )
        self.show(first, (0, 0), (0, 1), (1, 0))
        self.same("position zero has sines of zero", first[0, ::2], 0.0)
        self.same("and cosines of one", first[0, 1::2], 1.0)

    @step("Shapes", like="Parcels labeled with their size: nothing is opened to find that it does not fit.")
    def shapes(self) -> None:
        """A sequence is [seq, dim], a batch [batch, seq, dim]; inside attention it is [batch, heads, seq, head_dim].
        Every equation checks the shapes it is given and names the symbol that does not fit. A gradient always has the
        shape of what it belongs to.
        """
        x = self.tensor([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]])
        W = self.tensor([[0.5, -1.0], [2.0, 0.0], [1.0, 1.0], [0.0, 3.0]])
        heads = split_heads(x, 2)
        y = linear(x, W)
        found = self.back(y, torch.ones_like(y))
        self.show(heads, (0, 1, 0, 0), rows=self.index_labels(head=heads.shape[1], token=heads.shape[2]))
        self.show(y, (0, 0, 0))
        self.table(
            ("what", "shape"),
            [("x", shape_text(x.shape)), ("x in two heads", shape_text(heads.shape)), ("y = x W", shape_text(y.shape))],
        )
        self.show_gradient(found, W, "∂/∂W")
        self.claim("the gradients have the shapes of x and W", (found[x].shape, found[W].shape) == (x.shape, W.shape))
        try:
            linear(x, W.T)
            refused = ""
        except EquationError as error:
            refused = str(error)
        self.claim(f"a matrix that does not fit is refused: {refused}", "W" in refused)

    @step("Dtypes", like="A kitchen scale for cooking, a laboratory balance for checking the scale.")
    def dtypes(self) -> None:
        """Models run in single precision, float32, by default. Lessons and worked examples run in double precision,
        float64, whose rounding is far below the digits that are shown.
        """
        scores = self.tensor([0.1, 0.2, 0.7])
        exact, single = softmax(scores), softmax(scores.float())
        self.show(exact, (0,))
        apart = float((exact - single.double()).abs().max())
        self.claim("softmax keeps the dtype", (exact.dtype, single.dtype) == (torch.float64, torch.float32))
        self.less(f"single precision differs by {number(apart)}, far below what is shown", apart, 1e-6)
        default = sinusoidal_positions(2, 4)
        self.claim("the default dtype is single precision", default.dtype == torch.float32)

    @step(
        "Softmax along the last axis",
        like="Heights above the tallest in the room instead of above the sea: the gaps are the same, the "
        "numbers small.",
    )
    def softmax_along_the_last_axis(self) -> None:
        """Softmax makes each row sum to one. It subtracts the row's own maximum first: nothing changes, since only
        differences count, and no exponential overflows.
        """
        large = self.tensor([[1000.0, 1001.0, 1002.0], [-3.0, 0.0, 3.0]])
        weights = softmax(large)
        self.show(weights, (0, 0), (1, 2))
        self.same("each row sums to one", weights.sum(-1), 1.0)
        naive = large.exp() / large.exp().sum(-1, keepdim=True)
        self.claim("without subtracting the maximum the first row is not a number", naive[0].isnan().any())
        self.same("where nothing overflows both agree", naive[1], weights[1])

    @step("Masks are added", like="Weights on a seesaw: zero leaves it as it is, a ton settles the matter.")
    def masks_are_added(self) -> None:
        """A mask is added to the scores before softmax: zero where a query may attend, minus infinity where it may not.
        If a whole row is masked, softmax divides zero by zero and gives NaN; attention gives zeros there. A large
        finite number instead of infinity avoids the NaN, but a fully masked query still attends to padding.
        """
        given = self.given("padding-mask-weights")
        scores, mask = given.tensors("scores", "keep")
        weights = softmax(apply_mask(scores[None], padding_mask(mask[None], dtype=torch.float64)[0, 0]))
        self.show(weights, (0, 0))
        self.beside("padding-mask-weights", weights=weights[0])
        q, k, v = self.tensor([[1.0, 0.0]]), self.tensor([[1.0, 2.0], [0.5, 1.0]]), self.tensor([[3.0], [4.0]])
        nothing = attention(q, k, v, mask=torch.tensor([[False, False]]))
        self.show(nothing)
        self.same("a query that may attend to nothing gets zeros", nothing, 0.0)
        low = self.given("fully-masked-row").get("mask_value", float)
        filled = softmax(add(scores, torch.full_like(scores, low)))
        self.same("with a finite mask the weights of a fully masked query still sum to one", filled.sum(), 1.0)

    @step(
        "Gradients go back by transposes",
        like="Sound through a wall: you hear which side it came from, which is not the same as un-saying it.",
    )
    def gradients_go_back_by_transposes(self) -> None:
        """Linear maps applied one after another are a product of matrices, from left to right. Gradients return through
        the transposes in the opposite order. A transpose is the adjoint, not the inverse: it does not undo the map.
        """
        h, W = self.given("transpose-is-not-inverse").tensors("h", "W")
        second = self.tensor([[0.5, -1.0], [2.0, 1.5]])
        middle = linear(h, W)
        end = linear(middle, second)
        self.say("Forward, the row h goes through W, then through a second matrix.")
        self.show(middle, (0,))
        self.show(end, (0,))
        seed = self.tensor([1.0, -2.0])
        found = self.back(end, seed)
        self.say(
            f"Backward, let the gradient of the loss at this output, the seed, be {value_text(seed)}. The rule of "
            "linear takes it through the transpose of the second matrix, then through that of W, back to h."
        )
        self.show_gradient(found, h, "∂L/∂h")
        self.same("the product of both matrices gives the same vector", linear(h, matmul(W, second)), end)
        self.same("the gradient is the seed through both transposes", found[h], seed @ second.T @ W.T)
        there_and_back = linear(middle, W.T)
        self.say("And h through W and its transpose:")
        self.beside("transpose-is-not-inverse", h_W_WT=there_and_back)
        self.differ("through a matrix and its transpose the vector does not come back", there_and_back, h, by=1.0)

    def quiz(self) -> None:
        """Questions on it."""
        row, matrix = self.tensor([1.0, 2.0]), self.tensor([[3.0, 0.0], [1.0, 4.0]])
        self.ask(
            f"The row ({number(row[0])}, {number(row[1])}) times the matrix with rows "
            f"({number(matrix[0, 0])}, {number(matrix[0, 1])}) and ({number(matrix[1, 0])}, {number(matrix[1, 1])}): "
            "what is the first number?",
            lambda: linear(row, matrix),
            "The row times the first column.",
            cell=(0,),
        )
        batch, seq, dim, heads = 2, 5, 12, 3
        self.ask(
            f"A batch of {batch} sequences of {seq} tokens, width {dim}, in {heads} heads: what is the shape of "
            f"its queries?",
            lambda: tuple(split_heads(torch.zeros(batch, seq, dim), heads).shape),
            "Batch, heads, tokens, width of a head.",
        )
        inputs, outputs = 6, 2
        self.ask(
            f"Rows of {inputs} numbers become rows of {outputs}. What is the shape of the gradient of the matrix?",
            lambda: (inputs, outputs),
            "The shape of the matrix itself.",
        )
