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
from glassformer.lessons.walk import Walk


def walk_similarity(walk: Walk) -> None:
    """Distance, angle, inner product: what each sees, why chance agrees with nobody in a large space, how search softens."""
    walk.step(
        "The inner product",
        "Multiply two rows entry by entry and add up. It is large when both are large in the same places: agreement, "
        "weighed by length.",
        like="Comparing two shopping lists by what both buy a lot of.",
    )
    cat, dog = walk.given("cosine-similarity-dot-and-norms").tensors("cat", "dog")
    dot, long_cat, long_dog = inner_product(cat, dog), l2_norm(cat), l2_norm(dog)
    walk.show(dot)
    walk.show(long_cat)
    walk.beside("cosine-similarity-dot-and-norms", dot=dot, norm_cat=long_cat, norm_dog=long_dog)

    walk.step(
        "The angle",
        "Divide by both lengths, and only the direction is left. A cosine of one says the same direction, not the same "
        "vector: a whisper and a shout of the same word.",
        like="Two people pointing at the same star, one with a finger, one with a telescope.",
    )
    cosine = cosine_similarity(cat, dog)
    walk.show(cosine)
    walk.beside("cosine-similarity-cat-dog", cosine=cosine)
    u, v = walk.given("cosine-one-is-not-identity").tensors("u", "v")
    walk.beside("cosine-one-is-not-identity", cosine=cosine_similarity(u, v), vectors_identical=torch.equal(u, v))

    walk.step(
        "The distance",
        "The straight line from one point to the other. It sees length: a short and a long vector of one direction are "
        "far apart. Between unit vectors distance and angle always agree about who is nearer.",
        like="On a globe it is the same to ask how far two cities are apart and how wide the angle is from the centre.",
    )
    apart = euclidean_distance(cat, dog)
    walk.show(apart)
    walk.beside("euclidean-distance-cat-dog", distance=apart, squared=apart.square())
    u, candidates = walk.given("cosine-euclid-equivalence").tensors("u", "candidates")
    near, far = cosine_similarity(u, candidates), euclidean_distance(u, candidates).square()
    walk.table(("candidate", "cosine", "squared distance"), [(i, near[i], far[i]) for i in range(len(near))])
    walk.claim("both rank the unit vectors alike", near.argsort(descending=True).tolist() == far.argsort().tolist())

    walk.step(
        "In a large space strangers are at right angles",
        "Two random directions in the plane may well agree. In hundreds of dimensions chance agreements cancel, and "
        "their cosine is nearly zero: typically one over the root of the dimension. So any real agreement stands out.",
        like="Two strangers answering three yes-or-no questions may agree on all; on five hundred questions they will "
        "agree on half, and a friend is obvious.",
    )
    random, measured, wanted = torch.Generator().manual_seed(0), [], []
    sizes = walk.given("random-vectors-orthogonal").get("d", list[int])
    for dim in sizes[:3]:
        a, b = torch.randn(2, 500, dim, generator=random, dtype=torch.float64)
        measured.append(cosine_similarity(a, b).square().mean().sqrt())
        wanted.append(random_cosine_rms(dim))
    walk.table(("dimensions", "by the formula", "measured"), zip(sizes[:3], wanted, measured, strict=True))
    walk.beside("random-vectors-orthogonal", rms_cosine=[random_cosine_rms(dim) for dim in sizes])
    walk.claim("what is measured is within a tenth of the formula", all(abs(m / w - 1) < 0.1 for m, w in zip(measured, wanted, strict=True)))

    walk.step(
        "Search, hard and soft",
        "To search is to take the key with the largest inner product. Softmax takes a share of every key instead, and "
        "at a low temperature nearly all of the best one. Attention is this soft search, not the hard one.",
        like="A hard search asks the one expert; a soft one asks the whole room and listens to each as they deserve.",
    )
    given = walk.given("mips-versus-attention")
    q, keys = given.tensors("q", "keys")
    best, _ = nearest(q, keys)
    shares = [softmax(attention_scores(q[None], keys, 1 / tau))[0] for tau in given.get("tau", list[float])]
    walk.table(("temperature", "share of each key"), zip(given.get("tau", list[float]), shares, strict=True))
    walk.beside("mips-versus-attention", inner_products=inner_product(q, keys), argmax=best[0])
    walk.claim("the cold search gives all to the best key", float(shares[-1][best[0]]) > 0.999)
    walk.claim("the warm one does not", float(shares[0][best[0]]) < 0.7)

    a, b = walk.tensor([3.0, 4.0]), walk.tensor([4.0, 3.0])
    pair = f"({number(a[0])}, {number(a[1])}) and ({number(b[0])}, {number(b[1])})"
    walk.ask(f"What is the cosine of {pair}?", lambda: cosine_similarity(a, b), "Both have length five.")
    walk.ask(f"And the distance of {pair}?", lambda: euclidean_distance(a, b), "The root of two.")
    dim = 100
    walk.ask(f"What cosine does chance give two directions in {dim} dimensions, typically?", lambda: random_cosine_rms(dim),
             "One over the root of the dimension.")
