"""The built-in pictures with captions: two colored shapes, such as "a small red circle above a blue square"."""

from functools import cache
from itertools import product

import numpy as np
from jaxtyping import Bool, Float

from glassformer.data.batches import generator
from glassformer.data.captions import CaptionedImages

NAME = "shapes"
SIDE = 32  # pixels
COLORS = {
    "red": (220, 40, 40), "green": (40, 170, 70), "blue": (50, 90, 220), "yellow": (240, 200, 40),
    "purple": (150, 60, 190), "black": (30, 30, 30),
}  # fmt: skip
RADII = {"small": 3.5, "large": 6.0}
SHAPES = ("circle", "square", "triangle", "cross")
RELATIONS = {
    "above": (-1, 0),
    "below": (1, 0),
    "left of": (0, -1),
    "right of": (0, 1),
}  # of the first shape, down and right
COUNT = 1600  # pictures, of the 9,216 captions there are
OFFSET, JITTER, SHADE = 7.5, 1.5, 20  # pixels from the middle, and how much positions and colors vary


@cache
def drawn_shapes() -> CaptionedImages:
    """Pictures of 32 × 32 pixels, each with a caption that no other has; the same ones at every call."""
    random = generator(0)
    things = list(product(RADII, COLORS, SHAPES))
    scenes = list(product(range(len(things)), range(len(things)), RELATIONS))
    chosen = random.permutation(len(scenes))[:COUNT]
    pictures, captions = [], []
    for number in chosen:
        one, other, relation = scenes[number]
        pictures.append(_draw(random, things[one], things[other], relation))
        captions.append((f"a {' '.join(things[one])} {relation} a {' '.join(things[other])}",))
    return CaptionedImages(np.stack(pictures), tuple(captions), tuple(f"{NAME}:{i}" for i in range(COUNT)))


def _draw(random: np.random.Generator, one: tuple[str, ...], other: tuple[str, ...], relation: str) -> np.ndarray:
    picture = np.full((SIDE, SIDE, 3), 255.0)
    picture -= random.uniform(0, SHADE, 3)
    middle, away = np.full(2, SIDE / 2 - 0.5), np.array(RELATIONS[relation]) * OFFSET
    for (size, color, shape), center in ((one, middle + away), (other, middle - away)):
        near = center + random.uniform(-JITTER, JITTER, 2)
        picture[_inside(shape, near, RADII[size])] = np.array(COLORS[color]) + random.uniform(-SHADE, SHADE, 3)
    return picture.clip(0, 255).round().astype(np.uint8)


def _inside(shape: str, center: Float[np.ndarray, "2"], radius: float) -> Bool[np.ndarray, "32 32"]:
    """The pixels of a shape."""
    y, x = np.mgrid[:SIDE, :SIDE] - center[:, None, None]
    if shape == "circle":
        return x * x + y * y <= radius * radius
    if shape == "square":
        return np.maximum(abs(x), abs(y)) <= 0.85 * radius
    if shape == "triangle":
        return (y <= 0.8 * radius) & (2 * abs(x) <= y + radius)
    return (np.minimum(abs(x), abs(y)) <= radius / 3.5) & (np.maximum(abs(x), abs(y)) <= radius)
