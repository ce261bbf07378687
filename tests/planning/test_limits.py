"""The largest size that fits is found with few plans, whatever shape its memory has."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from glassformer.planning.limits import PRECISION, _largest  # pyright: ignore[reportPrivateUsage]

BYTES = st.integers(0, 10**9)
SHAPES: tuple[Callable[[int, int, int, int], int], ...] = (
    lambda n, a, b, c: a + b * n,
    lambda n, a, b, c: a + b * n + c * n * n // 1000,
    lambda n, a, b, c: max(a, b * n, c + b * n // 2),  # another moment of the step has the peak
    lambda n, a, b, c: a + b * (n // 64),
    lambda n, a, b, c: a,
)


@given(
    st.sampled_from(SHAPES), BYTES, BYTES, BYTES, st.integers(0, 10**12), st.integers(1, 4096), st.integers(1, 2**20)
)
def test_it_fits_and_a_64th_more_does_not(
    shape: Callable[[int, int, int, int], int], a: int, b: int, c: int, room: int, start: int, most: int
) -> None:
    tried: list[int] = []

    def needed(size: int) -> int:
        tried.append(size)
        return shape(size, a, b, c)

    found = _largest(needed, start, room, most)
    assert 0 <= found <= most and all(1 <= size <= most for size in tried)
    assert found == 0 or shape(found, a, b, c) <= room
    more = found + max(1, found // PRECISION)
    assert more > most or shape(more, a, b, c) > room
    assert len(tried) == len(set(tried)) <= 40


def test_memory_in_a_line_takes_few_plans() -> None:
    tried: list[int] = []

    def needed(size: int) -> int:
        tried.append(size)
        return 1_000_000_000 + 300_000_000 * size

    assert 440 <= _largest(needed, 8, 141_000_000_000, 2**20) <= 466
    assert len(tried) <= 6, tried
