"""Pictures to tokens and back by an image autoencoder, many at a time."""

import numpy as np
import torch
from jaxtyping import Integer
from torch import Tensor

from glassformer.data.batches import generator
from glassformer.data.caption_batches import to_unit
from glassformer.data.captions import Pictures
from glassformer.data.picture_augmentation import Strength
from glassformer.data.picture_batches import varied
from glassformer.inference.prepare import inference_mode
from glassformer.models.image_autoencoder import ImageAutoencoder

AT_ONCE = 128  # pictures


def encode_pictures(
    model: ImageAutoencoder, pixels: Pictures, strength: Strength = "none", seed: int = 0
) -> Integer[np.ndarray, "count tokens"]:
    """The tokens of pictures, or of random variations of them."""
    found = [np.empty((0, model.config.tokens), dtype=np.int64)]
    device, dtype = next(model.parameters()).device, next(model.parameters()).dtype
    for start in range(0, len(pixels), AT_ONCE):
        part = pixels[start : start + AT_ONCE]
        values = varied(to_unit(part), part, strength, int(generator(seed, start).integers(2**62)), mirror=False)
        model.check(values)
        with inference_mode(model):
            found.append(model.encode(values.to(device, dtype)).cpu().numpy())
    return np.concatenate(found)


def decode_pictures(model: ImageAutoencoder, codes: Tensor) -> Pictures:
    """Pictures [count, height, width, channels] from tokens [count, tokens]."""
    config = model.config
    found = [np.empty((0, config.image_size, config.image_size, config.channels), dtype=np.uint8)]
    for part in codes.split(AT_ONCE) if len(codes) else ():
        model.check_codes(part)
        with inference_mode(model):
            values = model.decode(part).float().clamp(0, 1)
        found.append((255 * values).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy())
    return np.concatenate(found)
