"""What a run reads: a text, token ids where there is no tokenizer, a picture, or numbers."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import torch

from glassformer.asking.picture_inputs import pixel_values, read_pixels
from glassformer.data.images import Pixels
from glassformer.errors import ModelError
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.image_classifier import ImageClassifier
from glassformer.layers.regressor import Regressor
from glassformer.models.clip import CLIP
from glassformer.models.image_autoencoder import ImageAutoencoder
from glassformer.probes.inputs import ModelInputs, Tokens
from glassformer.studio.pictures import built_in_picture

if TYPE_CHECKING:
    from glassformer.interface import LoadedModel

ReadPicture: TypeAlias = Callable[[str], Pixels]  # from the text that names a picture
READS_PICTURES = (ImageClassifier, ImageAutoencoder, CLIP)


def run_inputs(
    loaded: "LoadedModel", text: str, second: str | None, written: str | None, picture: ReadPicture = built_in_picture
) -> ModelInputs:
    """The arguments of a forward pass, with the ids that `generate` or `translate` would read.

    `written` are token ids to go on with, such as "5,17": of a language model after the text, of a translator after
    the target, which is empty instead of the model's own translation if it is not given. `picture` gives the pixels of
    a picture by its name, which is the text of a model that reads pictures.
    """
    model = loaded.model
    if isinstance(model, READS_PICTURES):
        return _picture_inputs(loaded, picture(text), second)
    if isinstance(model, Regressor):
        row = torch.tensor([row_of_numbers(model, text)], device=next(model.parameters()).device)
        return ModelInputs(model, {"x": row})
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


EXAMPLE_CAPTION = "a picture of a number"


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


def row_of_numbers(model: Regressor, text: str) -> list[float]:
    """The inputs of a regression as they stand in a text, apart by spaces or commas."""
    words, wanted = text.replace(",", " ").replace("−", "-").split(), vars(model.config)["inputs"]
    try:
        found = [float(word) for word in words]
    except ValueError:
        found = []
    if len(found) != wanted or not all(math.isfinite(each) for each in found):
        numbers = "one number" if wanted == 1 else f"{wanted} numbers"
        raise ModelError(f"{text[:40]!r} was typed, and the model reads {numbers}, such as {example_row(wanted)}")
    return found


def example_row(count: int) -> str:
    """Numbers to begin with."""
    return " ".join(str(0.5 * (1 + at % 4)) for at in range(count))


def _picture_inputs(loaded: "LoadedModel", pixels: Pixels, caption: str | None) -> ModelInputs:
    """A picture, with its caption for a model that compares both."""
    model = loaded.model
    values: dict[str, object] = {"pixel_values": pixel_values(model, read_pixels(model, pixels))}
    if not isinstance(model, CLIP):
        return ModelInputs(model, values)
    if loaded.tokenizer is None:
        ids = token_ids(caption or "1 2 3")
    else:
        ids = loaded.tokenizer.encode_prompts([caption or EXAMPLE_CAPTION])[0]
    named = str if loaded.tokenizer is None else loaded.tokenizer.token
    values["ids"] = torch.tensor([ids], device=next(model.parameters()).device)
    return ModelInputs(model, values, {"ids": [named(id) for id in ids]})
