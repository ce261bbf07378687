"""Rotary scaling: longer contexts than a model was trained on."""

import math

import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.course.worked.positions import BASE
from glassformer.equations.rotary import rotary, rotary_frequencies
from glassformer.equations.rotary_scaling import (
    base_scaled_frequencies,
    linear_scaled_frequencies,
    llama3_scaled_frequencies,
    ntk_scaled_frequencies,
    yarn_scaled_frequencies,
    yarn_temperature,
)
from glassformer.equations.similarity import inner_product

TRAINED, HEAD_WIDTH = 64, 16


class RotaryScalingWalk(Walk):
    """Angles a model has never seen, and five ways to slow the turning down so that it does not meet them."""

    @step(
        "Fast pairs and slow pairs",
        like="The hands of a clock again: within an hour the minute hand has been everywhere, the hour hand "
        "almost nowhere.",
    )
    def fast_and_slow_pairs(self) -> None:
        """Rotary positions turn each pair of a query and a key by an angle that grows with the position, each pair at
        its own frequency. Within the context a model was trained on, the fast pairs have gone round many times. The
        slow ones have covered only a small part of the circle.
        """
        self.theta = rotary_frequencies(HEAD_WIDTH, float(self.tensor(BASE)), dtype=torch.float64)
        self.show(self.theta, (0,), (1,), (7,))
        turns = self.theta * TRAINED / (2 * math.pi)
        self.table(
            ("pair", "radians per position", f"turns within {TRAINED} positions"),
            [(i, self.theta[i], turns[i]) for i in range(len(turns))],
        )

        def turning(base: object) -> None:
            theta = rotary_frequencies(HEAD_WIDTH, float(base), dtype=torch.float64)  # pyright: ignore[reportArgumentType]
            self.plot("radians per position", {"pair": (range(len(theta)), theta.tolist())}, "pair", True)

        self.choose("base of the frequencies (rope_theta)", (100, 1_000, 10_000, 500_000, 1_000_000), turning, 2)
        self.less("the first pair has gone round several times", 5.0, turns[0])
        self.less("the last one not even a hundredth of the way", turns[-1], 0.01)

    @step(
        "Beyond the trained length",
        like="A map that ends at the edge of the paper: the next street exists, but nobody has walked it.",
    )
    def beyond_the_trained_length(self) -> None:
        """Four times as far, a slow pair turns to angles that never occurred in training. The model has to
        extrapolate, and usually fails. The fast pairs are not the problem: they have seen the whole circle.
        """
        self.factor = float(self.tensor(4.0))
        here, there = self.theta * TRAINED, self.theta * TRAINED * self.factor
        slow = here < 2 * math.pi
        self.table(
            ("pair", "largest angle trained on", "largest angle now", "new to the model"),
            [(i, here[i], there[i], bool(slow[i])) for i in range(len(here))],
        )
        x = self.tensor([[1.0, 0.0] * (HEAD_WIDTH // 2)])
        rotated = rotary(x, torch.tensor([TRAINED]), frequencies=self.theta)
        far = rotary(x, torch.tensor([round(TRAINED * self.factor)]), frequencies=self.theta)
        self.show(rotated, (0, 0), (0, 2))
        self.differ("the slow pairs are rotated further than ever before", far[0, -8:], rotated[0, -8:], by=0.05)
        self.claim("some pairs meet new angles, and some do not", bool(slow.any()) and not bool(slow.all()))

    @step(
        "Position interpolation",
        like="A ruler printed smaller, so that four times as many marks fit on the old page.",
    )
    def position_interpolation(self) -> None:
        """The simplest way: divide every frequency by the factor, as if positions stood closer together. No angle is
        new any more. The price is paid by the fast pairs, which told neighbors apart: their angle between neighbors
        shrinks as well.
        """
        self.linear = linear_scaled_frequencies(self.theta, self.factor)
        self.show(self.linear, (0,), (7,))
        longest = self.linear * TRAINED * self.factor
        self.same("the largest angles are those of training", longest, self.theta * TRAINED)
        self.same("neighbors are closer by the factor", self.theta[0] / self.linear[0], self.factor)

    @step(
        "A larger base, and NTK-aware scaling",
        like="Longer gears behind a motor that keeps its speed: the last wheel slows down most.",
    )
    def larger_base(self) -> None:
        """A larger base lowers every frequency but the first, the slow ones most. NTK-aware scaling chooses the base
        so that the slowest pair is slowed by exactly the factor and the fastest not at all. One source says that a
        larger base raises frequencies, and calls NTK scaling an interpolation.
        """
        given = self.given("rope-base-scaling")
        dim, alpha, s = given.get("d", int), given.get("alpha", float), given.get("s", float)
        wider = base_scaled_frequencies(dim, BASE, alpha, dtype=torch.float64)
        ntk = ntk_scaled_frequencies(dim, BASE, s, dtype=torch.float64)
        plain = rotary_frequencies(dim, BASE, dtype=torch.float64)
        self.show(wider, (1,))
        self.show(ntk, (3,))
        self.beside(
            "rope-base-scaling",
            theta_original=plain,
            theta_base_scaled=wider,
            theta_ntk_aware=ntk,
            theta_position_interpolation=linear_scaled_frequencies(plain, s),
        )
        self.claim("a larger base raises no frequency", bool((wider <= plain).all()))
        self.same("NTK-aware scaling leaves the fastest pair alone", ntk[0], plain[0])
        self.same("and slows the slowest by the factor", plain[-1] / ntk[-1], s)

    @step(
        "Pair by pair: YaRN and Llama",
        like="Widening a photograph: faces keep their proportions, and only the sky is stretched.",
    )
    def pair_by_pair(self) -> None:
        """Why slow a pair down that has seen every angle? YaRN and Llama's rule count the turns each pair made in
        training. Pairs with many turns are kept, pairs with less than about one are interpolated in full, and between
        them the two are mixed. YaRN also sharpens attention a little, since a longer context spreads it thinner.
        """
        self.yarn = yarn_scaled_frequencies(self.theta, BASE, self.factor, TRAINED, fast=8.0, slow=1.0)
        llama = llama3_scaled_frequencies(self.theta, self.factor, 1.0, 4.0, TRAINED)
        ntk = ntk_scaled_frequencies(HEAD_WIDTH, BASE, self.factor, dtype=torch.float64)
        self.show(self.yarn, (0,), (7,))
        ways = {"interpolation": self.linear, "NTK-aware": ntk, "YaRN": self.yarn}
        pairs = range(len(self.theta))
        self.plot(
            "frequency after scaling / before",
            {name: (pairs, (values / self.theta).tolist()) for name, values in ways.items()},
            across="pair, from fast to slow",
        )
        self.show(yarn_temperature(self.factor))
        for name, values in (("YaRN", self.yarn), ("Llama's rule", llama)):
            self.same(f"{name} keeps the fastest pair", values[0], self.theta[0])
            self.same(f"{name} slows the slowest by the factor", self.theta[-1] / values[-1], self.factor)

    @step(
        "What stays true",
        like="Two dancers on slower turntables: how they face each other still depends only on the difference.",
    )
    def what_stays_true(self) -> None:
        """However the frequencies are chosen, a score still depends on the distance alone. Which way to take is a
        matter of practice: a larger base for a modest stretch, interpolation where the model is fine-tuned afterwards,
        and one of the rules that go pair by pair for a long stretch.
        """
        q, k = self.tensor([[0.3, -0.8] * (HEAD_WIDTH // 2)]), self.tensor([[0.5, 0.4] * (HEAD_WIDTH // 2)])
        rows = []
        for name, values in (("as trained", self.theta), ("interpolation", self.linear), ("YaRN", self.yarn)):
            near, later = (_score(q, k, at, at + 3, values) for at in (2, 40))
            rows.append((name, near, later))
        self.table(("frequencies", "score at distance three, early", "and late"), rows)
        self.show(rows[-1][1])
        self.same(
            "early and late agree in all of them", torch.stack([r[1] for r in rows]), torch.stack([r[2] for r in rows])
        )

    def quiz(self) -> None:
        """Questions on it."""
        speeds, factor = self.tensor([1.0, 0.1]), 4.0
        self.ask(
            f"Two pairs turn by {number(speeds[0])} and {number(speeds[1])} radians per position. Interpolated by "
            f"{number(factor)}, by how much does the first turn?",
            lambda: linear_scaled_frequencies(speeds, factor),
            "Divide.",
            cell=(0,),
        )
        width = 4
        self.ask(
            f"A head of width {width} and NTK-aware scaling by {number(factor)}: by how much does its first pair turn?",
            lambda: ntk_scaled_frequencies(width, BASE, factor, dtype=torch.float64),
            "What does the formula give for the pair of index zero?",
            cell=(0,),
        )
        self.ask(
            f"By what does YaRN multiply queries and keys for a factor of {number(factor)}?",
            lambda: yarn_temperature(factor),
            "A tenth of the natural logarithm, plus one.",
        )


def _score(q: Tensor, k: Tensor, at: int, other: int, frequencies: Tensor) -> Tensor:
    """The score of a query and a key at two positions."""
    rotated = [rotary(x, torch.tensor([p]), frequencies=frequencies)[0] for x, p in ((q, at), (k, other))]
    return inner_product(*rotated)
