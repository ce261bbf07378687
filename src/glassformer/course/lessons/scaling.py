"""Why attention scores are divided by the square root of the head width."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.attention import attention_scores
from glassformer.equations.similarity import score_variance
from glassformer.equations.softmax import softmax


class ScalingWalk(Walk):
    """Wide heads make large scores, large scores saturate softmax; a division prevents it."""

    @step(
        "Scores spread with the width",
        like="A drunkard's walk: after a hundred steps he is some ten steps from the lamppost.",
    )
    def scores_spread_with_the_width(self) -> None:
        """A score is a sum of as many products as the head is wide. Each product is as likely to push up as down, so
        the sum wanders: for entries of one standard deviation σ, its variance grows in proportion to the width, its
        typical size with the square root of the width.
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
        self.table(
            ("width", "σ of the entries", "variance by the formula", "measured"),
            zip(self.widths, sigmas, variances, measured, strict=True),
        )
        off = torch.stack(measured) / torch.tensor(variances, dtype=torch.float64)
        self.same("each measured variance is within a tenth of the formula", off, 1.0, within=0.1)
        same_sigma = [score_variance(width, 1.0) for width in self.widths]
        self.claim("with σ equal to one the variance is the width", same_sigma == [float(w) for w in self.widths])

    @step(
        "Divide, and the spread is one",
        like="Quoting a club's finances per member: large and small clubs become comparable.",
    )
    def divide_and_the_spread(self) -> None:
        """Dividing each score by the square root of the width divides the variance by the width. With σ equal to one
        the scores then have a variance near one, whatever the width: as much as a single product.
        """
        scaled = []
        for width in self.widths:
            q, k = torch.randn(2, 256, width, generator=self.random, dtype=torch.float64)
            scaled.append(attention_scores(q, k).var())
        self.table(("width", "variance of scaled scores"), zip(self.widths, scaled, strict=True))
        self.same("all are within a quarter of one", torch.stack(scaled), 1.0, within=0.25)

    @step(
        "What large scores do to softmax",
        like="A room where one person shouts: it hardly matters what the others have to say.",
    )
    def what_large_scores_do(self) -> None:
        """Softmax depends on differences. When scores lie far apart, one weight is nearly one and the rest are nearly
        zero: each query attends to a single token, whether it deserves it or not. Softmax is saturated.
        """
        answer = self.worked("unscaled-softmax-saturates")
        unscaled, scaled = (answer.get(f"mean_max_weight_{kind}", list[float]) for kind in ("unscaled", "scaled"))
        sizes = self.given("unscaled-softmax-saturates").get("d_k", list[int])
        self.table(
            ("width", "mean largest weight, unscaled", "scaled"),
            zip(sizes, unscaled, scaled, strict=True),
        )
        self.claim("unscaled, the largest weight grows with the width", unscaled == sorted(unscaled))
        self.less(f"at width {sizes[-1]} it is nearly all", 0.9, unscaled[-1])
        self.less("scaled, it stays small at every width", max(scaled), 0.3)
        self.plot(
            "largest attention weight of a query, on average",
            {
                "unscaled": (range(len(sizes)), unscaled),
                "scaled": (range(len(sizes)), scaled),
            },
            "wider and wider heads",
        )

    @step("A saturated softmax does not learn", like="Correcting someone who has stopped listening.")
    def saturated_softmax_does_not_learn(self) -> None:
        """The gradient through softmax is multiplied by p and by one minus p, for each weight p. Where every weight is
        nearly one or nearly zero, this is nearly zero: almost no gradient reaches the scores, and they stay wrong.
        """
        q, k = torch.randn(2, 8, 512, generator=self.random, dtype=torch.float64)
        large, small = attention_scores(q, k, scale=1.0), attention_scores(q, k)
        saturated, spread = softmax(large), softmax(small)
        sent = torch.zeros_like(large)
        sent[:, 0] = 1.0
        strong, faint = self.back(spread, sent)[small].abs().mean(), self.back(saturated, sent)[large].abs().mean()
        self.show_gradient(self.back(saturated, sent), large, "gradient of unscaled scores")
        self.table(("mean size of the gradient at the scores", ""), [("unscaled", faint), ("scaled", strong)])
        self.less(
            "unscaled, p times one minus p is smaller on average",
            (saturated * (1 - saturated)).mean(),
            (spread * (1 - spread)).mean(),
        )
        self.less("unscaled, less than a thousandth of the gradient gets through", faint, strong / 1000)

        def one_query(divided: object) -> None:
            scores = small if divided else large
            self.show(softmax(scores[:1]), (0, 0))
            self.show_gradient(self.back(spread if divided else saturated, sent), scores, "gradient at the scores")

        self.choose("scores divided by √d_k", (False, True), one_query)

    @step("The fine print", like="A drunkard on a slope does not stay near the lamppost.")
    def small_print(self) -> None:
        """The formula needs entries whose mean is zero. With another mean the products lean one way, and the variance
        is larger. A source states the formula without that condition.
        """
        given = self.given("qk-variance-nonzero-mean")
        width, sigma, mu = given.get("d_k", int), given.get("sigma", float), given.get("mu", float)
        leaning, centered = score_variance(width, sigma, mu), score_variance(width, sigma)
        self.show(leaning)
        self.beside("qk-variance-nonzero-mean", variance=leaning)
        self.less(f"with mean {number(mu)} the variance is larger than with mean zero", centered, leaning)

    def quiz(self) -> None:
        """Questions on it."""
        width = 16
        self.ask(
            f"Entries of mean zero and standard deviation one, heads of width {width}: what is the variance of an "
            "unscaled score?",
            lambda: score_variance(width, 1.0),
            "How many products does a score add up, and what does each contribute?",
        )
        q, k = self.tensor([[3.0, 0.0, 0.0, 0.0]]), self.tensor([[2.0, 5.0, 5.0, 5.0]])
        self.ask(
            f"A query ({', '.join(map(number, q[0]))}) and a key ({', '.join(map(number, k[0]))}): what is the scaled "
            "score?",
            lambda: attention_scores(q, k),
            "Their inner product, divided by the square root of their width.",
            cell=(0, 0),
        )
