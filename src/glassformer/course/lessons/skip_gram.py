"""Skip-gram: where word vectors come from."""

import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.components import principal_components
from glassformer.equations.embedding import embed
from glassformer.equations.optimizers import gradient_descent
from glassformer.equations.similarity import cosine_similarity, inner_product, l2_norm, nearest_by_cosine
from glassformer.equations.skip_gram import keep_probability, negative_sampling_loss, noise_distribution

SENTENCES = (
    "the cat drinks milk", "the dog drinks water", "a cat chases the mouse", "a dog chases the ball",
    "the king wears a crown", "the queen wears a crown", "a king rules the land", "a queen rules the land",
)  # fmt: skip
WINDOW, NEGATIVES, STEPS, RATE, DIM = 2, 3, 400, 1.0, 6


class SkipGramWalk(Walk):
    """A word is known by its neighbors: pairs from a window, a loss that tells neighbors from noise, and the result."""

    @step("Pairs from a window", like="You know a person by the company they keep.")
    def pairs(self) -> None:
        """Slide a window over the text. Each word in turn is the center, and every word within two places of it is a
        neighbor. No one labels anything: the text itself says which pairs belong together. What a vector does once you
        have it is in the lesson word-vectors.
        """
        self.sentences = [line.split() for line in SENTENCES]
        self.words = sorted({word for line in self.sentences for word in line})
        ids = {word: id for id, word in enumerate(self.words)}
        found = [
            (ids[word], ids[line[other]])
            for line in self.sentences
            for at, word in enumerate(line)
            for other in range(max(at - WINDOW, 0), min(at + WINDOW + 1, len(line)))
            if other != at
        ]
        self.centers, self.neighbors = torch.tensor(found).unbind(1)
        first = [(self.words[a], self.words[b]) for a, b in found[:6]]
        self.table(("center", "neighbor"), first)
        self.say(f"{len(self.sentences)} sentences give {len(found)} pairs of {len(self.words)} words.")
        self.claim("every pair also occurs the other way round", {(b, a) for a, b in found} == set(found))

    @step("Two vectors for each word", like="A key and a lock: a word seeks its neighbors, and is found by others.")
    def two_vectors(self) -> None:
        """Give each word two vectors: one for when it is the center, one for when it is a neighbor. Their inner product
        says how well the two words go together. With one vector for both, a word would go best with itself, and words
        are seldom their own neighbors.
        """
        generator = torch.Generator().manual_seed(3)
        self.vectors = torch.randn(len(self.words), DIM, generator=generator, dtype=torch.float64) * 0.3
        self.contexts = torch.randn(len(self.words), DIM, generator=generator, dtype=torch.float64) * 0.3
        cat, milk = self.words.index("cat"), self.words.index("milk")
        logit = inner_product(self.vectors[cat], self.contexts[milk])
        self.show(logit, ())
        itself = inner_product(self.vectors[cat], self.vectors[cat])
        length = l2_norm(self.vectors[cat])
        self.same("in one table, a word's logit with itself would be its squared length", itself, length.square())
        self.less("no word of that length could have a larger one with it", logit, itself)

    @step("Noise words", like="To teach what a cat is, show a few things that are not one.")
    def noise(self) -> None:
        """A softmax over the whole vocabulary would cost one inner product for each word of the language, at every
        step. Instead, draw a few noise words and ask only to tell the true neighbor from them. They are drawn by their
        counts to the power of three quarters: rare words come up more often than they occur, but frequent ones lead.
        """
        every = [word for line in self.sentences for word in line]
        self.counts = torch.tensor([every.count(word) for word in self.words])
        self.chances = noise_distribution(self.counts)
        shown = [self.words.index(word) for word in ("the", "cat", "milk")]
        plain = noise_distribution(self.counts, 1.0)
        rows = [(self.words[i], int(self.counts[i]), plain[i], self.chances[i]) for i in shown]
        self.table(("word", "count", "as often as it occurs", "to the power α"), rows)
        the, _, milk = shown
        self.less("the most frequent word is drawn less often than it occurs", self.chances[the], plain[the])
        self.less("a rare word more often", plain[milk], self.chances[milk])

    @step("The loss", like="A line-up with one culprit and a few strangers: pay for every wrong finger.")
    def loss(self) -> None:
        """The logit of the true neighbor should be high, those of the noise words low. Each goes through a sigmoid by
        itself. A model that knows nothing has logits of zero and pays one bit for every word.
        """
        zero = negative_sampling_loss(torch.zeros(1 + NEGATIVES, dtype=torch.float64))
        self.show(zero, ())
        self.same(
            "a guess costs a bit, the logarithm of two, for each word",
            zero,
            (1 + NEGATIVES) * torch.tensor(2.0).double().log(),
        )
        good = negative_sampling_loss(self.tensor([3.0, -2.0, -2.0, -2.0]))
        self.show(good, ())
        self.less("telling them apart costs less", good, zero)

    @step("Training", like="Magnets on a table: neighbors pull, noise pushes, until everything lies still.")
    def training(self) -> None:
        """Each step draws noise words for all pairs and moves both tables down the gradient. The gradient is easy to
        read: a center moves towards its neighbor's vector by as much as the model doubts the neighbor, and away from
        each noise word by as much as the model believes in it.
        """
        generator = torch.Generator().manual_seed(0)
        losses = []
        for _ in range(STEPS):
            size = (len(self.centers), NEGATIVES)
            noise = torch.multinomial(self.chances.expand(size[0], -1), NEGATIVES, True, generator=generator)
            candidates = torch.cat([self.neighbors[:, None], noise], 1)
            self.vectors, self.contexts, loss = _updated(self.vectors, self.contexts, self.centers, candidates)
            losses.append(float(loss))
        self.plot("loss", {"loss": (range(1, STEPS + 1), losses)})
        self.less("the loss falls by more than a third", sum(losses[-20:]) / 20, 2 / 3 * losses[0])

    @step("Neighbors of neighbors", like="Twins raised apart who turn out to like the same songs.")
    def meaning(self) -> None:
        """King and queen never stand in one sentence. Yet they have the same neighbors, so both were pulled to the same
        place: similar company, similar vectors. That is where the meaning in a word vector comes from.
        """
        king, queen, milk = (self.vectors[self.words.index(word)] for word in ("king", "queen", "milk"))
        order, cosines = nearest_by_cosine(king, self.vectors, 4)
        self.show(cosines, columns=[self.words[int(i)] for i in order])
        together = any({"king", "queen"} <= set(line) for line in self.sentences)
        self.claim("king and queen share no sentence", not together)
        self.claim("queen is the nearest word to king", self.words[int(order[1])] == "queen")
        self.less("milk is farther", cosine_similarity(king, milk), cosine_similarity(king, queen))

    @step("Frequent words", like="A book of nothing but commas teaches you the comma, and little else.")
    def frequent(self) -> None:
        """In a real text every twentieth word is the, and most windows hold little more than such words. So occurrences
        of frequent words are left out at random before the windows are made: training is faster, windows reach
        farther, and rare words are trained better.
        """
        counts = torch.tensor([50_000, 10_000, 1_000, 10])
        kept = keep_probability(counts, 1e-2)
        self.show(kept, (0,), (3,), columns=("the", "said", "water", "kopje"))
        self.less("most occurrences of a frequent word are left out", kept[0], 0.2)
        self.same("all of a rare word are kept", kept[3], 1.0)

    @step("A map", like="A globe pressed flat: something is lost, but you can find your way.")
    def map(self) -> None:
        """Principal components show many dimensions in two: the directions in which the vectors differ most. Words that
        are used alike lie together.
        """
        chosen = ["cat", "dog", "king", "queen", "milk", "water", "crown"]
        rows = torch.stack([self.vectors[self.words.index(word)] for word in chosen])
        points = principal_components(rows, 2)
        self.show(points, (0, 0), rows=chosen, columns=("first", "second"))
        spread = points.square().sum(0)
        self.less("the second direction varies less", spread[1], spread[0])

    def quiz(self) -> None:
        """Questions on it."""
        z = self.tensor([1.0, -1.0])
        self.ask(
            f"The true neighbor has the logit {number(z[0])} and one noise word {number(z[1])}. What is the loss?",
            lambda: negative_sampling_loss(z),
            "Minus the log of the sigmoid of each, with the sign of the noise word turned around.",
        )
        n = torch.tensor([16, 1])
        self.ask(
            f"Two words occur {int(n[0])} times and once. How likely is the first as a noise word?",
            lambda: noise_distribution(n),
            "The fourth root of sixteen is two, and two cubed is eight.",
            cell=(0,),
        )


def _updated(vectors: Tensor, contexts: Tensor, centers: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Both tables after one step of gradient descent, and the mean loss before it."""
    vectors, contexts = (table.detach().requires_grad_() for table in (vectors, contexts))
    logits = inner_product(embed(vectors, centers[:, None]), embed(contexts, candidates))
    loss = negative_sampling_loss(logits).mean()
    slopes = torch.autograd.grad(loss, (vectors, contexts))
    moved = [gradient_descent(t.detach(), slope, RATE) for t, slope in zip((vectors, contexts), slopes, strict=True)]
    return moved[0], moved[1], loss.detach()
