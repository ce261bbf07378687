"""Why several heads?"""

import torch

from glassformer.arithmetic import number
from glassformer.equations.algebra import linear
from glassformer.equations.attention import apply_mask, attention_scores, weighted_sum
from glassformer.equations.heads import concat
from glassformer.equations.masks import causal_mask
from glassformer.equations.positions import sinusoidal_positions
from glassformer.equations.probability import softmax
from glassformer.lessons.walk import Walk, step

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
    """One head makes one average; several heads can look at several places and keep what they find apart."""

    @step(
        "One head, one average",
        like="One pair of ears in a room with two conversations: you hear half of each.",
    )
    def one_head_one_average(self) -> None:
        """“Jane, who recently graduated from Harvard, is starting her new job at Google.” Where does she work? Harvard
        and Google are both names and both matter. A head that looks for names gives them equal weight, and its answer
        is the mean of the two: neither place.
        """
        self.words, self.rows = list(SENTENCE_OF_JANE), self.tensor(list(SENTENCE_OF_JANE.values()))
        self.table(("word", *FEATURES_NAMED), [(w, *r) for w, r in zip(self.words, self.rows, strict=True)])
        names = self.tensor([[-3.0, 0.0, 0.0, 6.0]])
        self.weights = softmax(attention_scores(names, self.rows))
        mixed = weighted_sum(self.weights, self.rows)
        self.show(self.weights, (0, 2), columns=self.words)
        self.show(mixed, columns=FEATURES_NAMED)
        harvard, google = (self.words.index(word) for word in ("Harvard", "Google"))
        self.same("both places have the same weight", self.weights[0, harvard], self.weights[0, google])
        self.same("so study and work come out nearly alike", mixed[0, 1], mixed[0, 2], within=0.15)

    @step(
        "Two heads, two answers",
        like="Experts in a meeting: one listens for the degree, one for the job, and the minutes have both.",
    )
    def two_heads_two_answers(self) -> None:
        """Give each head its own projections. One asks for names that have to do with work, the other for names that
        have to do with study. Their answers are laid side by side instead of being averaged, so the next layer can
        tell them apart.
        """
        asks = {"work": self.tensor([[-3.0, -3.0, 6.0, 6.0]]), "study": self.tensor([[-3.0, 6.0, -3.0, 6.0]])}
        found, answers = {}, []
        for name, query in asks.items():
            found[name] = softmax(attention_scores(query, self.rows))
            answers.append(weighted_sum(found[name], self.rows))
        joined = concat(answers)
        self.table(("head", *self.words), [(name, *weights[0]) for name, weights in found.items()])
        self.show(joined)
        best = {name: self.words[int(weights.argmax())] for name, weights in found.items()}
        self.claim(f"the head for work looks at {best['work']}", best["work"] == "Google")
        self.claim(f"the head for study looks at {best['study']}", best["study"] == "Harvard")
        self.less("each gives its word more than one head could give either", self.weights.max(), found["work"].max())

    @step(
        "One token dominates",
        like="One loud guest, and nobody hears the rest; in the next room they can.",
    )
    def one_token_dominates(self) -> None:
        """If one key is very long, every query that agrees with it at all gives it nearly everything, and the other
        tokens are lost to that head. Another head has other projections, in which that key need not be long.
        """
        loud = self.rows.clone()
        loud[0] = 12 * loud[0]  # Jane shouts
        scores = attention_scores(loud, loud)
        first = softmax(scores)
        project = self.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 0.0]])  # keeps study and work alone
        keys = linear(loud, project)
        second = softmax(attention_scores(keys, keys))
        google = self.words.index("Google")
        self.show(keys, (0, 0), rows=self.words, columns=("study", "work"))
        self.table(
            ("Google looks at", "in one head", "in another"),
            [(word, first[google, i], second[google, i]) for i, word in enumerate(self.words)],
        )
        agreeing = first[scores[:, 0] > 0, 0]
        self.less("every query that agrees with Jane gives her nearly everything", 0.9, agreeing.min())
        self.less("in the other head Google gives her next to nothing", second[google, 0], 0.05)

    @step(
        "Heads that look near, far, and at meaning",
        like="A proofreader, a historian and a poet, all reading the same page.",
    )
    def heads_that_look(self) -> None:
        """What a head looks for is learned, and differs. Here are three by hand: one follows positions and looks at
        the token before, one looks back to the first token however far it is, one looks at tokens of like meaning. All
        three run side by side and none has to give way.
        """
        places = sinusoidal_positions(len(self.rows), 16, dtype=torch.float64)
        mask = causal_mask(len(self.rows), dtype=torch.float64)
        before = torch.cat([places[:1], places[:-1]])
        heads = {
            "the token before": softmax(apply_mask(attention_scores(before, places, 4.0), mask)),
            "the first token": softmax(apply_mask(attention_scores(places[:1].expand_as(places), places, 4.0), mask)),
            "like meaning": softmax(attention_scores(self.rows, self.rows, 4.0)),
        }
        looked = {name: [self.words[int(i)] for i in weights.argmax(-1)] for name, weights in heads.items()}
        self.table(("word", *heads), [(w, *(looked[n][i] for n in heads)) for i, w in enumerate(self.words)])
        self.show(heads["the token before"], (2, 1), rows=self.words, columns=[word[:5] for word in self.words])
        self.claim("the first head looks one back", looked["the token before"][1:] == self.words[:-1])
        self.claim("the second always looks at the beginning", set(looked["the first token"]) == {self.words[0]})
        self.claim("by meaning “starting” looks at work", looked["like meaning"][3] in ("job", "Google"))

    def quiz(self) -> None:
        """Questions on it."""
        scores = self.tensor([[2.0, 2.0]])
        self.ask(
            f"One head scores two words {number(scores[0, 0])} each. What weight has the first?",
            lambda: softmax(scores),
            "Equal scores share evenly.",
            cell=(0, 0),
        )
        values = self.tensor([[10.0], [30.0]])
        self.ask(
            f"Their values are {number(values[0, 0])} and {number(values[1, 0])}. What does the head answer?",
            lambda: weighted_sum(softmax(scores), values),
            "The mean of both.",
            cell=(0, 0),
        )
        count, width = 4, 16
        self.ask(
            f"{count} heads of width {width} answer for one token. How long is the row of their answers?",
            lambda: tuple(concat([torch.zeros(width)] * count).shape),
            "They are laid end to end.",
        )
