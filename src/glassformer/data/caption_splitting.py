"""Split pictures with captions into training and validation data."""

from glassformer.data.captions import CaptionedImages
from glassformer.data.splitting import split


def split_pairs(pairs: CaptionedImages, fraction: float, seed: int) -> tuple[CaptionedImages, CaptionedImages]:
    """Pairs for training and for validation; no first caption is on both sides."""
    captions = pairs.first_captions
    held = set(split(captions, fraction, seed)[1])
    rows = [[row for row, text in enumerate(captions) if (text in held) == out] for out in (False, True)]
    return pairs.select(rows[0]), pairs.select(rows[1])
