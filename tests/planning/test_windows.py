"""Plans of models with a sliding or dilated window on a GPU."""

from dataclasses import replace

import pytest

from glassformer.models.modern import ModernConfig
from glassformer.planning.plan import plan

FULL = ModernConfig(vocab=512, context=2048, dim=256, layers=2, heads=4)


@pytest.mark.parametrize("window", [{"attention": "sliding_window"}, {"attention": "dilated", "dilation": 4}])
def test_a_short_window_takes_less_than_full_attention(window: dict[str, object]) -> None:
    full, short = (
        plan(replace(FULL, **more), device="h200", batch=8, length=2048)  # pyright: ignore[reportArgumentType]
        for more in ({}, {**window, "window": 64})
    )
    assert short.time.seconds < full.time.seconds
    attention = {row.name: row for row in short.operations.by_equation}["window_attention"]
    (whole,) = (row for row in full.operations.by_equation if row.name == "attention")
    assert attention.backward < whole.backward / 8, "64 keys for each query, and not a thousand"


def test_a_window_as_long_as_the_text_is_planned_too() -> None:
    long = replace(FULL, attention="sliding_window", window=1500)
    assert plan(long, device="h200", batch=2, length=2048).time.seconds > 0
