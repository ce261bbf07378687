"""Why softmax? Five reasons."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.algebra import scale
from glassformer.equations.attention import attention_scores, weighted_sum
from glassformer.equations.gradients import line
from glassformer.equations.similarity import nearest
from glassformer.equations.softmax import softmax

WORDS_ASKED = ("cat", "sat", "mat")


class WhySoftmaxWalk(Walk):
    """Weights that sum to one, a soft choice, any scale, clear winners, and a slope everywhere."""

    @step(
        "Weights that sum to one",
        like="A recipe in percent: whatever the amounts, the bowl is full exactly once.",
    )
    def weights_that_sum_to_one(self) -> None:
        """Attention takes an average of the values, and an average needs weights that are positive and sum to one. Raw
        similarities are neither: divide them by their sum and negative ones give negative weights, or a sum near zero
        blows them up. Softmax gives an average whatever the scores.
        """
        self.q, self.k = self.tensor([[1.0, 0.5]]), self.tensor([[2.0, -1.0], [-1.0, 0.5], [0.5, 0.5]])
        self.v = self.tensor([[1.0], [2.0], [4.0]])
        self.scores = attention_scores(self.q, self.k)
        self.weights = softmax(self.scores)
        mixed = weighted_sum(self.weights, self.v)
        self.show(self.weights, (0, 0), columns=WORDS_ASKED)
        self.show(mixed, (0, 0))
        divided = self.scores / self.scores.sum()
        self.table(
            ("weights of", *WORDS_ASKED),
            [("scores / their sum", *divided[0]), ("softmax", *self.weights[0])],
        )
        self.claim("dividing by the sum gives a negative weight", bool((divided < 0).any()))
        self.same("softmax weights sum to one", self.weights.sum(), 1.0)
        inside = bool(self.v.min() <= mixed <= self.v.max())
        self.claim("so the result lies between the smallest and the largest value", inside)

    @step(
        "A soft choice",
        like="At a party you listen mostly to one guest, and still hear when another says your name.",
    )
    def soft_choice(self) -> None:
        """A hard choice takes the best key and drops the rest. Softmax gives the best one most, and the others what
        their scores deserve. Multiply the scores, and it comes as near to the hard choice as you like.
        """
        best, _ = nearest(self.q[0], self.k)
        rows = []
        for sharpness in (1.0, 3.0, 30.0):
            rows.append((sharpness, *softmax(scale(self.scores, sharpness))[0]))
        self.show(softmax(scale(self.scores, 3.0)), (0, 0), columns=WORDS_ASKED)
        self.table(("scores times", *WORDS_ASKED), rows)
        index = int(best[0])
        self.claim("the best key always has the largest weight", all(max(r[1:]) == r[1 + index] for r in rows))
        self.less("as it is, it has less than all", rows[0][1 + index], 0.9)
        self.less("sharpened far enough, nearly all", 0.999, rows[-1][1 + index])

    @step(
        "Scores of any scale",
        like="A judge who can rank both ants and elephants: only the differences enter the book.",
    )
    def scores_of_any_scale(self) -> None:
        """Scores may be huge or tiny, positive or negative; the weights always lie between zero and one, and a common
        shift changes nothing. A common factor does change them, though: large scores make a sharp choice. That is why
        attention divides by the root of the width first.
        """
        given = self.given("softmax-invariances")
        z = given.tensor("z")
        shifted = softmax(line(z, 1.0, given.get("shift", float)))
        scaled = softmax(scale(z, given.get("scale", float)))
        self.show(shifted, (0,))
        self.beside("softmax-invariances", base=softmax(z), shifted=shifted, scaled=scaled)
        self.same("a shift changes nothing", shifted, softmax(z))
        self.differ("a factor does", scaled, softmax(z), by=0.1)
        scores = self.tensor([-1e6, 0.0, 1e6])
        huge = softmax(scores)
        self.table(("", *WORDS_ASKED), [("score", *scores), ("weight", *huge)])
        self.claim("even a million gives weights between zero and one", bool(((huge >= 0) & (huge <= 1)).all()))

    @step(
        "Differences stand out",
        like="Compound interest: one percent more, year after year, and the neighbor owns the street.",
    )
    def differences_stand_out(self) -> None:
        """The exponential turns a difference of scores into a ratio of weights: one more point means e times the
        weight, two more points e times e. A weight in proportion to the score would barely tell them apart.
        """
        z = self.tensor([3.0, 2.0, 1.0])
        p = softmax(z)
        self.show(p, (0,), (1,))
        self.table(
            ("", *WORDS_ASKED),
            [("score", *z), ("in proportion", *(z / z.sum())), ("softmax", *p)],
        )
        self.same("one point more is e times the weight", p[:-1] / p[1:], self.tensor(torch.e))
        self.less("in proportion the winner has less", (z / z.sum())[0], p[0])

    @step(
        "A slope everywhere",
        like="A dimmer can be tuned by feel; with a switch you only learn that it clicked.",
    )
    def slope_everywhere(self) -> None:
        """A hard choice is a step: move a score a little and nothing happens, until the winner changes at once. Its
        gradient is zero nearly everywhere, so nothing could be learned. Softmax is smooth, and every score gets a
        gradient.
        """
        scores = self.scores.clone()
        mixed = weighted_sum(softmax(scores), self.v)
        found = self.back(mixed, torch.ones_like(mixed))
        self.show_gradient(found, scores, "∂ result / ∂ scores", columns=WORDS_ASKED)
        moved = self.scores + 0.01 * torch.eye(3, dtype=torch.float64)
        hard = [int(nearest(torch.ones(1, dtype=torch.float64), row[:, None])[0][0]) for row in moved]
        self.claim("every score has a gradient", bool((found[scores] != 0).all()))
        self.same("and they sum to zero: what one gains the others lose", found[scores].sum(), 0.0)
        self.claim("the hard choice does not notice a small move of any score", len(set(hard)) == 1)

    def quiz(self) -> None:
        """Questions on it."""
        z = self.tensor([0.0, 0.0, 0.0, 0.0])
        self.ask(
            f"{len(z)} equal scores: what is the weight of each?",
            lambda: softmax(z),
            "Equal weights, which sum to one.",
            cell=(0,),
        )
        two = self.tensor([5.0, 4.0])
        self.ask(
            f"Scores {number(two[0])} and {number(two[1])}: what is the weight of the first?",
            lambda: softmax(two),
            "Only the difference counts.",
            cell=(0,),
        )
        self.ask(
            "And if both scores are a thousand higher?",
            lambda: softmax(line(two, 1.0, 1000.0)),
            "Only the difference counts.",
            cell=(0,),
        )
