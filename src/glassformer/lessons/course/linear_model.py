"""The linear model and its gradients."""

from glassformer.arithmetic import number
from glassformer.equations.algebra import linear, matmul, scale, transpose
from glassformer.equations.losses import mean_squared_error
from glassformer.equations.optimizers import gradient_descent
from glassformer.lessons.walk import Walk


def walk_linear_model(walk: Walk) -> None:
    """Guess with a matrix, measure the error, and let the error say how the matrix should change."""
    walk.step(
        "Guess",
        "Each row of X is an example, each column of W a recipe: a weighted sum of the inputs plus a shift. All "
        "examples go through the same recipes at once.",
        like="A price list: whatever is in the basket, the bill is so much of each thing times its price, plus the bag.",
    )
    given = walk.given("mse-matrix-gradients")
    X, W, b, Y = given.tensors("X", "W", "b", "Y_true")
    guess = linear(X, W, b)
    walk.show(guess, (0, 0), (1, 1))

    walk.step(
        "Measure",
        "The loss is the mean squared distance of the guesses from the targets. Squaring makes a large miss count "
        "for much more than several small ones.",
        like="A strict judge who forgives a hair's breadth and never forgets a mile.",
    )
    loss = mean_squared_error(guess, Y)
    walk.show(loss)

    walk.step(
        "Go back",
        "The tape runs backward. Each guess learns how the loss would change with it; then the matrix learns it "
        "through its inputs: what a weight is told is the errors weighed by the inputs that it multiplied.",
        like="After a bad meal the blame goes to each ingredient in proportion to how much of it went in.",
    )
    walk.flow(loss)
    found = walk.back(loss)
    walk.show_gradient(found, guess, "∂L/∂Ŷ")
    walk.show_gradient(found, W, "∂L/∂W")
    walk.show_gradient(found, b, "∂L/∂b")
    for name, tensor in (("W", W), ("b", b), ("Ŷ", guess)):
        walk.claim(f"the gradient of {name} has the shape of {name}", found[tensor].shape == tensor.shape)
    by_hand = scale(matmul(transpose(X), guess - Y), 2 / len(X))
    walk.show(by_hand, (0, 0))
    walk.claim("the formula written out by hand gives the same", bool((by_hand - found[W]).abs().max() < 1e-12))

    walk.step(
        "Step, and look again",
        "All parameters step together, against their gradients, with one rate for all of them.",
        like="Every instrument of an orchestra tunes a little at the same signal; then they all listen again.",
    )
    rate = given.get("alpha", float)
    new_W, new_b = gradient_descent(W, found[W], rate), gradient_descent(b, found[b], rate)
    walk.show(new_W, (0, 1))
    again = mean_squared_error(linear(X, new_W, new_b), Y)
    walk.claim(f"the loss falls, from {number(loss)} to {number(again)}", again < loss)
    walk.beside("mse-matrix-gradients", Y_hat=guess, L=loss, dW=found[W], db=found[b], W_new=new_W, b_new=new_b)

    walk.step(
        "Many rows at once, and the way back",
        "A whole stack of rows times a matrix is the same as each row by itself, which is why sequences are worked "
        "on whole. On the way back a gradient goes through the transpose: not to undo the map, only to hand each "
        "input its share.",
        like="A mailman who brings letters up a street can bring the answers back down it, but that does not unwrite them.",
    )
    H, M = walk.given("block-row-matmul").tensors("H", "W")
    whole = linear(H, M)
    walk.show(whole, (2, 0))
    walk.claim("row by row gives the same", all(bool((linear(row, M) == whole[i]).all()) for i, row in enumerate(H)))
    h, Q = walk.given("transpose-is-not-inverse").tensors("h", "W")
    there_and_back = linear(linear(h, Q), transpose(Q))
    walk.show(there_and_back, (0,))
    walk.beside("transpose-is-not-inverse", h_W_WT=there_and_back)

    x, w = walk.tensor([[2.0, -1.0]]), walk.tensor([[0.5], [3.0]])
    walk.ask(
        f"x = {number(x[0, 0])}, {number(x[0, 1])} and W = {number(w[0, 0])}, {number(w[1, 0])}: what is xW?",
        lambda: linear(x, w),
        "Multiply entry by entry and add up.",
        cell=(0, 0),
    )
    walk.ask(
        f"X has shape {X.shape[0]}×{X.shape[1]} and W has shape {W.shape[0]}×{W.shape[1]}. What shape has ∂L/∂W?",
        lambda: tuple(W.shape),
        "A gradient has the shape of what it belongs to.",
    )
    walk.ask(
        "For one example, what is ∂L/∂W for the first weight if the guess is off by the value of xW above?",
        lambda: scale(matmul(transpose(x), linear(x, w)), 2.0),
        "Twice the input times the error.",
        cell=(0, 0),
    )
