"""The decoder block: “de nada” comes out."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.course.worked.positions import waves
from glassformer.equations.activations import relu
from glassformer.equations.algebra import add, linear, scale
from glassformer.equations.attention import apply_mask, attention, attention_scores, weighted_sum
from glassformer.equations.masks import causal_mask
from glassformer.equations.matrices import transpose
from glassformer.equations.normalization import layer_norm
from glassformer.equations.other_norms import layer_norm_outside
from glassformer.equations.softmax import softmax
from glassformer.layers.basic import FeedForward, LayerNorm
from glassformer.layers.block import Attention, AttentionShape, Block, Causal

TARGET, SOURCE = ("<start>", "de", "nada"), ("you", "are", "welcome")


class DecoderBlockWalk(Walk):
    """Masked attention to the target so far, attention to the source; the printed numbers beside the right ones."""

    @step(
        "The target so far",
        like="Writing a letter with the next line always covered: you see what you wrote, not what comes.",
    )
    def target_so_far(self) -> None:
        """The target begins with a start token, so it is shifted one position to the right of what is to be predicted.
        It has its own positions, queries, keys and values. The printed positions are wrong, as in the encoder, so the
        printed sums are wrong too.
        """
        Y = self.given("y-plus-pe-corrected").tensor("Y")
        self.y = add(Y, waves(*Y.shape))
        self.show(self.y, (1, 0), rows=TARGET)
        self.beside("y-plus-pe-corrected", sum=self.y)
        rows, *weights = self.given("qkv-output").tensors("Y_plus_PE", "W_Q", "W_K", "W_V")
        self.differ("the printed sums differ from the right ones", rows, self.y, by=0.1)
        self.say("And from the printed positions:")
        self.beside("qkv-output", **dict(zip("QKV", (linear(rows, W) for W in weights), strict=True)))

    @step(
        "Causal self-attention",
        like="A proofreader who reads a page through a slot that moves down with the writing.",
    )
    def causal_self_attention(self) -> None:
        """Self-attention in the decoder is masked and scaled. The source says so, but its script does neither. Two
        errors are corrected here one after the other: first everything from the right positions; then the printed
        positions, masked and scaled, beside what the script printed.
        """
        self.example = self.given("decoder-chain-corrected")
        self.rows = self.example.tensor("Y_plus_PE")
        q, k, v = (linear(self.rows, W) for W in self.example.tensors("W_q", "W_k", "W_v"))
        weights = softmax(apply_mask(attention_scores(q, k), causal_mask(len(self.rows), dtype=torch.float64)))
        self.own = linear(weighted_sum(weights, v), self.example.tensor("W_o"))
        self.show(weights, (1, 0), rows=TARGET, columns=TARGET)
        self.same("no token attends to a later one", weights.triu(1), 0.0, within=0.0)
        self.show(self.own, (0, 0), rows=TARGET)
        self.say("From the right positions, masked and scaled:")
        self.beside("decoder-chain-corrected", self_weights=weights, self_output=self.own)
        old = self.given("decoder-self-attention")
        q, k, v = (linear(old.tensor("Y_plus_PE"), W) for W in old.tensors("W_q", "W_k", "W_v"))
        W_o, printed = old.tensor("W_o"), self.tensor(old.fact("output", list[list[float]]))
        self.say("From the printed positions, masked and scaled, beside the printed output:")
        self.beside("decoder-self-attention", output=linear(attention(q, k, v, mask=old.tensor("allowed")), W_o))
        neither = linear(weighted_sum(softmax(attention_scores(q, k, scale=1.0)), v), W_o)
        self.same("with neither mask nor scaling the printed output comes out", neither, printed, within=1e-7)

    @step("Norm", like="A recipe with a spoonful where a pinch is meant: it nearly works.")
    def norm(self) -> None:
        """The same layer norm as everywhere, with epsilon inside the root. The source adds it outside here and says
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
        self.same("the printed numbers are those with epsilon outside", outside, printed, within=1e-07)
        self.differ("those with epsilon inside are others", inside, printed, by=1e-06)

    @step(
        "Cross-attention: attending to the source",
        like="An interpreter who writes in one language while looking at a page in the other; the page lies open as a "
        "whole.",
    )
    def cross_attention(self) -> None:
        """Cross-attention takes its queries from the decoder and its keys and values from the encoder output. Every
        target token may attend to the whole source, so there is no causal mask, only a padding mask. And the sublayer
        has its own weights. In this example the encoder outputs are all but equal, so every source token gets the same
        weight.
        """
        self.encoder_output = self.example.tensor("encoder_output")
        self.Q, self.K, V = (
            linear(self.normed, self.example.tensor("W_Q")),
            linear(self.encoder_output, self.example.tensor("W_K")),
            linear(self.encoder_output, self.example.tensor("W_V")),
        )
        scores = attention_scores(self.Q, self.K)
        weights = softmax(scores)
        mixed = weighted_sum(weights, V)
        self.show(weights, (0, 0), rows=TARGET, columns=SOURCE)
        self.show(mixed, (0, 1), rows=TARGET)
        self.beside("decoder-chain-corrected", cross_weights=weights, cross_output=mixed)
        self.claim("every target token attends to every source token", (weights > 0).all())
        spread = self.encoder_output - self.encoder_output[0]
        self.same("the encoder outputs are equal but for rounding", spread, 0.0, within=1e-6)
        self.same("so every source token gets the same weight", weights, 1 / len(self.encoder_output), within=1e-6)
        self.claim(
            "no causal mask belongs here", not self.worked("cross-attention-mask-claim").get("causal_mask_needed", bool)
        )

    @step("As it is printed", like="The right key in the right lock, of the wrong door.")
    def as_it_is_printed(self) -> None:
        """The printed attention weights are right, since equal encoder outputs make equal weights whatever the scores.
        But the script multiplies by transposed matrices and divides the scores by another root, so the printed
        output is wrong.
        """
        old = self.given("cross-attention-output")
        q, k, v = (
            linear(old.tensor(a), old.tensor(b))
            for a, b in (("decoder", "W_Q"), ("encoder", "W_K"), ("encoder", "W_V"))
        )
        self.beside("cross-attention-weights", weights=softmax(attention_scores(q, k)))
        output = attention(q, k, v)
        self.show(output, rows=TARGET)
        self.beside("cross-attention-output", V=v, output=output)
        q, k, v = (
            linear(old.tensor(a), transpose(old.tensor(b)))
            for a, b in (("decoder", "W_Q"), ("encoder", "W_K"), ("encoder", "W_V"))
        )
        transposed = weighted_sum(softmax(attention_scores(q, k, scale=3**-0.5)), v)
        printed = self.tensor(old.fact("output", list[list[float]]))
        self.same("transposed matrices and the root of three give the printed output", transposed, printed, within=1e-6)

    @step("The whole block", like="Three stations on a line, and a through track beside each of them.")
    def whole_block(self) -> None:
        """What the source leaves out, the library's block has: a residual connection around each of the three
        sublayers, and a layer norm after each. Earlier outputs still do not change when a token is added.
        """
        random, shape = torch.Generator().manual_seed(0), AttentionShape.of(dim=4, heads=2, bias=False)
        block = Block(
            Attention(shape, Causal()),
            FeedForward(4, 16, relu),
            norm=lambda: LayerNorm(4, self.eps),
            cross_attention=Attention(shape),
            norm_first=False,
        ).double()
        with torch.no_grad():
            for weight in block.parameters():
                if weight.dim() > 1:
                    weight.copy_(torch.randn(weight.shape, generator=random))
            begun = len(self.tape.steps)
            whole = block(self.y[None], encoder_output=self.encoder_output[None])
            names = [step.equation.name for step in self.tape.steps[begun:]]
            shorter = block(self.y[None, :2], encoder_output=self.encoder_output[None])
        self.table(("step", "equation"), enumerate(names, 1))
        self.show(whole, rows=TARGET)
        self.same("the outputs before a new token stay as they were", whole[:, :2], shorter)
        self.claim(
            "there are three residual connections and three norms, one for each sublayer",
            (names.count("residual"), names.count("layer_norm")) == (3, 3),
        )

    def quiz(self) -> None:
        """Questions on it."""
        self.ask(
            "In causal self-attention, how much of its attention does <start>, the first token, give to itself?",
            lambda: softmax(apply_mask(attention_scores(self.y, self.y), causal_mask(3, dtype=torch.float64))),
            "What else may it attend to?",
            cell=(0, 0),
        )
        unscaled, width = attention_scores(self.Q, self.K, 1.0)[0, 0], self.Q.shape[-1]
        self.ask(
            f"In cross-attention with heads of width {width}, the unscaled score of <start> with “you” is "
            f"{number(unscaled)}. What is the scaled score?",
            lambda: scale(unscaled, width**-0.5),
            "By what are scores divided?",
        )
        self.ask(
            "Three target tokens attend to five source tokens. What is the shape of the attention weights?",
            lambda: tuple(attention_scores(torch.zeros(3, 4), torch.zeros(5, 4)).shape),
            "A row for each query, a column for each key.",
        )
