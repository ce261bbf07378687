"""Embeddings of pictures and texts by a CLIP, and the rank of the right candidate among them."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.data.caption_batches import PixelScale, to_unit
from glassformer.data.captions import Pictures, fit_pictures
from glassformer.data.padded_batches import padded
from glassformer.inference.prepare import inference_mode
from glassformer.models.clip import CLIP
from glassformer.text.tokenizer import Tokenizer

AT_ONCE = 256  # pictures or texts


def embed_images(model: CLIP, pixels: Pictures) -> Float[Tensor, "count dim"]:
    """Embeddings of pictures, of length one, in float32 on the CPU."""
    scale, found = PixelScale(model.config.image_mean, model.config.image_std), []
    fitted = fit_pictures(pixels, model.config.image_size, model.config.channels, "pictures")
    for start in range(0, len(fitted), AT_ONCE):
        values = scale(to_unit(fitted[start : start + AT_ONCE]))
        values = values.to(next(model.parameters()).device, next(model.parameters()).dtype)
        with inference_mode(model):
            found.append(model.encode_image(values).float().cpu())
    return torch.cat(found) if found else torch.empty(0, model.config.embedding_dim)


def embed_texts(model: CLIP, tokenizer: Tokenizer, texts: Sequence[str]) -> Float[Tensor, "count dim"]:
    """Embeddings of texts, of length one, in float32 on the CPU."""
    limit = min(size for size in (model.config.context, tokenizer.use.max_length) if size is not None)
    rows, pad = tokenizer.encode_inputs(texts, limit), 0 if tokenizer.pad is None else tokenizer.pad
    found, device = [torch.empty(0, model.config.embedding_dim)], next(model.parameters()).device
    for start in range(0, len(rows), AT_ONCE):
        batch = rows[start : start + AT_ONCE]
        lengths = torch.tensor([len(row) for row in batch], device="cpu")
        ids = padded(batch, int(lengths.max()), pad)
        real = torch.arange(ids.shape[1], device="cpu") < lengths[:, None]
        with inference_mode(model):
            found.append(model.encode_text(ids.to(device), real.to(device)).float().cpu())
    return torch.cat(found)


def ranks_of(
    scores: Float[Tensor, "count candidates"], right: Bool[Tensor, "count candidates"]
) -> Int[Tensor, " count"]:
    """The rank of the best right candidate of each query, 1 for the first; wrong ones with its score come before."""
    best = scores.masked_fill(~right, -torch.inf).amax(-1, keepdim=True)
    return 1 + ((scores >= best) & ~right).sum(-1)
