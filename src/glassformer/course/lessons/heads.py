"""Heads: several views of one sentence."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.course.worked.geometry import normalized
from glassformer.equations.algebra import linear
from glassformer.equations.attention import attention
from glassformer.equations.heads import merge_heads, split_heads
from glassformer.equations.parameter_counts import attention_parameters
from glassformer.equations.sequences import concat


class HeadsWalk(Walk):
    """Project, split into heads, let each head attend by itself, concatenate the outputs and mix them."""

    @step(
        "Project and split",
        like="A committee reading one letter: the lawyer reads it for clauses, the accountant for sums.",
    )
    def cut(self) -> None:
        """The input X is projected to queries, keys and values, as before. Then each projected vector, not X itself,
        is split into equal pieces, one for each head. Each head compares in a smaller space and can look for something
        different: the verb, the neighbor, the far antecedent.
        """
        self.X, self.WQ, self.WK, self.WV, self.WO = self.given("multihead-fused-equals-per-head").tensors(
            "X", "WQ", "WK", "WV", "WO"
        )
        self.count = self.given("multihead-fused-equals-per-head").get("h", int)
        queries = linear(self.X, self.WQ)
        self.show(queries, (0, 0))
        self.q = split_heads(queries, self.count)
        self.k, self.v = (split_heads(linear(self.X, W), self.count) for W in (self.WK, self.WV))
        self.by_head = self.index_labels(head=self.count, query=len(self.X))
        self.show(self.q, (1, 0, 0), rows=self.by_head)
        self.same(
            "end to end, the heads' queries are the projected vectors again", concat(list(self.q)), queries, within=0.0
        )

    @step(
        "Attend, each head by itself",
        like="Several conversations at one dinner, each audible only to its own end of the table.",
    )
    def attend_each_head_by_itself(self) -> None:
        """All heads run the same equation on their own pieces, side by side. No head sees another."""
        self.apart = attention(self.q, self.k, self.v)
        self.show(self.apart, rows=self.by_head)
        sent = torch.zeros_like(self.apart)
        sent[0] = 1.0
        found = self.back(self.apart, sent)
        others = torch.cat([found[tensor][1:] for tensor in (self.q, self.k, self.v)])
        self.same("the first head's output sends no gradient to another head", others, 0.0, within=0.0)

    @step("Concatenate and mix", like="The committee's chair turns all the reports into one.")
    def join_and_mix(self) -> None:
        """The outputs are concatenated, which gives the width of the model again, and the output projection mixes
        them: what different heads found meets there.
        """
        joined = merge_heads(self.apart)
        output = linear(joined, self.WO)
        self.show(joined)
        self.show(output, (0, 0))
        self.beside("multihead-fused-equals-per-head", output=output)
        size = self.X.shape[-1] // self.count
        pieces = [slice(i * size, (i + 1) * size) for i in range(self.count)]
        loop = [
            attention(linear(self.X, self.WQ[:, i]), linear(self.X, self.WK[:, i]), linear(self.X, self.WV[:, i]))
            for i in pieces
        ]
        by_loop = linear(concat(loop), self.WO)
        self.same("head by head in a loop gives the same", by_loop, output)
        self.claim("the width is that of the model again", joined.shape == self.X.shape)
        sent = torch.zeros_like(output)
        sent[0, 0] = 1.0
        reached = self.back(output, sent)[self.apart].abs().amax((1, 2))
        self.claim("a single number of the result depends on every head", (reached > 0).all())

    @step("What heads cost", like="Dividing a field into plots does not take more land.")
    def what_heads_cost(self) -> None:
        """Splitting adds no weights: the matrices are as large with one head as with many. There are four of them,
        for queries, keys, values and output, each a square as wide as the model.
        """
        given = self.given("multihead-split-512-8")
        dim, many = given.get("d_model", int), given.get("h", int)
        total = attention_parameters(dim, many)
        self.show(total)
        self.beside("multihead-split-512-8", total=total, d_k=dim // many)
        self.claim(f"four squares of width {dim} have as many weights", total == 4 * dim * dim)
        self.claim(f"one head would have as many as {many} heads", attention_parameters(dim, 1) == total)

    @step("Two full-width heads", like="Two painters with a whole canvas each, and a frame that takes both.")
    def two_full_width_heads(self) -> None:
        """A head need not be a fraction of the width. One source runs two heads of full width, so its output matrix
        has twice as many rows as columns. It then shows the concatenated heads as if they were the result; the result
        is their product with that matrix.
        """
        head_1, head_2 = self.given("multihead-concat").tensors("head_1", "head_2")
        both = concat([head_1, head_2])
        self.show(both, (0, 0), (0, 4))
        self.beside("multihead-concat", concat=both)
        taken, W_O = self.given("multihead-projection").tensors("concat", "W_O")
        mixed = linear(taken, W_O)
        self.show(mixed, (0, 0))
        self.beside("multihead-projection", M=mixed)
        self.claim("the output matrix has twice as many rows as columns", W_O.shape[0] == 2 * W_O.shape[1])
        given = self.given("multihead-final-output-main-text")
        self.beside("multihead-final-output-main-text", output=linear(*given.tensors("concat", "W_O")))
        shown = self.tensor(given.fact("output", list[list[float]]))
        self.same("what is printed is the concatenated heads", shown, both, within=1e-8)

    @step("An output matrix that says nothing", like="A choir of one note.")
    def an_output_matrix_that_says(self) -> None:
        """The same source first fills the output matrix with one number. Then every column of the result is the same,
        and the layer norm that follows turns it into zeros.
        """
        given = self.given("multihead-wo-half")
        rows = given.tensor("concat")
        filled = linear(
            rows, torch.full((rows.shape[-1], rows.shape[-1] // 2), given.get("W_O_fill", float), dtype=torch.float64)
        )
        self.show(filled, (0, 0))
        self.beside("multihead-wo-half", output=filled)
        self.same("all columns are the same", filled, filled[:, :1])
        self.same("its layer norm is zero everywhere", normalized(filled, 1e-6), 0.0, within=1e-06)

    def quiz(self) -> None:
        """Questions on it."""
        width, n = 768, 12
        self.ask(
            f"A model of width {width} has {n} heads. What is the shape of the queries of one sentence of five "
            "tokens, heads first?",
            lambda: tuple(split_heads(torch.zeros(5, width), n).shape),
            "Heads, then tokens, then the width of one head. How wide is that?",
        )
        self.ask(
            "How many weights does its attention have, without biases?",
            lambda: attention_parameters(width, n),
            "How many matrices are there, and how large is each?",
            tolerance=0.5,
        )
        row = self.tensor([[1.0, 2.0, 3.0, 4.0]])
        self.ask(
            f"The query ({', '.join(map(number, row[0]))}) is split into two heads. What is the first number of "
            "the second head?",
            lambda: split_heads(row, 2),
            "Each head takes one contiguous piece.",
            cell=(1, 0, 0),
        )
