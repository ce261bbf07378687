"""Attention, forward and backward."""

from glassformer.arithmetic import number
from glassformer.equations.attention import attention, attention_scores, weighted_sum
from glassformer.equations.gradients import difference_quotient
from glassformer.equations.probability import softmax
from glassformer.equations.similarity import inner_product
from glassformer.lessons.walk import Walk, step


class AttentionWalk(Walk):
    """Queries meet keys, scores become shares, shares mix values; then the whole thing backward."""

    @step(
        "Ask, compare, mix",
        like="A librarian compares your question with the labels on the shelves and hands you a stack of books, most "
        "of it from the shelves that fit best.",
    )
    def ask_compare_mix(self) -> None:
        """Each token asks with a query, offers itself with a key and says something with a value. A query is compared
        with every key; the better the match, the larger the share of that token's value in the answer.
        """
        Q, K, V = self.given("toy-attention-weights-output").tensors("Q", "K", "V")
        raw = attention_scores(Q, K, scale=1.0)
        self.show(raw, (0, 0), (2, 2))
        self.beside("toy-attention-scores", QKt=raw)
        scores = attention_scores(Q, K)
        weights = softmax(scores)
        output = weighted_sum(weights, V)
        self.show(scores, (2, 2))
        self.show(weights, (0, 0))
        self.show(output, (0, 0), (1, 0))
        self.beside("toy-attention-weights-output", scaled=scores, weights=weights, output=output)
        self.same("every row of shares sums to one", weights.sum(-1), 1)
        self.same("the whole equation gives the same as its parts", attention(Q, K, V), output)

    @step(
        "By hand, with two tokens",
        like="Doing a sum in your head and rounding each part: the total is off by a little more than any part.",
    )
    def by_hand_with_two_tokens(self) -> None:
        """The second example is small enough for pencil and paper: two tokens, three numbers each. The source rounds
        on the way and carries the rounding along; the right numbers stand beside the printed ones.
        """
        self.Q, self.K, self.V = self.given("tiny-attention-weights").tensors("Q", "K", "V")
        self.scores = attention_scores(self.Q, self.K)
        self.weights = softmax(self.scores)
        self.output = weighted_sum(self.weights, self.V)
        self.show(self.scores, (0, 0), (0, 1))
        self.show(self.weights, (0, 0), (0, 1))
        self.show(self.output, (0, 0))
        self.beside("tiny-attention-scaled-scores", S=self.scores)
        self.beside("tiny-attention-weights", A=self.weights)
        self.beside("tiny-attention-output", O=self.output)

    @step(
        "Backward: the values",
        like="An author gets royalties from each reader in proportion to how much they read.",
    )
    def backward_the_values(self) -> None:
        """Say the loss pulls at the output. Each value is told what its readers felt, weighed by the shares they took
        of it: the same shares, the other way.
        """
        self.pull = self.given("tiny-attention-dV").tensor("G_O")
        self.found = self.back(self.output, self.pull)
        self.table(("the pull on the output", ""), [(f"token {i}", row) for i, row in enumerate(self.pull)])
        self.show_gradient(self.found, self.V, "∂L/∂V")
        self.beside("tiny-attention-dV", dV=self.found[self.V])

    @step(
        "Backward: the shares, the scores",
        like="In a fixed budget every department asks for more; what counts is who asks better than the rest.",
    )
    def backward_the_shares_the_scores(self) -> None:
        """A share is told how useful its value was. Softmax passes on only how much more useful than the average of
        its row, since shares must sum to one: to give one more is to give the others less.
        """
        self.show_gradient(self.found, self.weights, "∂L/∂A")
        self.show_gradient(self.found, self.scores, "∂L/∂S")
        self.same("each row of the scores' gradient sums to zero", self.found[self.scores].sum(-1), 0.0)

    @step(
        "Backward: queries and keys",
        like="Two people who missed each other in a crowd each take a step towards where the other stood.",
    )
    def backward_queries_and_keys(self) -> None:
        """A query is pulled towards the keys it should have listened to more; a key towards the queries that should
        have listened to it.
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
        for name, tensor in (("Q", self.Q), ("K", self.K), ("V", self.V)):
            self.claim(f"the gradient of {name} has the shape of {name}", self.found[tensor].shape == tensor.shape)

    @step("Checked by nudging", like="Trust the map, and still look out of the window once.")
    def checked_by_nudging(self) -> None:
        """One entry of the queries is moved a little, and the whole is run again. The pulled output changes as the
        gradient promised.
        """
        nudge, nudged = 1e-6, self.Q.clone()
        nudged[0, 0] += nudge
        here = inner_product(self.output.flatten(), self.pull.flatten())
        there = inner_product(attention(nudged, self.K, self.V).flatten(), self.pull.flatten())
        measured = difference_quotient(there, here, nudge)
        self.show(measured)
        self.say(f"Measured {number(measured)}, by the rule {number(self.found[self.Q][0, 0])}.")
        self.same("they agree", measured, self.found[self.Q][0, 0], within=1e-05)

    def quiz(self) -> None:
        """Questions on it."""
        q, k = self.tensor([[1.0, 1.0, 0.0, 0.0]]), self.tensor([[2.0, 0.0, 1.0, 0.0]])
        self.ask(
            f"A query ({', '.join(map(number, q[0]))}) and a key ({', '.join(map(number, k[0]))}): what is the "
            "scaled score?",
            lambda: attention_scores(q, k),
            "The inner product divided by the root of four.",
            cell=(0, 0),
        )
        shares, values = self.tensor([[0.25, 0.75]]), self.tensor([[4.0], [8.0]])
        self.ask(
            f"Shares {number(shares[0, 0])} and {number(shares[0, 1])} of the values {number(values[0, 0])} and "
            f"{number(values[1, 0])}: what comes out?",
            lambda: weighted_sum(shares, values),
            "Each value times its share, added up.",
            cell=(0, 0),
        )
        self.ask(
            f"V has shape {self.V.shape[0]}×{self.V.shape[1]}. What shape has its gradient?",
            lambda: tuple(self.V.shape),
            "Its own shape.",
        )
