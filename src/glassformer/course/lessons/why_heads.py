"""Why several heads?"""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.algebra import linear
from glassformer.equations.attention import apply_mask, attention_scores, weighted_sum
from glassformer.equations.masks import causal_mask
from glassformer.equations.positions import sinusoidal_positions
from glassformer.equations.sequences import concat
from glassformer.equations.softmax import softmax

FEATURES_NAMED = ("person", "study", "work", "name")
SENTENCE_OF_JANE = {
    "Jane": (1.0, 0.0, 0.0, 1.0),
    "graduated": (0.0, 1.0, 0.0, 0.0),
    "Harvard": (0.0, 1.0, 0.0, 1.0),
    "starting": (0.0, 0.0, 0.5, 0.0),
    "job": (0.0, 0.0, 1.0, 0.0),
    "Google": (0.0, 0.0, 1.0, 1.0),
}


class WhyHeadsWalk(Walk):
    """One head makes one average; several heads can attend to several tokens and keep what they find apart."""

    @step(
        "One head, one average",
        like="One pair of ears in a room with two conversations: you hear half of each.",
    )
    def one_head_one_average(self) -> None:
        """“Jane, who recently graduated from Harvard, is starting her new job at Google.” Where does she work? Harvard
        and Google are both names and both matter. A head that looks for names gives them equal weight, and its output
        is the mean of the two: neither of them.
        """
        self.words, self.vectors = list(SENTENCE_OF_JANE), self.tensor(list(SENTENCE_OF_JANE.values()))
        self.table(("word", *FEATURES_NAMED), [(w, *r) for w, r in zip(self.words, self.vectors, strict=True)])
        names = self.tensor([[-3.0, 0.0, 0.0, 6.0]])
        self.weights = softmax(attention_scores(names, self.vectors))
        mixed = weighted_sum(self.weights, self.vectors)
        self.show(self.weights, (0, 2), columns=self.words)
        self.show(mixed, columns=FEATURES_NAMED)
        harvard, google = (self.words.index(word) for word in ("Harvard", "Google"))
        self.same("both names have the same weight", self.weights[0, harvard], self.weights[0, google])
        self.same("so study and work come out nearly alike", mixed[0, 1], mixed[0, 2], within=0.15)

    @step(
        "Two heads, two outputs",
        like="Experts in a meeting: one listens for the degree, one for the job, and the minutes have both.",
    )
    def two_heads_two_outputs(self) -> None:
        """Give each head its own projections. The query of one looks for names that have to do with work, that of the
        other for names that have to do with study. Their outputs are concatenated instead of averaged, so the next
        layer can tell them apart.
        """
        queries = {"work": self.tensor([[-3.0, -3.0, 6.0, 6.0]]), "study": self.tensor([[-3.0, 6.0, -3.0, 6.0]])}
        found, outputs = {}, []
        for name, query in queries.items():
            found[name] = softmax(attention_scores(query, self.vectors))
            outputs.append(weighted_sum(found[name], self.vectors))
        joined = concat(outputs)
        self.table(("head", *self.words), [(name, *weights[0]) for name, weights in found.items()])
        self.show(joined)
        best = {name: self.words[int(weights.argmax())] for name, weights in found.items()}
        self.claim(f"the head for work attends to {best['work']}", best["work"] == "Google")
        self.claim(f"the head for study attends to {best['study']}", best["study"] == "Harvard")
        self.less("each gives its word more than one head could give either", self.weights.max(), found["work"].max())

    @step(
        "One token dominates",
        like="One loud guest, and nobody hears the rest; in the next room they can.",
    )
    def one_token_dominates(self) -> None:
        """If one key is very long, every query that agrees with it at all gives it nearly everything, and the other
        tokens are lost to that head. Another head has other projections, in which that key need not be long.
        """
        loud = self.vectors.clone()
        loud[0] = 12 * loud[0]  # Jane shouts
        scores = attention_scores(loud, loud)
        first = softmax(scores)
        project = self.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 0.0]])  # keeps study and work alone
        keys = linear(loud, project)
        second = softmax(attention_scores(keys, keys))
        google = self.words.index("Google")
        self.show(keys, (0, 0), rows=self.words, columns=("study", "work"))
        self.table(
            ("Google attends to", "in one head", "in another"),
            [(word, first[google, i], second[google, i]) for i, word in enumerate(self.words)],
        )
        agreeing = first[scores[:, 0] > 0, 0]
        self.less("every query that agrees with Jane gives her nearly everything", 0.9, agreeing.min())
        self.less("in the other head Google gives her next to nothing", second[google, 0], 0.05)

    @step(
        "Heads for neighbors, for distant tokens, for meaning",
        like="A proofreader, a historian and a poet, all reading the same page.",
    )
    def heads_that_differ(self) -> None:
        """What a head attends to is learned, and differs. Here are three by hand: one follows positions and attends to
        the previous token, one attends to the first token however far it is, one attends to tokens of similar meaning.
        All three run side by side.
        """
        positions = sinusoidal_positions(len(self.vectors), 16, dtype=torch.float64)
        mask = causal_mask(len(self.vectors), dtype=torch.float64)
        previous, first = torch.cat([positions[:1], positions[:-1]]), positions[:1].expand_as(positions)
        heads = {
            "previous token": softmax(apply_mask(attention_scores(previous, positions, 4.0), mask)),
            "first token": softmax(apply_mask(attention_scores(first, positions, 4.0), mask)),
            "similar meaning": softmax(attention_scores(self.vectors, self.vectors, 4.0)),
        }
        attended = {name: [self.words[int(i)] for i in weights.argmax(-1)] for name, weights in heads.items()}
        self.table(("word", *heads), [(w, *(attended[n][i] for n in heads)) for i, w in enumerate(self.words)])
        self.show(heads["previous token"], (2, 1), rows=self.words, columns=[word[:5] for word in self.words])
        self.claim("the first head attends to the previous token", attended["previous token"][1:] == self.words[:-1])
        self.claim("the second always attends to the first token", set(attended["first token"]) == {self.words[0]})
        self.claim("by meaning “starting” attends to work", attended["similar meaning"][3] in ("job", "Google"))

    def quiz(self) -> None:
        """Questions on it."""
        scores = self.tensor([[2.0, 2.0]])
        self.ask(
            f"The scores of two words in one head are {number(scores[0, 0])} each. What is the weight of the first?",
            lambda: softmax(scores),
            "Equal scores have equal weights.",
            cell=(0, 0),
        )
        values = self.tensor([[10.0], [30.0]])
        self.ask(
            f"Their values are {number(values[0, 0])} and {number(values[1, 0])}. What is the output of the head?",
            lambda: weighted_sum(softmax(scores), values),
            "The mean of both.",
            cell=(0, 0),
        )
        count, width = 4, 16
        self.ask(
            f"{count} heads of width {width} are concatenated for one token. How long is the result?",
            lambda: tuple(concat([torch.zeros(width)] * count).shape),
            "They are put end to end.",
        )
