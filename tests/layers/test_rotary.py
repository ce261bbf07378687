"""What a rotary layer keeps from run to run is what it would work out anew."""

import torch

from glassformer.equation import no_checks
from glassformer.layers.rotary import LinearScaling, RopeScaling, Rotary, YarnScaling

PLACES = torch.arange(5)


def turned(layer: Rotary, x: torch.Tensor) -> torch.Tensor:
    with no_checks():
        return layer(x, PLACES)


def test_a_layer_that_ran_in_one_type_is_as_exact_in_another_as_a_fresh_one() -> None:
    x = torch.randn(2, 3, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for scaling in (RopeScaling(), LinearScaling(factor=3.0), YarnScaling(factor=4.0, original_length=8)):
        layer = Rotary(8, scaling=scaling)
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float32):
            assert torch.equal(turned(layer, x.to(dtype)), turned(Rotary(8, scaling=scaling), x.to(dtype)))


def test_what_is_kept_does_not_hide_the_equation_from_whoever_watches() -> None:
    from glassformer.recording import Tape

    layer, x = Rotary(8), torch.ones(1, 1, 5, 8)
    turned(layer, x)
    with Tape() as tape:
        layer(x, PLACES)
    assert [step.equation.name for step in tape.steps] == ["rotary_frequencies", "rotary"]
