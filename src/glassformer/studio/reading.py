"""What a model can be given, for the page before its first run."""

from typing import TYPE_CHECKING

import msgspec

from glassformer.decoding.predictions import logits_for
from glassformer.errors import GlassformerError
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.image_classifier import ImageClassifier
from glassformer.studio.run_inputs import PICTURES, pictures

if TYPE_CHECKING:
    from glassformer.interface import LoadedModel

EXAMPLES = {"next": "The cat sat on the", "mask": "The cat [MASK] on the mat.", "label": "What a lovely day!"}


class BuiltInPicture(msgspec.Struct, frozen=True):
    """A built-in picture: its label, and the rows of its gray pixels."""

    label: str
    rows: list[list[int]]


class Reading(msgspec.Struct, frozen=True):
    """What a model can be given: a text, token ids or the number of a picture; `example` is one to begin with.

    `second` says what a second text is to it, or is empty. `target` is what its logits are for, or empty. A picture is
    read as `patches` by `patches` tokens, or whole if that is zero.
    """

    reads: str
    example: str
    second: str
    target: str
    warnings: list[str]
    pictures: list[BuiltInPicture]
    patches: int = 0


def reading(loaded: "LoadedModel") -> Reading:
    """What a model can be given."""
    model, vocab = loaded.model, vars(loaded.model.config).get("vocab", 0)
    try:
        target = logits_for(model)
    except GlassformerError:
        target = ""
    if isinstance(model, ImageClassifier):
        patches = vars(model.config)["image_size"] // vars(model.config).get("patch_size", model.config.image_size + 1)
        return Reading("picture", "0", "", target, [], picture_data(), patches)
    second = "target" if isinstance(model, EncoderDecoder) else "" if isinstance(model, CausalLM) else "pair"
    if loaded.tokenizer is not None:
        example = "I love AI" if second == "target" else EXAMPLES[target or "label"]
        return Reading("text", example, second, target, [], [])
    missing = f"This model has no tokenizer: give token ids from 0 to {vocab - 1}, such as 1 2 3."
    return Reading("ids", "1 2 3", second, target, [missing], [])


def picture_data() -> list[BuiltInPicture]:
    """The built-in pictures to choose from."""
    found = zip(pictures().labels, pictures().pixels[:PICTURES, :, :, 0].tolist(), strict=False)
    return [BuiltInPicture(label, rows) for label, rows in found]
