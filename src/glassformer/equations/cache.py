"""KV cache: write the keys and values of new tokens into their slots."""

from jaxtyping import Float, Int
from torch import Tensor

from glassformer.equation import equation
from glassformer.equations.ranges import same_dtype


@equation(
    r"y_{a_i} = x_i, \quad y_s = c_s \text{ elsewhere}",
    meaning="New keys or values are written into their slots of the cache; the other slots stay.",
    intuition="Letters into pigeonholes.",
    symbols={
        "cache=c": "keys or values c, one per slot",
        "new=x": "keys or values x of new tokens",
        "at=a": "slot of each new token, no slot twice",
        "y": "the updated cache",
    },
    flops=lambda: 0,
    where={"cache new": same_dtype},
)
def write_slots(
    cache: Float[Tensor, "*batch slots dim"], new: Float[Tensor, "*batch new dim"], at: Int[Tensor, " new"]
) -> Float[Tensor, "*batch slots dim"]:
    """Write vectors into cache slots; the fused form writes in place and returns the cache it was given."""
    y = cache.clone()
    y[..., at.long(), :] = new
    return y


write_slots.def_fused(lambda cache, new, at: cache.index_copy_(-2, at.long(), new))


@write_slots.def_gradient(r"\bar c_{a_i} = 0, \; \bar c_s = \bar y_s \text{ elsewhere}, \quad \bar x_i = \bar y_{a_i}")
def _write_slots_gradient(y_bar: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    return y_bar.index_fill(-2, at.long(), 0), y_bar[..., at.long(), :]


@write_slots.def_check
def _write_slots_check(cache: Tensor, at: Tensor) -> None:
    known = not at.numel() or (int(at.min()) >= 0 and int(at.max()) < cache.shape[-2])
    write_slots.require(known, "at", f"{at.tolist()[:3]}", f"slots from 0 to {cache.shape[-2] - 1}")
    write_slots.require(len(at.unique()) == len(at), "at", f"{at.tolist()[:3]}", "each slot once")
