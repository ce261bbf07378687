"""Residual connections and deep gradients."""

from torch import Tensor

from glassformer.arithmetic import number
from glassformer.equations.activations import tanh
from glassformer.equations.algebra import line, linear, residual
from glassformer.equations.similarity import l2_norm
from glassformer.lessons.walk import Walk, step


class ResidualsWalk(Walk):
    """Add to the row instead of replacing it, and the way back stays open however deep the stack."""

    @step(
        "Add, do not replace",
        like="An editor writes corrections in the margin; the manuscript itself is handed on.",
    )
    def add_do_not_replace(self) -> None:
        """A layer with a way past it only says what to change. If it has nothing to say the row goes through as it
        was.
        """
        h, change = self.tensor([1.0, -2.0, 0.5]), self.tensor([0.1, 0.0, -0.2])
        self.show(residual(h, change), (0,), (2,))

    @step(
        "Fifty layers, with and without",
        like="A rumour through fifty people who each pass on a tenth of it, or a letter that each of them signs and "
        "hands on.",
    )
    def fifty_layers_with_and_without(self) -> None:
        """Each layer multiplies the gradient by its own slope. Fifty small slopes multiplied are nothing at all. With
        the way past, each factor is one plus the slope, and the gradient arrives.
        """
        given = self.given("residual-gradient-path")
        slope, layers = given.get("F_slope", float), given.get("layers", int)
        start = self.tensor(1.0)
        plain = past = start
        for _ in range(layers):
            plain = line(plain, slope)
            past = residual(past, line(past, slope))
        without, with_it = self.back(plain)[start], self.back(past)[start]
        self.table(("gradient at the input", ""), [("without the way past", without), ("with it", with_it)])
        self.beside("residual-gradient-path", plain=without, residual=with_it)
        self.less("without it nothing arrives", without, 1e-40)

    @step(
        "Too much of a good thing",
        like="Interest: a tenth of a percent a day is a living, doubling daily is a fairy tale about rice on a "
        "chessboard.",
    )
    def too_much_of_a_good(self) -> None:
        """If every layer adds as much as it is given, the row doubles fifty times. Scaling what is added keeps the
        growth in bounds.
        """
        given = self.given("scaled-residual-growth")
        grown = {}
        for alpha in given.get("alpha", list[float]):
            row = self.tensor(1.0)
            for _ in range(given.get("layers", int)):
                row = residual(row, line(row, given.get("F_slope", float)), alpha)
            grown[alpha] = row
        self.show(grown[min(grown)])
        self.table(("share that is added", "size after all layers"), grown.items())
        self.beside("scaled-residual-growth", growth=list(grown.values()))

    @step(
        "Layers as moments",
        like="A flip book: twice the pages, each changed half as much, shows the same jump more smoothly.",
    )
    def layers_as_moments(self) -> None:
        """A stack of small corrections is a path cut into strides: what a layer adds is a speed times a moment. Half
        the moment and twice the layers lead to nearly the same place, and nearer still to the smooth path.
        """
        turn = self.tensor([[0.0, 1.0], [-1.0, 0.0]])
        ends = {}
        for count in (4, 16, 64):
            row = self.tensor([1.0, 0.0])
            for _ in range(count):
                row = residual(row, linear(row, turn), 1 / count)
            ends[count] = row
        self.table(("layers", "where the row ends"), ends.items())
        sizes = [l2_norm(row) for row in ends.values()]
        self.show(sizes[-1])
        self.say("The smooth path goes round a circle, so its row keeps the length one.")
        self.claim(
            "more layers come nearer to the circle",
            [abs(s - 1) for s in sizes] == sorted((abs(s - 1) for s in sizes), reverse=True),
        )

    @step(
        "What the sublayer is like still matters",
        like="A motorway keeps traffic moving; it does not keep anyone from speeding.",
    )
    def what_the_sublayer_is_like(self) -> None:
        """The way past keeps the gradient from vanishing, not from exploding: with large weights in the sublayer it
        grows at every layer all the same. Norms and small first weights take care of that.
        """
        arrived = {}
        for strength in (0.1, 0.5, 1.5):
            W = self.tensor([[strength, -strength], [strength, strength]])
            begin = self.tensor([0.1, 0.2])
            row = begin
            for _ in range(12):
                row = residual(row, tanh(linear(row, W)))
            arrived[strength] = l2_norm(self.back(row, row.new_ones(2))[begin])
        self.table(("size of the weights", "length of the gradient at the input"), arrived.items())
        self.less("with small weights the gradient keeps its size", arrived[min(arrived)], 10.0)
        self.less("and does not vanish", 0.1, arrived[min(arrived)])

    def quiz(self) -> None:
        """Questions on it."""
        share, count = 0.5, 3

        def deep(way_past: bool) -> Tensor:
            row = self.tensor(1.0)
            for _ in range(count):
                row = residual(row, line(row, share)) if way_past else line(row, share)
            return row

        self.ask(
            f"Each of {count} layers multiplies by {number(share)} and has no way past it. What is the slope "
            "of the whole?",
            lambda: deep(way_past=False),
            "Multiply the slopes.",
        )
        self.ask(
            "And with a way past each of them?",
            lambda: deep(way_past=True),
            "Multiply one plus the slope as many times.",
        )
