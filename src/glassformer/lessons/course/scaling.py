"""Why scores are divided by the root of the width."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.attention import attention_scores
from glassformer.equations.probability import softmax
from glassformer.equations.similarity import score_variance
from glassformer.lessons.walk import Walk


def walk_scaling(walk: Walk) -> None:
    """Wide heads make large scores, large scores make deaf softmax; a division keeps it listening."""
    walk.step(
        "Scores spread with the width",
        "A score is a sum of as many products as the head is wide. Each product is as likely to push up as down, so the "
        "sum wanders: its variance grows with the number of terms, its typical size with the root of it.",
        like="A drunkard's walk: after a hundred steps he is some ten steps from the lamp post.",
    )
    given = walk.given("qk-variance-zero-mean")
    widths, sigmas = given.get("d_k", list[int]), given.get("sigma", list[float])
    variances = [score_variance(width, sigma) for width, sigma in zip(widths, sigmas, strict=True)]
    walk.show(variances[0])
    walk.beside("qk-variance-zero-mean", variance=variances)
    random, measured = torch.Generator().manual_seed(0), []
    for width, sigma in zip(widths, sigmas, strict=True):
        q, k = sigma * torch.randn(2, 256, width, generator=random, dtype=torch.float64)
        measured.append(attention_scores(q, k, scale=1.0).var())
    walk.table(("width", "variance by the formula", "measured"), zip(widths, variances, measured, strict=True))
    walk.claim("what is measured is within a tenth", all(abs(m / v - 1) < 0.1 for m, v in zip(measured, variances, strict=True)))

    walk.step(
        "Divide, and the spread is one",
        "Dividing each score by the root of the width divides the variance by the width. Whatever the width, scores "
        "then spread about as far as a single product did.",
        like="Quoting a club's finances per member: large and small clubs become comparable.",
    )
    scaled = [attention_scores(*torch.randn(2, 256, w, generator=random, dtype=torch.float64)).var() for w in widths]
    walk.table(("width", "variance of scaled scores"), zip(widths, scaled, strict=True))
    walk.claim("all are near one", all(abs(float(v) - 1) < 0.25 for v in scaled))

    walk.step(
        "What large scores do to softmax",
        "Softmax lives on differences. When scores lie far apart one share is nearly one and the rest nearly nothing: "
        "each query listens to a single token, whether it deserves it or not.",
        like="A room where one person shouts: it hardly matters what the others have to say.",
    )
    answer = walk.worked("unscaled-softmax-saturates")
    sizes = walk.given("unscaled-softmax-saturates").get("d_k", list[int])
    walk.table(("width", "largest share, unscaled", "scaled"),
               zip(sizes, answer["mean_max_weight_unscaled"], answer["mean_max_weight_scaled"], strict=True))
    walk.plot("the largest share of a row", {
        "unscaled": (range(len(sizes)), answer["mean_max_weight_unscaled"]),
        "scaled": (range(len(sizes)), answer["mean_max_weight_scaled"]),
    }, "wider and wider heads")

    walk.step(
        "A deaf softmax does not learn",
        "The gradient through softmax carries the factor share times one less share. With one share at nearly one it is "
        "nearly zero everywhere: the scores are told nothing, and stay wrong.",
        like="Correcting someone who has stopped listening.",
    )
    q, k = torch.randn(2, 8, 512, generator=random, dtype=torch.float64)
    loud, calm = attention_scores(q, k, scale=1.0), attention_scores(q, k)
    shares_loud, shares_calm = softmax(loud), softmax(calm)
    pull = torch.zeros_like(loud)
    pull[:, 0] = 1.0
    strong, faint = walk.back(shares_calm, pull)[calm].abs().mean(), walk.back(shares_loud, pull)[loud].abs().mean()
    walk.show_gradient(walk.back(shares_loud, pull), loud, "gradient of unscaled scores")
    walk.table(("mean size of the gradient at the scores", ""), [("unscaled", faint), ("scaled", strong)])
    walk.claim("the unscaled scores learn less", faint < strong)

    walk.step(
        "The small print",
        "The formula needs entries that are zero on average. With another mean the products lean one way, and the "
        "variance is larger. A source states the formula without that condition.",
        like="A drunkard on a slope does not stay near the lamp post.",
    )
    given = walk.given("qk-variance-nonzero-mean")
    leaning = score_variance(given.get("d_k", int), given.get("sigma", float), given.get("mu", float))
    walk.show(leaning)
    walk.beside("qk-variance-nonzero-mean", variance=leaning)

    width = 16
    walk.ask(f"Entries of mean zero and spread one, heads of width {width}: what is the variance of a raw score?",
             lambda: score_variance(width, 1.0), "One for each term of the sum.")
    q, k = walk.tensor([[3.0, 0.0, 0.0, 0.0]]), walk.tensor([[2.0, 5.0, 5.0, 5.0]])
    walk.ask(f"A query ({', '.join(map(number, q[0]))}) and a key ({', '.join(map(number, k[0]))}): the score, scaled?",
             lambda: attention_scores(q, k), "Their inner product over the root of their width.", cell=(0, 0))
