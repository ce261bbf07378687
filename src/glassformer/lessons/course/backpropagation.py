"""A network with one hidden layer, and backpropagation."""

from glassformer.arithmetic import number
from glassformer.equations.activations import relu, sigmoid
from glassformer.equations.algebra import linear
from glassformer.equations.gradients import difference_quotient
from glassformer.equations.losses import mean_squared_error
from glassformer.equations.optimizers import gradient_descent
from glassformer.lessons.walk import Walk


def walk_backpropagation(walk: Walk) -> None:
    """Two matrices with a bend between them; the error travels back through both, and finite differences agree."""
    walk.step(
        "Forward",
        "A hidden layer mixes the inputs, bends the mixture, and a second matrix mixes again. The bend is what makes "
        "two matrices more than one.",
        like="A relay of two cooks: the first prepares, something must be baked in between, the second serves.",
    )
    given = walk.given("mlp-backprop-prefactor")
    X, W1, b1, W2, b2, Y = given.tensors("X", "W1", "b1", "W2", "b2", "Y_true")
    Z1 = linear(X, W1, b1)
    A1 = sigmoid(Z1)
    guess = linear(A1, W2, b2)
    loss = mean_squared_error(guess, Y)
    walk.show(Z1, (0, 0))
    walk.show(A1, (0, 0))
    walk.show(guess, (0, 0))
    walk.show(loss)

    walk.step(
        "Backward",
        "The error starts at the output and is handed back: through the second matrix to the hidden layer, through the "
        "bend, where a flat place lets little through, and through the first matrix. On the way every matrix learns "
        "its own gradient. The arrows of the gradients point from the loss to the weights.",
        like="A complaint goes from the guest to the waiter to the cook to the market, and everyone hears their part of it.",
    )
    walk.flow(loss)
    found = walk.back(loss)
    walk.show_gradient(found, guess, "∂L/∂Ŷ")
    walk.show_gradient(found, A1, "∂L/∂A₁")
    walk.show_gradient(found, Z1, "∂L/∂Z₁")
    walk.show_gradient(found, W2, "∂L/∂W₂")
    walk.show_gradient(found, W1, "∂L/∂W₁")
    for name, tensor in (("W₁", W1), ("W₂", W2), ("b₁", b1), ("b₂", b2)):
        walk.claim(f"the gradient of {name} has the shape of {name}", found[tensor].shape == tensor.shape)

    walk.step(
        "The factor in front",
        "A mean of squares has a two in its slope. One source leaves it out of the gradients that follow from the very "
        "loss it states; the tape says which factor is right.",
        like="A recipe for four written down as a recipe for two: everything is in proportion, and everything is half.",
    )
    factor = float((found[guess] / (guess - Y)).mean()) * given.get("N", int)
    walk.beside("mlp-backprop-prefactor", dW1=found[W1], dW2=found[W2], L=loss, prefactor_times_N=factor)

    walk.step(
        "Is it true? Nudge a weight",
        "A gradient is a promise about what a small change does. Change one weight a little, run forward again, and "
        "compare: this is gradient checking, and it needs no rule at all.",
        like="To learn whether a tap is hot or cold, turn it a little and hold your hand under the water.",
    )
    nudge, nudged = 1e-5, W1.clone()
    nudged[0, 0] += nudge
    ahead = mean_squared_error(linear(sigmoid(linear(X, nudged, b1)), W2, b2), Y)
    measured = difference_quotient(ahead, loss, nudge)
    walk.show(measured)
    walk.say(f"Measured: {number(measured)}. By the rules: {number(found[W1][0, 0])}.")
    walk.claim("the two agree", abs(float(measured - found[W1][0, 0])) < 1e-5)

    walk.step(
        "Step, all at once",
        "Every parameter steps against its own gradient, with the old values of all the others. Then the whole goes "
        "round again: forward, loss, backward, step.",
        like="Rowers who all correct their stroke at the same call, not one after another.",
    )
    losses = [loss]
    for _ in range(30):
        slopes = walk.back(losses[-1])
        W1, b1, W2, b2 = (gradient_descent(theta, slopes[theta], 0.5) for theta in (W1, b1, W2, b2))
        losses.append(mean_squared_error(linear(sigmoid(linear(X, W1, b1)), W2, b2), Y))
    walk.plot("loss", {"loss": (range(len(losses)), [float(value) for value in losses])})
    walk.claim(f"the loss falls from {number(losses[0])} to {number(losses[-1])}", losses[-1] < losses[0])

    walk.step(
        "Another bend",
        "With ReLU the bend is a switch. A hidden number below zero is off, and nothing at all goes back through it.",
        like="A closed valve: neither the water nor the news of the leak gets through.",
    )
    given = walk.given("mlp-backprop-relu")
    X, W1, b1, W2, b2, Y = given.tensors("X", "W1", "b1", "W2", "b2", "Y_true")
    Z1 = linear(X, W1, b1)
    A1 = relu(Z1)
    guess = linear(A1, W2, b2)
    found = walk.back(mean_squared_error(guess, Y))
    walk.show(A1, (0, 0), (0, 2))
    walk.show_gradient(found, Z1, "∂L/∂Z₁")
    walk.claim("where a number is off, its gradient is zero", bool((found[Z1][Z1 < 0] == 0).all()))
    walk.beside("mlp-backprop-relu", A1=A1, Y_hat=guess, dW1=found[W1], dW2=found[W2])

    z = walk.tensor([0.5])
    walk.ask(
        f"What does the sigmoid make of {number(z[0])}?", lambda: sigmoid(z), "One over one plus e to the minus z.", cell=(0,)
    )
    walk.ask(
        f"W₁ maps {W1.shape[0]} numbers to {W1.shape[1]}. What shape has its gradient?",
        lambda: tuple(W1.shape),
        "The shape of the matrix itself.",
    )
    off = walk.tensor([-0.3])
    walk.ask(
        f"What does ReLU make of {number(off[0])}?", lambda: relu(off), "Negative numbers become zero.", cell=(0,)
    )
