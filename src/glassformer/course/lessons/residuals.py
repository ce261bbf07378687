"""Residual connections and deep gradients."""

import math
from itertools import pairwise

import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.activations import tanh
from glassformer.equations.algebra import linear, residual
from glassformer.equations.gradients import line
from glassformer.equations.similarity import euclidean_distance, l2_norm


class ResidualsWalk(Walk):
    """Add to the hidden state instead of replacing it, and gradients arrive however deep the stack."""

    @step(
        "Add, do not replace",
        like="An editor writes corrections in the margin; the manuscript itself is handed on.",
    )
    def add_do_not_replace(self) -> None:
        """A layer with a residual connection around it only says what to change. If it puts out zero, the hidden state
        passes through as it was.
        """
        h, change = self.tensor([1.0, -2.0, 0.5]), self.tensor([0.1, 0.0, -0.2])
        self.show(residual(h, change), (0,), (2,))
        self.same("a layer that puts out zero changes nothing", residual(h, torch.zeros_like(h)), h, within=0.0)

    @step(
        "Fifty layers, with and without",
        like="A rumor through fifty people who each pass on a tenth of it, or a letter that each of them signs and "
        "hands on.",
    )
    def fifty_layers_with_and_without(self) -> None:
        """Each layer multiplies the gradient by its own slope. Fifty small slopes multiplied leave next to nothing:
        the gradient vanishes. With residual connections each factor is one plus the slope, and the gradient arrives,
        here even larger than it started.
        """
        given = self.given("residual-gradient-path")
        slope, layers = given.get("F_slope", float), given.get("layers", int)
        start = self.tensor(1.0)
        plain = skipping = start
        for _ in range(layers):
            plain = line(plain, slope)
            skipping = residual(skipping, line(skipping, slope))
        without, with_it = self.back(plain)[start], self.back(skipping)[start]
        self.table(
            ("gradient at the input", ""),
            [("without residual connections", without), ("with them", with_it)],
        )
        self.beside("residual-gradient-path", plain=without, residual=with_it)
        self.claim(f"there are {layers} layers, each with a slope of {number(slope)}", (layers, slope) == (50, 0.1))
        self.less("without residual connections next to nothing arrives", without, 1e-40)
        self.same(
            "with them each layer multiplies by one plus its slope", with_it, with_it.new_tensor((1 + slope) ** layers)
        )
        self.less("so the gradient arrives larger than it started", 1.0, with_it)

        def arriving(connected: object) -> None:
            states = [start]
            for _ in range(layers):
                change = line(states[-1], slope)
                states.append(residual(states[-1], change) if connected else change)
            found = self.back(states[-1])
            sizes = [float(found[state]) for state in states]
            self.plot("gradient at the output of each layer", {"gradient": (range(len(sizes)), sizes)}, "layer", True)

        self.choose("residual connections", (False, True), arriving)

    @step(
        "Too much of a good thing",
        like="Interest: a tenth of a percent a day is a living, doubling daily is a fairy tale about rice on a "
        "chessboard.",
    )
    def too_much_of_a_good(self) -> None:
        """If every layer adds as much as it is given, the hidden state doubles at every layer. Scaling down what is
        added slows the growth; divided by the number of layers, the growth never exceeds e, however deep the stack.
        """
        given = self.given("scaled-residual-growth")
        grown = {}
        for alpha in given.get("alpha", list[float]):
            h = self.tensor(1.0)
            for _ in range(given.get("layers", int)):
                h = residual(h, line(h, given.get("F_slope", float)), alpha)
            grown[alpha] = h
        self.show(grown[min(grown)])
        self.table(("scale of what is added", "size after all layers"), grown.items())
        self.beside("scaled-residual-growth", growth=list(grown.values()))
        layers = given.get("layers", int)
        self.same(f"at full scale the hidden state doubles {layers} times", grown[max(grown)], 2.0**layers)
        self.same("the smallest scale is one over the number of layers", min(grown), 1 / layers)
        self.less("there the growth stays below e", grown[min(grown)], math.e)

    @step(
        "Layers as time steps",
        like="A flip book: twice the pages, each changed half as much, shows the same jump more smoothly.",
    )
    def layers_as_moments(self) -> None:
        """A stack of small corrections is a path cut into time steps: what a layer adds is a velocity times a short
        time. Half the time and twice the layers lead to nearly the same point, and closer to the smooth path.
        """
        turn = self.tensor([[0.0, 1.0], [-1.0, 0.0]])
        smooth = self.tensor([math.cos(1), math.sin(1)])
        ends, away = {}, []
        for count in (4, 8, 16, 32, 64):
            h = self.tensor([1.0, 0.0])
            for _ in range(count):
                h = residual(h, linear(h, turn), 1 / count)
            ends[count] = h
            away.append(euclidean_distance(h, smooth))
        self.table(
            ("layers", "end of the path", "distance from the smooth path"),
            [(count, h, far) for (count, h), far in zip(ends.items(), away, strict=True)],
        )
        self.show(away[-1])
        self.claim("twice the layers always end closer to the smooth path", away == sorted(away, reverse=True))
        halved = torch.stack(away[1:]) / torch.stack(away[:-1])
        self.same("and about twice as close", halved, 0.5, within=0.1)

    @step(
        "What the sublayer is like still matters",
        like="A highway keeps traffic moving; it does not keep anyone from speeding.",
    )
    def what_the_sublayer_is_like(self) -> None:
        """Residual connections keep the gradient from vanishing, not from exploding: through linear sublayers it grows
        at every layer, and the larger the weights the faster. A tanh in the sublayer holds it back where it
        saturates, so there the largest weights no longer make the largest gradient. Small initial weights keep the
        growth small with either.
        """
        lengths = {}
        for strength in (0.1, 0.5, 1.5):
            W = self.tensor([[strength, -strength], [strength, strength]])
            for bend in (False, True):
                path = [self.tensor([0.1, 0.2])]
                for _ in range(12):
                    change = linear(path[-1], W)
                    path.append(residual(path[-1], tanh(change) if bend else change))
                found = self.back(path[-1], torch.ones_like(path[-1]))
                lengths[strength, bend] = [l2_norm(found[h]) for h in path]
        self.table(
            ("size of the weights", "gradient at the input, linear", "with tanh"),
            [(size, lengths[size, False][0], lengths[size, True][0]) for size in (0.1, 0.5, 1.5)],
        )
        grows = all(low > high for run in lengths.values() for low, high in pairwise(run))
        self.claim("on its way back the gradient grows at every layer", grows)
        linear_ones = [lengths[size, False][0] for size in (0.1, 0.5, 1.5)]
        self.claim("through linear sublayers larger weights make it larger", linear_ones == sorted(linear_ones))
        self.less("through tanh the largest weights do not", lengths[1.5, True][0], lengths[0.5, True][0])
        for bend in (False, True):
            small = lengths[0.1, bend]
            self.less("with small weights it grows less than tenfold", small[0], 10 * small[-1])

    def quiz(self) -> None:
        """Questions on it."""
        slope, count = 0.5, 3

        def deep(skip: bool) -> Tensor:
            h = self.tensor(1.0)
            for _ in range(count):
                h = residual(h, line(h, slope)) if skip else line(h, slope)
            return h

        self.ask(
            f"Each of {count} layers multiplies by {number(slope)} and has no residual connection. What is the slope "
            "of the whole stack?",
            lambda: deep(skip=False),
            "By the chain rule, slopes multiply.",
        )
        self.ask(
            "And with a residual connection around each of them?",
            lambda: deep(skip=True),
            "What is the slope of one layer together with its residual connection?",
        )
