"""Texts with masks, as a masked language model reads them."""

from glassformer.text.tokenizer import Tokenizer

USUAL_MASKS = ("[MASK]", "<mask>")


def masked_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a text as a masked language model reads it, with the mask token where the text has a mask."""
    tokenizer.required("mask")
    for usual in USUAL_MASKS:  # whatever the model's own mask token is called
        text = text.replace(usual, tokenizer.roles["mask"])
    return tokenizer.encode_masked(text)
