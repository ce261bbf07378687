"""The output layer and the loss: hidden states become words."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equation import no_checks
from glassformer.equations.adam import adam
from glassformer.equations.algebra import linear, scale
from glassformer.equations.embedding import unembed
from glassformer.equations.gradients import line
from glassformer.equations.losses import cross_entropy, label_smoothing
from glassformer.equations.sampling import greedy
from glassformer.equations.softmax import softmax
from glassformer.models.registry import build
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.recording import Tape

SAID = (
    "<pad>",
    "<start>",
    "<end>",
    "de",
    "nada",
    "gracias",
    "buenos",
    "días",
    "you",
    "are",
    "welcome",
    "thank",
    "good",
    "morning",
)
SPANISH = ("gracias", "de", "nada")
LEARNED = (("you are welcome", "de nada"), ("thank you", "gracias"), ("good morning", "buenos días"))


class OutputLayerWalk(Walk):
    """A logit for every word of the vocabulary, a choice, a loss; and a small model that learns “de nada”."""

    @step(
        "A logit for every word",
        like="A roll call: every word of the language is asked how well it would fit here.",
    )
    def score_for_every_word(self) -> None:
        """The last hidden states are multiplied by a matrix as wide as the vocabulary: one logit for each word at each
        position. Softmax turns the logits of a position into probabilities.
        """
        sizes = self.given("output-layer-shape")
        tokens, dim, vocab = (sizes.get(name, int) for name in ("tokens", "d_model", "vocabulary"))
        logits = unembed(torch.zeros(tokens, dim, dtype=torch.float64), torch.zeros(vocab, dim, dtype=torch.float64))
        self.beside("output-layer-shape", logits_shape=list(logits.shape), weights=vocab * dim)
        h = self.tensor([[1.0, 0.5, -0.5, 2.0], [0.2, -1.0, 1.5, 0.3]])
        self.W = self.tensor([[0.1, 0.9, -0.4], [0.3, -0.2, 0.8], [-0.6, 0.4, 1.1], [0.2, 0.7, -0.3]])
        self.logits = linear(h, self.W)
        self.probabilities = softmax(self.logits)
        self.show(self.logits, (0, 1), columns=SPANISH)
        self.show(self.probabilities, (0, 1), columns=SPANISH)
        self.same("the probabilities of each position sum to one", self.probabilities.sum(-1), 1.0)

    @step("Choose and join", like="The teacher calls on the hand that goes up first, and writes down the answer.")
    def choose_and_join(self) -> None:
        """The simplest choice, greedy decoding, takes the most likely word at each position; the words are then
        joined. These weights are made up, not trained, so the sentence makes no sense yet: it repeats a word.
        """
        chosen = greedy(self.logits)
        words = [SPANISH[i] for i in chosen]
        self.show(chosen)
        self.claim("the most likely word wins", (chosen == self.probabilities.argmax(-1)).all())
        self.say(f"Joined: {' '.join(words)}.")
        self.claim("untrained, it repeats a word", len(set(words)) < len(words))

    @step(
        "The loss of a sentence",
        like="Reading a detective story for the second time: how surprised are you at each page?",
    )
    def loss_of_a_sentence(self) -> None:
        """During training the right words, the targets, are known. The loss is the mean surprise at them; its gradient
        with respect to the logits is probabilities minus targets, divided by the number of positions.
        """
        right = torch.tensor([1, 2])
        targets = torch.eye(3, dtype=torch.float64)[right]
        loss = cross_entropy(self.logits, right)
        found = self.back(loss)
        self.show(loss)
        self.show_gradient(found, self.logits, "∂L/∂logits", columns=SPANISH)
        self.show_gradient(found, self.W, "∂L/∂W", columns=SPANISH)
        expected = (self.probabilities - targets) / len(right)
        self.same("the gradient of the logits is that difference", found[self.logits], expected)
        self.claim("the gradient of the matrix has its shape", found[self.W].shape == self.W.shape)
        soft = label_smoothing(targets, 0.1)
        self.show(soft, (0, 1), columns=SPANISH)
        self.less(
            "with smoothed targets, being nearly certain costs more than believing the smoothed targets",
            cross_entropy(soft.log(), soft),
            cross_entropy(20 * targets, soft),
        )

    @step(
        "Teacher forcing",
        like="A driving lesson in which the teacher turns the wheel back onto the road after every mistake.",
    )
    def teacher_forcing(self) -> None:
        """During training, the decoder reads the right words shifted by one position, whatever it would have written
        itself: after each word it reads, its target is the word that comes next. All positions are trained in one
        pass.
        """
        sentence = f"<start> {LEARNED[0][1]} <end>".split()
        reads, targets = sentence[:-1], sentence[1:]
        self.table(("decoder reads", "target"), zip(reads, targets, strict=True))
        self.claim("what it reads next is the target before", reads[1:] == targets[:-1])

    @step("A small model learns it", like="A phrase book for a weekend trip: a few phrases, learned by heart.")
    def small_model_learns_it(self) -> None:
        """An encoder-decoder Transformer with one layer on each side, trained on three phrases. Its forward pass is
        the equations of the lessons before; watch the loss fall.
        """
        known = {word: i for i, word in enumerate(SAID)}
        source = torch.tensor([[known[word] for word in f"{a} <end> <pad> <pad>".split()[:4]] for a, _ in LEARNED])
        target = torch.tensor([[known[word] for word in f"<start> {b} <end> <pad>".split()[:4]] for _, b in LEARNED])
        model = build(Seq2SeqConfig(vocab=len(SAID), context=8, dim=16, layers=1, heads=2, ffn_dim=32), seed=0)
        moments = {p: (torch.zeros_like(p), torch.zeros_like(p)) for p in model.parameters()}
        losses = []
        for turn in range(1, 31):
            with torch.no_grad(), no_checks(), Tape() as tape:
                value = cross_entropy(model(source, target[:, :-1], source != 0), target[:, 1:], ignore_index=0)
            losses.append(value.item())
            found = tape.reverse(of=value)
            with torch.no_grad(), no_checks(), Tape():
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
        self.less(f"the loss falls from {number(losses[0])} to {number(losses[-1])}", losses[-1], losses[0])
        self.show(final, rows=("after <start>", "after de"), columns=SAID)
        best = [SAID[i] for i in final.argmax(-1)]
        self.claim(f"after <start> “{best[0]}” is most likely, after de “{best[1]}”", best == ["de", "nada"])
        text = " ".join(SAID[int(i)] for i in written[0, 1:-1])
        self.claim(f"you are welcome → {text}", text == LEARNED[0][1])

    def quiz(self) -> None:
        """Questions on it."""
        even = self.tensor([[0.0, 0.0, 0.0, 0.0]])
        self.ask(
            f"A model gives {even.shape[1]} words equal logits. What is its loss, whichever of them is right?",
            lambda: cross_entropy(even, torch.tensor([0])),
            "What probability does each word get? The loss is minus its logarithm.",
        )
        self.ask(
            f"The right word of the first of two positions has probability {number(self.probabilities[0, 1])}. What is "
            "the gradient of its logit?",
            lambda: scale(line(self.probabilities[0, 1], 1.0, -1.0), 1 / len(self.logits)),
            "Probability minus target, and the loss is a mean over positions.",
        )
        rows, width, words_known = 5, 512, 30000
        self.ask(
            f"{rows} tokens, width {width}, a vocabulary of {words_known} words: what is the shape of the logits?",
            lambda: tuple(linear(torch.zeros(rows, width), torch.zeros(width, words_known)).shape),
            "How many logits does each token get?",
        )
