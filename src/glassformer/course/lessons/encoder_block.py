"""The encoder block: “You are welcome” goes in."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.course.worked.positions import waves
from glassformer.equations.activations import relu
from glassformer.equations.algebra import add, linear, residual
from glassformer.equations.attention import attention, attention_scores
from glassformer.equations.normalization import layer_norm
from glassformer.equations.sequences import concat
from glassformer.equations.softmax import softmax
from glassformer.layers.basic import FeedForward, LayerNorm
from glassformer.layers.block import Attention, AttentionShape, Block

ENGLISH = ("you", "are", "welcome")
AS_PRINTED = "And from the printed positions:"
PRINT_ROUNDING = 1e-4  # more than four printed decimals can be off by rounding


class EncoderBlockWalk(Walk):
    """Three tokens through attention, heads, norm and feed-forward; the printed numbers beside the right ones."""

    @step("Embeddings plus positions", like="Name tags with seat numbers: who you are and where you sit in one line.")
    def words_with_places(self) -> None:
        """Each token is a vector of four numbers, and its position adds four more. The source's sinusoids have the
        wrong frequencies in three columns, so everything computed from them differs too. Both are followed here: the
        right numbers first, then those that follow from the printed positions.
        """
        self.example = self.given("encoder-chain-correct-pe")
        X = self.example.tensor("X")
        self.x = add(X, waves(*X.shape))
        self.show(self.x, (1, 0), (1, 2), rows=ENGLISH)
        self.beside("x-plus-pe-corrected", sum=self.x)
        X_printed, P_printed = self.given("x-plus-pe").tensors("X", "PE")
        wrong = ((P_printed - waves(*X.shape)).abs().amax(0) > PRINT_ROUNDING).tolist()
        self.claim("three of the four printed columns are wrong, all but the first", wrong == [False, True, True, True])
        self.say(AS_PRINTED)
        self.beside("x-plus-pe", sum=add(X_printed, P_printed))

    @step(
        "Queries, keys, values",
        like="One person, three roles: asking a question, wearing a label, having something to say.",
    )
    def queries_keys_values(self) -> None:
        """Three matrices turn each input into a query, a key and a value. One product worked out by hand in print ends
        in the wrong number; the arithmetic is short enough to check.
        """
        self.W_Q, W_K, W_V = self.example.tensors("W_Q", "W_K", "W_V")
        self.Q, self.K, self.V = linear(self.x, self.W_Q), linear(self.x, W_K), linear(self.x, W_V)
        self.show(self.Q, (0, 2), rows=ENGLISH)
        self.show(self.K, (0, 0), rows=ENGLISH)
        self.show(self.V, (0, 0), rows=ENGLISH)
        self.beside("encoder-chain-correct-pe", X_plus_PE=self.x, Q=self.Q, K=self.K, V=self.V)
        row, column = self.given("q13-hand-calculation").tensors("row", "column")
        by_hand = linear(row, column[:, None])
        self.show(by_hand, (0,))
        self.beside("q13-hand-calculation", Q13=by_hand[0])
        dropped = linear(row[:-1], column[:-1, None])
        self.same(
            "without its last product the sum is what is printed",
            dropped[0],
            self.given("q13-hand-calculation").fact("Q13", float),
            within=1e-6,
        )
        self.say(AS_PRINTED)
        rows, *weights = self.given("qkv-input").tensors("X_plus_PE", "W_Q", "W_K", "W_V")
        self.beside("qkv-input", **dict(zip("QKV", (linear(rows, W) for W in weights), strict=True)))

    @step("Who attends to whom", like="A round of introductions, after which everyone knows whom to sit next to.")
    def who_listens_to_whom(self) -> None:
        """The scores of each token with each token, divided by the square root of the width, become attention weights.
        Here “you” attends most to “welcome”, and “welcome” most to “you”.
        """
        self.scores = attention_scores(self.Q, self.K)
        weights = softmax(self.scores)
        self.show(self.scores, (0, 1), rows=ENGLISH, columns=ENGLISH)
        self.show(weights, (0, 1), rows=ENGLISH, columns=ENGLISH)
        self.beside("encoder-chain-correct-pe", weights=weights)
        you, _, welcome = weights.argmax(-1).tolist()
        self.claim(f"“you” attends most to “{ENGLISH[you]}”", ENGLISH[you] == "welcome")
        self.claim(f"“welcome” attends most to “{ENGLISH[welcome]}”", ENGLISH[welcome] == "you")
        self.say(AS_PRINTED)
        Q_printed, K_printed = self.given("attention-input-weights").tensors("Q", "K")
        self.beside("attention-input-weights", weights=softmax(attention_scores(Q_printed, K_printed)))

    @step(
        "The first head, and a second",
        like="Two reporters at the same event, and an editor who makes one story of it.",
    )
    def head_s_answer(self) -> None:
        """The attention weights mix the values. The source makes up the output of a second head; concatenated they are
        eight wide, and the output projection brings them back to four.
        """
        head = attention(self.Q, self.K, self.V)
        both = concat([head, self.example.tensor("head_2")])
        self.mixed = linear(both, self.example.tensor("W_O"))
        self.show(head, rows=ENGLISH)
        self.show(self.mixed, (0, 0), rows=ENGLISH)
        self.beside("encoder-chain-correct-pe", head_1=head, M=self.mixed)
        self.claim("eight wide, then four", (both.shape[-1], self.mixed.shape[-1]) == (8, 4))
        self.say(AS_PRINTED)
        a, b, c = self.given("attention-input-output").tensors("Q", "K", "V")
        self.beside("attention-input-output", output=attention(a, b, c))

    @step(
        "Add, norm, feed forward, add, norm",
        like="Two rounds of editing, and after each the text is set in the same type size.",
    )
    def add_norm_feed_forward_add(self) -> None:
        """A block adds the output of attention to its input, then applies layer norm; and the same around the
        feed-forward sublayer. The source leaves out both additions, and its block gives other numbers.
        """
        self.eps, (W1, b1, W2, b2) = self.example.get("eps", float), self.example.tensors("W1", "b1", "W2", "b2")
        one, zero = self.x.new_ones(4), self.x.new_zeros(4)
        h = layer_norm(residual(self.x, self.mixed), one, zero, self.eps)
        y = layer_norm(residual(h, linear(relu(linear(h, W1, b1)), W2, b2)), one, zero, self.eps)
        self.show(h, rows=ENGLISH)
        self.show(y, rows=ENGLISH)
        self.beside("encoder-block-with-residuals", h=h, y=y)
        bare = layer_norm(self.mixed, one, zero, self.eps)
        self.say("Without the additions:")
        self.beside("encoder-chain-correct-pe", LN_M=bare, FFN=linear(relu(linear(bare, W1, b1)), W2, b2))
        self.differ("without the addition the first layer norm gives other numbers", bare, h, by=0.1)

    @step("The same from the library", like="After building one chair by hand you know what the factory does.")
    def same_from_the_library(self) -> None:
        """A block of this library is the same equations with its own weights: attention, then feed-forward, each
        followed by an addition and a norm. Run one, and its tape shows them.
        """
        block = Block(
            Attention(AttentionShape.of(dim=4, heads=2, bias=False)),
            FeedForward(4, 6, relu),
            norm=lambda: LayerNorm(4, self.eps),
            norm_first=False,
        ).double()
        random = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for weight in block.parameters():
                if weight.dim() > 1:
                    weight.copy_(torch.randn(weight.shape, generator=random))
            begun = len(self.tape.steps)
            out = block(self.x)
        names = [step.equation.name for step in self.tape.steps[begun:]]
        self.table(("step", "equation"), enumerate(names, 1))
        self.show(out, rows=ENGLISH)
        order = [name for name in names if name in ("attention", "relu", "residual", "layer_norm")]
        wanted = ["attention", "residual", "layer_norm", "relu", "residual", "layer_norm"]
        self.claim("attention and feed-forward are each followed by an addition and a norm", order == wanted)
        self.same("each output of a block that ends in a layer norm has mean zero", out.mean(-1), 0.0)

    def quiz(self) -> None:
        """Questions on it."""
        self.ask(
            f"“you” with its position is ({', '.join(map(number, self.x[0]))}), and the first column of W_Q is "
            f"({', '.join(map(number, self.W_Q[:, 0]))}). What is the first entry of its query?",
            lambda: linear(self.x[0], self.W_Q[:, :1]),
            "An inner product of the two.",
            cell=(0,),
        )
        self.ask(
            f"“you” has the scores {', '.join(map(number, self.scores[0]))} with “you”, “are” and “welcome”. What is "
            "its attention weight for “welcome”?",
            lambda: softmax(self.scores[0]),
            "Raise e to each score, then divide by the sum.",
            cell=(2,),
        )
        self.ask(
            f"Two heads of width {self.V.shape[-1]} are concatenated and projected to width {self.x.shape[-1]}. What "
            "is the shape of the output matrix?",
            lambda: tuple(self.example.tensor("W_O").shape),
            "A row for each number that comes in, a column for each that goes out.",
        )
