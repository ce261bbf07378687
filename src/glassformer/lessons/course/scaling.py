"""Why scores are divided by the root of the width."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.attention import attention_scores
from glassformer.equations.probability import softmax
from glassformer.equations.similarity import score_variance
from glassformer.lessons.walk import Walk, step


class ScalingWalk(Walk):
    """Wide heads make large scores, large scores make deaf softmax; a division keeps it listening."""

    @step(
        "Scores spread with the width",
        like="A drunkard's walk: after a hundred steps he is some ten steps from the lamp post.",
    )
    def scores_spread_with_the_width(self) -> None:
        """A score is a sum of as many products as the head is wide. Each product is as likely to push up as down, so
        the sum wanders: its variance grows with the number of terms, its typical size with the root of it.
        """
        given = self.given("qk-variance-zero-mean")
        self.widths, sigmas = given.get("d_k", list[int]), given.get("sigma", list[float])
        variances = [score_variance(width, sigma) for width, sigma in zip(self.widths, sigmas, strict=True)]
        self.show(variances[0])
        self.beside("qk-variance-zero-mean", variance=variances)
        self.random, measured = torch.Generator().manual_seed(0), []
        for width, sigma in zip(self.widths, sigmas, strict=True):
            q, k = sigma * torch.randn(2, 256, width, generator=self.random, dtype=torch.float64)
            measured.append(attention_scores(q, k, scale=1.0).var())
        self.table(("width", "variance by the formula", "measured"), zip(self.widths, variances, measured, strict=True))
        for spread, variance in zip(measured, variances, strict=True):
            self.same(f"{number(spread)} is within a tenth of {number(variance)}", spread / variance, 1.0, within=0.1)

    @step(
        "Divide, and the spread is one",
        like="Quoting a club's finances per member: large and small clubs become comparable.",
    )
    def divide_and_the_spread(self) -> None:
        """Dividing each score by the root of the width divides the variance by the width. Whatever the width, scores
        then spread about as far as a single product did.
        """
        scaled = []
        for width in self.widths:
            q, k = torch.randn(2, 256, width, generator=self.random, dtype=torch.float64)
            scaled.append(attention_scores(q, k).var())
        self.table(("width", "variance of scaled scores"), zip(self.widths, scaled, strict=True))
        self.same("all are near one", torch.stack(scaled), 1.0, within=0.25)

    @step(
        "What large scores do to softmax",
        like="A room where one person shouts: it hardly matters what the others have to say.",
    )
    def what_large_scores_do(self) -> None:
        """Softmax lives on differences. When scores lie far apart one share is nearly one and the rest nearly nothing:
        each query listens to a single token, whether it deserves it or not.
        """
        answer = self.worked("unscaled-softmax-saturates")
        unscaled, scaled = (answer.get(f"mean_max_weight_{kind}", list[float]) for kind in ("unscaled", "scaled"))
        sizes = self.given("unscaled-softmax-saturates").get("d_k", list[int])
        self.table(
            ("width", "largest share, unscaled", "scaled"),
            zip(sizes, unscaled, scaled, strict=True),
        )
        self.plot(
            "the largest share of a row",
            {
                "unscaled": (range(len(sizes)), unscaled),
                "scaled": (range(len(sizes)), scaled),
            },
            "wider and wider heads",
        )

    @step("A deaf softmax does not learn", like="Correcting someone who has stopped listening.")
    def deaf_softmax_does_not_learn(self) -> None:
        """The gradient through softmax carries the factor share times one less share. With one share at nearly one it
        is nearly zero everywhere: the scores are told nothing, and stay wrong.
        """
        q, k = torch.randn(2, 8, 512, generator=self.random, dtype=torch.float64)
        loud, calm = attention_scores(q, k, scale=1.0), attention_scores(q, k)
        shares_loud, shares_calm = softmax(loud), softmax(calm)
        pull = torch.zeros_like(loud)
        pull[:, 0] = 1.0
        strong, faint = self.back(shares_calm, pull)[calm].abs().mean(), self.back(shares_loud, pull)[loud].abs().mean()
        self.show_gradient(self.back(shares_loud, pull), loud, "gradient of unscaled scores")
        self.table(("mean size of the gradient at the scores", ""), [("unscaled", faint), ("scaled", strong)])
        self.claim("the unscaled scores learn less", faint < strong)

    @step("The small print", like="A drunkard on a slope does not stay near the lamp post.")
    def small_print(self) -> None:
        """The formula needs entries that are zero on average. With another mean the products lean one way, and the
        variance is larger. A source states the formula without that condition.
        """
        given = self.given("qk-variance-nonzero-mean")
        leaning = score_variance(given.get("d_k", int), given.get("sigma", float), given.get("mu", float))
        self.show(leaning)
        self.beside("qk-variance-nonzero-mean", variance=leaning)

    def quiz(self) -> None:
        """Questions on it."""
        width = 16
        self.ask(
            f"Entries of mean zero and spread one, heads of width {width}: what is the variance of a raw score?",
            lambda: score_variance(width, 1.0),
            "One for each term of the sum.",
        )
        q, k = self.tensor([[3.0, 0.0, 0.0, 0.0]]), self.tensor([[2.0, 5.0, 5.0, 5.0]])
        self.ask(
            f"A query ({', '.join(map(number, q[0]))}) and a key ({', '.join(map(number, k[0]))}): the score, scaled?",
            lambda: attention_scores(q, k),
            "Their inner product over the root of their width.",
            cell=(0, 0),
        )
