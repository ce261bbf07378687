"""Softmax and cross-entropy: mat, hat, bat or rat?"""

import math

from glassformer.arithmetic import number
from glassformer.equations.algebra import line, linear, scale
from glassformer.equations.losses import cross_entropy, perplexity
from glassformer.equations.optimizers import gradient_descent
from glassformer.equations.probability import (
    cross_entropy_between,
    entropy,
    kl_divergence,
    log_softmax,
    softmax,
    softmax_jacobian,
)
from glassformer.lessons.walk import Walk, step

WORDS = ("mat", "hat", "bat", "rat")


class SoftmaxWalk(Walk):
    """Scores become shares, a share becomes a surprise, and the surprise says how the scores should change."""

    @step(
        "Scores become shares",
        like="A pie cut by applause: louder clapping earns a larger piece, but there is only one pie.",
    )
    def scores_become_shares(self) -> None:
        """A network ends in scores of any size and sign. Softmax raises e to each and divides by the sum, so that the
        best score gets most, none gets less than nothing, and all shares sum to one.
        """
        x = self.given("softmax-2-1-02").tensor("x")
        p = softmax(x)
        self.show(p, (0,))
        self.beside("softmax-2-1-02", softmax=p, sum=p.sum())
        self.claim("the order is kept", p.argsort().tolist() == x.argsort().tolist())

    @step(
        "Only differences count",
        like="A race is decided by the gaps between runners, not by the hour it starts; stretch the gaps and the "
        "photograph of the finish gets clearer.",
    )
    def only_differences_count(self) -> None:
        """Add the same number to every score and nothing changes; that is why the largest can be taken off first, so
        that e is never raised to anything huge. Multiply every score, and the winner takes more.
        """
        given = self.given("softmax-invariances")
        z = given.tensor("z")
        shifted = softmax(line(z, 1.0, given.get("shift", float)))
        sharper = softmax(scale(z, given.get("scale", float)))
        self.table(
            ("", *(f"score {number(s)}" for s in z)),
            [("as it is", *softmax(z)), ("shifted", *shifted), ("scaled", *sharper)],
        )
        self.beside("softmax-invariances", base=softmax(z), shifted=shifted, scaled=sharper)

    @step(
        "Surprise",
        like="Being told that the sun rose surprises nobody; being told that it did not would fill the papers.",
    )
    def surprise(self) -> None:
        """The cat sat on the … Four words to choose from, and the right one is known. The loss is minus the logarithm
        of the share that the right word got: little if it got much, a lot if it got little.
        """
        self.y, self.good = self.given("cross-entropy-good").tensors("y", "p")
        self.bad = self.given("cross-entropy-bad").tensor("p")
        well, badly = cross_entropy_between(self.y, self.good), cross_entropy_between(self.y, self.bad)
        self.show(well)
        self.show(badly)
        self.beside("cross-entropy-good", loss=well)
        self.beside("cross-entropy-bad", loss=badly)

    @step(
        "What the scores are told",
        like="A teacher hands back marks: so much too little here, so much too much there, and the sum is square.",
    )
    def what_the_scores_are_told(self) -> None:
        """The way back is as simple as it gets: with respect to the scores, the gradient is the shares less the truth.
        The right word is told to rise by what it lacks, each wrong one to fall by what it has. Together they
        cancel.
        """
        self.logits = self.bad.log()
        self.loss = cross_entropy(self.logits, self.y)
        self.found = self.back(self.loss)
        self.show(self.loss)
        self.show_gradient(self.found, self.logits, "∂L/∂z", columns=WORDS)
        self.beside("gradient-p-minus-y", gradient=self.found[self.logits])
        self.same("the gradient sums to zero", self.found[self.logits].sum(), 0.0)
        jacobian = softmax_jacobian(self.good)
        self.show(jacobian, (0, 0), (0, 1), rows=WORDS, columns=WORDS)
        self.same("each row of the Jacobian sums to zero", jacobian.sum(-1), 0.0)

    @step("One step, taken rightly", like="Turn the tap, not the puddle.")
    def one_step_taken_rightly(self) -> None:
        """The step goes to the scores, and the shares are computed anew. One source subtracts the step from the shares
        themselves; shares are not what the gradient was for.
        """
        rate = self.given("probabilities-after-update").get("alpha", float)
        new = gradient_descent(self.logits, self.found[self.logits], rate)
        after, less = softmax(new), cross_entropy(new, self.y)
        self.show(new, (0,), (3,), columns=WORDS)
        self.show(after, (0,), columns=WORDS)
        self.beside("probabilities-after-update", Z_new=new, p_new=after, loss_new=less)
        self.claim(f"the loss falls from {number(self.loss)} to {number(less)}", less < self.loss)

    @step("Two thousand steps", like="Filling a bottle: the nearer the rim, the gentler the tap.")
    def two_thousand_steps(self) -> None:
        """The same step again and again. The right word's share climbs fast at first and then ever more slowly, since
        the gradient shrinks as the share nears one. In print the run starts from the shares as if they were scores.
        """
        first, last = self.worked("softmax-gd-iteration-0"), self.worked("softmax-gd-final")
        self.table(
            ("share of", *WORDS),
            [
                ("before the first step", *first.get("probabilities", list[float])),
                ("after the last step", *last.get("probabilities", list[float])),
            ],
        )
        self.beside("softmax-gd-final", probabilities=last.get("probabilities", list[float]))

    @step(
        "From scores to weights",
        like="The blame for a wrong total goes to each price in proportion to how many were bought.",
    )
    def from_scores_to_weights(self) -> None:
        """Scores are not parameters; the matrix that made them is. Its gradient is each input times each entry of
        shares less truth.
        """
        h, p, y = self.given("weight-update-symbol").tensors("h", "p", "y")
        W = (h[:, None] * p.log()) / (h @ h)
        scores = linear(h, W)
        back = self.back(cross_entropy(scores, y))
        self.show_gradient(back, W, "∂L/∂W", columns=WORDS)
        self.beside("weight-update-symbol", dW=back[W])

    @step(
        "What the number means",
        like="A taxi fare: part is the distance, which every driver must charge, and part is the detour.",
    )
    def what_the_number_means(self) -> None:
        """Cross-entropy is what believing q costs while p is true. Part of it nobody could save, the entropy of p; the
        rest, the divergence, is the price of the wrong belief. Its exponential, the perplexity, says among how many
        equally likely words the model seems to choose.
        """
        p, q = self.given("cross-entropy-extra-bits-claim").tensors("p", "q")
        both, own, extra = cross_entropy_between(p, q), entropy(p), kl_divergence(p, q)
        self.table(("in nats", ""), [("cross-entropy", both), ("entropy", own), ("divergence", extra)])
        self.claim("cross-entropy is entropy and divergence together", math.isclose(both, own + extra))
        right = self.given("perplexity-example").tensor("token_probabilities")
        among = perplexity(right.log())
        self.show(among)
        self.beside("perplexity-example", perplexity=among)

    def quiz(self) -> None:
        """Questions on it."""
        two = self.tensor([1.0, 0.0])
        self.ask(
            f"Scores {number(two[0])} and {number(two[1])}: what share has the first?",
            lambda: softmax(two),
            "e divided by e plus one.",
            cell=(0,),
        )
        self.ask(
            "If the right word has that share, what is the loss?",
            lambda: cross_entropy(two, self.tensor([1.0, 0.0])),
            "Minus the natural logarithm of the share.",
        )
        self.ask(
            "And what is the gradient of the first score?",
            lambda: line(softmax(two), 1.0, -1.0),
            "The share less the truth, which is one.",
            cell=(0,),
        )
        even = self.tensor([1.0] * 8)
        self.ask(
            f"What is the perplexity of a model that thinks {len(even)} words equally likely?",
            lambda: perplexity(log_softmax(even)),
            "Among how many does it choose?",
        )
