"""The pre-norm block, number by number."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.activations import gelu
from glassformer.equations.algebra import linear, residual
from glassformer.equations.attention import apply_mask, attention_scores, weighted_sum
from glassformer.equations.heads import merge_heads, split_heads
from glassformer.equations.masks import causal_mask
from glassformer.equations.normalization import layer_norm
from glassformer.equations.softmax import softmax
from glassformer.layers.basic import FeedForward, LayerNorm
from glassformer.layers.block import Attention, AttentionShape, Block

BLOCK = (
    "x ──┬─▶ norm ─▶ attention ─▶ + ──┬─▶ norm ─▶ feed-forward ─▶ + ──▶ y",
    "    │                        ▲   │                           ▲",
    "    └────────────────────────┘   └───────────────────────────┘",
)


class PreNormBlockWalk(Walk):
    """Norm, attention, add; norm, feed-forward, add: three tokens of width four through one block of today's models."""

    @step(
        "Norm first",
        like="A highway with exits: through traffic stays on it, and only what leaves at an exit is inspected.",
    )
    def norm_first(self) -> None:
        """The hidden state itself goes straight on. A normalized copy of it goes into the sublayer, and the output of
        the sublayer is added to the hidden state as it was.
        """
        self.diagram(BLOCK)
        self.given_block = self.given("pre-ln-block-vector")
        self.x, self.eps = self.given_block.tensor("x"), self.given_block.get("eps", float)
        self.one, self.zero = self.x.new_ones(4), self.x.new_zeros(4)
        self.normed = layer_norm(self.x, self.one, self.zero, self.eps)
        self.show(self.normed, (0, 0), (0, 3))
        self.same("every normalized hidden state has mean zero", self.normed.mean(-1), 0.0)

    @step(
        "Queries, keys and values in two heads",
        like="Two specialists get the same file and each copies out the pages of their own subject.",
    )
    def queries_keys_values(self) -> None:
        """Three matrices turn the normalized hidden states into queries, keys and values. Each projected vector is
        split in two, one half for each head.
        """
        heads = self.given_block.get("heads", int)
        matrices = self.given_block.tensors("WQ", "WK", "WV")
        projected = [linear(self.normed, W) for W in matrices]
        self.say("Here are the queries; keys and values are computed in the same way, with their own matrices.")
        self.show(projected[0], (0, 0), rows=self.index_labels(token=len(self.x)))
        self.q, self.k, self.v = (split_heads(x, heads) for x in projected)
        self.say("Below, the first head gets the left half of each row, the second head the right half.")
        self.by_head = self.index_labels(head=heads, query=len(self.x))
        self.show(self.q, (0, 0, 0), (1, 0, 0), rows=self.by_head)
        self.claim("each head has three queries of two numbers", tuple(self.q.shape) == (heads, len(self.x), 2))

    @step("Each head attends", like="Each specialist asks the others' notes only what belongs to the subject.")
    def each_head_attends(self) -> None:
        """Inside a head every query is compared with every key. The scores are divided by the square root of the head
        width, softmax turns them into attention weights, and the weights mix the values.
        """
        scores = attention_scores(self.q, self.k)
        self.weights = softmax(scores)
        self.mixed = weighted_sum(self.weights, self.v)
        self.say("Each table has a row for each head and query. The columns of the first two are the keys.")
        keys = self.index_labels(key=len(self.x))
        self.show(scores, (0, 0, 1), rows=self.by_head, columns=keys)
        self.show(self.weights, (0, 0, 1), rows=self.by_head, columns=keys)
        self.show(self.mixed, (0, 0, 0), rows=self.by_head)
        self.same("the weights of each query sum to one", self.weights.sum(-1), 1.0)
        self.differ("the two heads have different attention weights", self.weights[0], self.weights[1], by=0.1)

    @step(
        "Concatenate, project, add",
        like="Both reports are stapled together, summarized, and the summary is put on file.",
    )
    def concatenate_project_add(self) -> None:
        """The outputs of the heads are concatenated, the output projection mixes them, and the result is added to the
        hidden state that came in, not to its normalized copy.
        """
        merged = merge_heads(self.mixed)
        change = linear(merged, self.given_block.tensor("WO"))
        self.h2 = residual(self.x, change)
        self.show(change, (0, 0))
        self.show(self.h2, (0, 0))
        self.beside("pre-ln-block-vector", h2=self.h2)
        other = residual(self.normed, change)
        self.differ("added to the normalized copy it would be another vector", other, self.h2, by=0.1)

    @step(
        "Norm, up, activation, down",
        like="ReLU is a light switch, on or off; GELU is a dimmer, and lets a little through while it turns.",
    )
    def norm_up_activation_down(self) -> None:
        """The feed-forward sublayer also gets a normalized copy. It projects each hidden state up to four times the
        width, applies GELU to every number and projects down again, each token by itself.
        """
        W1, W2 = self.given_block.tensors("W1", "W2")
        again = layer_norm(self.h2, self.one, self.zero, self.eps)
        hidden = linear(again, W1)
        activated = gelu(hidden)
        self.down = linear(activated, W2)
        tokens, shown = self.index_labels(token=len(self.x)), gelu(hidden[:, : self.x.shape[-1]])
        self.show(again, (0, 0), rows=tokens)
        self.say(
            f"The up projection gives each token {hidden.shape[-1]} numbers; the first table shows GELU of the first "
            f"{shown.shape[-1]}. The down projection reads all {hidden.shape[-1]}."
        )
        self.show(shown, (0, 0), (1, 0), rows=tokens)
        self.show(self.down, (0, 0), rows=tokens)
        self.claim("inside it is four times as wide", hidden.shape[-1] == 4 * self.x.shape[-1])
        alone = linear(gelu(linear(again[1:2], W1)), W2)
        self.same("a token alone gives the same as among the others", alone[0], self.down[1])

    @step("Add, and out", like="The file goes on to the next office, thicker by two summaries.")
    def add_and_out(self) -> None:
        """The output of the feed-forward sublayer is added to the hidden state. Nothing normalizes the result: the next
        block's norm does that for its own copy, and after the last block there is a final norm.
        """
        y = residual(self.h2, self.down)
        self.show(y, (0, 0))
        self.beside("pre-ln-block-vector", y=y)
        self.differ("what leaves the block is not normalized", y.square().mean(-1), 1.0, by=0.5)
        block = _library_block(self)
        with torch.no_grad():
            by_library = block(self.x)
        self.same("the library's block gives the same", by_library, y, within=1e-6)

    @step("The same, causal", like="The same office, where nobody may read files that arrive later.")
    def same_but_causal(self) -> None:
        """In a decoder a causal mask is added to the scores before softmax. The first token then attends to itself
        alone, and the last one to all three, so the last output is the same as without a mask.
        """
        mask = causal_mask(len(self.x), dtype=torch.float64)
        weights = softmax(apply_mask(attention_scores(self.q, self.k), mask))
        self.show(weights, (0, 1, 0), rows=self.by_head, columns=self.index_labels(key=len(self.x)))
        h2 = residual(self.x, linear(merge_heads(weighted_sum(weights, self.v)), self.given_block.tensor("WO")))
        self.show(h2, (0, 0))
        self.beside("pre-ln-block-vector", h2_causal=h2)
        self.same("the last token's output is what it was", h2[-1], self.h2[-1])
        self.differ("the first token's is not", h2[0], self.h2[0], by=0.1)

    def quiz(self) -> None:
        """Questions on it."""
        self.ask(
            "What is the first number of the first normalized hidden state?",
            lambda: layer_norm(self.x, self.one, self.zero, self.eps),
            f"The hidden state is {', '.join(map(number, self.x[0]))}: subtract the mean, then divide by the standard "
            "deviation.",
            cell=(0, 0),
        )
        self.ask(
            "With a causal mask, what weight does the first token give itself in the first head?",
            lambda: softmax(apply_mask(attention_scores(self.q, self.k), causal_mask(3, dtype=torch.float64))),
            "What else may it attend to?",
            cell=(0, 0, 0),
        )
        self.ask(
            "What is the shape of the hidden layer inside the feed-forward sublayer?",
            lambda: (len(self.x), 4 * self.x.shape[-1]),
            "Tokens, and four times the width.",
        )


def _library_block(walk: Walk) -> Block:
    """A block of the library with the weights of the example."""
    given = walk.given("pre-ln-block-vector")
    block = Block(
        Attention(AttentionShape.of(dim=4, heads=given.get("heads", int), bias=False)),
        FeedForward(4, 16, gelu, bias=False),
        norm=lambda: LayerNorm(4, given.get("eps", float)),
    ).double()
    names = {"query": "WQ", "key": "WK", "value": "WV", "output": "WO", "up": "W1", "down": "W2"}
    with torch.no_grad():
        for path, weight in block.named_parameters():
            if weight.dim() > 1:
                weight.copy_(given.tensor(names[path.split(".")[1]]))
    return block
