"""Masks: who may look at whom."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.attention import apply_mask, attention, attention_scores, weighted_sum
from glassformer.equations.masks import causal_mask, combine_masks, padding_mask, visible_pairs
from glassformer.equations.probability import softmax
from glassformer.lessons.walk import Walk, step


class MasksWalk(Walk):
    """A number added to the scores before softmax decides what is seen: no future, no filler, never nothing."""

    @step("The past alone", like="An exam with the answers covered by a sheet that slides down line by line.")
    def past_alone(self) -> None:
        """A model that predicts the next word must not see it. The causal mask adds minus infinity to every score of a
        later token, so that softmax leaves it no share at all.
        """
        mask = causal_mask(4, dtype=torch.float64)
        self.show(mask)
        Q, K, V = self.given("causal-mask-tiny").tensors("Q", "K", "V")
        scores = attention_scores(Q, K)
        masked = apply_mask(scores, causal_mask(2, dtype=torch.float64))
        weights = softmax(masked)
        output = weighted_sum(weights, V)
        self.show(masked, (0, 1), (1, 0))
        self.show(weights, (1, 0))
        self.show(output, (1, 0))
        self.beside("causal-mask-tiny", weights=weights, output=output)

    @step("The past does not change", like="Adding a chapter to a diary does not rewrite the pages before it.")
    def past_does_not_change(self) -> None:
        """Because nobody sees ahead, a new word at the end leaves every earlier row as it was. This is what makes it
        possible to train on all positions at once, and to keep what was computed while writing.
        """
        random = torch.Generator().manual_seed(1)
        q, k, v = torch.randn(3, 5, 4, generator=random, dtype=torch.float64)
        whole, shorter = attention(q, k, v, causal=True), attention(q[:4], k[:4], v[:4], causal=True)
        self.show(whole)
        self.same("the rows of the shorter text are the first rows of the longer one", whole[:4], shorter)
        pull = torch.zeros_like(whole)
        pull[1] = 1.0
        found = self.back(whole, pull)
        self.show_gradient(found, v, "gradient of V when only row one is pulled")
        self.same("no later value is told anything", found[v][2:], 0.0, within=0.0)

    @step("No fillers", like="Two sunglasses, one over the other: what either blocks stays dark.")
    def no_fillers(self) -> None:
        """Short sentences in a batch are filled up, and a padding mask hides the fillers. Both masks are added to the
        scores, so they combine by adding: what either hides is hidden.
        """
        self.row, self.keep = self.given("padding-mask-weights").tensors("scores", "keep")
        fillers = padding_mask(self.keep[None], dtype=torch.float64)
        self.shares = softmax(apply_mask(self.row[None], fillers[0, 0]))
        self.show(self.shares, (0, 0), (0, 4))
        self.beside("padding-mask-weights", weights=self.shares[0])
        both = combine_masks(causal_mask(5, dtype=torch.float64), fillers[0, 0])
        self.show(both)
        pairs = visible_pairs(both)
        self.say(f"Of twenty-five pairs {int(pairs)} are left.")

    @step(
        "Multiply afterwards, and it leaks",
        like="Dividing a cake among five and then sending two home: the rest get no more than before.",
    )
    def multiply_afterwards_and_it_leaks(self) -> None:
        """Zeroing shares after softmax is not the same: the hidden tokens have already taken part in the sum, and what
        is left no longer sums to one.
        """
        late = softmax(self.row) * self.keep
        self.table(
            ("", *(f"token {i}" for i in range(len(self.row)))),
            [("masked before", *self.shares[0]), ("zeroed after", *late)],
        )
        self.same("masked before, the shares sum to one", float(self.shares.sum()), 1)
        self.less("zeroed after, they do not", late.sum(), 0.9)

    @step("A row with nothing to see", like="Asking an empty room to vote: someone has to decide what silence means.")
    def row_with_nothing_to_see(self) -> None:
        """If everything is hidden, minus infinity leaves softmax dividing zero by zero. A large finite number instead
        lets the row keep its old shares, which is harmless only if nobody reads it. Here such a row gets zeros.
        """
        given = self.given("fully-masked-row")
        scores, low = given.tensor("scores"), given.get("mask_value", float)
        finite = softmax(scores + low)
        empty = softmax(torch.full_like(scores, -torch.inf))
        self.show(finite)
        self.show(empty)
        self.beside("fully-masked-row", weights_finite_mask=finite)
        self.claim("no number is lost on the way", bool(empty.isfinite().all()))

    def quiz(self) -> None:
        """Questions on it."""
        size = 6
        self.ask(
            f"How many pairs does a causal mask over {size} tokens leave?",
            lambda: visible_pairs(causal_mask(size, dtype=torch.float64)),
            "One for the first token, two for the second, and so on.",
        )
        pair = self.tensor([[1.0, 3.0, 2.0]])
        hidden = self.tensor([[0.0, -torch.inf, 0.0]])
        self.ask(
            f"Scores {', '.join(map(number, pair[0]))}, and the second is masked. What share has the third?",
            lambda: softmax(apply_mask(pair, hidden)),
            "Only the first and the third take part.",
            cell=(0, 2),
        )
