"""What a run reads: a text, token ids where there is no tokenizer, or one of the built-in pictures."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from glassformer.asking.picture_inputs import pixel_values, read_pixels
from glassformer.data.image_arrays import digits
from glassformer.data.images import LabeledImages
from glassformer.errors import ModelError
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.image_classifier import ImageClassifier
from glassformer.probes.inputs import ModelInputs, Tokens

if TYPE_CHECKING:
    from glassformer.interface import LoadedModel

PICTURES = 10  # built-in ones to choose from


def run_inputs(loaded: "LoadedModel", text: str, second: str | None, written: str | None) -> ModelInputs:
    """The arguments of a forward pass, with the ids that `generate` or `translate` would read.

    `written` are token ids to go on with, such as "5,17": of a language model after the text, of a translator after
    the target, which is empty instead of the model's own translation if it is not given.
    """
    model = loaded.model
    if isinstance(model, ImageClassifier):
        return ModelInputs(model, {"pixel_values": pixel_values(model, read_pixels(model, _picture(text)))})
    more = token_ids(written or "")
    first: Tokens = text if loaded.tokenizer is not None else token_ids(text)
    other: Tokens | None = second if loaded.tokenizer is not None or second is None else token_ids(second)
    if written is None:
        return loaded.inputs(first, other)
    if isinstance(model, CausalLM):
        return loaded.inputs([*_prompt_ids(loaded, first), *more], other)
    if isinstance(model, EncoderDecoder):
        return loaded.inputs(first, [*_target_ids(loaded, other), *more])
    raise ModelError(f"{type(model).__name__} writes no tokens")


def token_ids(text: str) -> list[int]:
    """Token ids that stand in a text, apart by spaces or commas."""
    words = text.replace(",", " ").split()
    if not all(word.isdecimal() and word.isascii() for word in words):
        raise ModelError(f"{text[:40]!r} is not a list of token ids, wanted whole numbers such as 1 2 3")
    return [int(word) for word in words]


def _prompt_ids(loaded: "LoadedModel", text: Tokens) -> Sequence[int]:
    return loaded.required_tokenizer().encode_prompts([text])[0] if isinstance(text, str) else text


def _target_ids(loaded: "LoadedModel", second: Tokens | None) -> Sequence[int]:
    if second is None:
        return ()
    return loaded.required_tokenizer().encode_targets([second])[0] if isinstance(second, str) else second


@cache
def pictures() -> LabeledImages:
    """The built-in pictures."""
    return digits()


def _picture(text: str) -> np.ndarray:
    if not (text.isdecimal() and text.isascii() and int(text) < PICTURES):
        raise ModelError(f"there is no picture {text[:40]!r}, wanted 0 to {PICTURES - 1}")
    return pictures().pixels[int(text)]
