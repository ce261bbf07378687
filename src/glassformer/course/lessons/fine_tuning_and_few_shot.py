"""Fine-tuning and few-shot: teach a trained model by its weights, or by its prompt."""

from functools import cache
from itertools import permutations

import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.course.small_models import losses_while_training
from glassformer.course.walk import Walk, step
from glassformer.decoding.few_shot import Example, few_shot_prompt
from glassformer.equations.algebra import linear
from glassformer.equations.attention import attention_scores, weighted_sum
from glassformer.equations.losses import cross_entropy
from glassformer.equations.metrics import accuracy
from glassformer.equations.sequences import concat, last_token
from glassformer.equations.softmax import softmax
from glassformer.models.gpt import GPT, GPTConfig

ANIMALS, VEHICLES = ("cat", "cow", "dog", "hen"), ("bus", "car", "tram", "truck")
ANIMAL_VERBS, VEHICLE_VERBS = ("drinks", "eats", "sleeps"), ("brakes", "parks", "turns")
WORDS = ("<pad>", "the", "and", *ANIMALS, *VEHICLES, *ANIMAL_VERBS, *VEHICLE_VERBS)
CLASSES = ("animal", "vehicle")
LABELED, NEW = ("the cat", "the car"), ("the cow", "the dog", "the hen", "the bus", "the tram", "the truck")
NEW_LABELS = (0, 0, 0, 1, 1, 1)
LETTERS = ("a", "b", "c", "x", "y", "z")
SHARP = 30.0  # scores so far apart that the softmax takes one


class FineTuningAndFewShotWalk(Walk):
    """A classifier on a language model's last token, what the training before it buys, and learning from the prompt."""

    @step("A new head on an old body", like="A translator who moves to a law firm: the language stays.")
    def new_head(self) -> None:
        """A language model has read many sentences and predicts the next word. To classify, keep its blocks, drop its
        output layer, and put a linear classifier on the hidden state of the last token: the only one that has read the
        whole text.
        """
        body = _language_model()
        self.hidden = body.hidden_states(_ids("the cat drinks and eats"))
        self.vector = last_token(self.hidden)
        head = self.tensor([[0.5, -0.5]] * body.config.dim)
        self.logits = linear(self.vector, head)
        self.show(self.vector, (0, 0))
        self.show(self.logits, columns=CLASSES)
        self.same("it is the hidden state at the last position", self.vector, self.hidden[:, -1])
        other = body.hidden_states(_ids("the cow drinks and eats"))
        self.differ("it knows the first words, though it stands at the last", last_token(other), self.vector, by=1e-3)

    @step("What the body already knows", like="Two apprentices get the same examples; one has read the books.")
    def already_knows(self) -> None:
        """Two texts are labeled, one of each class. The head is trained on them over two frozen bodies: one has learned
        to predict words, the other has random weights. Then both see nouns that were never labeled.
        """
        rows, rights = [], {}
        for name, body in (("trained", _language_model()), ("random", _fresh())):
            head, losses = _trained_head(body)
            guesses = linear(last_token(body.hidden_states(_ids(*NEW))), head).argmax(-1)
            rights[name] = accuracy(guesses, torch.tensor(NEW_LABELS))
            self.show(rights[name])
            rows.append((name, losses[0], losses[-1], rights[name]))
        self.table(("body", "loss before", "loss after", "accuracy on new nouns"), rows)
        self.claim("the trained body transfers to every new noun", float(rights["trained"]) == 1.0)
        self.less("the random body does not", rights["random"], rights["trained"])
        self.less("both fit the two labeled texts", max(row[2] for row in rows), min(row[1] for row in rows))

    @step("Examples in the prompt", like="A card game explained by playing two open rounds.")
    def examples_in_the_prompt(self) -> None:
        """Few-shot prompting changes no weight. The prompt shows questions with their answers and ends where the next
        answer begins. A model can use it if it has learned to look back for something like the question, and to copy
        what came after it. Here is such an induction head by hand: the letters of the prompt are one-hot vectors, and
        each key is the letter before it.
        """
        shown = few_shot_prompt([Example("a", "x"), Example("b", "y")], "a")
        self.say(shown.replace("\n", " / "))
        letters = self.tensor([[float(letter == each) for each in LETTERS] for letter in "axbya"])
        self.answers = []
        for prompt in (letters, self.tensor([[float(letter == each) for each in LETTERS] for letter in "azbya"])):
            before = concat([torch.zeros_like(prompt[:1]), prompt[:-1]], axis=0)
            scores = attention_scores(SHARP * prompt[-1:], before)
            answer = weighted_sum(softmax(scores), prompt)
            self.show(answer, (0, 3), columns=LETTERS)
            self.answers.append(answer)
        first, second = (LETTERS[int(answer.argmax())] for answer in self.answers)
        self.claim(f"asked about a, the head answers {first}, as the prompt shows", first == "x")
        self.claim(f"with another example in the prompt it answers {second}, by the same weights", second == "z")

    @step("More shots", like="The more of a timetable you have seen, the fewer trains surprise you.")
    def more_shots(self) -> None:
        """The same head on random tasks: each gives three letters a random answer. One shot answers only the letter it
        shows. With every shot more letters have been seen, so accuracy rises while the weights stay as they are.
        """
        self.by_shots = [_induction_accuracy(shots) for shots in range(4)]
        self.table(("shots", "accuracy"), [(shots, right) for shots, right in enumerate(self.by_shots)])
        self.show(self.by_shots[-1])
        for fewer, more in zip(self.by_shots, self.by_shots[1:], strict=False):
            self.less("one more shot, and more answers are right", fewer, more)
        self.same("once every letter has been shown, all are right", self.by_shots[-1], 1.0)

    def quiz(self) -> None:
        """Questions on it."""
        self.ask(
            "What probability does the first classifier give to the first class?",
            lambda: softmax(self.logits),
            f"e to the logits {', '.join(map(number, self.logits[0]))}, as probabilities.",
            cell=(0, 0),
        )
        texts, length, dim = 5, 7, 3
        self.ask(
            f"{texts} texts of {length} tokens have hidden states of dimension {dim}. What is the classifier's input?",
            lambda: tuple(last_token(torch.zeros(texts, length, dim)).shape),
            "One vector for each text.",
        )


def _ids(*texts: str) -> Tensor:
    return torch.tensor([[WORDS.index(word) for word in text.split()] for text in texts])


def _fresh() -> GPT:
    """A small GPT with initial weights, in float64 so that every machine trains it to the same numbers."""
    model = GPT(GPTConfig(vocab=len(WORDS), context=8, dim=16, layers=1, heads=2))
    model.init_weights(torch.Generator().manual_seed(1))
    return model.double()


@cache
def _language_model() -> GPT:
    """The same, trained to predict the next word of sentences such as “the cat drinks and eats”."""
    kinds = ((ANIMALS, ANIMAL_VERBS), (VEHICLES, VEHICLE_VERBS))
    texts = [f"the {noun} {a} and {b}" for nouns, verbs in kinds for noun in nouns for a, b in permutations(verbs, 2)]
    ids, model = _ids(*texts), _fresh()
    losses_while_training(model, lambda: cross_entropy(model(ids[:, :-1]), ids[:, 1:]), 120, 0.02)
    return model.requires_grad_(False)


def _trained_head(body: GPT) -> tuple[Tensor, list[float]]:
    """A classifier trained on the labeled texts over a frozen body, and its losses."""
    vectors, labels = last_token(body.hidden_states(_ids(*LABELED))).detach(), torch.arange(len(LABELED))
    head = torch.nn.Linear(body.config.dim, len(CLASSES), bias=False, dtype=torch.float64)
    torch.nn.init.zeros_(head.weight)
    losses = losses_while_training(head, lambda: cross_entropy(head(vectors), labels), 100, 0.05)
    return head.weight.detach().T, losses


def _induction_accuracy(shots: int) -> Tensor:
    """The accuracy of the induction head on all tasks of three letters, after so many different letters were shown."""
    keys, values = torch.eye(6, dtype=torch.float64)[:3], torch.eye(6, dtype=torch.float64)[3:]
    right, wanted = [], []
    for task in torch.cartesian_prod(torch.arange(3), torch.arange(3), torch.arange(3)):
        for asked in range(3):
            prompt = [row for letter in range(shots) for row in (keys[letter], values[task[letter]])]
            seen = torch.stack([*prompt, keys[asked]])
            before = torch.cat([torch.zeros_like(seen[:1]), seen[:-1]])
            looked = (SHARP * seen[-1:] @ before.T / seen.shape[-1] ** 0.5).softmax(-1) @ seen
            right.append(looked[0].argmax())
            wanted.append(3 + task[asked])
    return accuracy(torch.stack(right), torch.stack(wanted))
