"""FlashAttention by hand."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.attention import attention, attention_scores, weighted_sum
from glassformer.equations.probability import logsumexp, softmax
from glassformer.equations.tiled import tiled_attention
from glassformer.lessons.walk import Walk, step


class FlashAttentionWalk(Walk):
    """Exact attention without ever holding all scores: block by block, with one number to remember for each row."""

    @step("The whole, to compare with", like="Counting an election by first carrying all ballots into one hall.")
    def whole_to_compare(self) -> None:
        """Four keys, one query. Plain attention makes all scores, then all shares, then the mixture. For long texts
        the table of scores is what fills the memory.
        """
        self.q = self.tensor([[1.0, 0.0]])
        self.k = self.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [-1.0, 0.5]])
        self.v = self.tensor([[1.0, 0.0], [0.0, 1.0], [4.0, 2.0], [-2.0, 3.0]])
        self.whole = attention(self.q, self.k, self.v)
        self.show(self.inside(attention_scores), (0, 0), (0, 2))
        self.show(self.whole, (0, 0))

    @step("One block by itself", like="Counting one ward: its result, and how many voted there.")
    def one_block_by_itself(self) -> None:
        """Take the first two keys as if there were no others: scores, shares, mixture. And remember one number, the
        logarithm of the sum of the exponentials: how much weight this block carries.
        """
        scores = [attention_scores(self.q, self.k[i : i + 2]) for i in (0, 2)]
        self.mixtures = [weighted_sum(softmax(s), self.v[i : i + 2]) for s, i in zip(scores, (0, 2), strict=True)]
        self.weights = [logsumexp(s) for s in scores]
        self.show(scores[0], (0, 0), (0, 1))
        self.show(self.mixtures[0], (0, 0))
        self.show(self.weights[0], (0,))

    @step("The next block", like="The next ward, with a larger turnout.")
    def next_block(self) -> None:
        """The same for the other two keys. Its largest score is higher, so it carries more weight."""
        self.show(self.mixtures[1], (0, 0))
        self.show(self.weights[1], (0,))
        self.claim("the second block weighs more", self.weights[1] > self.weights[0])

    @step("Merge", like="The total of the town is the wards' results, each weighed by its turnout.")
    def merge(self) -> None:
        """The remembered numbers are scores themselves: their softmax says what share each block has in the whole, and
        the mixtures are mixed with these shares. The result is exact, not an approximation.
        """
        shares = softmax(torch.stack(self.weights, -1))
        merged = weighted_sum(shares, torch.cat(self.mixtures))
        self.show(shares, (0, 0))
        self.show(merged, (0, 0), (0, 1))
        self.same("it is the whole result, to the last digits", merged, self.whole)

    @step(
        "As a running count",
        like="A scoreboard that changes its unit when the numbers grow too large: all old entries are restated.",
    )
    def as_a_running_count(self) -> None:
        """In practice the blocks come one after another. Kept are the largest score so far, the sum of exponentials
        below it, and the mixture; when a larger score appears, the old sums are scaled down to the new measure.
        """
        self.running = tiled_attention(self.q, self.k, self.v, block=2)
        self.show(self.running)
        self.same("two at a time gives the whole result", self.running, self.whole)
        for block in (1, 3, 4):
            self.same(f"so does a block of {block}", tiled_attention(self.q, self.k, self.v, block=block), self.whole)

    @step(
        "Backward too",
        like="Keeping the receipts' total and the price list is enough to work out each item again.",
    )
    def backward_too(self) -> None:
        """Shares are not kept; they are computed again from the scores and the remembered logarithm. The gradients are
        the same.
        """
        pull = torch.ones_like(self.whole)
        plain, tiled = self.back(self.whole, pull), self.back(self.running, pull)
        self.show_gradient(tiled, self.k, "∂L/∂K")
        for name, tensor in (("queries", self.q), ("keys", self.k), ("values", self.v)):
            self.same(f"the gradients of the {name} agree", plain[tensor], tiled[tensor])

    @step(
        "Large scores are safe",
        like="Measuring mountains from the highest peak down: no number is too large for the table.",
    )
    def large_scores_are_safe(self) -> None:
        """Because the largest score is always taken off first, no exponential overflows, whichever block it
        comes in.
        """
        steep = 800 * self.q
        safe, straight = tiled_attention(steep, self.k, self.v, block=1), attention(steep, self.k, self.v)
        self.show(safe)
        self.claim("the result is finite", safe.isfinite().all())
        self.same("and the same", safe, straight)

    def quiz(self) -> None:
        """Questions on it."""
        a, b = self.tensor([0.0, 0.0]), self.tensor([1.0, 1.0])
        self.ask(
            f"What does a block with two scores of {number(a[0])} weigh, as a logarithm?",
            lambda: logsumexp(a),
            "The logarithm of two.",
        )
        self.ask(f"And one with two scores of {number(b[0])}?", lambda: logsumexp(b), "One more than the other.")
        self.ask(
            "What share has the second block when the two are merged?",
            lambda: softmax(torch.stack([logsumexp(a), logsumexp(b)])),
            "The softmax of their weights.",
            cell=(1,),
        )
