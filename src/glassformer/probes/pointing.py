"""Which attention head looks from one token to another: the weight it puts there, over many sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class HeadPointing:
    """How a head looks from given tokens to given others, over a set of sentences.

    `weight` is its mean attention weight on the wanted token, and `most` the fraction of sentences in which that token
    gets more weight than every other token.
    """

    module: str
    head: int
    weight: float
    most: float


def pointing(maps: Mapping[str, Tensor], queries: Sequence[int], keys: Sequence[int]) -> list[HeadPointing]:
    """Each head of attention maps [batch, heads, queries, keys], by how much row i looks from query i to key i."""
    found = []
    for module, weights in maps.items():
        rows = torch.arange(len(queries), device=weights.device)
        looked = weights[rows, :, list(queries)]  # [sentences, heads, keys]
        wanted = torch.tensor(list(keys), device=weights.device)[:, None, None].expand(-1, looked.shape[1], 1)
        on_key, most = looked.gather(-1, wanted)[..., 0], looked.argmax(-1) == wanted[..., 0]
        for head in range(weights.shape[1]):
            found.append(HeadPointing(module, head, float(on_key[:, head].mean()), float(most[:, head].float().mean())))
    return sorted(found, key=lambda each: -each.weight)
