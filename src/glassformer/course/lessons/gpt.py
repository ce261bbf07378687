"""GPT: “I love AI”."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.algebra import add, linear
from glassformer.equations.attention import weighted_sum
from glassformer.equations.losses import cross_entropy
from glassformer.equations.normalization import layer_norm
from glassformer.equations.parameter_counts import gpt_parameters
from glassformer.equations.softmax import softmax
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.probes.names import Names

SENTENCE = ("I", "love", "AI")


class GptWalk(Walk):
    """A decoder alone: three tokens by hand, a real small GPT, and how large the large ones are."""

    @step("Tokens and positions", like="A serial novel: every installment is written from the earlier ones alone.")
    def tokens_and_positions(self) -> None:
        """No encoder, no second language: one text that continues itself. To each token's embedding the embedding of
        its position is added.
        """
        U, P = self.given("gpt-h0").tensors("U", "W_p")
        self.h0 = add(U, P)
        self.show(self.h0, (0, 0), (1, 0), rows=SENTENCE)
        self.beside("gpt-h0", h0=self.h0)
        self.differ("the position changes every embedding", self.h0, U, by=0.01)

    @step("“love” attends to the past", like="A conversation in which you can answer what was said, not what will be.")
    def love_attends_to_the_past(self) -> None:
        """The token in the middle mixes what it may attend to: a tenth of the token before, nine tenths of itself,
        nothing of the token to come. The source prints another mixture; the arithmetic decides.
        """
        given = self.given("gpt-h1-love")
        weights, self.printed = given.tensor("weights"), self.tensor(given.fact("h1", list[float]))
        self.h1 = weighted_sum(weights[None], self.h0)
        self.show(self.h1, (0, 0), (0, 1))
        self.claim("a tenth, nine tenths, nothing", weights.tolist() == [0.1, 0.9, 0.0])
        self.beside("gpt-h1-love", h1=self.h1[0])

    @step("A matrix, a norm", like="A sum copied wrongly, then added up wrongly.")
    def matrix_a_norm(self) -> None:
        """The mixture is multiplied by a matrix. What is printed follows neither from the right mixture nor from the
        printed one. The heading promises a layer norm that is never applied; here it is.
        """
        given = self.given("gpt-h2-love")
        W = given.tensor("W")
        h2 = linear(self.h1[0], W)
        self.show(h2, (0,), (1,))
        self.beside("gpt-h2-love", h2=h2)
        printed = self.tensor(given.fact("h2", list[float]))
        carried = linear(self.printed, W)
        self.table(
            ("h₂", ""),
            [("from the right mixture", h2), ("from the printed mixture", carried), ("printed", printed)],
        )
        self.differ("what is printed does not follow from the right mixture", h2, printed, by=0.05)
        self.differ("nor from the printed one", carried, printed, by=0.03)
        normed = layer_norm(h2, h2.new_ones(2), h2.new_zeros(2))
        self.show(normed, (0,))
        self.same("of two numbers a layer norm keeps little but the order", normed.abs(), 1, within=0.01)

    @step("A text is its own label", like="Covering the end of a proverb with your thumb and guessing it.")
    def text_is_its_own_label(self) -> None:
        """The tokens before are the input, the next token is the target. Nobody has to label anything: every position
        of every text is an exercise with its solution printed behind it.
        """
        given = self.given("gpt-context-window")
        words, k = given.get("tokens", list[str]), given.get("k", int)
        context, target = words[-1 - k : -1], words[-1]
        self.beside("gpt-context-window", context=context, target=target)
        self.claim("context and target together are the text", [*context, target] == words)

    @step("A real one, small", like="A model ship: too small to sail, but every rope is where it belongs.")
    def real_one_small(self) -> None:
        """A GPT with two layers of width eight. One pass gives the logits of the next token at every position, and no
        position attends to a later one. Untrained, the model finds all tokens about equally likely.
        """
        model = build(GPTConfig(vocab=4, context=8, dim=8, layers=2, heads=2), seed=0).double()
        ids, begun = torch.tensor([[3, 0, 1]]), len(self.tape.steps)
        with torch.no_grad():
            logits = model(ids)
            names, run = Names(model, self.tape), self.tape.steps[begun:]
            loss = cross_entropy(logits[0], torch.tensor([0, 1, 2]))
            probabilities = softmax(logits[0])
        self.table(("step", "name", "equation"), ((i, names[s.path], s.equation.name) for i, s in enumerate(run, 1)))
        self.show(probabilities, rows=("<start>", *SENTENCE[:2]), columns=(*SENTENCE, "<start>"))
        self.show(loss)
        self.claim("every position has a logit for every token", logits.shape == (1, ids.shape[1], 4))
        self.same("all tokens are about equally likely", probabilities, 1 / 4, within=0.05)
        even = cross_entropy(torch.zeros(1, 4, dtype=torch.float64), torch.tensor([0]))
        self.same("its loss is near that of pure guessing", loss, even, within=0.2)
        with torch.no_grad():
            changed = model(torch.tensor([[3, 0, 2]]))
        self.claim("changing the last token changes no logit before it", torch.equal(changed[:, :2], logits[:, :2]))

    @step("How large they are", like="A building's floor area from its plan: count the floors, measure one.")
    def how_large_they_are(self) -> None:
        """The number of parameters follows from four sizes. The first GPT has no layer norm after its last block, so
        the last term of the formula does not occur; it has about a hundred and seventeen million parameters, not a
        hundred and fifty. The third has ninety-six layers, not as many as it has billions of parameters.
        """
        given = self.given("gpt1-parameter-count")
        vocab, context, dim, layers = (given.get(name, int) for name in ("V", "n_ctx", "d", "L"))
        first = gpt_parameters(vocab, context, dim, layers, final_norm=False)
        self.show(first)
        self.beside("gpt1-parameter-count", parameters=first, millions=first / 1e6)
        self.claim("to the nearest million they are a hundred and seventeen", round(first / 1e6) == 117)
        with_norm = gpt_parameters(vocab, context, dim, layers)
        self.claim("a last layer norm would add two d", with_norm == first + 2 * dim)
        others = self.given("gpt2-gpt3-parameter-count")
        counts = {}
        for name in ("gpt2", "gpt3"):
            size = others.get(name, dict[str, int])
            counts[name] = gpt_parameters(size["V"], size["n_ctx"], size["d"], size["L"])
        large = others.get("gpt2", dict[str, int])
        small = gpt_parameters(large["V"], large["n_ctx"], dim, layers)
        self.table(
            ("model", "parameters"),
            [("GPT", first), ("GPT-2, the smallest", small), ("GPT-2 XL", counts["gpt2"]), ("GPT-3", counts["gpt3"])],
        )
        self.less("the count printed for the second GPT is that of its largest size", small, counts["gpt2"] / 10)
        self.beside(
            "gpt2-gpt3-parameter-count", **counts, **{f"{name}_billions": n / 1e9 for name, n in counts.items()}
        )
        third = self.worked("gpt3-layers-and-width")
        self.beside("gpt3-layers-and-width", layers=third.get("layers", int), d_model=third.get("d_model", int))
        self.claim("the third has ninety-six layers", third.get("layers", int) == 96)

    def quiz(self) -> None:
        """Questions on it."""
        a, rows = self.tensor([[0.5, 0.5]]), self.tensor([[1.0, 0.0], [0.0, 3.0]])
        self.ask(
            f"A token attends half to ({number(rows[0, 0])}, {number(rows[0, 1])}) and half to "
            f"({number(rows[1, 0])}, {number(rows[1, 1])}). What is the second number of the mixture?",
            lambda: weighted_sum(a, rows),
            "Each number of the mixture is a weighted average.",
            cell=(0, 1),
        )
        weights = self.given("gpt-h1-love").tensor("weights")
        self.ask(
            f"The attention weights of “love” are {', '.join(map(number, weights))}, and the first numbers of the "
            f"three tokens are {', '.join(map(number, self.h0[:, 0]))}. What is the first number of its mixture?",
            lambda: weighted_sum(weights[None], self.h0[:, :1]),
            "Multiply each number by its weight, and add up.",
            cell=(0, 0),
        )
        vocab, context, dim, layers = 1000, 64, 32, 2
        self.ask(
            f"A GPT with {vocab} tokens, {context} positions, width {dim} and {layers} layers: how many parameters?",
            lambda: gpt_parameters(vocab, context, dim, layers),
            "Two embedding tables; twelve d² and thirteen d for each layer; a last layer norm of two d.",
            tolerance=0.5,
        )
