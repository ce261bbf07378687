"""The encoder block: “You are welcome” goes in."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.activations import relu
from glassformer.equations.algebra import add, linear, residual
from glassformer.equations.attention import attention, attention_scores
from glassformer.equations.heads import concat
from glassformer.equations.normalization import layer_norm
from glassformer.equations.positions import sinusoidal_positions
from glassformer.equations.probability import softmax
from glassformer.layers.attention import Attention, Heads
from glassformer.layers.block import Around, Block
from glassformer.layers.feed_forward import FeedForward
from glassformer.layers.normalization import LayerNorm
from glassformer.lessons.walk import Walk

TOKENS = ("you", "are", "welcome")


def walk_encoder_block(walk: Walk) -> None:
    """Three words through positions, attention, heads, norm and feed-forward, with the printed numbers beside the right ones."""
    walk.step(
        "Words with places",
        "Each word is a row of four numbers, and each place adds its waves. The source's waves have the wrong speeds in "
        "three columns, so everything after them differs a little; both ways are followed here.",
        like="Name tags with seat numbers: who you are and where you sit in one line.",
    )
    given = walk.given("encoder-chain-correct-pe")
    X = given.tensor("X")
    x = add(X, sinusoidal_positions(*X.shape, dtype=torch.float64))
    walk.show(x, (1, 0), (1, 2), rows=TOKENS)
    walk.beside("x-plus-pe-corrected", sum=x)
    printed_X, printed_PE = walk.given("x-plus-pe").tensors("X", "PE")
    walk.beside("x-plus-pe", sum=add(printed_X, printed_PE))

    walk.step(
        "Queries, keys, values",
        "Three matrices make three rows of each row. One product worked out by hand in print ends in the wrong number; "
        "the arithmetic is short enough to check.",
        like="One person, three roles: asking a question, wearing a label, having something to say.",
    )
    W_Q, W_K, W_V = given.tensors("W_Q", "W_K", "W_V")
    Q, K, V = linear(x, W_Q), linear(x, W_K), linear(x, W_V)
    walk.show(Q, (0, 2), rows=TOKENS)
    walk.show(K, (0, 0), rows=TOKENS)
    walk.show(V, (0, 0), rows=TOKENS)
    walk.beside("encoder-chain-correct-pe", X_plus_PE=x, Q=Q, K=K, V=V)
    row, column = walk.given("q13-hand-calculation").tensors("row", "column")
    by_hand = linear(row, column[:, None])
    walk.show(by_hand, (0,))
    walk.beside("q13-hand-calculation", Q13=by_hand[0])
    rows, *weights = walk.given("qkv-input").tensors("X_plus_PE", "W_Q", "W_K", "W_V")
    walk.beside("qkv-input", **dict(zip("QKV", (linear(rows, W) for W in weights), strict=True)))

    walk.step(
        "Who listens to whom",
        "The scores of each word with each word, divided by the root of the width, become shares.",
        like="A round of introductions, after which everyone knows whom to sit next to.",
    )
    scores = attention_scores(Q, K)
    shares = softmax(scores)
    walk.show(scores, (0, 1), rows=TOKENS, columns=TOKENS)
    walk.show(shares, (0, 1), rows=TOKENS, columns=TOKENS)
    walk.beside("encoder-chain-correct-pe", weights=shares)
    printed_Q, printed_K = walk.given("attention-input-weights").tensors("Q", "K")
    walk.beside("attention-input-weights", weights=softmax(attention_scores(printed_Q, printed_K)))

    walk.step(
        "The head's answer, and the second head",
        "The shares mix the values. The source makes up a second head to have two; joined they are eight wide, and the "
        "output matrix brings them back to four.",
        like="Two reporters at the same event, and an editor who makes one story of it.",
    )
    head = attention(Q, K, V)
    mixed = linear(concat([head, given.tensor("head_2")]), given.tensor("W_O"))
    walk.show(head, rows=TOKENS)
    walk.show(mixed, (0, 0), rows=TOKENS)
    walk.beside("encoder-chain-correct-pe", head_1=head, M=mixed)
    a, b, c = walk.given("attention-input-output").tensors("Q", "K", "V")
    walk.beside("attention-input-output", output=attention(a, b, c))

    walk.step(
        "Add, norm, feed forward, add, norm",
        "Here the source leaves out the additions. A block adds what attention says to the row it read, then norms; and "
        "the same around the feed-forward part.",
        like="Two rounds of editing, and after each the text is set in the same type size.",
    )
    eps, (W1, b1, W2, b2) = given.get("eps", float), given.tensors("W1", "b1", "W2", "b2")
    one, zero = x.new_ones(4), x.new_zeros(4)
    h = layer_norm(residual(x, mixed), one, zero, eps)
    y = layer_norm(residual(h, linear(relu(linear(h, W1, b1)), W2, b2)), one, zero, eps)
    walk.show(h, rows=TOKENS)
    walk.show(y, rows=TOKENS)
    walk.beside("encoder-block-with-residuals", h=h, y=y)
    bare = layer_norm(mixed, one, zero, eps)
    walk.beside("encoder-chain-correct-pe", LN_M=bare, FFN=linear(relu(linear(bare, W1, b1)), W2, b2))

    walk.step(
        "The same from the library",
        "A block of this library is the same equations with its own weights. Run one, and its tape shows them.",
        like="After building one chair by hand you know what the factory does.",
    )
    block = Block(
        Attention(Heads(dim=4, heads=2, bias=False)), FeedForward(4, 6, relu), around=lambda: Around(LayerNorm(4, eps), "post")
    ).double()
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in block.parameters():
            if weight.dim() > 1:
                weight.copy_(torch.randn(weight.shape, generator=random))
        begun = len(walk.tape.steps)
        out = block(x)
    names = [step.equation.name for step in walk.tape.steps[begun:]]
    walk.table(("step", "equation"), enumerate(names, 1))
    walk.show(out, rows=TOKENS)
    walk.claim("each row of a block that ends in a norm has mean zero", float(out.mean(-1).abs().max()) < 1e-9)

    walk.ask("In the right chain, what is the first entry of the query of “you”?", lambda: linear(x, W_Q),
             "The first row times the first column of the matrix.", cell=(0, 0))
    walk.ask("What share of its attention does “you” give to “welcome”?", lambda: softmax(attention_scores(Q, K)),
             f"e to the scores {', '.join(map(number, scores[0]))}, as shares.", cell=(0, 2))
    walk.ask("What shape has the output matrix that takes two full-width heads?", lambda: tuple(given.tensor("W_O").shape),
             "From eight numbers to four.")
