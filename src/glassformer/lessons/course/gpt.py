"""GPT: “I love AI”."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.algebra import add, linear
from glassformer.equations.attention import weighted_sum
from glassformer.equations.counts import gpt_parameters
from glassformer.equations.losses import cross_entropy
from glassformer.equations.normalization import layer_norm
from glassformer.equations.probability import softmax
from glassformer.lessons.walk import Walk, step
from glassformer.models.build import build
from glassformer.models.gpt import GPTConfig

SENTENCE = ("I", "love", "AI")


class GptWalk(Walk):
    """A decoder alone: three words by hand, a real small GPT, and how large the large ones are."""

    @step("Words and places", like="A serial novel: every instalment is written from the earlier ones alone.")
    def words_and_places(self) -> None:
        """No encoder, no second language: one text that continues itself. Each word's row gets the row of its place."""
        U, P = self.given("gpt-h0").tensors("U", "W_p")
        self.h0 = add(U, P)
        self.show(self.h0, (0, 0), (1, 0), rows=SENTENCE)
        self.beside("gpt-h0", h0=self.h0)

    @step("Love looks back", like="A conversation in which you can answer what was said, not what will be.")
    def love_looks_back(self) -> None:
        """The word in the middle mixes what it may see: a tenth of the word before, nine tenths of itself, nothing of
        the word to come. The source prints another mixture; the arithmetic decides.
        """
        shares = self.given("gpt-h1-love").tensor("weights")
        self.h1 = weighted_sum(shares[None], self.h0)
        self.show(self.h1, (0, 0), (0, 1))
        self.beside("gpt-h1-love", h1=self.h1[0])

    @step("A matrix, a norm", like="A sum copied wrongly, then added up wrongly.")
    def matrix_a_norm(self) -> None:
        """The mixture goes through a matrix. What is printed follows neither from the right mixture nor from the
        printed one. The heading promises a norm that is never taken; here it is.
        """
        W = self.given("gpt-h2-love").tensor("W")
        h2 = linear(self.h1[0], W)
        self.show(h2, (0,), (1,))
        self.beside("gpt-h2-love", h2=h2)
        normed = layer_norm(h2, h2.new_ones(2), h2.new_zeros(2))
        self.show(normed, (0,))
        self.same("of two numbers a norm keeps little but the order", normed.abs(), 1, within=0.01)

    @step("A text teaches itself", like="Covering the end of a proverb with your thumb and guessing it.")
    def text_teaches_itself(self) -> None:
        """The words before are the question, the next word is the answer. Nobody has to label anything: every place of
        every text is an exercise with its solution printed behind it.
        """
        given = self.given("gpt-context-window")
        words, k = given.get("tokens", list[str]), given.get("k", int)
        self.beside("gpt-context-window", context=words[-1 - k : -1], target=words[-1])

    @step("A real one, small", like="A model ship: too small to sail, but every rope is where it belongs.")
    def real_one_small(self) -> None:
        """Two layers, width eight. One pass scores the next word at every place at once, and the causal mask keeps it
        honest. Untrained, it finds all words about equally likely.
        """
        model = build(GPTConfig(vocab=4, context=8, dim=8, layers=2, heads=2), seed=0).double()
        ids, begun = torch.tensor([[3, 0, 1]]), len(self.tape.steps)
        with torch.no_grad():
            scores = model(ids)
            names = [step.path for step in self.tape.steps[begun:]]
            loss = cross_entropy(scores[0], torch.tensor([0, 1, 2]))
            shares = softmax(scores[0])
        self.table(("step", "where"), enumerate(names, 1))
        self.show(shares, rows=("<start>", *SENTENCE[:2]), columns=(*SENTENCE, "<start>"))
        self.show(loss)
        even = cross_entropy(torch.zeros(1, 4, dtype=torch.float64), torch.tensor([0]))
        self.same("its loss is near that of pure guessing", loss, even, within=0.2)
        with torch.no_grad():
            changed = model(torch.tensor([[3, 0, 2]]))
        self.claim("changing the last word changes no score before it", bool((changed[:, :2] == scores[:, :2]).all()))

    @step("How large they are", like="A building's floor area from its plan: count the floors, measure one.")
    def how_large_they_are(self) -> None:
        """Parameters follow from four sizes. The first GPT has some hundred and seventeen millions, not a hundred and
        fifty; the third has ninety-six layers, not as many as its billions.
        """
        given = self.given("gpt1-parameter-count")
        first = gpt_parameters(*(given.get(name, int) for name in ("V", "n_ctx", "d", "L")), final_norm=False)
        self.show(first)
        self.beside("gpt1-parameter-count", parameters=first, millions=first / 1e6)
        sizes = self.given("gpt2-gpt3-parameter-count")
        counts = {}
        for name in ("gpt2", "gpt3"):
            size = sizes.get(name, dict[str, int])
            counts[name] = gpt_parameters(size["V"], size["n_ctx"], size["d"], size["L"])
        self.table(("model", "parameters"), counts.items())
        self.beside(
            "gpt2-gpt3-parameter-count", **counts, **{f"{name}_billions": n / 1e9 for name, n in counts.items()}
        )
        third = self.worked("gpt3-layers-and-width")
        self.beside("gpt3-layers-and-width", layers=third.get("layers", int), d_model=third.get("d_model", int))

    def quiz(self) -> None:
        """Questions on it."""
        a, rows = self.tensor([[0.5, 0.5]]), self.tensor([[1.0, 0.0], [0.0, 3.0]])
        self.ask(
            f"Half of ({number(rows[0, 0])}, {number(rows[0, 1])}) and half of ({number(rows[1, 0])}, "
            f"{number(rows[1, 1])}): "
            "what is the second number of the mixture?",
            lambda: weighted_sum(a, rows),
            "Half of each, added.",
            cell=(0, 1),
        )
        self.ask(
            "What is h₁ of “love” in its first number, rightly?",
            lambda: weighted_sum(self.given("gpt-h1-love").tensor("weights")[None], self.h0),
            "A tenth of the first row's number and nine tenths of the second's.",
            cell=(0, 0),
        )
        vocab, context, dim, layers = 1000, 64, 32, 2
        self.ask(
            f"A GPT with {vocab} tokens, {context} places, width {dim} and {layers} layers: how many parameters?",
            lambda: gpt_parameters(vocab, context, dim, layers),
            "Two tables, and for each layer twelve d² and thirteen d; the last norm has two d.",
            tolerance=0.5,
        )
