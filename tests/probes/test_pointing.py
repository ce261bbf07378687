"""Which head looks from one token to another."""

import torch

from glassformer.probes.pointing import pointing


def test_the_head_that_points_is_first() -> None:
    weights = torch.full((2, 2, 3, 3), 1 / 3)
    weights[0, 1, 2] = torch.tensor([0.7, 0.2, 0.1])
    weights[1, 1, 1] = torch.tensor([0.3, 0.1, 0.6])
    first, second = pointing({"a": weights}, queries=[2, 1], keys=[0, 0])
    assert (first.module, first.head) == ("a", 1)
    assert abs(first.weight - 0.5) < 1e-6 and first.most == 0.5
    assert second.head == 0 and abs(second.weight - 1 / 3) < 1e-6
