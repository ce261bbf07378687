"""Errata: what the four sources print, and what is right."""

from glassformer.equations.algebra import add, linear
from glassformer.equations.attention import weighted_sum
from glassformer.equations.probability import softmax
from glassformer.lessons.page import value_text
from glassformer.lessons.walk import Walk, step
from glassformer.worked.examples import Example, examples

SHEET, GUIDE = "Mathematics of Transformers", "The Transformer: Let's dive into math"
TUTORIAL = "The Mathematics of Transformers: From First Principles to Practice, Part 1"
WALKTHROUGH = "The Math Behind GPT Models"
LINE = ("where", "what", "in print", "right")


class ErrataWalk(Walk):
    """Every number and claim in print that does not hold, computed again, source by source."""

    @step("The formula sheet", like="A pocket timetable: right as far as it goes.")
    def formula_sheet(self) -> None:
        """“Mathematics of Transformers” prints formulas and few numbers. Those that can be computed come out; what is
        short is what they leave unsaid, such as the cost of the projections beside that of the pairs.
        """
        self.table(LINE, [_erratum(self, example) for example in _wrong_in(SHEET)])
        counts = self.worked("attention-cost-quadratic")
        ratio = counts.get("ratio", float)
        self.say(
            f"Its one count: {value_text(counts.get('multiply_adds', list[int]))} multiply-adds, a ratio of "
            f"{value_text(ratio)}."
        )
        self.claim("no number of it is wrong", not _wrong_in(SHEET))

    @step("The short guide", like="A good map with one street name on the wrong street.")
    def short_guide(self) -> None:
        """“The Transformer: Let's dive into math” works one small example of attention, and works it rightly. It
        counts an encoder of pictures and texts among the makers of pictures.
        """
        self.table(LINE, [_erratum(self, example) for example in _wrong_in(GUIDE)])
        self.beside("toy-attention-scores", QKt=self.worked("toy-attention-scores").tensor("QKt"))

    @step("The tutorial", like="A careful lecture with the odd slip at the blackboard.")
    def tutorial(self) -> None:
        """The tutorial from first principles has a wrong tenth step of its descent, a factor left out of its
        gradients, and rounded numbers carried on. Some of its sentences claim more than holds.
        """
        self.table(LINE, [_erratum(self, example) for example in _wrong_in(TUTORIAL)])

    @step(
        "The long walk-through",
        like="A travel diary written from memory: the places are real, some of the dates are not.",
    )
    def long_walk_through(self) -> None:
        """“The Math Behind GPT Models” follows one sentence through a whole model, by hand and by script. Where the
        two part company the print is wrong: other waves, another norm, no mask where one is announced, a transposed
        matrix.
        """
        self.table(LINE, [_erratum(self, example) for example in _wrong_in(WALKTHROUGH)])

    @step("How to read it", like="Finding not only the wrong sum but the slip of the pen that made it.")
    def how_to_read_it(self) -> None:
        """A corrected number is one that no rounding explains. A rounded one is off in its last digit, mostly because
        a rounded number was carried on. Most of the corrected ones have one cause: a step that was said but not
        done.
        """
        self.h0, self.weights = self.given("gpt-h1-love").tensors("h0", "weights")
        mixed = weighted_sum(self.weights[None], self.h0)
        self.show(mixed, (0, 0), (0, 1))
        self.beside("gpt-h1-love", h1=mixed[0])
        same = sum(example.verdict == "reproduced" for example in examples())
        self.say(f"{same} of {len(examples())} worked examples come out as printed, or are not in print.")

    def quiz(self) -> None:
        """Questions on it."""
        self.ask(
            "“I love AI”: the second number of the mixture, rightly?",
            lambda: weighted_sum(self.weights[None], self.h0),
            "A tenth of the first row's second number, nine tenths of the second's.",
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
            f"The scores {value_text(logits)} are moved by {value_text(step)}. What share has the first word now?",
            lambda: softmax(add(logits, step)),
            "Move the scores, then take shares.",
            cell=(0,),
        )


def _wrong_in(source: str) -> list[Example]:
    return [example for example in examples() if example.source == source and example.verdict != "reproduced"]


def _erratum(walk: Walk, example: Example) -> tuple[str, str, str, str]:
    """A line for one erratum: where, which value, what is printed, what is right."""
    entry = walk.verdict(example.id).farthest
    if entry is None:
        return example.section, example.id, "", ""
    claim = isinstance(entry.value, bool) and not isinstance(entry.printed, bool)
    ours = ("holds" if entry.value else "does not hold") if claim else value_text(entry.value, 6)
    return example.section, f"{example.id}: {entry.name}", value_text(entry.printed, 9), ours
