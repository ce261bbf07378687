"""Positions: five ways to say where a word stands."""

import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.course.worked.positions import waves
from glassformer.equations.algebra import add, linear
from glassformer.equations.attention import attention
from glassformer.equations.embedding import embed
from glassformer.equations.masks import aligned_positions, relative_positions
from glassformer.equations.position_biases import (
    alibi_bias,
    alibi_slopes,
    relative_position_bias,
    relative_position_bucket,
)
from glassformer.equations.positions import shift_matrix, sinusoidal_positions
from glassformer.equations.rotary import rotary, rotary_frequencies
from glassformer.equations.similarity import inner_product, l2_norm


class PositionsWalk(Walk):
    """Attention alone does not know the order of tokens. Sinusoids, learned vectors, rotations and biases tell it."""

    @step(
        "Without positions order is lost",
        like="A bag of Scrabble tiles: the same letters, and no telling whether they spelled dog or god.",
    )
    def without_positions_order_is_lost(self) -> None:
        """Shuffle the tokens, and attention gives the same outputs in shuffled order: it depends on what is there,
        never on where. With positions added, the shuffled sentence is another sentence.
        """
        given = self.given("permutation-equivariance")
        X, *weights = given.tensors("X", "W_Q", "W_K", "W_V")
        order = given.get("permutation", list[int])
        encoding = waves(*X.shape)

        def attend(x: Tensor) -> Tensor:
            q, k, v = (linear(x, W) for W in weights)
            return attention(q, k, v)

        mixed, shuffled = attend(X), attend(X[order])
        self.show(mixed)
        self.same("shuffled tokens give shuffled outputs", shuffled, mixed[order])
        encoded, moved = attend(add(X, encoding)), attend(add(X[order], encoding))
        self.differ("with positions they do not", moved, encoded[order], by=0.1)

    @step(
        "Sinusoids",
        like="The hands of a clock: seconds, minutes, hours. Together they name any moment, each by going around.",
    )
    def waves(self) -> None:
        """Each pair of columns is a sine and a cosine of the position, every pair slower than the one before. Even
        columns are sines and odd ones cosines, and both columns of a pair share one frequency. One source uses
        another frequency for each column; here is what its table should be.
        """
        given = self.given("positional-encoding-d4")
        table = sinusoidal_positions(
            len(given.get("positions", list[int])), given.get("d_model", int), dtype=torch.float64
        )
        self.show(table, (1, 0), (1, 1), (1, 2))
        self.beside("positional-encoding-d4", PE=table)
        sines, cosines = table[:, 0::2], table[:, 1::2]
        self.same("sine and cosine of a pair share one angle: their squares sum to one", sines**2 + cosines**2, 1.0)
        angles = torch.atan2(sines[1], cosines[1])
        self.claim("every pair turns slower than the one before", (angles.diff() < 0).all())

    @step(
        "What sinusoids are good for",
        like="Turning a clock's hands forward by ten minutes is the same movement at noon and at midnight.",
    )
    def what_waves_are_good(self) -> None:
        """Moving on by a fixed number of positions is multiplying by a fixed matrix, whatever the position. The inner
        product of two encodings depends on their distance alone. And every position has an encoding, even positions
        beyond those seen in training.
        """
        dim, k, p = (self.given("sinusoidal-linear-shift").get(name, int) for name in ("d_model", "k", "p"))
        rows = sinusoidal_positions(p + k + 40, dim, dtype=torch.float64)
        M = shift_matrix(k, dim, dtype=torch.float64)
        on = linear(rows[p], M)
        self.show(on, (0,))
        self.beside("sinusoidal-linear-shift", M_k=M, PE_p=rows[p], PE_p_plus_k=rows[p + k])
        self.same("the same matrix works at every position", linear(rows[:-k], M), rows[k:])
        near, later = inner_product(rows[p], rows[p + k]), inner_product(rows[p + 20], rows[p + k + 20])
        self.say(f"Inner products at the same distance, early and late: {number(near, 8)} and {number(later, 8)}.")
        self.same("they are the same", near, later)
        apart = torch.cdist(rows, rows).fill_diagonal_(torch.inf)
        self.less(f"no two of these {len(rows)} positions share an encoding", 0.01, apart.min())

    @step(
        "Learned positions",
        like="Numbered seats in a theater: every usher knows them, and there is no seat after the last.",
    )
    def learned_rows(self) -> None:
        """The simplest way is a table with a row for each position, learned like the token embeddings. It can learn
        any encoding, and it has nothing for a position beyond its last row.
        """
        U, P = self.given("gpt-h0").tensors("U", "W_p")
        rows = embed(P, torch.arange(len(U)))
        start = add(U, rows)
        self.show(start, (0, 0), (1, 1))
        self.beside("gpt-h0", h0=start)
        found = self.back(start, torch.eye(*start.shape, dtype=start.dtype))
        self.claim(
            "each row of the table gets the gradient of its own position alone",
            torch.equal(found[P], torch.eye(*P.shape, dtype=P.dtype)),
        )

    @step(
        "Rotations",
        like="Two dancers on two turntables: how they face each other depends only on how far one has turned beyond "
        "the other.",
    )
    def turns(self) -> None:
        """Rotary embedding (RoPE) adds nothing. It rotates each pair of numbers of a query or a key by an angle that
        grows with its position, so their inner product depends only on the difference of the angles: on how far
        apart they are. A rotation keeps lengths. The frequencies are spaced over the width of a head, not of the
        model.
        """
        given = self.given("rope-relative-property")
        q, key, theta = given.tensors("q", "k", "theta")
        pairs = given.get("position_pairs", list[tuple[int, int]])
        spots = torch.arange(1 + max(map(max, pairs)))
        turned_q = rotary(q.expand(len(spots), -1), spots, frequencies=theta)
        turned_k = rotary(key.expand(len(spots), -1), spots, frequencies=theta)
        self.show(turned_q, (1, 0), (1, 1), rows=self.index_labels(position=len(spots)))
        scores = [inner_product(turned_q[m], turned_k[n]) for m, n in pairs]
        self.table(("query at", "key at", "score"), [(m, n, s) for (m, n), s in zip(pairs, scores, strict=True)])
        self.beside("rope-relative-property", scores=scores, norm_before=l2_norm(q), norm_after=l2_norm(turned_q[5]))
        self.claim("all these pairs are the same distance apart", len({m - n for m, n in pairs}) == 1)
        self.less("the same distance gives the same score", max(abs(float(s - scores[0])) for s in scores), 1e-12)
        self.differ("another distance gives another score", inner_product(turned_q[5], turned_k[0]), scores[0], by=0.1)
        self.same("the rotation keeps every query's length", l2_norm(turned_q), l2_norm(q).expand(len(spots)))
        speeds = rotary_frequencies(self.given("rope-frequency-dimension").get("d_head", int), dtype=torch.float64)
        self.beside("rope-frequency-dimension", theta=speeds)

    @step("A slope for each head", like="A voice fades with every yard; some ears are sharper than others.")
    def slope_for_each_head(self) -> None:
        """ALiBi leaves embeddings alone and lowers each attention score in proportion to the distance, in each head
        with its own slope. There is no table and no last position.
        """
        given = self.given("alibi-bias-matrix")
        slopes = alibi_slopes(self.given("alibi-slopes").get("h", int), dtype=torch.float64)
        self.show(slopes, (0,))
        self.beside("alibi-slopes", slopes=slopes)
        n = given.get("n", int)
        bias = alibi_bias(relative_positions(*aligned_positions(n, n)), 8, dtype=torch.float64)
        self.show(bias, (0, 2, 0), rows=self.index_labels(head=len(bias), query=n))
        self.same(
            "each position farther away lowers the score by the head's slope",
            bias.diff(dim=-1).abs(),
            slopes[:, None, None],
            within=0.0,
        )
        self.claim("every head has its own slope", slopes.unique().numel() == len(slopes))

    @step(
        "A learned bias for each distance",
        like="Postage: one price for this town, one for the next, and a single price for everything overseas.",
    )
    def learned_price_for_each_distance(self) -> None:
        """T5 learns one number per head for each bucket of distances: short distances have a bucket each, longer ones
        share. The number is added to the score, and T5 does not divide the score by the root of the head width.
        """
        distances = torch.tensor([[-100, -99, -20, -8, -3, -2, -1, 0, 1, 2, 3, 8, 20, 99, 100]])
        buckets = relative_position_bucket(distances)
        self.table(("distance", "bucket"), [(int(d), int(b)) for d, b in zip(distances[0], buckets[0], strict=True)])
        short = buckets[distances.abs() < distances.abs().max() // 10]
        self.claim("short distances have a bucket each", short.unique().numel() == short.numel())
        self.claim("the longest share one", buckets[0, 0] == buckets[0, 1] and buckets[0, -1] == buckets[0, -2])
        biases = self.tensor([[0.1 * i] for i in range(8)])
        bias = relative_position_bias(biases, relative_positions(*aligned_positions(4, 4)), max_distance=8)
        self.show(bias)
        same = [bias[0].diagonal(k).unique().numel() for k in range(-3, 4)]
        self.claim("equal distances have equal biases", same == [1] * 7)
        self.claim(
            "T5 does not divide its scores", not self.worked("t5-bias-scaling").get("t5_divides_by_sqrt_dk", bool)
        )

    def quiz(self) -> None:
        """Questions on it."""
        at, width = 2, 4
        self.ask(
            f"Sinusoidal positions of width {width}: what is the first number of position {at}?",
            lambda: sinusoidal_positions(at + 1, width, dtype=torch.float64),
            "The first pair has frequency one, and its sine comes first. Angles are in radians.",
            cell=(at, 0),
        )
        heads = 8
        self.ask(
            f"What is the first of {heads} ALiBi slopes?",
            lambda: alibi_slopes(heads, dtype=torch.float64),
            "The slopes are a geometric sequence that ends at two to the minus eight.",
            cell=(0,),
        )
        one = self.tensor([[1.0, 0.0]])
        self.ask(
            f"The query ({number(one[0, 0])}, {number(one[0, 1])}) is rotated by one radian. What is its first number?",
            lambda: rotary(one, torch.tensor([1]), frequencies=self.tensor([1.0])),
            "Draw it on the unit circle: what is the horizontal part after the turn?",
            cell=(0, 0),
        )
