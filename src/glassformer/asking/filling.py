"""The most likely tokens for the masks of a text, by a masked language model."""

import torch

from glassformer.asking.classification import Classification
from glassformer.asking.masks import masked_ids
from glassformer.asking.reading import device_of, require_encoder, run_encoder
from glassformer.equations.softmax import softmax
from glassformer.errors import DecodingError, require_type
from glassformer.layers.model import Model
from glassformer.text.tokenizer import Tokenizer


def fill(model: Model, tokenizer: Tokenizer, text: str, top_k: int) -> list[Classification]:
    """The most likely tokens for each mask in a text such as "the [MASK] sat"."""
    encoder = require_encoder(model, "fill masks", "masked")
    require_type(DecodingError, "top_k", top_k, int, "a whole number")
    if top_k < 1:
        raise DecodingError(f"top_k is {top_k}, wanted at least 1")
    ids = torch.tensor([masked_ids(tokenizer, text)], device=device_of(encoder))
    masks = ids[0] == tokenizer.mask
    if not masks.any():
        raise DecodingError(f"{text[:60]!r} has no mask to fill, wanted at least one {tokenizer.roles['mask']}")
    logits = run_encoder(encoder, ids)[0, masks]
    probabilities, tokens = softmax(logits.float()).topk(min(top_k, encoder.config.vocab))
    rows = zip(probabilities.tolist(), tokens.tolist(), strict=True)
    found = [{tokenizer.token(id): p for p, id in zip(*row, strict=True)} for row in rows]
    return [Classification(*next(iter(each.items())), each) for each in found]
