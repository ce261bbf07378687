"""Overlap of two token sequences: what ROUGE and the F1 of answers count."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.equation import equation
from glassformer.equations.ranges import whole
from glassformer.equations.special_ranges import counts


@equation(
    r"m = \sum_g \min(c_a(g), c_b(g)) \text{ over all } n\text{-grams } g",
    meaning="How many n-grams two texts share; one that occurs twice in both counts twice.",
    intuition="Two hands of cards laid side by side: pairs of equal cards are taken away and counted.",
    symbols={"a": "tokens of one text", "b": "tokens of the other", "n": "tokens of an n-gram", "m": "shared n-grams"},
    flops=lambda: 0,
    where={"n": whole},
)
def shared_ngrams(a: Int[Tensor, " left"], b: Int[Tensor, " right"], n: int) -> Int[Tensor, ""]:
    """The n-grams in common, clipped to the smaller count (ROUGE-N: Lin, 2004)."""
    A, B = (x.unfold(0, n, 1) if len(x) >= n else x.new_empty(0, n) for x in (a, b))
    before = (A[:, None] == A).all(-1).tril(-1).sum(-1)  # how often each n-gram has occurred in a already
    return (before < (A[:, None] == B).all(-1).sum(-1)).sum()


@equation(
    r"L_{ij} = \begin{cases} L_{i-1,j-1} + 1 & a_i = b_j \\ \max(L_{i-1,j}, L_{i,j-1}) & \text{else} \end{cases}",
    meaning="The longest sequence of tokens that both texts have in this order, not necessarily side by side.",
    intuition="Two people retell a story: the most events that both tell in the same order.",
    symbols={"a": "tokens of one text", "b": "tokens of the other", "L": "length of the longest common subsequence"},
    flops=lambda: 0,
)
def longest_common_subsequence(a: Int[Tensor, " left"], b: Int[Tensor, " right"]) -> Int[Tensor, ""]:
    """Length of the longest common subsequence, a row of the table at a time (ROUGE-L: Lin, 2004)."""
    L = torch.zeros(len(b) + 1, dtype=torch.long, device=b.device)
    for token in a:
        L[1:] = torch.maximum(L[1:], L[:-1] + (b == token))
        L = L.cummax(0).values
    return L[-1]


@equation(
    r"F = \frac{2 m}{p + r} = \frac{2 P R}{P + R}, \quad P = \frac{m}{p}, \; R = \frac{m}{r}",
    meaning="The harmonic mean of precision P and recall R, from what is shared and what there is on either side.",
    intuition="A shopping trip: nothing forgotten, and nothing brought home that was not on the list.",
    symbols={
        "shared=m": "parts in common, m",
        "predicted=p": "parts of the prediction, p",
        "reference=r": "parts of the reference, r",
        "F": "F1; zero where both are empty",
    },
    flops=lambda batch: batch,
    where={"shared predicted reference": counts},
)
def overlap_f1(
    shared: Int[Tensor, "*batch"], predicted: Int[Tensor, "*batch"], reference: Int[Tensor, "*batch"]
) -> Float[Tensor, "*batch"]:
    """F1 of an overlap (van Rijsbergen, 1979)."""
    return 2 * shared / (predicted + reference).clamp_min(1)


@overlap_f1.def_cell
def _overlap_f1_cell(index: tuple[int, ...], shared: Tensor, predicted: Tensor, reference: Tensor) -> str:
    both = int(predicted[index]) + int(reference[index])
    return f"2·{int(shared[index])} / ({int(predicted[index])} + {int(reference[index])})" if both else "0"
