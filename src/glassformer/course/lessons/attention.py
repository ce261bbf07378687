"""Attention, forward and backward."""

from torch import Tensor

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.attention import attention, attention_scores, weighted_sum
from glassformer.equations.matrices import transpose
from glassformer.equations.optimizers import gradient_descent
from glassformer.equations.similarity import inner_product
from glassformer.equations.softmax import softmax


class AttentionWalk(Walk):
    """Queries meet keys, scores become attention weights, weights mix values; then the whole thing backward."""

    @step(
        "Ask, compare, mix",
        like="A librarian compares your question with the labels on the shelves and hands you a stack of books, most "
        "of it from the shelves that fit best.",
    )
    def ask_compare_mix(self) -> None:
        """Each token asks with a query, offers itself with a key and answers with a value. A query is compared with
        every key; the better the match, the larger the attention weight of that token's value in the output.
        """
        Q, K, V = self.given("toy-attention-weights-output").tensors("Q", "K", "V")
        raw = attention_scores(Q, K, scale=1.0)
        queries, keys = self.index_labels(query=len(Q)), self.index_labels(key=len(K))
        self.show(raw, (0, 0), (2, 2), rows=queries, columns=keys)
        self.beside("toy-attention-scores", QKt=raw)
        scores = attention_scores(Q, K)
        weights = softmax(scores)
        output = weighted_sum(weights, V)
        self.show(scores, (2, 2), rows=queries, columns=keys)
        self.show(weights, (0, 0), rows=queries, columns=keys)
        self.show(output, (0, 0), (1, 0), rows=queries)
        self.beside("toy-attention-weights-output", scaled=scores, weights=weights, output=output)
        better = scores[:, :, None] > scores[:, None, :]
        self.claim("a better match has a larger weight", (weights[:, :, None] > weights[:, None, :])[better].all())
        self.same("the weights of every query sum to one", weights.sum(-1), 1)
        self.same("the whole equation gives the same as its parts", attention(Q, K, V), output)

    @step(
        "By hand, with two tokens",
        like="Doing a sum in your head and rounding each part: the total is off by a little more than any part.",
    )
    def by_hand_with_two_tokens(self) -> None:
        """The second example is small enough for pencil and paper: two tokens, three numbers each. The source rounds
        the weights and carries the rounding into the output; the right numbers stand beside the printed ones.
        """
        given, final = self.given("tiny-attention-weights"), self.given("tiny-attention-output")
        self.Q, self.K, self.V = given.tensors("Q", "K", "V")
        self.scores = attention_scores(self.Q, self.K)
        self.weights = softmax(self.scores)
        self.output = weighted_sum(self.weights, self.V)
        self.show(self.scores, (0, 0), (0, 1))
        self.show(self.weights, (0, 0), (0, 1))
        self.show(self.output, (0, 0))
        self.beside("tiny-attention-scaled-scores", S=self.scores)
        self.beside("tiny-attention-weights", A=self.weights)
        self.beside("tiny-attention-output", O=self.output)
        self.claim("two tokens, three numbers each", self.Q.shape == self.K.shape == self.V.shape == (2, 3))
        rounded = self.tensor(given.fact("A", list[list[float]]))
        carried = self.tensor(final.fact("O", list[list[float]]))
        self.same("the rounded weights give the printed output", weighted_sum(rounded, final.tensor("V")), carried)

    @step(
        "Backward: the values",
        like="An author gets royalties from each reader in proportion to how much they read.",
    )
    def backward_the_values(self) -> None:
        """Say the loss sends back a gradient to the output. Each value receives the gradients of the outputs that used
        it, weighted by how much they used it: the same attention weights, the other way.
        """
        self.pull = self.given("tiny-attention-dV").tensor("G_O")
        self.found = self.back(self.output, self.pull)
        self.table(("gradient of the output", ""), [(f"token {i}", row) for i, row in enumerate(self.pull)])
        self.show_gradient(self.found, self.V, "∂L/∂V")
        self.beside("tiny-attention-dV", dV=self.found[self.V])
        back = weighted_sum(transpose(self.weights), self.pull)
        self.same("the weights, transposed, carry it back", self.found[self.V], back)

    @step(
        "Backward: the weights, the scores",
        like="In a fixed budget every department asks for more; what counts is who asks better than the rest.",
    )
    def backward_the_weights_the_scores(self) -> None:
        """The gradient of a weight says how the loss changes with the part its value plays. Softmax passes on only the
        difference from the average of its row, since weights must sum to one: more for one is less for the others.
        """
        self.show_gradient(self.found, self.weights, "∂L/∂A")
        self.show_gradient(self.found, self.scores, "∂L/∂S")
        felt = self.found[self.weights]
        average = (self.weights * felt).sum(-1, keepdim=True)
        self.same(
            "softmax passes on the difference from the average",
            self.found[self.scores],
            self.weights * (felt - average),
        )
        self.same("each row of the scores' gradient sums to zero", self.found[self.scores].sum(-1), 0.0)

    @step(
        "Backward: queries and keys",
        like="Two people who missed each other in a crowd each take a step toward where the other stood.",
    )
    def backward_queries_and_keys(self) -> None:
        """The gradient of a query is a mix of the keys, weighted by the gradients of its scores; the gradient of a key
        is a mix of the queries. A step against it moves a query toward the keys it should attend to more.
        """
        self.show_gradient(self.found, self.Q, "∂L/∂Q")
        self.show_gradient(self.found, self.K, "∂L/∂K")
        self.beside(
            "tiny-attention-dQ-dK",
            dP=self.found[self.weights],
            dS=self.found[self.scores],
            dQ=self.found[self.Q],
            dK=self.found[self.K],
        )
        stepped = gradient_descent(self.Q, self.found[self.Q], 0.1)
        gained = softmax(attention_scores(stepped, self.K)) - self.weights
        wanted = -self.found[self.scores].sign()
        self.claim("after a step each weight rises where the loss falls with it", (gained.sign() == wanted).all())
        for name, tensor in (("Q", self.Q), ("K", self.K), ("V", self.V)):
            self.claim(f"the gradient of {name} has the shape of {name}", self.found[tensor].shape == tensor.shape)

    @step("Checked by nudging", like="Trust the map, and still look out of the window once.")
    def checked_by_nudging(self) -> None:
        """Move one entry of the queries a little, the one with the largest gradient, and run attention again. The
        loss, here the output weighted by its gradient, changes as the gradient of Q promised.
        """

        def loss(queries: Tensor) -> Tensor:
            return inner_product(attention(queries, self.K, self.V).flatten(), self.pull.flatten())

        measured = self.check_gradient("Q", loss, self.Q, self.found[self.Q])
        self.less("the gradient checked is not zero", 0.1, measured.abs())

    def quiz(self) -> None:
        """Questions on it."""
        q, k = self.tensor([[1.0, 1.0, 0.0, 0.0]]), self.tensor([[2.0, 0.0, 1.0, 0.0]])
        self.ask(
            f"A query ({', '.join(map(number, q[0]))}) and a key ({', '.join(map(number, k[0]))}): what is the "
            "scaled score?",
            lambda: attention_scores(q, k),
            "The inner product, divided by the square root of the width.",
            cell=(0, 0),
        )
        weights, values = self.tensor([[0.25, 0.75]]), self.tensor([[4.0], [8.0]])
        self.ask(
            f"Attention weights {number(weights[0, 0])} and {number(weights[0, 1])}, values {number(values[0, 0])} and "
            f"{number(values[1, 0])}: what is the output?",
            lambda: weighted_sum(weights, values),
            "A weighted average of the values.",
            cell=(0, 0),
        )
        self.ask(
            f"V has shape {self.V.shape[0]}×{self.V.shape[1]}. What is the shape of its gradient?",
            lambda: tuple(self.V.shape),
            "Every number of V has one gradient.",
        )
