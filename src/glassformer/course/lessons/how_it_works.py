"""How a Transformer works: from text to text."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.course.blueprint import Blueprint, Column
from glassformer.course.diagrams import flow_column
from glassformer.course.small_models import PHRASE_TOKENS, token_ids, trained_translator
from glassformer.course.walk import Walk, step
from glassformer.course.worked.positions import waves
from glassformer.equations.algebra import add
from glassformer.equations.losses import cross_entropy
from glassformer.equations.optimizers import gradient_descent
from glassformer.equations.sampling import greedy
from glassformer.equations.softmax import softmax
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.models.rnn import RNNConfig
from glassformer.views.terminal import shape_text

SOURCE_TEXT, DECODER_TEXT, LABEL_TEXT = "you are welcome", "<start> de nada", "de nada <end>"
SIX_STEPS = (
    ("source text → embeddings + positions", "source_start"),
    ("encoder stack → encoder output", "encoder"),
    ("target so far → embeddings + positions", "target_start"),
    ("decoder stack, attending to the encoder output", "decoder"),
    ("output layer → logits → probabilities → text", "unembed"),
)
SUBLAYERS = {"attention": "self-attention", "cross": "cross-attention", "feed_forward": "feed-forward"}


class HowItWorksWalk(Walk):
    """Six steps from a source text to a target text, drawn with the shapes that a real small model records."""

    @step(
        "Six steps from text to text",
        like="An interpreter: hear the sentence, understand it as a whole, then say it word by word, checking each "
        "word against what was meant.",
    )
    def six_steps(self) -> None:
        """A translator embeds the source and adds positions; its encoder turns that into hidden states that know their
        context. It embeds the target so far, which begins with a start token; its decoder combines that with the
        encoder's output. The output layer gives a probability to every token that could come next. While training,
        a sixth step follows: the loss compares these probabilities with the right tokens and sends gradients back.
        """
        self.model = trained_translator()
        self.source, self.decoder_input, self.labels = map(token_ids, (SOURCE_TEXT, DECODER_TEXT, LABEL_TEXT))
        self.logits = self.model(self.source, self.decoder_input)
        probabilities = softmax(self.logits[0])
        self.loss = cross_entropy(self.logits, self.labels)
        rows = [(what, _last(self, path)) for what, path in SIX_STEPS] + [("loss → gradients", self.loss)]
        self.table(
            ("step", "what happens", "shape", "a number of it"),
            [
                (index, what, shape_text(value.shape) if value.dim() else "one number", value.flatten()[0])
                for index, (what, value) in enumerate(rows, 1)
            ],
        )
        best = probabilities.topk(2)
        self.table(
            ("after", "most likely", "probability", "then", "probability"),
            [
                (word, PHRASE_TOKENS[ids[0]], values[0], PHRASE_TOKENS[ids[1]], values[1])
                for word, values, ids in zip(DECODER_TEXT.split(), best.values, best.indices.tolist(), strict=True)
            ],
        )
        self.show(self.loss)
        chosen = greedy(self.logits)
        text = " ".join(PHRASE_TOKENS[i] for i in chosen[0])
        self.claim(f"the most likely next tokens are “{text}”", text == LABEL_TEXT)

    @step(
        "Reading: embeddings, positions, context",
        like="A word in a dictionary, then the same word in a letter from a friend: only the second is about you.",
    )
    def reading(self) -> None:
        """Each token id selects a row of the embedding table, and its position adds sinusoids. These vectors know
        nothing of each other. Self-attention in the encoder changes that: afterwards the hidden state of each token
        depends on all the others.
        """
        begin, read = _last(self, "source_start"), _last(self, "encoder")
        self.show(begin, (0, 1, 0), rows=SOURCE_TEXT.split())
        X = self.given("x-plus-pe-corrected").tensor("X")
        self.beside("x-plus-pe-corrected", sum=add(X, waves(*X.shape)))
        self.show(read, rows=SOURCE_TEXT.split())
        other = token_ids("you are thanks")
        again = self.model.encode(other)
        embedded = _last(self, "source_start")
        self.same("another last word leaves the first word's embedding as it was", embedded[0, 0], begin[0, 0])
        self.differ("but it changes the first word's hidden state", again[0, 0], read[0, 0], by=0.01)

    @step(
        "The encoder-decoder, drawn",
        like="Two departments and one hatch between them: everything the writers know of the source comes through it.",
    )
    def encoder_decoder_drawn(self) -> None:
        """Two stacks stand side by side. The arrow between them is the encoder output, from which the decoder's
        cross-attention takes its keys and values. It is computed once for a sentence, however many tokens are written.
        """
        self.passed = len(self.tape.steps)
        self.logits = self.model(self.source, self.decoder_input)
        self.hidden = {path: _last(self, path) for _, path in SIX_STEPS}
        shapes = {path: shape_text(value.shape) for path, value in self.hidden.items()}
        left = Column(
            "source ids",
            ((shape_text(self.source.shape), "embedding + positions"), (shapes["source_start"], "encoder")),
            (shapes["encoder"], "encoder output"),
        )
        right = Column(
            "target ids",
            (
                (shape_text(self.decoder_input.shape), "embedding + positions"),
                (shapes["target_start"], "decoder"),
                (shapes["decoder"], "output layer"),
            ),
            (shapes["unembed"], "logits"),
        )
        plan = Blueprint("An encoder-decoder, with the shape of each tensor", (left, right), reads="decoder")
        self.diagram(_two_columns(flow_column(left), flow_column(right), f"── {shapes['encoder']} →"), plan)
        keys = _last(self, "decoder.blocks.0.cross_attention.key")
        self.show(keys, rows=SOURCE_TEXT.split())
        self.claim(
            "cross-attention has one key for each source token", keys.shape[1] == self.hidden["encoder"].shape[1]
        )

    @step(
        "GPT, drawn",
        like="A storyteller who needs no source: what was told so far is all there is to go on from.",
    )
    def gpt_drawn(self) -> None:
        """A GPT is the right-hand column alone. There is no encoder and no cross-attention: prompt and completion are
        one sequence, and a causal mask keeps every position from attending to later ones.
        """
        gpt = build(GPTConfig(vocab=len(PHRASE_TOKENS), context=8, dim=4, layers=2, heads=2), seed=0).double()
        self.passed_gpt = len(self.tape.steps)
        with torch.no_grad():
            logits = gpt(self.source)
        passed = self.tape.steps[self.passed_gpt :]
        blocks = [
            (
                shape_text(next(s for s in passed if s.path.startswith(f"stack.blocks.{i}")).input_tensors[0].shape),
                f"block {i}",
            )
            for i in range(gpt.config.layers)
        ]
        boxes = (
            (shape_text(self.source.shape), "embedding + positions"),
            *blocks,
            (shape_text(_last(self, f"stack.blocks.{gpt.config.layers - 1}").shape), "final norm"),
            (shape_text(_last(self, "stack.norm").shape), "output layer"),
        )
        column = Column("ids", boxes, (shape_text(logits.shape), "logits"))
        self.diagram(flow_column(column), Blueprint("A GPT, with the shape of each tensor", (column,)))
        self.show(_last(self, "stack.norm"), rows=SOURCE_TEXT.split())
        self.claim("its tape has no cross-attention", not any("cross" in s.path for s in passed))
        with torch.no_grad():
            longer = gpt(token_ids(f"{SOURCE_TEXT} de"))
        self.same("one more token changes nothing at the positions before it", longer[:, :3], logits)

    @step(
        "The shape stays until the output layer",
        like="A train that gains and loses passengers at every station and keeps the same number of seats.",
    )
    def shape_stays(self) -> None:
        """Every block takes one vector of the model's width for each token and returns one. That is why blocks can be
        stacked to any depth, and why each can add to what came before: the residual stream. Inside a block widths
        change for a moment; only the output layer leaves the model's width for good, one logit for each token of the
        vocabulary.
        """
        dim, vocab = self.model.config.dim, self.model.config.vocab
        run = self.tape.steps[self.passed : self.passed_gpt]
        seen = [s for s in run if s.equation.name in ("residual", "layer_norm", "unembed")]
        self.table(
            ("where", "equation", "shape"),
            [(_sublayer_name(s.path), s.equation.name, shape_text(s.output.shape)) for s in seen],
        )
        *inner, last = (s.output for s in seen)
        self.show(inner[-1], rows=DECODER_TEXT.split())
        self.claim(f"every sum and norm has width {dim}, the model's", all(value.shape[-1] == dim for value in inner))
        self.claim(f"the logits have width {vocab}, the vocabulary's", last.shape[-1] == vocab)

    @step(
        "The sixth step: loss and gradients",
        like="A choir hears the chord it should have sung; every singer moves a little, all at once.",
    )
    def loss_and_gradients(self) -> None:
        """The loss is the mean surprise at the right tokens. Its gradient reaches every parameter, the source
        embeddings too, and one small step against it makes the right tokens more likely.
        """
        loss = cross_entropy(self.logits, self.labels)
        found = self.back(loss)
        table, before = self.model.embedding.weight, self.model.embedding.weight.clone()
        self.show(loss)
        self.show_gradient(found, table, "∂L/∂E", rows=PHRASE_TOKENS)
        updated = gradient_descent(before, found[table], float(self.tensor(0.1)))
        table.copy_(updated)
        lower = cross_entropy(self.model(self.source, self.decoder_input), self.labels)
        table.copy_(before)
        self.claim(
            "every parameter has a gradient of its own shape",
            all(found[p].shape == p.shape for p in self.model.parameters()),
        )
        self.less(f"one step takes the loss from {number(loss)} to {number(lower)}", lower, loss)

    @step(
        "Against a recurrent network",
        like="A whispered message that passes down a row of people, or a notice board that all of them read at once.",
    )
    def against_a_recurrent_network(self) -> None:
        """A recurrent network reads one token after another, and each step waits for the one before. What the first
        token said must survive every step in between. A Transformer computes all positions at once, and any token
        reaches any other in one step of attention. So its number of steps does not grow with the length.
        """
        rnn = build(RNNConfig(vocab=len(PHRASE_TOKENS), dim=4, hidden_dim=4, cell="rnn"), seed=0).double()
        gpt = build(GPTConfig(vocab=len(PHRASE_TOKENS), context=32, dim=4, layers=1, heads=2), seed=0).double()
        counts: dict[str, list[int]] = {}
        heard: dict[str, list[float]] = {}
        lengths = (4, 8, 16, 32)
        for name, model in (("recurrent", rnn), ("Transformer", gpt)):
            for length in lengths:
                ids, begun = torch.arange(length)[None] % len(PHRASE_TOKENS), len(self.tape.steps)
                with torch.no_grad():
                    logits = model(ids)
                counts.setdefault(name, []).append(len(self.tape.steps) - begun)
                heard.setdefault(name, []).append(_influence(self, logits, begun))
                if length == lengths[0]:
                    found = self.back(logits, _last_position(logits))
                    self.show_gradient(found, _embedded(self, begun), f"{name}: ∂ last logits / ∂ embeddings")
        for name, numbers in counts.items():
            self.table(
                (f"{name}, tokens:", *map(str, lengths)),
                [("equations", *numbers), ("∂ last logits / ∂ first token", *heard[name])],
            )
        steady = _steady(counts["recurrent"], lengths)
        self.claim("each further token costs the recurrent network more equations", steady)
        self.claim("the Transformer runs the same number at every length", len(set(counts["Transformer"])) == 1)
        kept = {name: values[-1] / values[0] for name, values in heard.items()}
        self.less("over distance the recurrent network loses more of the first token", *kept.values())

    def quiz(self) -> None:
        """Questions on it."""
        self.ask(
            "What is the shape of the encoder output for one source of three tokens?",
            lambda: tuple(self.hidden["encoder"].shape),
            "Batch, tokens, width of the model.",
        )
        self.ask(
            "And the logits for a target of three tokens?",
            lambda: tuple(self.logits.shape),
            "Only the last axis leaves the width of the model.",
        )
        self.ask(
            "What is the probability of “de” after <start>?",
            lambda: softmax(self.logits[0]),
            "Read it in the table of the first step.",
            cell=(0, PHRASE_TOKENS.index("de")),
        )


def _last(walk: Walk, path: str) -> Tensor:
    """What the latest step under a path of the model gave."""
    return next(each.output for each in reversed(walk.tape.steps) if each.path.startswith(path))


def _sublayer_name(path: str) -> str:
    """Stack and sublayer that a module path such as `decoder.blocks.0.cross_residual` belongs to."""
    parts = path.split(".")
    return f"{parts[0]}, {SUBLAYERS[parts[3].rpartition('_')[0]]}" if len(parts) > 3 else "output layer"


def _two_columns(left: list[str], right: list[str], bridge: str) -> list[str]:
    """Two columns, with an arrow from the left one's last box to the right one's box beside it."""
    height, gap, joined = max(len(left), len(right)), 6 + len(bridge), 7
    rows = []
    for i in range(height):
        first = left[i] if i < len(left) else " " * len(left[0])
        between = f"{bridge:─>{gap}}".replace("→", "▶") if i == joined else " " * gap
        rows.append((first[:-1] + "├" if i == joined else first) + between + (right[i] if i < len(right) else ""))
    return [row.rstrip() for row in rows]


def _last_position(logits: Tensor) -> Tensor:
    """A seed that asks about the last position alone."""
    seed = torch.zeros_like(logits)
    seed[:, -1] = 1.0
    return seed


def _embedded(walk: Walk, begun: int) -> Tensor:
    """The embeddings that the latest model began from."""
    return next(each.output for each in walk.tape.steps[begun:] if each.path.startswith("embedding"))


def _influence(walk: Walk, logits: Tensor, begun: int) -> float:
    """How strongly the last position's logits depend on the first token's embedding."""
    return float(walk.back(logits, _last_position(logits))[_embedded(walk, begun)][0, 0].norm())


def _steady(counts: list[int], lengths: Sequence[int]) -> bool:
    """Whether each further token costs the same number of equations, and at least one."""
    each = {(b - a) / (n - m) for (a, b), (m, n) in zip(pairwise(counts), pairwise(lengths), strict=True)}
    return len(each) == 1 and min(each) >= 1
