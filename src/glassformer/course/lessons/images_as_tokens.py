"""Images as tokens: an autoencoder with codes, and one decoder over words and codes."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.convolution import conv2d, upsample
from glassformer.equations.losses import cross_entropy, mean_squared_error
from glassformer.equations.optimizers import gradient_descent
from glassformer.equations.sampling import classifier_free_guidance
from glassformer.equations.softmax import softmax
from glassformer.equations.vector_quantization import (
    bound_to_levels,
    code_ids,
    code_levels,
    normalize_levels,
    peak_signal_to_noise,
    round_straight_through,
)

PICTURE = ((0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 1.0, 1.0), (1.0, 1.0, 0.2, 0.2), (1.0, 1.0, 0.2, 0.2))
LEVELS = (3, 5)
TOKENS = ((-3.0, 0.2), (1.4, -0.8), (0.1, 2.5))
WORDS, CODES = ("<pad>", "red", "heart"), ("code 0", "code 1", "code 2", "code 3")


class ImagesAsTokensWalk(Walk):
    """How DALL-E draws: a picture becomes a short row of tokens, and a language model continues a caption with them."""

    @step("A picture made small", like="A mosaic: a few stones instead of thousands of dots.")
    def a_picture_made_small(self) -> None:
        """A filter that moves by its own width looks at each square of the picture once and says one number about it:
        here the mean. Few numbers are left, and a decoder can enlarge them again.
        """
        self.picture = self.tensor(PICTURE)[None]
        mean = self.tensor([[[[0.25, 0.25], [0.25, 0.25]]]])
        small = conv2d(self.picture, mean, stride=2)
        self.show(small, (0, 0, 0), (0, 1, 1))
        large = upsample(small, 2)
        self.show(large)
        self.same("this picture has nothing finer than its squares, so nothing is lost", large, self.picture)
        count, left = self.picture.numel(), small.numel()
        self.claim(f"of {count} numbers {left} are left", 4 * left == count)

    @step("From numbers to codes", like="Paint by numbers: each field gets one of the pots there are.")
    def from_numbers_to_codes(self) -> None:
        """A language model needs tokens out of a finite vocabulary. So each entry of a vector is squeezed between zero
        and its highest level, and rounded. All levels together are the digits of one number: the code.
        """
        self.z = self.tensor(TOKENS)
        u = bound_to_levels(self.z, LEVELS)
        self.show(u, (0, 0), (1, 1))
        q = round_straight_through(u)
        self.show(q, (1, 1))
        self.ids = code_ids(q, LEVELS)
        self.show(self.ids, (0,), (2,))
        codes = LEVELS[0] * LEVELS[1]
        self.claim(f"every id is one of {codes} codes", bool(((self.ids >= 0) & (self.ids < codes)).all()))
        self.same("the codes give the levels back", code_levels(self.ids, LEVELS, q.dtype), q)
        self.show(normalize_levels(q, LEVELS), (0, 0), (1, 1))

    @step("Why nothing is unused", like="A chessboard: every square is there from the start, and none can fall off.")
    def why_nothing_is_unused(self) -> None:
        """A learned codebook, as the first DALL-E had, often leaves most of its codes unused: those that no vector is
        near learn nothing. Here the codes are the points of a fixed grid, and vectors spread over it.
        """
        random = torch.Generator().manual_seed(0)
        vectors = 2 * torch.randn(400, len(LEVELS), generator=random, dtype=torch.float64)
        ids = code_ids(round_straight_through(bound_to_levels(vectors, LEVELS)), LEVELS)
        used = len(ids.unique())
        self.table(("codes", "used by 400 random vectors"), [(LEVELS[0] * LEVELS[1], used)])
        self.claim("all codes are used", used == LEVELS[0] * LEVELS[1])

    @step("A gradient through the rounding", like="A staircase that the ball takes as if it were a ramp.")
    def a_gradient_through_the_rounding(self) -> None:
        """Rounding has a slope of zero almost everywhere, so nothing before it would learn. The straight-through
        estimator passes the gradient on as if nothing had been rounded: not the true slope, but a useful one.
        """
        u, wanted = self.tensor([[0.8], [2.3]]), self.tensor([[2.0], [1.0]])
        loss = mean_squared_error(round_straight_through(u), wanted)
        self.show(loss)
        found = self.back(loss)
        self.show_gradient(found, u, "u")
        nudged = mean_squared_error(round_straight_through(u + 1e-6), wanted)
        self.same("a small step changes nothing: the true slope is zero", nudged, loss)
        moved = gradient_descent(u, found[u], 0.7)
        self.show(moved, (0, 0), (1, 0))
        after = mean_squared_error(round_straight_through(moved), wanted)
        self.less("and yet a step along the straight-through gradient helps", after, loss)

    @step("How good a copy is", like="The hiss of a tape beside the music on it.")
    def how_good_a_copy_is(self) -> None:
        """The error of a reconstruction is told in decibels: every ten more are a tenth of the squared error."""
        original = self.tensor([0.0, 0.5, 1.0, 0.5])
        near, far = (peak_signal_to_noise(original + self.tensor(apart), original) for apart in (0.01, 0.1))
        self.show(near, ())
        self.table(("every pixel is off by", "PSNR in dB"), [(0.01, near), (0.1, far)])
        self.same("ten times nearer is twenty decibels more", near - far, self.tensor(20.0))

    @step("One vocabulary for words and codes", like="A comic: text and pictures on one strip, read in one direction.")
    def one_vocabulary(self) -> None:
        """Captions come first, padded to one length, then the codes of the picture row by row. The ids of codes begin
        after those of words, so one decoder predicts whatever comes next. Only what follows counts: a word weighs less
        in the loss than a code.
        """
        vocabulary = [*WORDS, *CODES]
        sequence = [1, 2, 0, 3 + 2, 3 + 0, 3 + 3]
        self.table(("position", "id", "token"), [(i, id, vocabulary[id]) for i, id in enumerate(sequence)])
        random = torch.Generator().manual_seed(1)
        logits = torch.randn(len(sequence) - 1, len(vocabulary), generator=random, dtype=torch.float64)
        losses = cross_entropy(logits, torch.tensor(sequence[1:]), reduction="none")
        self.show(losses, (2,))
        self.claim("ids of codes are those of words and more", min(sequence[3:]) >= len(WORDS))

    @step("Drawing what was asked", like="A caricature: what sets this face apart is drawn larger.")
    def drawing_what_was_asked(self) -> None:
        """Some captions are left empty in training, so the decoder also knows what pictures look like in general.
        Drawing, it is asked twice, with the caption and without, and the difference is exaggerated.
        """
        asked, empty = self.tensor([1.0, 0.5, 0.0, 0.2]), self.tensor([0.4, 0.9, 0.1, 0.2])
        rows, surest = [], []
        for scale in (0.0, 1.0, 3.0):
            weights = softmax(classifier_free_guidance(asked, empty, scale))
            rows.append((scale, *weights))
            surest.append(weights[0])
        guided = classifier_free_guidance(asked, empty, 3.0)
        self.show(guided, (0,), (1,))
        self.table(("guidance", *CODES), rows)
        self.same("a guidance of one changes nothing", classifier_free_guidance(asked, empty, 1.0), asked)
        self.less("more guidance makes the code that the caption asks for surer", surest[1], surest[2])

    def quiz(self) -> None:
        """Questions on it."""
        q = self.tensor([2.0, 3.0])
        given = f"level {number(q[0])} of {LEVELS[0]} and level {number(q[1])} of {LEVELS[1]}"
        self.ask(
            f"A vector has {given}. Which is its code?",
            lambda: code_ids(q, LEVELS),
            "The first digit counts once, the second as many times as the first has levels.",
        )
        asked, empty, scale = self.tensor([2.0]), self.tensor([0.5]), 3.0
        given = f"{number(asked[0])} with the caption and {number(empty[0])} without"
        self.ask(
            f"The logit of a code is {given}. What is it with a guidance of {number(scale)}?",
            lambda: classifier_free_guidance(asked, empty, scale),
            "Begin without the caption, and go several times the way to the other.",
            cell=(0,),
        )
