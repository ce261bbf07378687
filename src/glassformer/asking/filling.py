"""The most likely tokens for the masks of a text, by a masked language model."""

import torch

from glassformer.asking.classification import Classification
from glassformer.asking.reading import device_of, require_encoder, run_encoder
from glassformer.equations.softmax import softmax
from glassformer.errors import DecodingError, require_type
from glassformer.layers.model import Model
from glassformer.text.tokenizer import Tokenizer

USUAL_MASKS = ("[MASK]", "<mask>")


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


def masked_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a text as a masked language model reads it, with the mask token where the text has a mask."""
    tokenizer.required("mask")
    for usual in USUAL_MASKS:  # whatever the model's own mask token is called
        text = text.replace(usual, tokenizer.roles["mask"])
    return tokenizer.encode_masked(text)
