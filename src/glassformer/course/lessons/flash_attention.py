"""FlashAttention by hand."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.attention import attention, attention_scores, weighted_sum
from glassformer.equations.flash_attention import tiled_attention
from glassformer.equations.softmax import logsumexp, softmax


class FlashAttentionWalk(Walk):
    """Exact attention without ever holding all scores: block by block, with one extra number kept for each query."""

    @step("The whole, to compare with", like="Counting an election by first carrying all ballots into one hall.")
    def whole_to_compare(self) -> None:
        """Four keys, one query. Plain attention computes all scores, then all weights, then the weighted sum. For long
        texts the table of scores is what fills the memory.
        """
        self.q = self.tensor([[1.0, 0.0]])
        self.k = self.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [-1.0, 0.5]])
        self.v = self.tensor([[1.0, 0.0], [0.0, 1.0], [4.0, 2.0], [-2.0, 3.0]])
        self.whole = attention(self.q, self.k, self.v)
        self.show(self.inside(attention_scores), (0, 0), (0, 2))
        self.show(self.whole, (0, 0))
        tokens, width = 8192, 64
        self.claim(
            f"at {tokens} tokens a head of width {width} has {tokens // width} times as many scores as outputs",
            tokens * tokens == tokens // width * (tokens * width),
        )

    @step("One block by itself", like="Counting one ward: its result, and how many voted there.")
    def one_block_by_itself(self) -> None:
        """Take the first two keys as if there were no others: scores, weights, output. And keep one number more, the
        log-sum-exp of the scores: how much weight this block carries.
        """
        scores = [attention_scores(self.q, self.k[i : i + 2]) for i in (0, 2)]
        self.mixtures = [weighted_sum(softmax(s), self.v[i : i + 2]) for s, i in zip(scores, (0, 2), strict=True)]
        self.weights = [logsumexp(s) for s in scores]
        self.largest = [s.max() for s in scores]
        self.show(scores[0], (0, 0), (0, 1))
        self.show(self.mixtures[0], (0, 0))
        self.show(self.weights[0], (0,))
        self.same("e to that number is the sum of the exponentials", self.weights[0].exp(), scores[0].exp().sum(-1))

    @step("The next block", like="The next ward, with a larger turnout.")
    def next_block(self) -> None:
        """The same for the other two keys. Its largest score is higher, and here it carries more weight."""
        self.show(self.mixtures[1], (0, 0))
        self.show(self.weights[1], (0,))
        self.less("the largest score of the second block is higher", self.largest[0], self.largest[1])
        self.less("the second block carries more weight", self.weights[0], self.weights[1])

    @step("Merge", like="The result of the town is the wards' results, each weighted by its turnout.")
    def merge(self) -> None:
        """The numbers kept act as scores themselves: their softmax says how much each block counts, and the outputs of
        the blocks are averaged with these weights. The result is exact, not an approximation.
        """
        weights = softmax(torch.stack(self.weights, -1))
        merged = weighted_sum(weights, torch.cat(self.mixtures))
        self.show(weights, (0, 0))
        self.show(merged, (0, 0), (0, 1))
        self.same("it is the whole result, to the last digits", merged, self.whole, within=1e-14)

    @step(
        "Online: one block after another",
        like="A scoreboard that changes its unit when the numbers grow too large: all old entries are restated.",
    )
    def as_a_running_count(self) -> None:
        """In practice the blocks come one after another. Three things are kept: the largest score so far, the sum of
        the exponentials relative to it, and the weighted sum of the values. When a larger score appears, both sums are
        scaled down to match it. Any block size gives the same result.
        """
        self.running = tiled_attention(self.q, self.k, self.v, block=2)
        self.show(self.running)
        self.same("two keys at a time give the whole result", self.running, self.whole)
        for block in (1, 3, 4):
            self.same(f"so does a block of {block}", tiled_attention(self.q, self.k, self.v, block=block), self.whole)

    @step(
        "Backward too",
        like="Keeping the receipts' total and the price list is enough to work out each item again.",
    )
    def backward_too(self) -> None:
        """The weights are not kept; they are computed again from the scores and the log-sum-exp. The gradients are the
        same.
        """
        sent = torch.ones_like(self.whole)
        plain, tiled = self.back(self.whole, sent), self.back(self.running, sent)
        scores = attention_scores(self.q, self.k)
        again = (scores - logsumexp(scores)[:, None]).exp()
        self.same("from scores and log-sum-exp the weights come out again", again, softmax(scores))
        self.show_gradient(tiled, self.k, "∂L/∂K")
        for name, tensor in (("queries", self.q), ("keys", self.k), ("values", self.v)):
            self.same(f"the gradients of the {name} agree", plain[tensor], tiled[tensor])

    @step(
        "Large scores are safe",
        like="Measuring mountains from the highest peak down: no number is too large for the table.",
    )
    def large_scores_are_safe(self) -> None:
        """Because the largest score is always subtracted first, no exponential overflows, whichever block it
        comes in.
        """
        steep = 800 * self.q
        safe, straight = tiled_attention(steep, self.k, self.v, block=1), attention(steep, self.k, self.v)
        self.show(safe)
        self.claim(
            "e to the largest of these scores would overflow", attention_scores(steep, self.k).max().exp().isinf()
        )
        self.claim("the result is finite", safe.isfinite().all())
        self.same("and the same as that of plain attention", safe, straight)

    def quiz(self) -> None:
        """Questions on it."""
        a, b = self.tensor([0.0, 0.0]), self.tensor([1.0, 1.0])
        self.ask(
            f"A block has two scores of {number(a[0])}. What is its log-sum-exp?",
            lambda: logsumexp(a),
            "Raise e to each score, add up, take the natural logarithm.",
        )
        self.ask(
            f"And that of a block with two scores of {number(b[0])}?",
            lambda: logsumexp(b),
            "A number added to every score can be taken out of the logarithm.",
        )
        self.ask(
            "What is the weight of the second of these two blocks when they are merged?",
            lambda: softmax(torch.stack([logsumexp(a), logsumexp(b)])),
            "The log-sum-exps act as scores.",
            cell=(1,),
        )
