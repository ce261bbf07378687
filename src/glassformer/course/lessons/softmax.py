"""Softmax and cross-entropy: mat, hat, bat or rat?"""

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equation import no_checks
from glassformer.equations.algebra import linear, scale
from glassformer.equations.gradients import line
from glassformer.equations.information import cross_entropy_between, entropy, kl_divergence, softmax_jacobian
from glassformer.equations.losses import cross_entropy, perplexity
from glassformer.equations.optimizers import gradient_descent
from glassformer.equations.softmax import log_softmax, softmax
from glassformer.recording import Tape

WORDS = ("mat", "hat", "bat", "rat")


class SoftmaxWalk(Walk):
    """Logits become probabilities, a probability becomes a loss, and the loss says how the logits should change."""

    @step(
        "Logits become probabilities",
        like="A pie cut by applause: louder clapping earns a larger piece, but there is only one pie.",
    )
    def scores_become_shares(self) -> None:
        """A network ends in logits: scores of any size and sign. Softmax raises e to each and divides by the sum, so
        that the largest logit gets the largest probability, none is negative, and all of them sum to one.
        """
        x = self.given("softmax-2-1-02").tensor("x")
        p = softmax(x)
        self.show(p, (0,))
        self.beside("softmax-2-1-02", softmax=p, sum=p.sum())
        self.claim("a larger logit has a larger probability", p.argsort().tolist() == x.argsort().tolist())
        self.claim("no probability is negative", (p > 0).all())
        self.same("the probabilities sum to one", p.sum(), 1.0)

    @step(
        "Only differences count",
        like="A race is decided by the gaps between runners, not by the hour it starts; stretch the gaps and the "
        "photograph of the finish gets clearer.",
    )
    def only_differences_count(self) -> None:
        """Add the same number to every logit and nothing changes; that is why the largest can be subtracted first, so
        that e is never raised to anything huge. Multiply every logit by a number above one, and the winner takes more.
        """
        given = self.given("softmax-invariances")
        z = given.tensor("z")
        shifted = softmax(line(z, 1.0, given.get("shift", float)))
        sharper = softmax(scale(z, given.get("scale", float)))
        self.table(
            ("logits", *(number(logit) for logit in z)),
            [("as they are", *softmax(z)), ("shifted", *shifted), ("scaled", *sharper)],
        )
        self.beside("softmax-invariances", base=softmax(z), shifted=shifted, scaled=sharper)
        self.same("a shift changes nothing", shifted, softmax(z))
        huge = line(z, 1.0, 1000.0)
        self.claim(f"e to the power {number(huge.max())} overflows", huge.max().exp().isinf())
        self.same("with the largest logit subtracted first, softmax still gives the same", softmax(huge), softmax(z))
        self.less("scaled up, the winner takes more", softmax(z).max(), sharper.max())

    @step(
        "Surprise",
        like="Being told that the sun rose surprises nobody; being told that it did not would fill the papers.",
    )
    def surprise(self) -> None:
        """The cat sat on the … Four words to choose from, and the right one is known. The loss is minus the logarithm
        of the probability that the right word got: small if it got much, large if it got little.
        """
        self.y, self.good = self.given("cross-entropy-good").tensors("y", "p")
        self.bad = self.given("cross-entropy-bad").tensor("p")
        well, badly = cross_entropy_between(self.y, self.good), cross_entropy_between(self.y, self.bad)
        self.show(well)
        self.show(badly)
        self.beside("cross-entropy-good", loss=well)
        self.beside("cross-entropy-bad", loss=badly)
        self.less(
            f"{WORDS[0]} with probability {number(self.good[0])} costs less than with {number(self.bad[0])}",
            well,
            badly,
        )

    @step(
        "The gradient of the logits",
        like="A scale out of balance: what one pan lacks is exactly what the others have too much of.",
    )
    def what_the_scores_are_told(self) -> None:
        """The gradient with respect to the logits is as simple as it gets: the probabilities minus the targets. The
        right word is told to rise by what it lacks, each wrong one to fall by what it has. Together they cancel.
        """
        self.logits = self.bad.log()
        self.loss = cross_entropy(self.logits, self.y)
        self.found = self.back(self.loss)
        self.show(self.loss)
        self.show_gradient(self.found, self.logits, "∂L/∂z", columns=WORDS)
        self.beside("gradient-p-minus-y", gradient=self.found[self.logits])
        self.same("it is the probabilities minus the targets", self.found[self.logits], self.bad - self.y)
        self.same("the gradient sums to zero", self.found[self.logits].sum(), 0.0)
        jacobian = softmax_jacobian(self.good)
        self.show(jacobian, (0, 0), (0, 1), rows=WORDS, columns=WORDS)
        self.same("each row of the Jacobian sums to zero", jacobian.sum(-1), 0.0)

    @step("One step, on the logits", like="Turn the faucet, not the puddle.")
    def one_step_taken_rightly(self) -> None:
        """The step changes the logits, and the probabilities are computed again. One source subtracts the step from
        the probabilities themselves, but it is not their gradient.
        """
        given = self.given("probabilities-after-update")
        rate = given.get("alpha", float)
        new = gradient_descent(self.logits, self.found[self.logits], rate)
        after, less = softmax(new), cross_entropy(new, self.y)
        self.show(new, (0,), (3,), columns=WORDS)
        self.show(after, (0,), columns=WORDS)
        self.beside("probabilities-after-update", Z_new=new, p_new=after, loss_new=less)
        self.claim(f"the loss falls from {number(self.loss)} to {number(less)}", less < self.loss)
        printed = self.tensor(given.fact("p_new", list[float]))
        wrong = gradient_descent(self.bad, self.found[self.logits], rate)
        self.same("the printed numbers are the step subtracted from the probabilities", wrong, printed)

    @step("Two thousand steps", like="Filling a bottle: the closer to the rim, the gentler the faucet.")
    def two_thousand_steps(self) -> None:
        """The same step again and again. The right word's probability climbs fast at first and slowly at the end,
        since the gradient shrinks as it approaches one. The printed run starts from the probabilities as if they were
        logits.
        """
        given = self.given("softmax-gd-final")
        z, rate, count = given.tensor("weights0"), given.get("learning_rate", float), given.get("iterations", int)
        path = [softmax(z)]
        with no_checks(), Tape():
            for _ in range(count):
                z = gradient_descent(z, path[-1] - self.y, rate)
                path.append(softmax(z))
        self.table(
            ("after step", *WORDS),
            [(i, *path[i]) for i in (0, count // 8, count // 4, count // 2, 3 * count // 4, count)],
        )
        self.same("the first probabilities are those of the printed ones taken as logits", path[0], softmax(self.bad))
        self.claim(f"after {count} steps {WORDS[0]} leads", path[-1].argmax() == 0 and count == 2000)
        gained = [float(path[i + count // 4][0] - path[i][0]) for i in range(0, count, count // 4)]
        self.claim("each quarter of the run gains less than the one before", gained == sorted(gained, reverse=True))
        self.less("the gradient shrinks", (path[-1] - self.y).abs().max(), (path[0] - self.y).abs().max())
        self.beside("softmax-gd-final", probabilities=path[-1])

    @step(
        "From logits to weights",
        like="The blame for a wrong total goes to each price in proportion to how many were bought.",
    )
    def from_scores_to_weights(self) -> None:
        """Logits are not parameters; the matrix that made them is. Its gradient is each input times each entry of
        probabilities minus targets.
        """
        h, p, y = self.given("weight-update-symbol").tensors("h", "p", "y")
        W = (h[:, None] * p.log()) / (h @ h)
        logits = linear(h, W)
        back = self.back(cross_entropy(logits, y))
        self.show_gradient(back, W, "∂L/∂W", columns=WORDS)
        self.same("each entry is an input times an entry of probabilities minus targets", back[W], h[:, None] * (p - y))
        self.beside("weight-update-symbol", dW=back[W])

    @step(
        "What the number means",
        like="A taxi fare: part is the distance, which every driver must charge, and part is the detour.",
    )
    def what_the_number_means(self) -> None:
        """Cross-entropy is the mean surprise of someone who believes q while p is true. Part of it nobody could avoid,
        the entropy of p; the rest, the KL divergence, is the price of the wrong belief. The exponential of a language
        model's cross-entropy, its perplexity, says among how many equally likely words the model seems to choose.
        """
        p, q = self.given("cross-entropy-extra-bits-claim").tensors("p", "q")
        both, own, extra = cross_entropy_between(p, q), entropy(p), kl_divergence(p, q)
        self.table(("in nats", ""), [("cross-entropy", both), ("entropy", own), ("KL divergence", extra)])
        self.same("cross-entropy is entropy plus divergence", both, own + extra)
        self.same("believing p itself costs the entropy alone", cross_entropy_between(p, p), own)
        right = self.given("perplexity-example").tensor("token_probabilities")
        among = perplexity(right.log())
        self.show(among)
        self.beside("perplexity-example", perplexity=among)
        self.same("perplexity is e to the mean surprise", among, (-right.log().mean()).exp())

    def quiz(self) -> None:
        """Questions on it."""
        two = self.tensor([1.0, 0.0])
        self.ask(
            f"Logits {number(two[0])} and {number(two[1])}: what is the probability of the first?",
            lambda: softmax(two),
            "Raise e to each logit, then divide by the sum of both.",
            cell=(0,),
        )
        self.ask(
            "If the right word has that probability, what is the loss?",
            lambda: cross_entropy(two, self.tensor([1.0, 0.0])),
            "The less likely the right word was, the larger the loss: which function does that?",
        )
        self.ask(
            "And what is the gradient of the first logit?",
            lambda: line(softmax(two), 1.0, -1.0),
            "Its probability minus its target. What is the target of the right word?",
            cell=(0,),
        )
        even = self.tensor([1.0] * 8)
        self.ask(
            f"What is the perplexity of a model that thinks {len(even)} words equally likely?",
            lambda: perplexity(log_softmax(even)),
            "What probability does each word get, and what is e to the surprise at it?",
        )
