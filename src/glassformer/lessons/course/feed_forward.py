"""The feed-forward sublayer."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.activations import gelu, relu
from glassformer.equations.algebra import linear
from glassformer.equations.counts import attention_parameters, feed_forward_parameters
from glassformer.equations.normalization import layer_norm
from glassformer.lessons.walk import Walk


def walk_feed_forward(walk: Walk) -> None:
    """After the tokens have talked, each thinks for itself: widen, bend, narrow."""
    walk.step(
        "Widen, bend, narrow",
        "Every row goes up into a wider space, is bent there, and comes down again. All rows use the same two matrices, "
        "and none looks at another: talking was attention's part.",
        like="After the meeting everyone goes back to their own desk, spreads out their papers, and returns with a summary.",
    )
    x, W1, b1, W2, b2 = walk.given("ffn-output").tensors("x", "W1", "b1", "W2", "b2")
    up = linear(x, W1, b1)
    bent = relu(up)
    down = linear(bent, W2, b2)
    walk.show(up, (0, 0))
    walk.show(bent, (0, 0))
    walk.show(down, (0, 0))
    walk.beside("ffn-output", z1=up, a1=bent, output=down)

    walk.step(
        "Row by row",
        "Change one row, and only its own result changes. That is what position-wise means.",
        like="Seats at an exam: what your neighbour writes is no help to you.",
    )
    other = x.clone()
    other[1] += 1.0
    again = linear(relu(linear(other, W1, b1)), W2, b2)
    walk.claim("only the changed row comes out otherwise", bool((again[[0, 2]] == down[[0, 2]]).all() and (again[1] != down[1]).any()))

    walk.step(
        "The norm after it",
        "The rows of this example come out as even steps, and the norm of even steps is always the same row. A source "
        "explains it by multiples of three; the rows are progressions, not multiples.",
        like="Four rungs of any ladder look alike in a photograph that is cropped to the ladder.",
    )
    given = walk.given("layernorm-ffn")
    rows = given.tensor("x")
    one, zero = rows.new_ones(rows.shape[-1]), rows.new_zeros(rows.shape[-1])
    normed = layer_norm(rows, one, zero, given.get("eps", float))
    walk.show(normed, (0, 0))
    walk.beside("layernorm-ffn", LN=normed)
    ladder = layer_norm(walk.tensor([0.0, 1.0, 2.0, 3.0]), one, zero, 0.0)
    walk.show(ladder, (0,))
    walk.claim("every row has come to nearly the ladder's norm", float((normed - ladder).abs().max()) < 1e-3)

    walk.step(
        "Another bend",
        "GELU keeps each number in proportion to the share of normal numbers below it: nearly all of a large one, nearly "
        "none of a very negative one, and half of what is close to zero. Unlike ReLU it is smooth, and dips below zero.",
        like="A dimmer instead of a switch.",
    )
    xs = walk.tensor([i / 8 - 4 for i in range(65)])
    soft, hard = gelu(xs), relu(xs)
    walk.plot("two bends", {"gelu": (xs.tolist(), soft.tolist()), "relu": (xs.tolist(), hard.tolist())}, "x")
    chosen = walk.given("gelu-values").tensor("x")
    walk.beside("gelu-values", gelu=gelu(chosen))
    lowest = int(soft.argmin())
    walk.say(f"Its lowest place is near x = {number(xs[lowest])}, at {number(soft[lowest])}.")
    found = walk.back(soft, torch.ones_like(xs))
    walk.plot("slope of gelu", {"slope": (xs.tolist(), found[xs].tolist())}, "x")
    walk.claim("its slope changes its sign there", bool(found[xs][lowest - 1] < 0 < found[xs][lowest + 1]))
    keep = walk.worked("gelu-survival-probability")["keep_probability"]
    walk.claim("the larger a number, the more of it is kept", keep == sorted(keep))

    walk.step(
        "Most of the weights live here",
        "The middle is usually four times as wide as the row. Then the feed-forward part holds two thirds of a layer's "
        "weights.",
        like="In most offices the filing cabinets take more room than the meeting table.",
    )
    dim = walk.given("ffn-expansion-dimensions").get("n", int)
    here, there = feed_forward_parameters(dim, 4 * dim, bias=False), attention_parameters(dim, 1)
    walk.show(here)
    walk.show(there)
    walk.beside("ffn-expansion-dimensions", hidden=4 * dim, weights=here, share_of_layer_weights=here / (here + there))

    a, up2, down2 = walk.tensor([1.0]), walk.tensor([[2.0, -3.0]]), walk.tensor([[1.0], [1.0]])
    walk.ask(f"x = {number(a[0])}, up by {number(up2[0, 0])} and {number(up2[0, 1])}, ReLU, down by ones: what comes out?",
             lambda: linear(relu(linear(a, up2)), down2), "The negative number is dropped in the middle.", cell=(0,))
    width = 256
    walk.ask(f"How many weights, shifts included, has a feed-forward part of width {width} with a middle four times as wide?",
             lambda: feed_forward_parameters(width, 4 * width), "Two matrices, and a shift for each.", tolerance=0.5)
