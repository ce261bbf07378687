"""Pitfalls: each going wrong, and right."""

import torch

from glassformer.equations.algebra import linear, transpose
from glassformer.equations.attention import apply_mask, attention, attention_scores
from glassformer.equations.masks import causal_mask
from glassformer.equations.normalization import layer_norm, layer_norm_outside
from glassformer.equations.positions import sinusoidal_positions
from glassformer.equations.probability import entropy, softmax
from glassformer.lessons.walk import Walk
from glassformer.worked.positions import wave


def walk_pitfalls(walk: Walk) -> None:
    """Six mistakes that run without complaint: what each does, how to see it, and the way it should be."""
    walk.step(
        "Scores not scaled",
        "Wrong: leave out the division by the root of the width. Nothing fails; attention merely fixes on one token and "
        "stops learning. To see it, watch the entropy of the shares.",
        like="A microphone turned up until only the loudest voice is left, distorted.",
    )
    q, k = torch.randn(2, 32, 256, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wrong, right = softmax(attention_scores(q, k, scale=1.0)), softmax(attention_scores(q, k))
    narrow, broad = entropy(wrong).mean(), entropy(right).mean()
    walk.table(("", "mean entropy of the shares"), [("wrong: unscaled", narrow), ("right: scaled", broad)])
    walk.claim("unscaled shares are nearly certain of one token", narrow < broad / 2)

    walk.step(
        "A mask the wrong way round",
        "Wrong: mask the past instead of the future. The shapes are the same, training even goes well, since the model "
        "reads the answer. To see it, change a later token and watch an earlier row.",
        like="A blindfold worn on the back of the head.",
    )
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = x.clone()
    y[4] += 1.0
    past = causal_mask(5, dtype=torch.float64)
    future = transpose(past)
    leak = (attention(x, x, x, future) - attention(y, y, y, future))[:4].abs().max()
    tight = (attention(x, x, x, past) - attention(y, y, y, past))[:4].abs().max()
    walk.show(past)
    walk.table(("", "how far earlier rows move"), [("wrong: transposed mask", leak), ("right", tight)])
    walk.claim("the right mask lets nothing through", float(tight) == 0)
    walk.claim("the wrong one lets the future in", float(leak) > 0.01)

    walk.step(
        "A mask after softmax",
        "Wrong: multiply the shares by zero and one. They no longer sum to one, and the hidden tokens still press on "
        "those that are left.",
        like="Crossing names off the bill after it was divided.",
    )
    scores = attention_scores(x, x)
    late, early = softmax(scores) * (past == 0), softmax(apply_mask(scores, past))
    walk.table(("sum of a row's shares", "first", "last"), [
        ("wrong: masked after", late.sum(-1)[0], late.sum(-1)[-1]), ("right: masked before", early.sum(-1)[0], early.sum(-1)[-1]),
    ])
    walk.claim("rightly masked rows sum to one", float((early.sum(-1) - 1).abs().max()) < 1e-12)
    walk.claim("the others do not", float(late.sum(-1)[0]) < 0.9)

    walk.step(
        "Softmax that overflows",
        "Wrong: raise e to the scores as they are, or take off the largest of the whole table. The first overflows, the "
        "second starves every other row. Right: take off each row's own largest.",
        like="Weighing a letter on a lorry scale.",
    )
    table = walk.given("softmax-global-max-pitfall").tensor("scores")
    naive = table.exp() / table.exp().sum(-1, keepdim=True)
    shared = (table - table.max()).exp()
    starved = shared / shared.sum(-1, keepdim=True)
    safe = softmax(table)
    walk.table(("", "first row", "second row"), [
        ("wrong: as it is", *naive), ("wrong: one maximum for all", *starved), ("right", *safe),
    ])
    walk.show(safe)
    walk.beside("softmax-global-max-pitfall", row_max_softmax=safe)
    walk.claim("as it is, the first row is lost", bool(naive[0].isnan().all()))
    walk.claim("with one maximum the second row is lost", bool(starved[1].isnan().all()))

    walk.step(
        "Waves with the wrong exponents",
        "Wrong: give each column a speed of its own instead of each pair. The table looks plausible, but a shift of "
        "position is no longer a fixed turn, and inner products no longer depend on the distance alone.",
        like="A clock whose sine hand and cosine hand belong to different clocks.",
    )
    right_rows = sinusoidal_positions(12, 4, dtype=torch.float64)
    wrong_rows = torch.stack([wave(12, column / 2, column) for column in range(4)], -1)
    walk.show(right_rows, (1, 1))
    uneven = [float((rows[0] @ rows[3] - rows[8] @ rows[11]).abs()) for rows in (wrong_rows, right_rows)]
    walk.table(("", "inner products at one distance differ by"), [("wrong", uneven[0]), ("right", uneven[1])])
    walk.claim("the right waves know the distance alone", uneven[1] < 1e-12)
    walk.claim("the wrong ones do not", uneven[0] > 0.01)

    walk.step(
        "The small number outside the root",
        "Wrong: add it to the spread instead of to the variance. For ordinary rows one cannot tell; for a nearly "
        "constant row the two are far apart.",
        like="Two bridges that differ only in a flood.",
    )
    quiet = walk.tensor([[1.0, 1.0, 1.0, 1.0001]])
    one, zero = quiet.new_ones(4), quiet.new_zeros(4)
    inside, outside = layer_norm(quiet, one, zero, 1e-5), layer_norm_outside(quiet, one, zero, 1e-5)
    walk.show(inside, (0, 3))
    walk.table(("", "last entry"), [("wrong: outside", outside[0, 3]), ("right: inside", inside[0, 3])])
    walk.claim("on a quiet row they differ by far", float(outside[0, 3] / inside[0, 3]) > 10)

    walk.step(
        "A transposed matrix",
        "Wrong: use a square matrix the other way round. Every shape fits. One source does it in cross-attention, and its "
        "printed output is what the transpose gives.",
        like="Reading a railway timetable down instead of across: real trains, wrong stations.",
    )
    given = walk.given("cross-attention-output")
    memory, W = given.tensors("encoder", "W_V")
    proper, swapped = linear(memory, W), linear(memory, transpose(W))
    walk.show(proper, (0, 0), (0, 1))
    walk.show(swapped, (0, 0), (0, 1))
    printed = walk.tensor(given.fact("output", list[list[float]]))
    walk.claim("the mean of the swapped values is what is printed", float((swapped.mean(0) - printed).abs().max()) < 1e-6)
    walk.claim("the proper ones give something else", float((proper.mean(0) - printed).abs().max()) > 0.5)

    row = walk.tensor([[1000.0, 1000.0]])
    walk.ask("Softmax of two equal, huge scores: what is each share, rightly?", lambda: softmax(row), "Take off the largest first.", cell=(0, 0))
    a, M = walk.tensor([1.0, 0.0]), walk.tensor([[1.0, 2.0], [3.0, 4.0]])
    walk.ask("x = one, zero and W has the rows one, two and three, four. What is the second entry of xW, not of the transposed product?",
             lambda: linear(a, M), "The first row of the matrix.", cell=(1,))
    width, at = 4, 1
    walk.ask("Waves of width four: the second number at position one?", lambda: sinusoidal_positions(at + 1, width, dtype=torch.float64),
             "The cosine of one: it shares the speed of the first.", cell=(at, 1))
