"""The feed-forward sublayer."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.activations import gelu, relu
from glassformer.equations.algebra import linear
from glassformer.equations.counts import attention_parameters, feed_forward_parameters
from glassformer.equations.normalization import layer_norm
from glassformer.lessons.walk import Walk, step


class FeedForwardWalk(Walk):
    """After the tokens have talked, each thinks for itself: widen, bend, narrow."""

    @step(
        "Widen, bend, narrow",
        like="After the meeting everyone goes back to their own desk, spreads out their papers, and returns with a "
        "summary.",
    )
    def widen_bend_narrow(self) -> None:
        """Every row goes up into a wider space, is bent there, and comes down again. All rows use the same two
        matrices, and none looks at another: talking was attention's part.
        """
        self.x, self.W1, self.b1, self.W2, self.b2 = self.given("ffn-output").tensors("x", "W1", "b1", "W2", "b2")
        up = linear(self.x, self.W1, self.b1)
        bent = relu(up)
        self.down = linear(bent, self.W2, self.b2)
        self.show(up, (0, 0))
        self.show(bent, (0, 0))
        self.show(self.down, (0, 0))
        self.beside("ffn-output", z1=up, a1=bent, output=self.down)

    @step("Row by row", like="Seats at an exam: what your neighbour writes is no help to you.")
    def row_by_row(self) -> None:
        """Change one row, and only its own result changes. That is what position-wise means."""
        other = self.x.clone()
        other[1] += 1.0
        again = linear(relu(linear(other, self.W1, self.b1)), self.W2, self.b2)
        self.claim(
            "only the changed row comes out otherwise",
            bool((again[[0, 2]] == self.down[[0, 2]]).all() and (again[1] != self.down[1]).any()),
        )

    @step(
        "The norm after it",
        like="Four rungs of any ladder look alike in a photograph that is cropped to the ladder.",
    )
    def norm_after_it(self) -> None:
        """The rows of this example come out as even steps, and the norm of even steps is always the same row. A source
        explains it by multiples of three; the rows are progressions, not multiples.
        """
        given = self.given("layernorm-ffn")
        rows = given.tensor("x")
        one, zero = rows.new_ones(rows.shape[-1]), rows.new_zeros(rows.shape[-1])
        normed = layer_norm(rows, one, zero, given.get("eps", float))
        self.show(normed, (0, 0))
        self.beside("layernorm-ffn", LN=normed)
        ladder = layer_norm(self.tensor([0.0, 1.0, 2.0, 3.0]), one, zero, 0.0)
        self.show(ladder, (0,))
        self.same("every row has come to nearly the ladder's norm", normed, ladder, within=0.001)

    @step("Another bend", like="A dimmer instead of a switch.")
    def another_bend(self) -> None:
        """GELU keeps each number in proportion to the share of normal numbers below it: nearly all of a large one,
        nearly none of a very negative one, and half of what is close to zero. Unlike ReLU it is smooth, and dips
        below zero.
        """
        xs = self.tensor([i / 8 - 4 for i in range(65)])
        soft, hard = gelu(xs), relu(xs)
        self.plot("two bends", {"gelu": (xs.tolist(), soft.tolist()), "relu": (xs.tolist(), hard.tolist())}, "x")
        chosen = self.given("gelu-values").tensor("x")
        self.beside("gelu-values", gelu=gelu(chosen))
        lowest = int(soft.argmin())
        self.say(f"Its lowest place is near x = {number(xs[lowest])}, at {number(soft[lowest])}.")
        found = self.back(soft, torch.ones_like(xs))
        self.plot("slope of gelu", {"slope": (xs.tolist(), found[xs].tolist())}, "x")
        self.claim("its slope changes its sign there", bool(found[xs][lowest - 1] < 0 < found[xs][lowest + 1]))
        keep = self.worked("gelu-survival-probability").get("keep_probability", list[float])
        self.claim("the larger a number, the more of it is kept", keep == sorted(keep))

    @step(
        "Most of the weights live here",
        like="In most offices the filing cabinets take more room than the meeting table.",
    )
    def most_of_the_weights_live(self) -> None:
        """The middle is usually four times as wide as the row. Then the feed-forward part holds two thirds of a
        layer's weights.
        """
        dim = self.given("ffn-expansion-dimensions").get("n", int)
        here, there = feed_forward_parameters(dim, 4 * dim, bias=False), attention_parameters(dim, 1)
        self.show(here)
        self.show(there)
        self.beside(
            "ffn-expansion-dimensions", hidden=4 * dim, weights=here, share_of_layer_weights=here / (here + there)
        )

    def quiz(self) -> None:
        """Questions on it."""
        a, up2, down2 = self.tensor([1.0]), self.tensor([[2.0, -3.0]]), self.tensor([[1.0], [1.0]])
        self.ask(
            f"x = {number(a[0])}, up by {number(up2[0, 0])} and {number(up2[0, 1])}, ReLU, down by ones: what "
            "comes out?",
            lambda: linear(relu(linear(a, up2)), down2),
            "The negative number is dropped in the middle.",
            cell=(0,),
        )
        width = 256
        self.ask(
            f"How many weights, shifts included, has a feed-forward part of width {width} with a middle four "
            "times as wide?",
            lambda: feed_forward_parameters(width, 4 * width),
            "Two matrices, and a shift for each.",
            tolerance=0.5,
        )
