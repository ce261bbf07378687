"""Reading attention: a spy, a pronoun, a cat and a mat."""

import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.course.small_models import PHRASE_TOKENS, token_ids, trained_translator
from glassformer.course.walk import Walk, step
from glassformer.equations.algebra import add, linear
from glassformer.equations.attention import attention, attention_scores, weighted_sum
from glassformer.equations.positions import sinusoidal_positions
from glassformer.equations.softmax import softmax
from glassformer.probes.readout import attention_maps

GUESTS = ("target", "banker", "gardener", "diplomat")
PRONOUN_VECTORS = {  # experience, male person, giving, receiving
    "Marcus": (1.0, 1.0, 1.0, 0.0),
    "gave": (0.0, 0.0, 1.0, 0.0),
    "advice": (0.5, 0.0, 0.0, 0.0),
    "Troy": (0.0, 1.0, 0.0, 1.0),
    "he": (0.0, 1.0, 0.0, 0.0),
    "experiences": (1.0, 0.0, 0.0, 0.0),
}
ANIMAL_VECTORS = {
    "the": (0.1, 0.0, 0.1, 0.0),
    "cat": (1.0, 0.2, 0.0, 0.3),
    "mat": (0.0, 0.9, 0.2, -0.4),
    "sat": (0.3, 0.1, 1.0, 0.0),
    "on": (0.0, 0.2, 0.4, 0.9),
}


class ReadingAttentionWalk(Walk):
    """What queries, keys and values are for, told by a spy; who “he” is; why order matters; a trained model's map."""

    @step(
        "The eavesdropper",
        like="A spy at a reception: the topic of the person watched is the query, the topics of the other "
        "conversations are the keys, what is being said are the values.",
    )
    def eavesdropper(self) -> None:
        """You watch one person and want the context. Compare what concerns that person with what each group is talking
        about, decide how much to listen to each, and take in their words in that proportion. What decides is the key;
        what you take home is the value.
        """
        topic = self.tensor([[2.0, 1.0]])
        keys = self.tensor([[2.0, 0.5], [1.5, 0.0], [-1.0, 0.5], [1.0, 2.0]])
        words = self.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]])
        self.scores = attention_scores(topic, keys)
        heard = softmax(self.scores)
        gathered = weighted_sum(heard, words)
        self.show(self.scores, (0, 0), columns=GUESTS)
        self.show(heard, (0, 0), columns=GUESTS)
        self.show(gathered, (0, 0))
        self.claim("the gardener, on another topic, is heard least", int(heard.argmin()) == GUESTS.index("gardener"))
        other = words.clone()
        other[3] = 9.0
        self.same("what is said does not change who is listened to", softmax(attention_scores(topic, keys)), heard)
        self.differ("only what is taken home", weighted_sum(heard, other), gathered, by=0.1)

    @step(
        "Who is “he”?",
        like="A reader pauses at a pronoun and looks back for the person who fits.",
    )
    def who_is_he(self) -> None:
        """“Professor Marcus gave some really good advice to Troy, one of his students, because he has extensive
        experiences.” Both are men; only the rest of the sentence tells. The vectors here are made by hand. In a first
        layer “he” gathers from its context that someone has experience; in a second layer that points to Marcus.
        """
        self.names, vectors = list(PRONOUN_VECTORS), self.tensor(list(PRONOUN_VECTORS.values()))
        he = self.names.index("he")
        men = self.tensor([[0.0, 3.0, 0.0, 0.0]])
        at_once = softmax(attention_scores(men, vectors))
        near = self.tensor([[4.0, -2.0, -2.0, -2.0]])
        context = weighted_sum(softmax(attention_scores(near, vectors)), vectors)
        knows = add(vectors[he : he + 1], context)
        project = 3 * torch.eye(4, dtype=torch.float64)
        then = softmax(attention_scores(linear(knows, project), vectors))
        self.table(
            ("“he” attends to", *self.names), [("by being a man", *at_once[0]), ("knowing its context", *then[0])]
        )
        self.show(knows, (0, 0))
        marcus, troy = (self.names.index(name) for name in ("Marcus", "Troy"))
        self.same("at first Marcus and Troy have the same weight", at_once[0, marcus], at_once[0, troy])
        self.less("with its context “he” attends to Marcus far more", 2 * then[0, troy], then[0, marcus])

    @step(
        "The mat sat on the cat",
        like="Two sentences from one bag of words: for the cat it makes a difference.",
    )
    def mat_sat_on_the_cat(self) -> None:
        """“The cat sat on the mat” and “the mat sat on the cat” have the same words. Without positions attention gives
        the word cat the same output in both sentences. With positions added it does not.
        """
        table = {word: self.tensor(vector) for word, vector in ANIMAL_VECTORS.items()}
        first, second = ["the", "cat", "sat", "on", "the", "mat"], ["the", "mat", "sat", "on", "the", "cat"]
        a, b = (torch.stack([table[word] for word in words]) for words in (first, second))
        positions = sinusoidal_positions(len(first), 4, dtype=torch.float64)
        bare = [attention(x, x, x)[words.index("cat")] for x, words in ((a, first), (b, second))]
        placed = [
            attention(x, x, x)[words.index("cat")]
            for x, words in ((add(a, positions), first), (add(b, positions), second))
        ]
        self.table(
            ("output for “cat”", "in the first sentence", "in the second"),
            [("without positions", *bare), ("with positions", *placed)],
        )
        self.show(add(a, positions), rows=first)
        self.same("without positions the output is the same", bare[0], bare[1])
        self.differ("with positions it differs", placed[0], placed[1], by=0.05)

    @step(
        "A trained model's map",
        like="Watching where an interpreter's eyes rest on the page while each word is spoken.",
    )
    def trained_models_map(self) -> None:
        """These weights are not made by hand. A small translator has learned two phrases; each row shows how much one
        target token attends to each source token, in each head of its cross-attention. An attention map shows where a
        head takes its values from. It does not show what it makes of them, so read it as a hint, not as an explanation.
        """
        source, target = "you are welcome", "<start> de nada"
        inputs = {"source": token_ids(source), "target": token_ids(target)}
        maps = attention_maps(trained_translator(), inputs)["decoder.blocks.0.cross_attention"][0]
        for head, weights in enumerate(maps):
            self.table(
                (f"head {head}", *source.split()),
                [(word, *row) for word, row in zip(target.split(), weights, strict=True)],
            )
        self.logits = trained_translator()(**inputs)
        probabilities = softmax(_last_position(self.logits))
        self.same("every row of a map sums to one", maps.sum(-1), 1.0)
        self.differ("the two heads have different attention weights", maps[0], maps[1], by=0.01)
        self.claim("and the model ends with <end>", PHRASE_TOKENS[int(probabilities.argmax())] == "<end>")

    def quiz(self) -> None:
        """Questions on it."""
        self.ask(
            "In the first step, what is the attention weight of the person watched?",
            lambda: softmax(self.scores),
            f"e to the scores {', '.join(map(number, self.scores[0]))}, as weights.",
            cell=(0, 0),
        )
        queries, keys = 7, 5
        self.ask(
            f"{queries} target tokens attend to {keys} source tokens. What is the shape of one head's map?",
            lambda: tuple(attention_scores(torch.zeros(queries, 4), torch.zeros(keys, 4)).shape),
            "A row for each query.",
        )


def _last_position(logits: Tensor) -> Tensor:
    return logits[0, -1]
