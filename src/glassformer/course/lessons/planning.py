"""Planning: what GPT-3 took, and a model for your own machine."""

import math
from itertools import pairwise

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.parameter_counts import gpt_parameters
from glassformer.equations.scaling import (
    cache_bytes,
    compute_optimal_size,
    scaling_law_loss,
    training_energy,
    training_flops,
    training_hours,
)
from glassformer.planning.fit import FinishedRun, fit
from glassformer.planning.known_devices import devices
from glassformer.planning.scaling_laws import UTILIZATION, flops_of, scaling_law

MACHINES = ("m1", "rtx4090", "h100", "b200")
TRAINED = "bfloat16"


class PlanningWalk(Walk):
    """Parameters, operations, hours, energy and memory of a large model, the best size for a budget, and a law of one's
    own.
    """

    @step("How large", like="Before building a house one counts the bricks.")
    def how_large(self) -> None:
        """The size of a GPT follows from four numbers: the vocabulary, the context, the width and the layers. Nearly
        all of it lies in the blocks; the tables of tokens and positions are a small part.
        """
        given = self.given("gpt2-gpt3-parameter-count").get("gpt3", dict[str, int])
        self.layers, self.dim, self.context = given["L"], given["d"], given["n_ctx"]
        self.size = gpt_parameters(given["V"], self.context, self.dim, self.layers)
        self.show(self.size)
        blocks = self.size - (given["V"] + self.context) * self.dim
        self.table(("part", "parameters"), [("blocks", blocks), ("tables", self.size - blocks), ("all", self.size)])
        self.less("the tables are less than a hundredth of it", (self.size - blocks) / self.size, 1 / 100)

    @step("What training takes", like="The price of a meal: what is on the plate, times how many guests.")
    def what_training_takes(self) -> None:
        """Each token passes through each parameter forward and backward: six floating-point operations. The paper on
        the third GPT gives the tokens it was trained on, and the operations that this took.
        """
        self.tokens, published = self.tensor([3e11, 3.14e23]).tolist()
        self.flops = training_flops(float(self.size), self.tokens)
        self.show(self.flops)
        self.table(("", "operations"), [("by the equation", self.flops), ("published", published)])
        self.same("both agree within a hundredth", self.flops / published, 1.0, within=0.01)
        twice = training_flops(2.0 * self.size, self.tokens)
        self.same("a model of twice the size takes twice as much for the same text", twice / self.flops, 2.0)

    @step("How long, and how much energy", like="More mowers cut the meadow sooner, and burn as much fuel.")
    def how_long(self) -> None:
        """A device reaches a part of its peak rate in training. Divide the operations by what all devices reach
        together, and the hours follow; the energy is their power times the hours, and a share for cooling.
        """
        many, pue = self.tensor([1024.0, 1.1]).tolist()
        count, known = round(many), devices()

        def on(machine: object) -> None:
            device = known[str(machine)]
            rate = UTILIZATION * device.peak(TRAINED)
            hours = training_hours(self.flops, rate, count)
            energy = training_energy(hours, device.power, count, pue)
            self.show(hours)
            self.show(energy)
            self.table((device.name, ""), [("devices", count), ("days", hours / 24), ("megawatt-hours", energy / 1000)])

        self.choose("device", ("a100", "h100", "b200"), on)
        hours, half = (training_hours(self.flops, 1e14, n * count) for n in (1, 2))
        self.same("twice as many devices take half the time", 2 * half, hours)
        energy, same = training_energy(hours, 400.0, count, pue), training_energy(half, 400.0, 2 * count, pue)
        self.same("and the same energy, if they are used as well", same / energy, 1.0)

    @step("Too large for its text", like="A library with too many shelves for its books.")
    def too_large(self) -> None:
        """A scaling law says how the loss falls with size and with data. With the constants that were fitted to the
        runs of Chinchilla, the operations that went into that GPT train a smaller model on more text, to a lower loss.
        """
        law = scaling_law()
        loss = scaling_law_loss(float(self.size), self.tokens, law.E, law.A, law.B, law.alpha, law.beta)
        N, D = compute_optimal_size(self.flops, law.A, law.B, law.alpha, law.beta)
        best = scaling_law_loss(N, D, law.E, law.A, law.B, law.alpha, law.beta)
        self.show(loss)
        self.show(N)
        self.table(
            ("", "parameters", "tokens", "predicted loss"),
            [("GPT-3", float(self.size), self.tokens, loss), ("best for its operations", N, D, best)],
        )
        self.less("the best size is less than half of that GPT", N, self.size / 2)
        self.less("and reads more than twice as much", 2 * self.tokens, D)
        self.less("and its predicted loss is lower", best, loss)
        self.same("for the same operations", training_flops(N, D) / self.flops, 1.0)

    @step("Where it fits", like="A piano is not only bought: it has to go through the door.")
    def where_it_fits(self) -> None:
        """In half precision each parameter takes two bytes. To these come the keys and values of every text that is
        being written, in every layer. One device does not hold such a model; several share it.
        """
        known = devices()
        heads, bytes_each = self.dim // 128, 2
        cache = cache_bytes(self.layers, heads, 128, self.context, bytes_each)
        self.show(cache)
        weights = bytes_each * self.size
        rows = [(known[name].name, known[name].memory, math.ceil(weights / known[name].memory)) for name in MACHINES]
        self.table(("device", "bytes of memory", "devices for the weights"), rows)
        self.claim("no device of the table holds the weights alone", all(count > 1 for *_, count in rows))
        self.less("the cache of one full text is less than a tenth of the weights", cache / weights, 1 / 10)
        half = cache_bytes(self.layers, heads, 128, self.context, 1)
        self.claim("with one byte for each number the cache is half as large", 2 * half == cache)

    @step("A model for your machine", like="A recipe for the oven one has, not for the one in the magazine.")
    def your_machine(self) -> None:
        """Choose a machine, and let it train for some days. Its peak rate and the hours give the operations, and the
        law gives the best size and the text for them. The constants hold for running text of the web in tokens of a
        large vocabulary; a law of your own runs is better, and comes next.
        """
        law, days = scaling_law(), self.tensor([1.0, 2.0, 4.0]).tolist()
        known = devices()
        gains: dict[str, list[float]] = {}

        def with_machine(machine: object) -> list[float]:
            device = known[str(machine)]
            budgets = [flops_of(24 * day, device.peak(TRAINED)) for day in days]
            found = [compute_optimal_size(flops, law.A, law.B, law.alpha, law.beta) for flops in budgets]
            losses = [scaling_law_loss(N, D, law.E, law.A, law.B, law.alpha, law.beta) for N, D in found]
            self.show(found[0][0])
            rows = [(day, *sizes, loss) for day, sizes, loss in zip(days, found, losses, strict=True)]
            self.table((f"days on {device.name}", "parameters", "tokens", "predicted loss"), rows)
            return losses

        self.choose("machine", MACHINES, lambda machine: gains.update({str(machine): with_machine(machine)}))
        falls = {name: [before - after for before, after in pairwise(losses)] for name, losses in gains.items()}
        self.claim("on every machine more time lowers the loss", all(min(fall) > 0 for fall in falls.values()))
        self.claim("but each doubling by less", all(fall == sorted(fall, reverse=True) for fall in falls.values()))
        N, more = (compute_optimal_size(flops, law.A, law.B, law.alpha, law.beta)[0] for flops in (1e18, 2e18))
        self.same("twice the time, and the size grows by about the root of two", more / N, math.sqrt(2), within=0.05)

    @step("A law of your own", like="A tailor takes your measure instead of the catalog's.")
    def a_law_of_your_own(self) -> None:
        """Train small models of several sizes on several amounts of your text, each to the end of its schedule, and fit
        the law to their losses. Here the runs are made up from a known law and some noise, so that one can see whether
        the fit finds it: it gives each constant with an interval, and predicts a run that is larger than all of them.
        """
        noise = float(self.tensor([0.002])[0])
        law = scaling_law()
        sizes, amounts = (2e5, 8e5, 3e6, 1e7), (2e6, 8e6, 3e7, 1e8)
        wave = [math.sin(3.0 * k) for k in range(len(sizes) * len(amounts))]
        pairs = [(N, D) for N in sizes for D in amounts]
        truth = [scaling_law_loss(N, D, law.E, law.A, law.B, law.alpha, law.beta) for N, D in pairs]
        with self.unrecorded():
            runs = [
                FinishedRun(parameters=N, tokens=D, loss=loss * (1 + noise * away))
                for (N, D), loss, away in zip(pairs, truth, wave, strict=True)
            ]
            found = fit(runs, samples=100)
            predicted = found.predict(5e7, 5e8)
        real = scaling_law_loss(5e7, 5e8, law.E, law.A, law.B, law.alpha, law.beta)
        self.show(real)
        known = vars(law)
        self.table(
            ("constant", "made from", "fitted", "from", "to"),
            [(name, known[name], c.value, c.low, c.high) for name, c in found.constants.items()],
        )
        held = all(c.low <= known[name] <= c.high for name, c in found.constants.items())
        self.claim("every constant lies in its interval", held)
        self.plot(
            "loss against data, for each size",
            {f"{N:,.0f} parameters": ([math.log10(D) for D in amounts], [found.curve(N, D) for D in amounts])
             for N in sizes[:3]},
            "tokens, as a power of ten",
        )  # fmt: skip
        times = found.extrapolation(5e7, 5e8)
        within = f"a run of {number(times)} times the compute is predicted within a fiftieth of its loss"
        self.same(within, predicted.value / real, 1.0, within=1 / 50)

    def quiz(self) -> None:
        """Questions on it."""
        self.ask(
            f"A model of {number(1e6)} parameters reads {number(2e7)} tokens: how many operations does training take?",
            lambda: training_flops(1e6, 2e7),
            "How many operations for each parameter and token, forward and backward together?",
            tolerance=1.0,
        )
        self.ask(
            f"A run of {number(3.6e18)} operations on {number(5)} devices that each reach {number(1e14)} a second:"
            " how many hours does it take?",
            lambda: training_hours(3.6e18, 1e14, 5),
            "Operations over the rate of all devices together are seconds.",
        )
        self.ask(
            f"{number(8)} devices of {number(500)} watts for {number(10)} hours: how many kilowatt-hours do they use, "
            "cooling left out?",
            lambda: training_energy(10.0, 500.0, 8),
            "Power times time; a kilowatt is a thousand watts.",
        )
