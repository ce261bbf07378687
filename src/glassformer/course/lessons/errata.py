"""Errata: what the four sources print, and what is right."""

from collections import Counter

import torch

from glassformer.course.errata import Erratum, Finding, errata, findings, without_findings
from glassformer.course.page import value_text
from glassformer.course.walk import Walk, step
from glassformer.equations.algebra import add, linear
from glassformer.equations.attention import weighted_sum
from glassformer.equations.normalization import layer_norm
from glassformer.equations.optimizers import gradient_descent
from glassformer.equations.other_norms import layer_norm_outside
from glassformer.equations.parameter_counts import projection_macs
from glassformer.equations.softmax import softmax

SHEET, GUIDE, TUTORIAL, WALKTHROUGH = "Mathematics of", "The Transformer", "The Mathematics", "The Math Behind"
FIRST_OF_TRAINING = 40  # the first erratum of the walk-through that is about the loss and what follows it
ERRATA_COLUMNS = ("", "in print", "right")


class ErrataWalk(Walk):
    """Every erratum of the four sources: recomputed where possible, else marked as a fact or as editorial."""

    @step("The formula sheet", like="A pocket timetable: right as far as it goes.")
    def formula_sheet(self) -> None:
        """“Mathematics of Transformers” prints formulas rather than numbers. They are right as far as they go; a
        definition, a convention and a term are missing.
        """
        self.found = _tell(self, [each for each in errata() if each.source.startswith(SHEET)])
        given = self.given("attention-cost-quadratic")
        self.show(projection_macs(given.get("n", list[int])[0], given.get("d", int)))

    @step("The short guide", like="A good map with one street name on the wrong street.")
    def short_guide(self) -> None:
        """“The Transformer: Let's dive into math” works one small example of attention, and gets it right. It lists an
        encoder of images and texts among the generators of images, and is imprecise about widths and projections.
        """
        self.found |= _tell(self, [each for each in errata() if each.source.startswith(GUIDE)])
        self.beside("toy-attention-scores", QKt=self.worked("toy-attention-scores").tensor("QKt"))

    @step("The tutorial", like="A careful lecture with the odd slip at the blackboard.")
    def tutorial(self) -> None:
        """The tutorial from first principles has a wrong tenth step of gradient descent, leaves a factor out of its
        gradients, and continues with rounded numbers. Some of its statements are too strong.
        """
        self.found |= _tell(self, [each for each in errata() if each.source.startswith(TUTORIAL)])

    @step(
        "The walk-through, up to the decoder",
        like="A travel diary written from memory: the places are real, some of the dates are not.",
    )
    def walk_through(self) -> None:
        """“The Math Behind GPT Models” follows one sentence through a whole model, by hand and by script. The two
        disagree about positions, norms, masks and transposed matrices, and residual connections are missing.
        """
        told = [each for each in errata() if each.source.startswith(WALKTHROUGH)]
        self.found |= _tell(self, [each for each in told if each.number < FIRST_OF_TRAINING])

    @step("The walk-through, from the loss to GPT", like="The last chapters of the diary, written in a hurry.")
    def walk_through_training(self) -> None:
        """A step for the logits is taken on the probabilities, two mixtures are added up wrongly, and some figures
        about models are those of other models. A few entries are matters of wording or of editing alone.
        """
        told = [each for each in errata() if each.source.startswith(WALKTHROUGH)]
        self.found |= _tell(self, [each for each in told if each.number >= FIRST_OF_TRAINING])

    @step("Finding the slip", like="Finding not only the wrong sum but the slip of the pen that made it.")
    def finding_the_slip(self) -> None:
        """Sometimes the slip itself can be found: make it on purpose, and the printed number comes out. Here are four.
        A term of a sum was left out; a small number was added outside a root; the column index stood where the index
        of the pair belongs; a step was taken on probabilities.
        """
        row, column = self.given("q13-hand-calculation").tensors("row", "column")
        short = linear(row[:-1], column[:-1, None])
        self.show(short, (0,))
        printed = self.given("q13-hand-calculation").fact("Q13", float)
        self.same("the product without its last term is the printed one", short, self.tensor(printed), within=1e-6)
        norm = self.given("layernorm-M")
        M, eps = norm.tensor("M"), norm.get("eps", float)
        outside = layer_norm_outside(M, M.new_ones(M.shape[-1]), M.new_zeros(M.shape[-1]), eps)
        inside = layer_norm(M, M.new_ones(M.shape[-1]), M.new_zeros(M.shape[-1]), eps)
        in_print = self.tensor(norm.fact("LN", list[list[float]]))
        self.same("with the small number outside the root the norm is the printed one", outside, in_print, within=1e-7)
        self.differ("and with it inside it is not", inside, in_print, by=1e-7)
        encoding = self.given("positional-encoding-d4")
        table = self.tensor(encoding.fact("PE", list[list[float]]))
        self.same("the column index gives the printed encoding", _by_column(*table.shape), table, within=6e-5)
        given = self.given("probabilities-after-update")
        p, y = given.tensors("p", "y")
        stepped = gradient_descent(p, p - y, given.get("alpha", float))
        wrong = self.tensor(given.fact("p_new", list[float]))
        self.same("a step on the probabilities gives the printed ones", stepped, wrong, within=0.006)

    @step("How they are found", like="A ledger with a stamp on each line: recalculated, or read again.")
    def how_they_are_found(self) -> None:
        """The numbers of the sources are computed again from the inputs they give, and so is every claim that can be
        computed. A printed number is wrong if no rounding explains it, and rounded if it is off in its last digit.
        What is left is a fact that can only be stated, or editorial: a date, a label, a numbering, a missing passage.
        """
        self.h0, self.weights = self.given("gpt-h1-love").tensors("h0", "weights")
        mixed = weighted_sum(self.weights[None], self.h0)
        self.show(mixed, (0, 0), (0, 1))
        self.beside("gpt-h1-love", h1=mixed[0])
        kinds = Counter(
            found[0].kind if found else without_findings(self, errata()[number - 1])
            for number, found in self.found.items()
        )
        self.table(("what is off", "errata"), kinds.most_common())
        self.claim(f"together they are {kinds.total()}, all there are", kinds.total() == len(errata()))
        self.less("fewer than a tenth are editorial", kinds["editorial"], 0.1 * kinds.total())

    def quiz(self) -> None:
        """Questions on it."""
        self.ask(
            "“I love AI”: the second number of the mixture, rightly?",
            lambda: weighted_sum(self.weights[None], self.h0),
            "A tenth of the first vector's second number, nine tenths of the second's.",
            cell=(0, 1),
        )
        row, column = self.given("q13-hand-calculation").tensors("row", "column")
        self.ask(
            f"{value_text(row)} times {value_text(column)}, added up?",
            lambda: linear(row, column[:, None]),
            "Term by term.",
            cell=(0,),
        )
        logits = self.given("probabilities-after-update").tensor("p").log()
        step = self.worked("logit-update-increments").tensor("delta_Z")
        self.ask(
            f"The logits {value_text(logits)} are moved by {value_text(step)}. What is the probability of the "
            f"first word now?",
            lambda: softmax(add(logits, step)),
            "Move the logits, then take softmax.",
            cell=(0,),
        )


def _tell(walk: Walk, told: list[Erratum]) -> dict[int, list[Finding]]:
    """A table of errata, and the claim that computing bears them out."""
    found = {each.number: findings(walk, each) for each in told}
    walk.table(ERRATA_COLUMNS, [_erratum_row(walk, each, found[each.number]) for each in told])
    computed = [number for number, results in found.items() if results]
    walk.claim(
        f"recomputing confirms all {len(computed)} of these that can be computed",
        all(result.holds for results in found.values() for result in results),
    )
    return found


def _erratum_row(walk: Walk, erratum: Erratum, found: list[Finding]) -> tuple[str, str, str]:
    """An erratum in a line: its number, what is printed and where, what is right and what was computed."""
    printed = [f"{erratum.where}: {erratum.printed}", *(each.printed for each in found if each.printed)]
    begin = "" if found else f"{without_findings(walk, erratum)}: "
    right = [f"{begin}{erratum.right}", *(each.computed for each in found)]
    return f"E{erratum.number}", "; ".join(printed), "; ".join(right)


def _by_column(length: int, dim: int) -> torch.Tensor:
    """Waves with the column's own index where the index of its pair belongs."""
    columns = torch.arange(dim, dtype=torch.float64)
    angles = torch.arange(length, dtype=torch.float64)[:, None] / 10000 ** (2 * columns / dim)
    return torch.where(columns % 2 == 0, angles.sin(), angles.cos())
