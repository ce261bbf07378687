"""A text, or the path of a picture, as the arguments of one forward pass: what traces and probes run a model on."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from glassformer.asking.masks import masked_ids
from glassformer.asking.picture_inputs import pixel_values, read_pixels
from glassformer.asking.reading import device_of
from glassformer.errors import ModelError
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder, right_padded
from glassformer.layers.image_classifier import ImageClassifier
from glassformer.layers.model import Model
from glassformer.models.causal_classifier import CausalClassifier
from glassformer.models.encoder import Encoder
from glassformer.probes.inputs import Tokens
from glassformer.text.tokenizer import Tokenizer

Read = Callable[[str], Sequence[int]]  # a text as token ids


def forward_inputs(
    model: Model, tokenizer: Tokenizer | None, text: Tokens, second: Tokens | None, encode: Read, translate: Read
) -> tuple[dict[str, object], Mapping[str, Sequence[str]]]:
    """The arguments by name, and the tokens behind them as text; `second` is a target, or the second text of a pair.

    `encode` gives the token ids of a text as the model reads it, and `translate` those of its translation by the model.
    """
    if isinstance(model, ImageClassifier):
        if not isinstance(text, str):
            raise ModelError("pictures are given as the path of an image file, or as pixel_values by name")
        return {"pixel_values": pixel_values(model, read_pixels(model, text))}, {}
    if isinstance(model, EncoderDecoder):
        rows = {"source": [_ids(text, encode)], "target": [_target(tokenizer, text, second, encode, translate)]}
    elif isinstance(model, CausalLM | Encoder | CausalClassifier):
        if isinstance(model, Encoder) and model.masked_head is not None and tokenizer is not None:
            encode = encode if tokenizer.mask is None else partial(masked_ids, tokenizer)
        texts = [text] if second is None else [text, second]
        rows = {"ids": [_ids(each, encode) for each in texts]}
    else:
        raise ModelError(f"{type(model).__name__} does not read text: trace it with gf.trace(model, inputs)")
    values: dict[str, object] = {}
    for name, lines in rows.items():
        values[name], real = right_padded(lines, device_of(model))
        if len(lines) > 1:
            values["attention_mask"] = real
    named = str if tokenizer is None else tokenizer.token
    return values, {name: [named(id) for id in rows[name][0]] for name in rows}


def _ids(text: Tokens, encode: Read) -> list[int]:
    """Token ids of a text as the model reads it, or the ids given."""
    found = encode(text) if isinstance(text, str) else text
    if not isinstance(found, Sequence) or not all(isinstance(id, int) for id in found):
        raise ModelError(f"text is of the type {type(found).__name__}, wanted a text or a list of token ids")
    if not found:
        raise ModelError("the text is empty, wanted at least one token")
    return list(found)


def _target(
    tokenizer: Tokenizer | None, text: Tokens, second: Tokens | None, encode: Read, translate: Read
) -> list[int]:
    """The decoder input of a translator: the start token, then the target given, or else its own translation."""
    start = 0 if tokenizer is None else tokenizer.decoder_start
    if second is not None and not isinstance(second, str):
        return [start, *(_ids(second, encode) if second else ())]
    if tokenizer is None:
        raise ModelError("the model has no tokenizer: give the target as token ids")
    if second is not None:
        return [start, *tokenizer.encode_targets([second])[0]]
    return [start, *translate(text if isinstance(text, str) else tokenizer.decode(text))]
