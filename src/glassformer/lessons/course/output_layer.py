"""The output layer and the loss: rows become words."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.adaptive import adam
from glassformer.equations.algebra import line, linear, scale
from glassformer.equations.embedding import unembed
from glassformer.equations.losses import cross_entropy, label_smoothing
from glassformer.equations.probability import softmax
from glassformer.equations.sampling import greedy
from glassformer.lessons.walk import Walk, step
from glassformer.models.build import build
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.recording import Tape, unchecked

SAID = (
    "<pad>",
    "<start>",
    "<end>",
    "you",
    "are",
    "welcome",
    "thank",
    "good",
    "morning",
    "de",
    "nada",
    "gracias",
    "buenos",
    "días",
)
LEARNED = (("you are welcome", "de nada"), ("thank you", "gracias"), ("good morning", "buenos días"))


class OutputLayerWalk(Walk):
    """A score for every word of the vocabulary, a choice, a loss; and a small model that learns “de nada”."""

    @step(
        "A score for every word",
        like="A roll call: every word of the language is asked how well it would fit here.",
    )
    def score_for_every_word(self) -> None:
        """The last rows meet a matrix as wide as the vocabulary: one score for each word at each place. Softmax makes
        shares of the scores.
        """
        sizes = self.given("output-layer-shape")
        tokens, dim, vocab = (sizes.get(name, int) for name in ("tokens", "d_model", "vocabulary"))
        wide = unembed(torch.zeros(tokens, dim, dtype=torch.float64), torch.zeros(vocab, dim, dtype=torch.float64))
        self.beside("output-layer-shape", logits_shape=list(wide.shape), weights=vocab * dim)
        h = self.tensor([[1.0, 0.5, -0.5, 2.0], [0.2, -1.0, 1.5, 0.3]])
        self.W = self.tensor([[0.1, 0.9, -0.4], [0.3, -0.2, 0.8], [-0.6, 0.4, 1.1], [0.2, 0.7, -0.3]])
        self.scores = linear(h, self.W)
        self.shares = softmax(self.scores)
        self.show(self.scores, (0, 1), columns=("gracias", "de", "nada"))
        self.show(self.shares, (0, 1), columns=("gracias", "de", "nada"))

    @step("Choose and join", like="The loudest hand goes up first, and the teacher writes down the answer.")
    def choose_and_join(self) -> None:
        """The simplest choice is the word with the largest share, place by place; the words are then joined."""
        chosen = greedy(self.scores)
        words = [("gracias", "de", "nada")[i] for i in chosen]
        self.show(chosen)
        self.claim("the largest share wins", bool((chosen == self.shares.argmax(-1)).all()))
        self.say(f"Joined: {' '.join(words)}.")

    @step(
        "The loss of a sentence",
        like="Reading a detective story for the second time: how surprised are you at each page?",
    )
    def loss_of_a_sentence(self) -> None:
        """The right words are known while training. The loss is the mean surprise at them; its gradient at the scores
        is shares less truth, divided by the number of places.
        """
        right = torch.tensor([1, 2])
        loss = cross_entropy(self.scores, right)
        found = self.back(loss)
        self.show(loss)
        self.show_gradient(found, self.scores, "∂L/∂scores", columns=("gracias", "de", "nada"))
        self.show_gradient(found, self.W, "∂L/∂W", columns=("gracias", "de", "nada"))
        self.claim("the gradient of the matrix has its shape", found[self.W].shape == self.W.shape)
        soft = label_smoothing(torch.eye(3, dtype=torch.float64)[right], 0.1)
        self.show(soft, (0, 1), columns=("gracias", "de", "nada"))
        self.say("Smoothing the targets a little keeps a model from becoming surer than it has reason to be.")

    @step(
        "Teacher forcing",
        like="A driving lesson in which the teacher turns the wheel back onto the road after every mistake.",
    )
    def teacher_forcing(self) -> None:
        """While training, the decoder reads the right words shifted by one, whatever it would have written itself. All
        places are learned in one pass.
        """
        self.table(("decoder reads", "decoder should say"), [("<start>", "de"), ("de", "nada"), ("nada", "<end>")])

    @step("A small model learns it", like="A phrase book for a weekend trip: three phrases, learned by heart.")
    def small_model_learns_it(self) -> None:
        """A translator with one layer each way, trained on three phrases. Its forward pass is the equations of the
        lessons before; watch the loss.
        """
        known = {word: i for i, word in enumerate(SAID)}
        source = torch.tensor([[known[word] for word in f"{a} <end> <pad> <pad>".split()[:4]] for a, _ in LEARNED])
        target = torch.tensor([[known[word] for word in f"<start> {b} <end> <pad>".split()[:4]] for _, b in LEARNED])
        model = build(Seq2SeqConfig(vocab=len(SAID), context=8, dim=16, layers=1, heads=2, hidden=32), seed=0)
        moments = {p: (torch.zeros_like(p), torch.zeros_like(p)) for p in model.parameters()}
        losses = []
        for turn in range(1, 31):
            with torch.no_grad(), unchecked(), Tape() as tape:
                value = cross_entropy(model(source, target[:, :-1], source != 0), target[:, 1:], ignore=0)
            losses.append(value.item())
            found = tape.reverse(of=value)
            with torch.no_grad(), unchecked(), Tape():
                for weight, before in moments.items():
                    new, *kept = adam(weight, found[weight], *before, turn, 0.03)
                    moments[weight] = kept[0], kept[1]
                    weight.copy_(new)
        self.plot("loss", {"loss": (range(len(losses)), losses)})
        written = torch.tensor([[1]])
        with torch.no_grad():
            while written.shape[1] < 5 and int(written[0, -1]) != 2:
                last = model(source[:1], written)[:, -1:]
                written = torch.cat([written, greedy(last)], 1)
            final = softmax(model(source[:1], target[:1, :2])[0])
        self.show(final, rows=("after <start>", "after de"), columns=SAID)
        text = " ".join(SAID[int(i)] for i in written[0, 1:-1])
        self.say(f"you are welcome → {text}")
        self.claim("it says de nada", text == "de nada")

    def quiz(self) -> None:
        """Questions on it."""
        share = self.tensor([[0.0, 0.0, 0.0, 0.0]])
        self.ask(
            f"A model gives {share.shape[1]} words equal scores. What is its loss at any of them?",
            lambda: cross_entropy(share, torch.tensor([0])),
            "Minus the logarithm of one quarter.",
        )
        self.ask(
            f"The gradient of the score of a right word with share {number(self.shares[0, 1])}, one of two places?",
            lambda: scale(line(softmax(self.scores), 1.0, -1.0), 1 / len(self.scores)),
            "Share less one, divided by the number of places.",
            cell=(0, 1),
        )
        rows, width, words_known = 5, 512, 30000
        self.ask(
            f"{rows} tokens, width {width}, {words_known} words: what shape have the scores?",
            lambda: (rows, words_known),
            "A row for each token, a column for each word.",
        )
