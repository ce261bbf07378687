"""What a model can be given, for the page before its first run."""

from typing import TYPE_CHECKING

import msgspec

from glassformer.decoding.predictions import logits_for
from glassformer.errors import GlassformerError
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.model import Model
from glassformer.layers.regressor import Regressor
from glassformer.models.causal_classifier import CausalClassifier
from glassformer.models.clip import CLIP
from glassformer.models.encoder import Encoder
from glassformer.studio.pictures import PictureChoice, Pictures
from glassformer.studio.run_inputs import READS_PICTURES, example_row

if TYPE_CHECKING:
    from glassformer.interface import LoadedModel

UNREAD = (
    "{} reads neither a text nor a picture, so there is no run to show here. Learn trains such a model while you "
    "watch, and Lessons show how it works."
)
EXAMPLES = {"next": "The cat sat on the", "mask": "The cat [MASK] on the mat.", "label": "What a lovely day!"}


class Reading(msgspec.Struct, frozen=True):
    """What a model can be given: a text, token ids, a picture, numbers or nothing; `example` is one to begin with.

    `second` says what a second text is to it, or is empty. `target` is what its logits are for, or empty. A picture is
    read as `patches` by `patches` tokens, or whole if that is zero.
    """

    reads: str
    example: str
    second: str
    target: str
    warnings: list[str]
    pictures: list[PictureChoice]
    patches: int = 0


def reading(loaded: "LoadedModel", pictures: Pictures | None = None) -> Reading:
    """What a model can be given."""
    model, vocab = loaded.model, vars(loaded.model.config).get("vocab", 0)
    try:
        target = logits_for(model)
    except GlassformerError:
        target = ""
    if isinstance(model, READS_PICTURES):
        second = "caption" if isinstance(model, CLIP) else ""
        return Reading("picture", "0", second, target, [], (pictures or Pictures()).choices(), patches_of(model))
    if isinstance(model, Regressor):
        return Reading("numbers", example_row(vars(model.config)["inputs"]), "", "", [], [])
    if not isinstance(model, CausalLM | EncoderDecoder | Encoder | CausalClassifier):
        return Reading("nothing", "", "", "", [UNREAD.format(type(model).__name__)], [])
    second = "target" if isinstance(model, EncoderDecoder) else "" if isinstance(model, CausalLM) else "pair"
    if loaded.tokenizer is not None:
        example = "I love AI" if second == "target" else EXAMPLES[target or "label"]
        return Reading("text", example, second, target, [], [])
    missing = f"This model has no tokenizer: give token ids from 0 to {vocab - 1}, such as 1 2 3."
    return Reading("ids", "1 2 3", second, target, [missing], [])


def patches_of(model: Model) -> int:
    """How many patches of a picture a model reads in a row, or zero."""
    values = vars(model.config)
    return values["image_size"] // values["patch_size"] if "patch_size" in values else 0
