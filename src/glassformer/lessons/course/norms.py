"""Norms: rows of a common size."""

from glassformer.arithmetic import number
from glassformer.equations.algebra import linear, residual
from glassformer.equations.normalization import batch_norm, layer_norm, layer_norm_outside, rms_norm
from glassformer.lessons.walk import Walk
from glassformer.worked.geometry import mean_and_variance


def walk_norms(walk: Walk) -> None:
    """Centre a row and bring its spread to one; or only its size; by row and not by batch."""
    walk.step(
        "Layer norm",
        "Take off the row's own mean, divide by its own spread. What stays is the pattern of the row; how loud it was "
        "is gone. Then a learned scale and shift give the layer its own preferred loudness.",
        like="A recording studio sets every singer to the same level before mixing, then turns single knobs.",
    )
    given = walk.given("layernorm-properties")
    x, eps = given.tensor("x"), given.get("eps", float)
    one, zero = x.new_ones(x.shape), x.new_zeros(x.shape)
    y = layer_norm(x, one, zero, eps)
    (_, mean), (_, variance) = mean_and_variance(y.new_tensor([x.tolist(), y.tolist()]))
    walk.show(y, (0,), (3,))
    walk.beside("layernorm-properties", y=y, y_mean=mean, y_var=variance)
    louder = layer_norm(10 * x + 7, one, zero, eps)
    walk.claim("a row ten times as loud and shifted comes out alike", float((louder - y).abs().max()) < 1e-5)

    walk.step(
        "Its way back",
        "Since a common shift and a common scale change nothing, the gradient has no part along either: what goes back "
        "sums to zero, and is at right angles to the pattern.",
        like="Pushing a revolving door at its hinge: no effort there turns it.",
    )
    signal = walk.tensor([1.0, 0.0, 0.0, 0.0])
    found = walk.back(y, signal)
    walk.show_gradient(found, x, "gradient of x")
    walk.claim("the gradient sums to zero", abs(float(found[x].sum())) < 1e-12)
    walk.claim("it is at right angles to the pattern", abs(float(found[x] @ y)) < 1e-5)

    walk.step(
        "Root mean square alone",
        "RMS norm skips the mean and only brings the size to one. For a row that is centred already the two agree.",
        like="Turning the volume to a fixed level without touching the tone.",
    )
    given = walk.given("rmsnorm-example")
    x, centred = given.tensors("x", "x_centred")
    whole, middle = rms_norm(x, one, eps), rms_norm(centred, one, eps)
    same = layer_norm(centred, one, zero, eps)
    walk.show(whole, (0,))
    walk.beside("rmsnorm-example", rmsnorm_x=whole, rmsnorm_centred=middle, layernorm_centred=same)
    walk.claim("on the centred row both norms agree", float((middle - same).abs().max()) < 1e-12)

    walk.step(
        "Where the small number goes",
        "A tiny number keeps the division safe. It belongs inside the root. One source prints the norm of its attention "
        "output with the number added outside, and the printed digits differ from its own script's.",
        like="A pinch of salt goes into the dough; strewn over the crust it is another bread.",
    )
    given = walk.given("layernorm-M")
    M, eps = given.tensor("M"), given.get("eps", float)
    gamma, beta = M.new_ones(M.shape[-1]), M.new_zeros(M.shape[-1])
    right, outside = layer_norm(M, gamma, beta, eps), layer_norm_outside(M, gamma, beta, eps)
    walk.show(right, (0, 0))
    walk.beside("layernorm-M", LN=right)
    printed = walk.tensor(given.fact("LN", list[list[float]]))
    near = float((outside - printed).abs().max()) < float((right - printed).abs().max())
    walk.claim("with the number outside the root one comes nearer to what is printed", near)

    walk.step(
        "Two features are too few",
        "The norm of a row of two numbers keeps nothing but which is larger. A story of two features on different "
        "scales is a story about batches, where each feature is compared with itself in other examples.",
        like="Of two runners you can say who was first; to say who is fast you need the others.",
    )
    given = walk.given("layernorm-two-features")
    rows = given.tensor("rows")
    pair, none = rows.new_ones(2), rows.new_zeros(2)
    signs = layer_norm(rows, pair, none, given.get("eps", float))
    walk.show(signs, (0, 0))
    walk.beside("layernorm-two-features", LN=signs)
    batch = batch_norm(rows, pair, none)
    walk.show(batch)
    walk.claim("within each batch-normed feature the mean is zero", float(batch.mean(0).abs().max()) < 1e-9)

    walk.step(
        "Before or after the sublayer",
        "With the norm before the sublayer the row itself passes untouched; with the norm after it, everything that "
        "leaves has unit spread. Deep stacks train more easily with the norm before.",
        like="Washing the vegetables before they go into the pot, or rinsing the soup.",
    )
    given = walk.given("pre-ln-post-ln")
    h, F = given.tensors("h", "F_matrix")
    eps = given.get("eps", float)
    pre = residual(h, linear(layer_norm(h, pair, none, eps), F))
    post = layer_norm(residual(h, linear(h, F)), pair, none, eps)
    walk.show(pre, (0, 0))
    walk.show(post, (0, 0))
    walk.beside("pre-ln-post-ln", pre_ln=pre, post_ln=post)

    row = walk.tensor([1.0, 3.0])
    walk.ask(f"What does layer norm, with no small number, make of the first entry of ({number(row[0])}, {number(row[1])})?",
             lambda: layer_norm(row, pair, none, 0.0), "The mean is halfway, and the spread is one.", cell=(0,))
    long = walk.tensor([3.0, 4.0])
    walk.ask(f"And RMS norm of the second entry of ({number(long[0])}, {number(long[1])})?",
             lambda: rms_norm(long, pair, 0.0), "Divide by the root of half of nine and sixteen.", cell=(1,))
