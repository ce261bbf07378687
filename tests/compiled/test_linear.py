"""A linear layer compiles into one program for every number of rows, however large its product is."""

import pytest
import torch
from torch import Tensor

from glassformer.equation import no_checks
from glassformer.equations import onednn_affine
from glassformer.equations.algebra import linear


@pytest.mark.parametrize("dynamic", [True, None], ids=["dynamic", "automatic"])
def test_one_program_serves_products_of_any_size(dynamic: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn_affine, "onednn_is_faster", lambda: True)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    W = torch.randn(64, 64, requires_grad=True)

    def project(x: Tensor) -> Tensor:
        return linear(x, W)

    compiled = torch.compile(project, backend="aot_eager", dynamic=dynamic, fullgraph=True)
    least = onednn_affine.LEAST_PRODUCT // W.numel()
    with no_checks():
        for rows in (2 * least, least + 1, least - 1, least // 2, least // 3, 3 * least):
            compiled(torch.randn(rows, 64))
    programs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert programs == (1 if dynamic else 2), "automatic: one for the first size, one for all others"
