"""Patches: how a Transformer reads a picture."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.algebra import add, linear
from glassformer.equations.attention import attention
from glassformer.equations.convolution import conv2d
from glassformer.equations.parameter_counts import attention_macs
from glassformer.equations.patches import patchify, prepend_token, unpatchify
from glassformer.equations.positions import sinusoidal_positions_2d
from glassformer.equations.sequences import mean_pool, select_position
from glassformer.equations.similarity import inner_product


class PatchesWalk(Walk):
    """Cut a picture into patches, make each a token, give it a row and a column, and read the whole by one vector."""

    @step("A picture becomes a sequence", like="A photograph cut into tiles, laid out in reading order.")
    def cut(self) -> None:
        """Attention reads sequences of vectors, and a picture is a grid of numbers. So cut it into squares. Each
        square, pixel after pixel, is one vector; the squares in reading order are the sequence. Nothing is lost: the
        tiles go back on the wall as they were.
        """
        side, self.size = 6, 3
        self.picture = self.tensor([[float(10 * row + column) for column in range(side)] for row in range(side)])[None]
        self.tokens = patchify(self.picture, self.size)
        self.show(self.tokens)
        corner = self.picture[0, : self.size, : self.size].flatten()
        self.same("the first token is the corner at the top left, row by row", self.tokens[0], corner)
        back = unpatchify(self.tokens, self.size, side // self.size)
        self.same("put together again, it is the same picture", back, self.picture)

    @step("A linear layer makes a token of a patch", like="A clerk who writes the same form for every tile.")
    def embed(self) -> None:
        """Every patch goes through one linear layer, the same for all. That is a convolution whose filter moves a
        whole patch at a time, and so it is stored in public models: each column of the matrix is one filter.
        """
        random, dim = torch.Generator().manual_seed(0), 4
        self.W = torch.randn(self.size**2, dim, generator=random, dtype=torch.float64)
        self.x = linear(self.tokens / 100, self.W)
        self.show(self.x)
        filters = self.W.T.reshape(dim, 1, self.size, self.size)
        convolved = conv2d(self.picture / 100, filters, stride=self.size)
        self.same("a convolution by whole patches computes the same", convolved.flatten(1).T, self.x)

    @step("Without positions the tiles are a heap", like="A jigsaw shaken in its box is the same jigsaw.")
    def shuffle(self) -> None:
        """Attention treats its tokens as a set. Shuffle the patches, and every patch attends to the same others: the
        mean of the outputs does not change. A model that sees only this cannot tell a face from its scrambled parts.
        """
        order = torch.tensor([2, 0, 3, 1])
        self.order, before = order, mean_pool(attention(self.x, self.x, self.x))
        self.show(before)
        mixed = self.x[order]
        self.same("with the patches shuffled, the mean is the same", mean_pool(attention(mixed, mixed, mixed)), before)

    @step("A row and a column for every patch", like="The row and the seat on a theater ticket.")
    def positions(self) -> None:
        """So every patch gets a vector that says where it was: one half of it encodes the row, the other the column.
        Neighbors have similar vectors in both directions, although in the sequence the patch below is a whole row
        away. Public models learn one vector for each patch instead, and end up with much the same picture.
        """
        dim, side = 16, 5
        table = sinusoidal_positions_2d(side, side, dim, 100.0, torch.float64)
        self.show(table)
        middle = side * (side // 2) + side // 2
        near = [inner_product(table[middle], table[other]) for other in (middle + 1, middle + side)]
        far = inner_product(table[middle], table[-1])
        self.table(("patch", "similarity"), [("to the right", near[0]), ("below", near[1]), ("in the corner", far)])
        self.same("the patch below is as near as the one to the right", near[0], near[1])
        self.less("the corner is less similar", far, near[0])
        grid = sinusoidal_positions_2d(2, 2, self.x.shape[-1], 100.0, torch.float64)
        seen, mixed = add(self.x, grid), add(self.x[self.order], grid)
        apart = mean_pool(attention(seen, seen, seen)) - mean_pool(attention(mixed, mixed, mixed))
        self.less("now shuffled patches give another mean", 1e-3, apart.abs().max())

    @step("One vector for the whole picture", like="An empty chair at the table, for whoever sums up.")
    def pool(self) -> None:
        """A classifier needs one vector. Either a learned class token is put before the patches, attends to all of
        them, and is read at the end; or the mean over all patches is. The class token carries nothing of the picture
        at first: all it knows it has gathered by attention.
        """
        token = self.tensor([0.5, -0.5, 0.25, 0.0])
        longer = prepend_token(token, self.x)
        self.show(longer)
        self.same("the first position holds the token itself", select_position(longer, 0), token)
        read = select_position(attention(longer, longer, longer), 0)
        self.less("after attention it holds something of the patches", 1e-3, (read - token).abs().max())

    @step("Half the patch, sixteen times the pairs", like="Finer tiles, and every tile asks every other.")
    def cost(self) -> None:
        """Smaller patches see more detail and cost more: half the side makes four times as many tokens, and attention
        compares every pair of them.
        """
        side, dim, sizes = 224, 768, (32, 16, 8)
        counts = [(side // size) ** 2 for size in sizes]
        macs = [attention_macs(count, count, dim) for count in counts]
        self.table(("patch", "tokens", "products in attention"), zip(sizes, counts, macs, strict=True))
        self.same("half the patch makes four times as many tokens", counts[1] / counts[0], 4.0)
        self.same("and sixteen times as many products", macs[1] / macs[0], 16.0)

    def quiz(self) -> None:
        """Questions on it."""
        side, size, channels = 28, 4, 3
        self.ask(
            f"A picture of {side} × {side} pixels in {channels} colors is cut into patches of {size} × {size}. What is "
            "the shape of the sequence, tokens first?",
            lambda: tuple(patchify(torch.zeros(channels, side, side), size).shape),
            "How many patches fit into a row, and how many rows are there? Each pixel has a number for each color.",
        )
        small = self.tensor([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]])
        rows = " and ".join(f"({', '.join(map(number, row))})" for row in small[0])
        self.ask(
            f"A picture has the rows {rows}. It is cut into two patches. What is the third number of the second?",
            lambda: patchify(small, 2),
            "A patch is read row by row.",
            cell=(1, 2),
        )
        dim = 8
        self.ask(
            f"In {dim} dimensions, what is the inner product of a patch's sinusoidal encoding with itself?",
            lambda: inner_product(*[sinusoidal_positions_2d(1, 1, dim, dtype=torch.float64)[0]] * 2),
            "Each pair is a sine and a cosine of the same angle: what is the sum of their squares, and how many pairs?",
        )
