"""Similarity, and how it behaves in many dimensions."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.attention import attention_scores
from glassformer.equations.similarity import (
    cosine_similarity,
    euclidean_distance,
    inner_product,
    l2_norm,
    nearest,
    random_cosine_rms,
)
from glassformer.equations.softmax import softmax


class SimilarityWalk(Walk):
    """Distance, angle, inner product; why random vectors are nearly orthogonal; how search becomes attention."""

    @step("The inner product", like="Comparing two shopping lists by what both buy a lot of.")
    def inner_product(self) -> None:
        """Multiply two vectors entry by entry and add up. The inner product is large when both are large in the same
        entries: agreement, weighted by length.
        """
        self.cat, self.dog = self.given("cosine-similarity-dot-and-norms").tensors("cat", "dog")
        dot, long_cat, long_dog = inner_product(self.cat, self.dog), l2_norm(self.cat), l2_norm(self.dog)
        self.show(dot)
        self.show(long_cat)
        self.beside("cosine-similarity-dot-and-norms", dot=dot, norm_cat=long_cat, norm_dog=long_dog)
        self.less(
            "with the entries of dog in reverse order, cat agrees less", inner_product(self.cat, self.dog.flip(0)), dot
        )
        self.same("twice as long a vector doubles the inner product", inner_product(2 * self.cat, self.dog), 2 * dot)

    @step("The angle", like="Two people pointing at the same star, one with a finger, one with a telescope.")
    def angle(self) -> None:
        """Divide by both lengths, and only the direction is left. A cosine of one means the same direction, not the
        same vector: a whisper and a shout of the same word.
        """
        cosine = cosine_similarity(self.cat, self.dog)
        self.show(cosine)
        self.beside("cosine-similarity-cat-dog", cosine=cosine)
        u, v = self.given("cosine-one-is-not-identity").tensors("u", "v")
        self.beside("cosine-one-is-not-identity", cosine=cosine_similarity(u, v), vectors_identical=torch.equal(u, v))
        self.same("a vector twice as long has the same cosine", cosine_similarity(2 * self.cat, self.dog), cosine)

    @step(
        "The distance",
        like="On a globe it is the same to ask how far apart two cities are and how wide the angle is from the center.",
    )
    def distance(self) -> None:
        """The distance is the length of the straight line from one point to the other. It depends on length: a short
        and a long vector of one direction are far apart. Between unit vectors, distance and angle agree about who is
        closer, since the squared distance is two minus twice the cosine.
        """
        apart = euclidean_distance(self.cat, self.dog)
        self.show(apart)
        self.beside("euclidean-distance-cat-dog", distance=apart, squared=apart.square())
        u, candidates = self.given("cosine-euclid-equivalence").tensors("u", "candidates")
        near, far = cosine_similarity(u, candidates), euclidean_distance(u, candidates).square()
        self.table(("candidate", "cosine", "squared distance"), [(i, near[i], far[i]) for i in range(len(near))])
        stretched = euclidean_distance(self.cat, 3 * self.cat)
        self.less("cat and three times cat are farther apart than cat and dog", apart, stretched)
        self.claim("both rank the unit vectors alike", near.argsort(descending=True).tolist() == far.argsort().tolist())
        self.same("the squared distance is two minus twice the cosine", far, 2 - 2 * near)

    @step(
        "In high dimensions random vectors are nearly orthogonal",
        like="Two strangers answering three yes-or-no questions may agree on all; on five hundred questions they will "
        "agree on about half, and a friend is obvious.",
    )
    def in_a_large_space_strangers(self) -> None:
        """Two random directions in three dimensions may well agree. In hundreds of dimensions chance agreements
        cancel, and the cosine is nearly zero: typically one over the square root of the dimension. So any real
        agreement stands out.
        """
        random, measured, wanted = torch.Generator().manual_seed(0), [], []
        sizes = self.given("random-vectors-orthogonal").get("d", list[int])
        for dim in sizes[:3]:
            a, b = torch.randn(2, 500, dim, generator=random, dtype=torch.float64)
            measured.append(cosine_similarity(a, b).square().mean().sqrt())
            wanted.append(random_cosine_rms(dim))
        self.table(("dimensions", "by the formula", "measured"), zip(sizes[:3], wanted, measured, strict=True))
        self.beside("random-vectors-orthogonal", rms_cosine=[random_cosine_rms(dim) for dim in sizes])
        self.same(
            "the measured cosines are within a tenth of the formula",
            torch.stack(measured) / self.tensor(wanted),
            1.0,
            within=0.1,
        )
        self.claim("the more dimensions, the smaller the cosine", measured == sorted(measured, reverse=True))
        self.less(f"in {sizes[2]} dimensions it is nearly zero", measured[2], 0.05)

    @step(
        "Search, hard and soft",
        like="A hard search asks the one expert; a soft one asks the whole room and listens to each as they deserve.",
    )
    def search_hard_and_soft(self) -> None:
        """A hard search takes the key with the largest inner product. Softmax gives every key a weight instead, and
        at a low temperature nearly all of it to the best one. Attention is this soft search, not the hard one.
        """
        given = self.given("mips-versus-attention")
        q, keys = given.tensors("q", "keys")
        best, _ = nearest(q, keys)
        temperatures = given.get("tau", list[float])
        weights = [softmax(attention_scores(q[None], keys, 1 / tau))[0] for tau in temperatures]
        self.table(("temperature", "weight of each key"), zip(temperatures, weights, strict=True))
        self.beside("mips-versus-attention", inner_products=inner_product(q, keys), argmax=best[0])
        cold, warm = number(temperatures[-1]), number(temperatures[0])
        self.less(f"at temperature {cold} nearly all of the weight goes to the best key", 0.999, weights[-1][best[0]])
        self.less(f"at temperature {warm} every key has a good part of it", 0.3, weights[0].min())

    def quiz(self) -> None:
        """Questions on it."""
        a, b = self.tensor([3.0, 4.0]), self.tensor([4.0, 3.0])
        pair = f"({number(a[0])}, {number(a[1])}) and ({number(b[0])}, {number(b[1])})"
        self.ask(
            f"What is the cosine of {pair}?",
            lambda: cosine_similarity(a, b),
            "The inner product, divided by both lengths.",
        )
        self.ask(
            f"And the distance between {pair}?",
            lambda: euclidean_distance(a, b),
            "Subtract one from the other: how long is what is left?",
        )
        dim = 100
        self.ask(
            f"How large is the cosine of two random directions in {dim} dimensions, typically?",
            lambda: random_cosine_rms(dim),
            "It falls with the square root of the dimension.",
        )
