"""Contrastive learning: pictures and captions in one space."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.contrastive import contrastive_logits, contrastive_loss, logit_scale
from glassformer.equations.losses import cross_entropy
from glassformer.equations.matrices import transpose
from glassformer.equations.optimizers import gradient_descent
from glassformer.equations.similarity import nearest_by_cosine, normalize
from glassformer.equations.softmax import softmax

THINGS = ("cat", "car", "tree")
PICTURES = ((0.9, 0.1, 0.4), (0.2, 0.8, 0.1), (0.3, 0.2, 0.7))
CAPTIONS = ((0.7, 0.3, 0.2), (0.1, 0.9, 0.3), (0.5, 0.1, 0.8))
TEMPERATURES = (1.0, 0.2, 0.05)


class ContrastiveWalk(Walk):
    """How CLIP learns: each picture finds its caption among all others of the batch, and each caption its picture."""

    @step("Every picture beside every caption", like="A dance where everyone is judged with every possible partner.")
    def every_pair(self) -> None:
        """One network turns pictures into vectors, another one captions. Scaled to length one, their inner product is
        the cosine of their angle. A batch of pairs gives a table: a row for each picture, a column for each caption,
        and the right pairs on the diagonal.
        """
        self.pictures, self.captions = self.tensor(PICTURES), self.tensor(CAPTIONS)
        self.x, self.y = normalize(self.pictures), normalize(self.captions)
        self.one = logit_scale(self.tensor([0.0]))
        self.cosines = contrastive_logits(self.x, self.y, self.one)
        columns = [f"caption {name}" for name in THINGS]
        self.show(self.cosines, (0, 0), (0, 2), rows=[f"picture {name}" for name in THINGS], columns=columns)
        best = self.cosines.argmax(-1).tolist()
        self.claim(
            "each picture is nearest to its own caption already, but not by much", best == list(range(len(best)))
        )
        self.less("the tree's caption is near the cat's picture too", 0.8, self.cosines[0, 2])

    @step("A temperature", like="The contrast of a photograph: turned up, a slight difference becomes black and white.")
    def a_temperature(self) -> None:
        """Cosines lie between minus one and one, so their softmax is nearly even. Dividing them by a small temperature
        sharpens it. CLIP learns the logarithm of the scale, which is one over the temperature, and stops it from
        growing beyond a limit.
        """
        scales = [logit_scale(-self.tensor([temperature]).log()) for temperature in TEMPERATURES]
        weights = [softmax(contrastive_logits(self.x, self.y, scale))[0] for scale in scales]
        rows = [(at, scale[0], *row) for at, scale, row in zip(TEMPERATURES, scales, weights, strict=True)]
        self.show(scales[-1], (0,))
        self.table(("temperature", "scale", *(f"cat is the {name}" for name in THINGS)), rows)
        self.less("a lower temperature makes the picture of the cat surer", float(rows[0][2]), float(rows[-1][2]))
        limit = logit_scale(self.tensor([9.0]))
        self.show(limit, (0,))
        self.less("beyond the limit the scale stays", limit[0], self.tensor(9.0).exp())
        self.temperature = TEMPERATURES[1]

    @step("Two classifications in one table", like="A crossword: every letter has to fit across and down.")
    def two_classifications(self) -> None:
        """Read along a row: which caption belongs to this picture? Read down a column: which picture belongs to this
        caption? Each is a classification whose classes are the others of the batch. The loss is the mean of both
        cross-entropies; nobody had to label anything.
        """
        scale = logit_scale(-self.tensor([self.temperature]).log())
        logits, own = contrastive_logits(self.x, self.y, scale), torch.arange(len(THINGS))
        across, down = cross_entropy(logits, own), cross_entropy(transpose(logits), own)
        self.loss = contrastive_loss(self.pictures, self.captions, self.temperature)
        self.show(across)
        self.show(self.loss)
        self.same("the loss is the mean of the loss across and the loss down", self.loss, (across + down) / 2)
        even = contrastive_loss(torch.ones_like(self.x), torch.ones_like(self.y), self.temperature)
        self.same("vectors that are all alike cost the logarithm of the batch", even, self.tensor(len(THINGS)).log())
        self.less("a table that knows something costs less", self.loss, even)

    @step("What the gradient does", like="A magnet for the right partner, and a gentle push for everybody else.")
    def what_the_gradient_does(self) -> None:
        """The gradient of a logit is the probability that both directions give the pair, less two on the diagonal: own
        pairs are pulled together, all others pushed apart, the harder the more they are mistaken for the right one.
        """
        loss = contrastive_loss(self.pictures, self.captions, self.temperature)
        found = self.back(loss)
        gradient = found[self.captions]
        self.check_gradient(
            "captions",
            lambda captions: contrastive_loss(self.pictures, captions, self.temperature),
            self.captions,
            gradient,
        )
        moved = gradient_descent(self.captions, gradient, 0.5)
        self.show(moved, (0, 0))
        after = contrastive_logits(self.x, normalize(moved), self.one)
        self.table(
            ("cosine of the cat's picture", *THINGS), [("before", *self.cosines[0]), ("after one step", *after[0])]
        )
        self.less("after a step the loss is smaller", contrastive_loss(self.pictures, moved, self.temperature), loss)
        self.less("the tree's caption has moved away from the cat", after[0, 2], self.cosines[0, 2])

    @step("More pairs, a harder question", like="Finding a friend at a small table, and in a stadium.")
    def more_pairs(self) -> None:
        """Every other pair of the batch is a wrong answer to choose from, so a larger batch asks a harder question, and
        teaches finer distinctions. With several machines the embeddings of all are gathered first.
        """
        random, losses = torch.Generator().manual_seed(0), []
        sizes = (4, 16, 64)
        for size in sizes:
            image = torch.randn(size, 32, generator=random, dtype=torch.float64)
            text = image + torch.randn(size, 32, generator=random, dtype=torch.float64)
            losses.append(contrastive_loss(image, text, self.temperature))
        self.show(losses[-1])
        self.table(("pairs in the batch", "loss"), zip(sizes, losses, strict=True))
        self.less("the same kind of pairs costs more in a larger batch", losses[0], losses[-1])

    @step(
        "Classes that were never trained", like="Someone who can match any description to a photograph needs no exam."
    )
    def zero_shot(self) -> None:
        """Write each class as a caption, and take the one nearest to the picture: a classifier without a single
        labeled example, for classes chosen afterwards. Searching pictures by a text works the same way.
        """
        new = self.tensor([0.7, 0.15, 0.35])
        order, cosines = nearest_by_cosine(new, self.captions, len(THINGS))
        self.show(cosines, columns=[THINGS[i] for i in order])
        self.claim("the new picture is called a cat", THINGS[int(order[0])] == "cat")

    def quiz(self) -> None:
        """Questions on it."""
        s = self.tensor([2.0])
        self.ask(
            f"The learned logarithm of the scale is {number(s[0])}. What is the scale?",
            lambda: logit_scale(s),
            "Take the exponential; the limit is far away.",
        )
        pairs = 8
        alike = torch.ones(pairs, 3, dtype=torch.float64)
        self.ask(
            f"All vectors of a batch of {pairs} pairs are the same. What is the contrastive loss?",
            lambda: contrastive_loss(alike, alike, 1.0),
            "Every choice is a guess among all of them: think of the logarithm.",
        )
