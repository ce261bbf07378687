"""The decoder block: “de nada” comes out."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.activations import relu
from glassformer.equations.algebra import add, linear
from glassformer.equations.attention import apply_mask, attention, attention_scores, weighted_sum
from glassformer.equations.masks import causal_mask
from glassformer.equations.normalization import layer_norm, layer_norm_outside
from glassformer.equations.probability import softmax
from glassformer.layers.attention import Attention, Heads
from glassformer.layers.block import Around, Block
from glassformer.layers.feed_forward import FeedForward
from glassformer.layers.normalization import LayerNorm
from glassformer.layers.patterns import Past
from glassformer.lessons.walk import Walk, step
from glassformer.worked.positions import waves

TARGET, SOURCE = ("<start>", "de", "nada"), ("you", "are", "welcome")


class DecoderBlockWalk(Walk):
    """Masked attention to what is written, attention to what was read; the printed numbers beside the right ones."""

    @step(
        "What is written so far",
        like="Writing a letter with the last line always covered: you see what you wrote, not what comes.",
    )
    def what_is_written_so_far(self) -> None:
        """The target begins with a start token and stands one place to the right of what is to be predicted. It gets
        its own places, and its own queries, keys and values.
        """
        Y = self.given("y-plus-pe-corrected").tensor("Y")
        self.y = add(Y, waves(*Y.shape))
        self.show(self.y, (1, 0), rows=TARGET)
        self.beside("y-plus-pe-corrected", sum=self.y)
        rows, *weights = self.given("qkv-output").tensors("Y_plus_PE", "W_Q", "W_K", "W_V")
        self.beside("qkv-output", **dict(zip("QKV", (linear(rows, W) for W in weights), strict=True)))

    @step(
        "Looking back, not ahead",
        like="A proofreader who reads a page through a slot that moves down with the writing.",
    )
    def looking_back_not_ahead(self) -> None:
        """Self-attention in the decoder is masked and scaled. The source says so, but its script does neither, and its
        printed output is another one.
        """
        self.example = self.given("decoder-chain-corrected")
        self.rows = self.example.tensor("Y_plus_PE")
        q, k, v = (linear(self.rows, W) for W in self.example.tensors("W_q", "W_k", "W_v"))
        shares = softmax(apply_mask(attention_scores(q, k), causal_mask(len(self.rows), dtype=torch.float64)))
        self.own = linear(weighted_sum(shares, v), self.example.tensor("W_o"))
        self.show(shares, (1, 0), rows=TARGET, columns=TARGET)
        self.show(self.own, (0, 0), rows=TARGET)
        self.beside("decoder-chain-corrected", self_weights=shares, self_output=self.own)
        old = self.given("decoder-self-attention")
        q, k, v = (linear(old.tensor("Y_plus_PE"), W) for W in old.tensors("W_q", "W_k", "W_v"))
        right = linear(attention(q, k, v, mask=old.tensor("allowed")), old.tensor("W_o"))
        self.beside("decoder-self-attention", output=right)

    @step("Norm", like="The same recipe, with a spoon where a knife's tip is meant: it nearly works.")
    def norm(self) -> None:
        """The same norm as everywhere, with the small number inside the root. The source adds it outside here and says
        that nothing has changed.
        """
        self.eps, one, zero = self.example.get("eps", float), self.rows.new_ones(4), self.rows.new_zeros(4)
        self.normed = layer_norm(self.own, one, zero, self.eps)
        self.show(self.normed, (0, 0), rows=TARGET)
        self.beside("decoder-chain-corrected", LN=self.normed)
        shown = self.given("decoder-layernorm")
        inside = layer_norm(shown.tensor("x"), one, zero, shown.get("eps", float))
        outside = layer_norm_outside(shown.tensor("x"), one, zero, shown.get("eps", float))
        self.beside("decoder-layernorm", LN=inside)
        printed = self.tensor(shown.fact("LN", list[list[float]]))
        self.same("the printed rows are those with the number outside", outside, printed, within=1e-07)

    @step(
        "Looking at the source",
        like="An interpreter who writes in one language while looking at a page in the other; the page lies open as a "
        "whole.",
    )
    def looking_at_the_source(self) -> None:
        """Cross-attention asks with the decoder's rows and answers with the encoder's: queries from here, keys and
        values from there. The whole source may be seen, so there is no causal mask, only one for fillers. And the
        sublayer has weights of its own.
        """
        self.memory = self.example.tensor("encoder_output")
        self.Q, self.K, V = (
            linear(self.normed, self.example.tensor("W_Q")),
            linear(self.memory, self.example.tensor("W_K")),
            linear(self.memory, self.example.tensor("W_V")),
        )
        scores = attention_scores(self.Q, self.K)
        looks = softmax(scores)
        crossed = weighted_sum(looks, V)
        self.show(looks, (0, 0), rows=TARGET, columns=SOURCE)
        self.show(crossed, (0, 1), rows=TARGET)
        self.beside("decoder-chain-corrected", cross_weights=looks, cross_output=crossed)
        self.claim(
            "no causal mask belongs here", not self.worked("cross-attention-mask-claim").get("causal_mask_needed", bool)
        )

    @step("As it is printed", like="The right key in the right lock, of the wrong door.")
    def as_it_is_printed(self) -> None:
        """In print the shares come out the same, since the encoder's three rows are nearly alike, but the values were
        multiplied by a transposed matrix and the scores divided by another root. The output is therefore another
        one.
        """
        old = self.given("cross-attention-output")
        q, k, v = (
            linear(old.tensor(a), old.tensor(b))
            for a, b in (("decoder", "W_Q"), ("encoder", "W_K"), ("encoder", "W_V"))
        )
        self.beside("cross-attention-weights", weights=softmax(attention_scores(q, k)))
        answer = attention(q, k, v)
        self.show(answer, rows=TARGET)
        self.beside("cross-attention-output", V=v, output=answer)

    @step("The whole block", like="Three stations on a line, and a through track beside each of them.")
    def whole_block(self) -> None:
        """What the source leaves out, the library's block has: a way past each of the three sublayers and a norm with
        each. The past still does not change when the future does.
        """
        random, shape = torch.Generator().manual_seed(0), Heads(dim=4, heads=2, bias=False)
        block = Block(
            Attention(shape, Past()),
            FeedForward(4, 16, relu),
            lambda: Around(LayerNorm(4, self.eps), "post"),
            Attention(shape),
        ).double()
        with torch.no_grad():
            for weight in block.parameters():
                if weight.dim() > 1:
                    weight.copy_(torch.randn(weight.shape, generator=random))
            begun = len(self.tape.steps)
            whole = block(self.y[None], memory=self.memory[None])
            names = [step.equation.name for step in self.tape.steps[begun:]]
            shorter = block(self.y[None, :2], memory=self.memory[None])
        self.table(("step", "equation"), enumerate(names, 1))
        self.show(whole, rows=TARGET)
        self.same("the rows before a new word stay as they were", whole[:, :2], shorter)
        self.claim("there are three ways past, one for each sublayer", names.count("residual") == 3)

    def quiz(self) -> None:
        """Questions on it."""
        self.ask(
            "What share of its own attention does <start> give to itself?",
            lambda: softmax(apply_mask(attention_scores(self.y, self.y), causal_mask(3, dtype=torch.float64))),
            "Whom else could it see?",
            cell=(0, 0),
        )
        self.ask(
            f"What is the scaled score of <start> with “you” in cross-attention? The raw one is "
            f"{number(attention_scores(self.Q, self.K, 1.0)[0, 0])}.",
            lambda: attention_scores(self.Q, self.K),
            "Halve it: the width is four.",
            cell=(0, 0),
            tolerance=1e-3,
        )
        self.ask(
            "Three target words look at five source words. What shape have the shares?",
            lambda: tuple(attention_scores(torch.zeros(3, 4), torch.zeros(5, 4)).shape),
            "A row for each that looks.",
        )
