"""The feed-forward sublayer."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.activations import gelu, relu
from glassformer.equations.algebra import linear
from glassformer.equations.normalization import layer_norm
from glassformer.equations.parameter_counts import attention_parameters, feed_forward_parameters


class FeedForwardWalk(Walk):
    """After the tokens have exchanged information, each is processed by itself: up, activation, down."""

    @step(
        "Up, activation, down",
        like="After the meeting everyone goes back to their own desk, spreads out their papers, and returns with a "
        "summary.",
    )
    def widen_bend_narrow(self) -> None:
        """Every hidden state is projected up into a wider space, goes through a nonlinear activation there, and is
        projected down again. All positions use the same two matrices, and none sees another: that was attention's
        part.
        """
        self.x, self.W1, self.b1, self.W2, self.b2 = self.given("ffn-output").tensors("x", "W1", "b1", "W2", "b2")
        up = linear(self.x, self.W1, self.b1)
        bent = relu(up)
        self.down = linear(bent, self.W2, self.b2)
        self.show(up, (0, 0))
        self.show(bent, (0, 0))
        self.show(self.down, (0, 0))
        self.beside("ffn-output", z1=up, a1=bent, output=self.down)
        self.claim("the middle is wider than what goes in", up.shape[-1] > self.x.shape[-1])
        self.claim("what comes out is as wide as what went in", self.down.shape == self.x.shape)

    @step("Position by position", like="Seats at an exam: what your neighbor writes is no help to you.")
    def row_by_row(self) -> None:
        """Change one hidden state, and only its own output changes. That is what position-wise means."""
        other = self.x.clone()
        other[1] += 1.0
        again = linear(relu(linear(other, self.W1, self.b1)), self.W2, self.b2)
        self.table(
            ("position", "output before", "output after"),
            [(i, before, after) for i, (before, after) in enumerate(zip(self.down, again, strict=True))],
        )
        self.claim(
            "only the output of the changed position changes",
            bool((again[[0, 2]] == self.down[[0, 2]]).all() and (again[1] != self.down[1]).any()),
        )

    @step(
        "The norm after it",
        like="Four rungs of any ladder look alike in a photograph that is cropped to the ladder.",
    )
    def norm_after_it(self) -> None:
        """The outputs of this example rise in equal steps, and the layer norm of equal steps is always the same,
        wherever they start and however large they are. A source explains it by multiples of three, which these
        numbers are not.
        """
        given = self.given("layernorm-ffn")
        rows = given.tensor("x")
        one, zero = rows.new_ones(rows.shape[-1]), rows.new_zeros(rows.shape[-1])
        normed = layer_norm(rows, one, zero, given.get("eps", float))
        self.show(normed, (0, 0))
        self.beside("layernorm-ffn", LN=normed)
        ladder = layer_norm(self.tensor([0.0, 1.0, 2.0, 3.0]), one, zero, 0.0)
        self.show(ladder, (0,))
        self.same("every output rises in equal steps", rows.diff(), rows.diff()[:, :1], within=1e-6)
        self.differ("they are not multiples of three", rows / 3, (rows / 3).round(), by=0.1)
        self.same("every output has nearly the norm of the ladder", normed, ladder, within=0.001)

    @step("Another activation: GELU", like="A dimmer instead of a switch.")
    def another_bend(self) -> None:
        """GELU multiplies each number by the probability that a standard normal number is smaller: nearly all of a
        large number is kept, nearly none of a very negative one, and half of one close to zero. Unlike ReLU it is
        smooth, and it dips below zero.
        """
        xs = self.tensor([i / 8 - 4 for i in range(65)])
        soft, hard = gelu(xs), relu(xs)
        self.plot("two activations", {"gelu": (xs.tolist(), soft.tolist()), "relu": (xs.tolist(), hard.tolist())}, "x")
        chosen = self.given("gelu-values").tensor("x")
        self.beside("gelu-values", gelu=gelu(chosen))
        kept = soft / xs
        self.less(f"of {number(xs[-1])} more than nine tenths are kept", 0.9, kept[-1])
        self.less(f"of {number(xs[0])} less than a tenth", kept[0], 0.1)
        self.same("of a number close to zero about half", gelu(self.tensor([0.001])) / 0.001, 0.5, within=0.01)
        lowest = int(soft.argmin())
        self.less(
            f"it dips below zero, lowest near x = {number(xs[lowest])}, at {number(soft[lowest])}", soft[lowest], 0.0
        )
        found = self.back(soft, torch.ones_like(xs))
        self.plot("slope of gelu", {"slope": (xs.tolist(), found[xs].tolist())}, "x")
        self.claim("its slope changes sign there", bool(found[xs][lowest - 1] < 0 < found[xs][lowest + 1]))
        jumps = [self.back(bend, torch.ones_like(xs))[xs].diff().abs().max() for bend in (soft, hard)]
        self.less("from point to point its slope changes little, where the slope of ReLU jumps", jumps[0], jumps[1] / 5)
        self.claim("the larger a number, the larger the part that is kept", (kept[xs != 0].diff() > 0).all())

    @step(
        "Most of the weights live here",
        like="In most offices the filing cabinets take more room than the meeting table.",
    )
    def most_of_the_weights_live(self) -> None:
        """The middle is usually four times as wide as the model. Then the feed-forward sublayer holds two thirds of
        the weights of a layer. Biases are not counted here, so the single d and d_ff of the formula do not occur.
        """
        dim = self.given("ffn-expansion-dimensions").get("n", int)
        here, there = feed_forward_parameters(dim, 4 * dim, bias=False), attention_parameters(dim, 1)
        self.show(here)
        self.show(there)
        self.beside(
            "ffn-expansion-dimensions", hidden=4 * dim, weights=here, share_of_layer_weights=here / (here + there)
        )
        self.same("the feed-forward sublayer holds two thirds of the weights", here / (here + there), 2 / 3)
        biases = feed_forward_parameters(dim, 4 * dim) - here
        self.claim(f"biases would add {biases} numbers, d and d_ff", biases == dim + 4 * dim)

    def quiz(self) -> None:
        """Questions on it."""
        a, up2, down2 = self.tensor([1.0]), self.tensor([[2.0, -3.0]]), self.tensor([[1.0], [1.0]])
        self.ask(
            f"x = {number(a[0])} is projected up with the weights {number(up2[0, 0])} and {number(up2[0, 1])}, then "
            f"ReLU, then down with the weights {number(down2[0, 0])} and {number(down2[1, 0])}. What comes out?",
            lambda: linear(relu(linear(a, up2)), down2),
            "What does ReLU leave of the two numbers in the middle?",
            cell=(0,),
        )
        width = 256
        self.ask(
            f"How many parameters, biases included, does a feed-forward sublayer of width {width} have if its middle "
            "is four times as wide?",
            lambda: feed_forward_parameters(width, 4 * width),
            "Two matrices, and a bias for each. How wide is each bias?",
            tolerance=0.5,
        )
