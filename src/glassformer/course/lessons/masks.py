"""Masks: which tokens may attend to which."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.attention import apply_mask, attention, attention_scores, weighted_sum
from glassformer.equations.masks import causal_mask, combine_masks, padding_mask
from glassformer.equations.softmax import softmax
from glassformer.equations.sparse_masks import visible_pairs


class MasksWalk(Walk):
    """A mask added to the scores before softmax decides what is visible: no future, no padding, or nothing."""

    @step("Causal masks", like="An exam with the answers covered by a sheet that slides down line by line.")
    def past_alone(self) -> None:
        """A model that predicts the next token must not see it. The causal mask adds minus infinity to the score of
        every later token, so that softmax gives it a weight of exactly zero.
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
        self.same("every later token has weight zero", weights.triu(1), 0.0, within=0.0)

    @step("The past does not change", like="Adding a chapter to a diary does not rewrite the pages before it.")
    def past_does_not_change(self) -> None:
        """Because nobody sees ahead, a new token at the end leaves every earlier output as it was. This is what makes
        it possible to train on all positions at once, and to keep keys and values in a cache while generating.
        """
        random = torch.Generator().manual_seed(1)
        q, k, v = torch.randn(3, 5, 4, generator=random, dtype=torch.float64)
        whole, shorter = attention(q, k, v, causal=True), attention(q[:4], k[:4], v[:4], causal=True)
        self.show(whole)
        self.same("the outputs of the shorter text are the first outputs of the longer one", whole[:4], shorter)
        sent = torch.zeros_like(whole)
        sent[1] = 1.0
        found = self.back(whole, sent)
        self.show_gradient(found, v, "gradient of V from position one alone")
        self.same("no later value gets any gradient", found[v][2:], 0.0, within=0.0)

    @step("Padding masks", like="Two sunglasses, one over the other: what either blocks stays dark.")
    def no_padding(self) -> None:
        """Short sequences in a batch are padded, and a padding mask hides the padding. Two masks combine into one: a
        pair is visible only if both masks show it.
        """
        self.row, self.attention_mask = self.given("padding-mask-weights").tensors("scores", "keep")
        padding = padding_mask(self.attention_mask[None], dtype=torch.float64)[0, 0]
        self.weights = softmax(apply_mask(self.row[None], padding))
        self.show(self.weights, (0, 0), (0, 4))
        self.beside("padding-mask-weights", weights=self.weights[0])
        self.same("padding has weight zero", self.weights[0, self.attention_mask == 0], 0.0, within=0.0)
        past = causal_mask(len(self.row), dtype=torch.float64)
        both = combine_masks(past, padding)
        self.show(both)
        self.claim("a pair is visible only if both masks show it", torch.equal(both == 0, (past == 0) & (padding == 0)))
        self.say(f"Of {both.numel()} pairs {int(visible_pairs(both))} are left.")

    @step(
        "Zeroing after softmax is not the same",
        like="Dividing a cake among five and then sending two home: the rest get no more than before.",
    )
    def zeroing_after_softmax(self) -> None:
        """Setting weights to zero after softmax is not the same as masking: the hidden tokens have already taken part
        in the sum, and what is left no longer sums to one.
        """
        late = softmax(self.row) * self.attention_mask
        self.table(
            ("", *(f"token {i}" for i in range(len(self.row)))),
            [("masked before", *self.weights[0]), ("zeroed after", *late)],
        )
        self.same("masked before, the weights sum to one", float(self.weights.sum()), 1)
        self.less("zeroed after, they do not", late.sum(), 0.9)

    @step("A fully masked row", like="Asking an empty room to vote: someone must decide what silence means.")
    def row_with_nothing_to_see(self) -> None:
        """If every key is masked, minus infinity leaves softmax dividing zero by zero, which is not a number. A large
        finite number instead gives weights all the same: in float64 those of no mask at all, in float32 equal ones,
        since the scores are lost to rounding. Either is harmless only if nobody reads that row. Here it gets zeros.
        """
        given = self.given("fully-masked-row")
        scores, low = given.tensor("scores"), given.get("mask_value", float)
        finite, rounded = softmax(scores + low), softmax(scores.float() + low)
        nothing = torch.full_like(scores, -torch.inf)
        empty = softmax(nothing)
        self.show(finite)
        self.show(rounded)
        self.show(empty)
        self.beside("fully-masked-row", weights_finite_mask=finite)
        plain = nothing.exp() / nothing.exp().sum()
        self.claim("with minus infinity the formula divides zero by zero: not a number", plain.isnan().all())
        self.same(
            "in float64 the finite mask leaves the weights of no mask at all", finite, softmax(scores), within=1e-6
        )
        self.same("in float32 it makes all weights equal", rounded, 1 / len(scores), within=1e-6)
        self.same("here such a row gets zeros", empty, 0.0, within=0.0)

    def quiz(self) -> None:
        """Questions on it."""
        size = 6
        self.ask(
            f"How many pairs does a causal mask over {size} tokens leave visible?",
            lambda: visible_pairs(causal_mask(size, dtype=torch.float64)),
            "How many keys does the first query see, how many the second? Add them up.",
        )
        pair = self.tensor([[1.0, 3.0, 2.0]])
        hidden = self.tensor([[0.0, -torch.inf, 0.0]])
        self.ask(
            f"Scores {', '.join(map(number, pair[0]))}, and the second is masked. What is the weight of the third?",
            lambda: softmax(apply_mask(pair, hidden)),
            "Take the softmax of those that are visible.",
            cell=(0, 2),
        )
