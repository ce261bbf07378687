"""The decoder block: “de nada” comes out."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.activations import relu
from glassformer.equations.algebra import add, linear
from glassformer.equations.attention import apply_mask, attention, attention_scores, weighted_sum
from glassformer.equations.masks import causal_mask
from glassformer.equations.normalization import layer_norm, layer_norm_outside
from glassformer.equations.positions import sinusoidal_positions
from glassformer.equations.probability import softmax
from glassformer.layers.attention import Attention, Heads
from glassformer.layers.block import Around, Block
from glassformer.layers.feed_forward import FeedForward
from glassformer.layers.normalization import LayerNorm
from glassformer.layers.patterns import Past
from glassformer.lessons.walk import Walk

TARGET, SOURCE = ("<start>", "de", "nada"), ("you", "are", "welcome")


def walk_decoder_block(walk: Walk) -> None:
    """Masked attention to what is written, attention to what was read; the printed numbers beside the right ones."""
    walk.step(
        "What is written so far",
        "The target begins with a start token and stands one place to the right of what is to be predicted. It gets its "
        "own places, and its own queries, keys and values.",
        like="Writing a letter with the last line always covered: you see what you wrote, not what comes.",
    )
    Y = walk.given("y-plus-pe-corrected").tensor("Y")
    y = add(Y, sinusoidal_positions(*Y.shape, dtype=torch.float64))
    walk.show(y, (1, 0), rows=TARGET)
    walk.beside("y-plus-pe-corrected", sum=y)
    rows, *weights = walk.given("qkv-output").tensors("Y_plus_PE", "W_Q", "W_K", "W_V")
    walk.beside("qkv-output", **dict(zip("QKV", (linear(rows, W) for W in weights), strict=True)))

    walk.step(
        "Looking back, not ahead",
        "Self-attention in the decoder is masked and scaled. The source says so, but its script does neither, and its "
        "printed output is another one.",
        like="A proofreader who reads a page through a slot that moves down with the writing.",
    )
    given = walk.given("decoder-chain-corrected")
    rows = given.tensor("Y_plus_PE")
    q, k, v = (linear(rows, W) for W in given.tensors("W_q", "W_k", "W_v"))
    shares = softmax(apply_mask(attention_scores(q, k), causal_mask(len(rows), dtype=torch.float64)))
    own = linear(weighted_sum(shares, v), given.tensor("W_o"))
    walk.show(shares, (1, 0), rows=TARGET, columns=TARGET)
    walk.show(own, (0, 0), rows=TARGET)
    walk.beside("decoder-chain-corrected", self_weights=shares, self_output=own)
    old = walk.given("decoder-self-attention")
    q, k, v = (linear(old.tensor("Y_plus_PE"), W) for W in old.tensors("W_q", "W_k", "W_v"))
    right = linear(attention(q, k, v, mask=old.tensor("allowed")), old.tensor("W_o"))
    walk.beside("decoder-self-attention", output=right)

    walk.step(
        "Norm",
        "The same norm as everywhere, with the small number inside the root. The source adds it outside here and says "
        "that nothing has changed.",
        like="The same recipe, with a spoon where a knife's tip is meant: it nearly works.",
    )
    eps, one, zero = given.get("eps", float), rows.new_ones(4), rows.new_zeros(4)
    normed = layer_norm(own, one, zero, eps)
    walk.show(normed, (0, 0), rows=TARGET)
    walk.beside("decoder-chain-corrected", LN=normed)
    shown = walk.given("decoder-layernorm")
    inside = layer_norm(shown.tensor("x"), one, zero, shown.get("eps", float))
    outside = layer_norm_outside(shown.tensor("x"), one, zero, shown.get("eps", float))
    walk.beside("decoder-layernorm", LN=inside)
    printed = walk.tensor(shown.fact("LN", list[list[float]]))
    walk.claim("the printed rows are those with the number outside", float((outside - printed).abs().max()) < 1e-7)

    walk.step(
        "Looking at the source",
        "Cross-attention asks with the decoder's rows and answers with the encoder's: queries from here, keys and values "
        "from there. The whole source may be seen, so there is no causal mask, only one for fillers. And the sublayer "
        "has weights of its own.",
        like="An interpreter who writes in one language while looking at a page in the other; the page lies open as a whole.",
    )
    memory = given.tensor("encoder_output")
    Q, K, V = linear(normed, given.tensor("W_Q")), linear(memory, given.tensor("W_K")), linear(memory, given.tensor("W_V"))
    scores = attention_scores(Q, K)
    looks = softmax(scores)
    crossed = weighted_sum(looks, V)
    walk.show(looks, (0, 0), rows=TARGET, columns=SOURCE)
    walk.show(crossed, (0, 1), rows=TARGET)
    walk.beside("decoder-chain-corrected", cross_weights=looks, cross_output=crossed)
    walk.claim("no causal mask belongs here", not walk.worked("cross-attention-mask-claim")["causal_mask_needed"])

    walk.step(
        "As it is printed",
        "In print the shares come out the same, since the encoder's three rows are nearly alike, but the values were "
        "multiplied by a transposed matrix and the scores divided by another root. The output is therefore another one.",
        like="The right key in the right lock, of the wrong door.",
    )
    old = walk.given("cross-attention-output")
    q, k, v = (linear(old.tensor(a), old.tensor(b)) for a, b in (("decoder", "W_Q"), ("encoder", "W_K"), ("encoder", "W_V")))
    walk.beside("cross-attention-weights", weights=softmax(attention_scores(q, k)))
    answer = attention(q, k, v)
    walk.show(answer, rows=TARGET)
    walk.beside("cross-attention-output", V=v, output=answer)

    walk.step(
        "The whole block",
        "What the source leaves out, the library's block has: a way past each of the three sublayers and a norm with "
        "each. The past still does not change when the future does.",
        like="Three stations on a line, and a through track beside each of them.",
    )
    random, shape = torch.Generator().manual_seed(0), Heads(dim=4, heads=2, bias=False)
    block = Block(
        Attention(shape, Past()), FeedForward(4, 16, relu), lambda: Around(LayerNorm(4, eps), "post"), Attention(shape)
    ).double()
    with torch.no_grad():
        for weight in block.parameters():
            if weight.dim() > 1:
                weight.copy_(torch.randn(weight.shape, generator=random))
        begun = len(walk.tape.steps)
        whole = block(y[None], memory=memory[None])
        names = [step.equation.name for step in walk.tape.steps[begun:]]
        shorter = block(y[None, :2], memory=memory[None])
    walk.table(("step", "equation"), enumerate(names, 1))
    walk.show(whole, rows=TARGET)
    walk.claim("the rows before a new word stay as they were", float((whole[:, :2] - shorter).abs().max()) < 1e-12)
    walk.claim("there are three ways past, one for each sublayer", names.count("residual") == 3)

    walk.ask("What share of its own attention does <start> give to itself?", lambda: softmax(apply_mask(
        attention_scores(y, y), causal_mask(3, dtype=torch.float64))), "Whom else could it see?", cell=(0, 0))
    walk.ask(f"What is the scaled score of <start> with “you” in cross-attention? The raw one is "
             f"{number(attention_scores(Q, K, 1.0)[0, 0])}.", lambda: attention_scores(Q, K), "Halve it: the width is four.",
             cell=(0, 0), tolerance=1e-3)
    walk.ask("Three target words look at five source words. What shape have the shares?",
             lambda: tuple(attention_scores(torch.zeros(3, 4), torch.zeros(5, 4)).shape), "A row for each that looks.")
