"""Random variations of pictures for training: moved, scaled, turned, recolored, on another background, with noise."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from glassformer.data.captions import Pictures

Draw = Callable[..., Tensor]  # random numbers from 0 to 1 for each picture, of these further sizes
Strength = Literal["none", "light", "strong"]
MIRRORED = 0.5  # how often a picture is mirrored that may be
SAME = 12  # difference of a channel, of 255, within which a pixel has the color of the corner
NEAR = 3  # side of the neighborhood by which the background grows


@dataclass(frozen=True)
class Amounts:
    """How far pictures are varied: fractions of their size and of full brightness, an angle, probabilities."""

    shift: float
    scale: float
    degrees: float
    color: float
    noise: float
    background: float
    cutout: float
    gray: float


AMOUNTS = {
    "light": Amounts(0.06, 0.06, 0.0, 0.06, 0.0, 0.0, 0.0, 0.0),
    "strong": Amounts(0.12, 0.25, 15.0, 0.25, 0.04, 0.5, 0.3, 0.05),
}


def augment(
    pixels: Float[Tensor, "count channels height width"],
    background: Bool[Tensor, "count height width"],
    mirrored: Bool[Tensor, " count"],
    strength: Strength,
    random: torch.Generator,
) -> Float[Tensor, "count channels height width"]:
    """Varied copies of pictures with values from 0 to 1; those `mirrored` may be flipped, half of the time."""
    if strength == "none":
        return pixels
    amounts, count = AMOUNTS[strength], len(pixels)

    def draw(*shape: int) -> Tensor:
        return torch.rand(count, *shape, generator=random)

    behind = background[:, None].float()
    if amounts.background:
        chosen = (draw(1, 1, 1) < amounts.background).float() * behind
        pixels = pixels * (1 - chosen) + draw(pixels.shape[1], 1, 1) * chosen
    pixels = _moved(pixels, draw, mirrored, amounts)
    pixels = _recolored(pixels, draw, amounts)
    if amounts.noise:
        spread = amounts.noise * draw(1, 1, 1)
        pixels = pixels + spread * torch.randn(pixels.shape, generator=random)
    if amounts.cutout:
        pixels = _cut_out(pixels, draw, amounts)
    return pixels.clamp(0, 1)


def _moved(pixels: Tensor, draw: Draw, mirrored: Tensor, amounts: Amounts) -> Tensor:
    """Pictures shifted, scaled, turned and mirrored; what comes in from outside continues the border."""
    angle = torch.deg2rad(amounts.degrees * (2 * draw() - 1))
    zoom = torch.exp(amounts.scale * (2 * draw(2) - 1))
    flip = torch.where(mirrored & (draw() < MIRRORED), -1.0, 1.0)
    shift = 2 * amounts.shift * (2 * draw(2) - 1)
    cos, sin = angle.cos(), angle.sin()
    rows = [
        torch.stack([flip * zoom[:, 0] * cos, -zoom[:, 0] * sin, shift[:, 0]], -1),
        torch.stack([flip * zoom[:, 1] * sin, zoom[:, 1] * cos, shift[:, 1]], -1),
    ]
    grid = functional.affine_grid(torch.stack(rows, 1), list(pixels.shape), align_corners=False)
    return functional.grid_sample(pixels, grid, "bilinear", "border", align_corners=False)


def _recolored(pixels: Tensor, draw: Draw, amounts: Amounts) -> Tensor:
    """Other brightness, contrast, saturation and tint; now and then no color at all."""
    amount = amounts.color
    gray = pixels.mean(1, keepdim=True)
    saturation = 1 + 2 * amount * (2 * draw(1, 1, 1) - 1)
    saturation = torch.where(draw(1, 1, 1) < amounts.gray, 0.0, saturation)
    pixels = gray + saturation * (pixels - gray)
    contrast = 1 + amount * (2 * draw(1, 1, 1) - 1)
    tint = amount / 2 * (2 * draw(pixels.shape[1], 1, 1) - 1)
    return (pixels - 0.5) * contrast + 0.5 + tint


def _cut_out(pixels: Tensor, draw: Draw, amounts: Amounts) -> Tensor:
    """A rectangle of one color over a part of some pictures."""
    height, width = pixels.shape[2:]
    sides = 0.15 + 0.25 * draw(2)
    corners = draw(2) * (1 - sides)
    y, x = torch.arange(height) / height, torch.arange(width) / width
    rows, columns = (
        (axis >= corners[:, i, None]) & (axis < (corners + sides)[:, i, None]) for i, axis in enumerate((y, x))
    )
    covered = rows[:, None, :, None] & columns[:, None, None, :] & (draw(1, 1, 1) < amounts.cutout)
    return torch.where(covered, draw(pixels.shape[1], 1, 1), pixels)


def background_of(pixels: Pictures) -> Bool[np.ndarray, "count height width"]:
    """The pixels around the thing in each picture: those of the corner's color that the border reaches."""
    values = pixels.astype(np.int16)
    inside = torch.from_numpy(np.abs(values - values[:, :1, :1]) <= SAME).all(-1)[:, None]
    found = inside.clone()
    found[:, :, 1:-1, 1:-1] = False  # the border is reached first
    while True:
        grown = (functional.max_pool2d(found.float(), NEAR, 1, NEAR // 2) > 0) & inside
        if torch.equal(grown, found):
            return found[:, 0].numpy()
        found = grown
