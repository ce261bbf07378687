"""Similarity, and how it behaves in many dimensions."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.attention import attention_scores
from glassformer.equations.probability import softmax
from glassformer.equations.similarity import (
    cosine_similarity,
    euclidean_distance,
    inner_product,
    l2_norm,
    nearest,
    random_cosine_rms,
)
from glassformer.lessons.walk import Walk, step


class SimilarityWalk(Walk):
    """Distance, angle, inner product: what each sees, why strangers are at right angles, how search softens."""

    @step("The inner product", like="Comparing two shopping lists by what both buy a lot of.")
    def inner_product(self) -> None:
        """Multiply two rows entry by entry and add up. It is large when both are large in the same places: agreement,
        weighed by length.
        """
        self.cat, self.dog = self.given("cosine-similarity-dot-and-norms").tensors("cat", "dog")
        dot, long_cat, long_dog = inner_product(self.cat, self.dog), l2_norm(self.cat), l2_norm(self.dog)
        self.show(dot)
        self.show(long_cat)
        self.beside("cosine-similarity-dot-and-norms", dot=dot, norm_cat=long_cat, norm_dog=long_dog)

    @step("The angle", like="Two people pointing at the same star, one with a finger, one with a telescope.")
    def angle(self) -> None:
        """Divide by both lengths, and only the direction is left. A cosine of one says the same direction, not the
        same vector: a whisper and a shout of the same word.
        """
        cosine = cosine_similarity(self.cat, self.dog)
        self.show(cosine)
        self.beside("cosine-similarity-cat-dog", cosine=cosine)
        u, v = self.given("cosine-one-is-not-identity").tensors("u", "v")
        self.beside("cosine-one-is-not-identity", cosine=cosine_similarity(u, v), vectors_identical=torch.equal(u, v))

    @step(
        "The distance",
        like="On a globe it is the same to ask how far two cities are apart and how wide the angle is from the centre.",
    )
    def distance(self) -> None:
        """The straight line from one point to the other. It sees length: a short and a long vector of one direction
        are far apart. Between unit vectors distance and angle always agree about who is nearer.
        """
        apart = euclidean_distance(self.cat, self.dog)
        self.show(apart)
        self.beside("euclidean-distance-cat-dog", distance=apart, squared=apart.square())
        u, candidates = self.given("cosine-euclid-equivalence").tensors("u", "candidates")
        near, far = cosine_similarity(u, candidates), euclidean_distance(u, candidates).square()
        self.table(("candidate", "cosine", "squared distance"), [(i, near[i], far[i]) for i in range(len(near))])
        self.claim("both rank the unit vectors alike", near.argsort(descending=True).tolist() == far.argsort().tolist())

    @step(
        "In a large space strangers are at right angles",
        like="Two strangers answering three yes-or-no questions may agree on all; on five hundred questions they will "
        "agree on half, and a friend is obvious.",
    )
    def in_a_large_space_strangers(self) -> None:
        """Two random directions in the plane may well agree. In hundreds of dimensions chance agreements cancel, and
        their cosine is nearly zero: typically one over the root of the dimension. So any real agreement stands out.
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
            "what is measured is within a tenth of the formula",
            torch.stack(measured) / self.tensor(wanted),
            1.0,
            within=0.1,
        )

    @step(
        "Search, hard and soft",
        like="A hard search asks the one expert; a soft one asks the whole room and listens to each as they deserve.",
    )
    def search_hard_and_soft(self) -> None:
        """To search is to take the key with the largest inner product. Softmax takes a share of every key instead, and
        at a low temperature nearly all of the best one. Attention is this soft search, not the hard one.
        """
        given = self.given("mips-versus-attention")
        q, keys = given.tensors("q", "keys")
        best, _ = nearest(q, keys)
        shares = [softmax(attention_scores(q[None], keys, 1 / tau))[0] for tau in given.get("tau", list[float])]
        self.table(("temperature", "share of each key"), zip(given.get("tau", list[float]), shares, strict=True))
        self.beside("mips-versus-attention", inner_products=inner_product(q, keys), argmax=best[0])
        self.less("the cold search gives all to the best key", 0.999, shares[-1][best[0]])
        self.less("the warm one does not", shares[0][best[0]], 0.7)

    def quiz(self) -> None:
        """Questions on it."""
        a, b = self.tensor([3.0, 4.0]), self.tensor([4.0, 3.0])
        pair = f"({number(a[0])}, {number(a[1])}) and ({number(b[0])}, {number(b[1])})"
        self.ask(f"What is the cosine of {pair}?", lambda: cosine_similarity(a, b), "Both have length five.")
        self.ask(f"And the distance of {pair}?", lambda: euclidean_distance(a, b), "The root of two.")
        dim = 100
        self.ask(
            f"What cosine does chance give two directions in {dim} dimensions, typically?",
            lambda: random_cosine_rms(dim),
            "One over the root of the dimension.",
        )
