"""Pronouns: one head looks for what “it” stands for."""

import copy

import torch

from glassformer.arithmetic import number
from glassformer.course.pronoun_model import PronounModel, small_pronoun_model
from glassformer.course.walk import Walk, step
from glassformer.data.pronouns import PronounSentence, minimal_pairs
from glassformer.equations.algebra import add
from glassformer.equations.attention import attention_scores, weighted_sum
from glassformer.equations.metrics import accuracy
from glassformer.equations.softmax import softmax
from glassformer.probes.readout import attention_maps

WORDS = ("chest", "box", "it", "tall")
VECTORS = (  # is put in, is the container, too much, too little
    (1.0, 0.0, 0.0, 0.0),
    (0.0, 1.0, 0.0, 0.0),
    (0.0, 0.0, 0.0, 0.0),
    (0.0, 0.0, 1.0, 0.0),
)
TOO_LITTLE = (0.0, 0.0, 0.0, 1.0)  # tiny, in place of tall
LOOK_FOR = ((0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0), (6.0, 0.0, 0.0, 0.0), (0.0, 6.0, 0.0, 0.0))
CHANCE = 0.5  # of two nouns


class PronounsWalk(Walk):
    """Why a pronoun needs attention; a head by hand; a model that learns it; which of its heads does it."""

    @step("One word decides", like="A lock with one tooth of the key filed down: another door opens.")
    def one_word_decides(self) -> None:
        """“The chest does not fit into the box because it is too tall”: what is too tall? Put tiny in place of tall,
        and “it” is something else, though nothing before it has changed. The sentence turned around, “the box can not
        hold the chest”, changes the order of the nouns and not the answer. So neither the order nor the last word alone
        tells.
        """
        pair = _pair()
        self.table(("sentence", "“it” is the"), [(" ".join(each.words), each.answer) for each in pair])
        self.claim("the two sentences differ only in the last word", pair[0].words[:-1] == pair[1].words[:-1])
        self.claim("and “it” stands for the other noun", pair[0].antecedent == pair[1].other)
        vectors = self.tensor([list(vector) for vector in VECTORS])
        alike = softmax(attention_scores(vectors[2:3], vectors))
        self.show(alike, (0, 0), columns=WORDS)
        self.same("“it” by itself has nothing to look for: all weights are equal", alike, 1 / len(WORDS))

    @step("A head by hand", like="A detective who first asks what is missing, and then who had it.")
    def head_by_hand(self) -> None:
        """It takes two layers. In the first, “it” gathers from its context that something is too much. In the second,
        its query asks for what is put in, because that is what can be too much; a container can be too little.
        """
        look_for = self.tensor([list(row) for row in LOOK_FOR])
        self.scores, self.weights = [], []
        for last in (VECTORS[3], TOO_LITTLE):
            vectors = self.tensor([list(vector) for vector in (*VECTORS[:3], last)])
            knows = add(vectors[2:3], vectors[3:4])
            self.scores.append(attention_scores(weighted_sum(knows, look_for), vectors))
            found = softmax(self.scores[-1])
            self.show(found, (0, 0), columns=WORDS)
            self.weights.append(found)
        tall, tiny = self.weights
        self.less("with tall, “it” attends to the chest more than to the box", tall[0, 1], tall[0, 0])
        self.less("with tiny it is the other way around", tiny[0, 0], tiny[0, 1])

    @step("A model that must find out", like="Learning a game by being told only who won.")
    def trained(self) -> None:
        """A small encoder reads such sentences and is told at “it” which noun is meant, and nothing else. Some pairs of
        nouns never occur together in training. A model that only knows which two nouns are in the sentence gets half of
        these right.
        """
        self.model = small_pronoun_model()
        held_out = self.model.held_out
        guesses = self.model.logits(self.model.ids(held_out), [each.pronoun for each in held_out]).argmax(-1)
        answers = torch.tensor([self.model.words.index(each.answer) for each in held_out])
        self.right = accuracy(guesses, answers)
        self.show(self.right)
        self.claim(
            "it resolves nearly all pronouns of pairs it has never seen", float(self.right) > (1 + CHANCE) / 2 + 0.1
        )

    @step("One head looks for it", like="Following the eyes of a reader at a pronoun.")
    def one_head(self) -> None:
        """For every head: its mean attention weight from “it” to the noun that is meant, over all sentences with new
        pairs, and how often that noun gets the most weight. Then the weights of the first of these heads in the two
        sentences. Only the last word has changed, and the head looks at the other noun.
        """
        heads = self.model.heads(self.model.held_out)
        self.best = heads[0]
        self.table(
            ("head", "weight on the noun", "gets the most"),
            [(f"{each.module}, head {each.head}", each.weight, each.most) for each in heads],
        )
        pair, ids = _pair(), self.model.ids(_pair())
        maps = attention_maps(self.model.model, {"ids": ids, "attention_mask": ids != 0})[self.best.module]
        for line, each in enumerate(pair):
            weights = maps[line, self.best.head, each.pronoun, : len(each.words)]
            self.table(("“it” attends to", *each.words), [(each.words[-1], *weights)])
            self.claim(f"with {each.words[-1]} it looks at the {each.answer}", int(weights.argmax()) == each.antecedent)
        self.claim("the head is in the last block, after “it” has read its context", "blocks.1" in self.best.module)
        self.less("over all sentences most of its weight is on the right noun", CHANCE, self.best.weight)

    @step("Without it", like="Covering one eye to see which one was aiming.")
    def without_it(self) -> None:
        """An attention map is a hint, so test it: switch the attention of that block off and measure again. What is
        left knows the words, and can no longer tell which noun is meant.
        """
        model = copy.deepcopy(self.model.model)
        block = model.get_submodule(self.best.module)
        for parameter in block.get_submodule("output").parameters():
            parameter.zero_()
        blind = PronounModel(model, self.model.words, self.model.train, self.model.held_out)
        held_out = blind.held_out
        guesses = blind.logits(blind.ids(held_out), [each.pronoun for each in held_out]).argmax(-1)
        answers = torch.tensor([blind.words.index(each.answer) for each in held_out])
        left = accuracy(guesses, answers)
        self.show(left)
        self.less("without this attention the model does no better than a choice between the two", left, CHANCE + 0.1)
        self.less("it was far higher before", left + 0.2, self.right)

    def quiz(self) -> None:
        """Questions on it."""
        scores = self.scores[0]
        self.ask(
            "In the head by hand, with tall: what is the attention weight on the chest?",
            lambda: softmax(scores),
            f"e to the scores {', '.join(map(number, scores[0]))}, as weights.",
            cell=(0, 0),
        )
        guessed, meant = self.tensor([1, 2, 1, 2]), self.tensor([1, 1, 1, 2])
        self.ask(
            "A model names the two nouns in turn; of four sentences only the last means the second noun. Its accuracy?",
            lambda: accuracy(guessed.long(), meant.long()),
            "Only one of its answers is wrong.",
        )


def _pair() -> tuple[PronounSentence, PronounSentence]:
    """Two held-out sentences that differ in the last word."""
    return next(minimal_pairs(small_pronoun_model().held_out))
