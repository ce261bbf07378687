"""Heads: several views of one sentence."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.algebra import linear
from glassformer.equations.attention import attention
from glassformer.equations.counts import attention_parameters
from glassformer.equations.heads import concat, merge_heads, split_heads
from glassformer.lessons.walk import Walk
from glassformer.worked.geometry import normalized


def walk_heads(walk: Walk) -> None:
    """Cut each row into pieces, let each piece attend by itself, lay the answers end to end and mix them."""
    walk.step(
        "Cut",
        "A row is cut into equal pieces, one for each head. Each head then has a smaller space of its own to compare in, "
        "and can look for something of its own: the verb, the neighbour, the far antecedent.",
        like="A committee reading one letter: the lawyer reads it for clauses, the accountant for sums.",
    )
    X, WQ, WK, WV, WO = walk.given("multihead-fused-equals-per-head").tensors("X", "WQ", "WK", "WV", "WO")
    count = walk.given("multihead-fused-equals-per-head").get("h", int)
    q, k, v = (split_heads(linear(X, W), count) for W in (WQ, WK, WV))
    walk.show(q, (1, 0, 0))
    walk.claim("every number is still there", q.numel() == X.numel())

    walk.step(
        "Attend, each head by itself",
        "All heads run the same equation on their own pieces, side by side, without hearing each other.",
        like="Several conversations at one dinner, each audible only to its own end of the table.",
    )
    apart = attention(q, k, v)
    walk.show(apart)

    walk.step(
        "Join and mix",
        "The answers are laid end to end, which gives a row of the old width, and one more matrix mixes them. Without it "
        "the heads' findings would never meet.",
        like="The committee's chair turns five reports into one.",
    )
    joined = merge_heads(apart)
    output = linear(joined, WO)
    walk.show(joined)
    walk.show(output, (0, 0))
    walk.beside("multihead-fused-equals-per-head", output=output)
    size = X.shape[-1] // count
    pieces = [slice(i * size, (i + 1) * size) for i in range(count)]
    loop = [attention(linear(X, WQ[:, i]), linear(X, WK[:, i]), linear(X, WV[:, i])) for i in pieces]
    by_loop = linear(concat(loop), WO)
    walk.claim("head by head in a loop gives the same", float((by_loop - output).abs().max()) < 1e-12)

    walk.step(
        "What heads cost",
        "Splitting costs nothing: the matrices are as large with one head as with eight. Four of them, each as wide as "
        "the model squared.",
        like="Cutting a field into plots does not buy more land.",
    )
    given = walk.given("multihead-split-512-8")
    dim, many = given.get("d_model", int), given.get("h", int)
    total = attention_parameters(dim, many)
    walk.show(total)
    walk.beside("multihead-split-512-8", total=total, d_k=dim // many)
    walk.claim("one head would have as many", attention_parameters(dim, 1) == total)

    walk.step(
        "Two full-width heads",
        "A head need not be a fraction of the width. One source runs two heads of full width and needs a taller output "
        "matrix. It then shows the joined heads as if they were the result; the result is the product.",
        like="Two painters with a whole canvas each, and a frame that takes both.",
    )
    head_1, head_2 = walk.given("multihead-concat").tensors("head_1", "head_2")
    both = concat([head_1, head_2])
    walk.show(both, (0, 0), (0, 4))
    walk.beside("multihead-concat", concat=both)
    taken, W_O = walk.given("multihead-projection").tensors("concat", "W_O")
    mixed = linear(taken, W_O)
    walk.show(mixed, (0, 0))
    walk.beside("multihead-projection", M=mixed)
    walk.beside("multihead-final-output-main-text", output=linear(*walk.given("multihead-final-output-main-text").tensors("concat", "W_O")))

    walk.step(
        "An output matrix that says nothing",
        "The same source first fills the output matrix with one number. Then every column of the result is the same, "
        "and the norm that follows makes zeros of it.",
        like="A choir of one note.",
    )
    given = walk.given("multihead-wo-half")
    rows = given.tensor("concat")
    filled = linear(rows, torch.full((rows.shape[-1], rows.shape[-1] // 2), given.get("W_O_fill", float), dtype=torch.float64))
    walk.show(filled, (0, 0))
    walk.beside("multihead-wo-half", output=filled)
    walk.claim("its norm is nothing but zeros", float(normalized(filled, 1e-6).abs().max()) < 1e-6)

    width, n = 768, 12
    walk.ask(f"A model of width {width} has {n} heads. What shape have the queries of one sentence of five tokens, heads first?",
             lambda: tuple(split_heads(torch.zeros(5, width), n).shape), "Heads, tokens, width of a head.")
    walk.ask("How many weights has its attention, without shifts?", lambda: attention_parameters(width, n),
             "Four square matrices.", tolerance=0.5)
    row = walk.tensor([[1.0, 2.0, 3.0, 4.0]])
    walk.ask(f"The row {', '.join(map(number, row[0]))} is split into two heads. What is the first number of the second head?",
             lambda: split_heads(row, 2), "The second half of the row.", cell=(1, 0, 0))
