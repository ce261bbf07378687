"""A text, or the path of a picture, as the arguments of one forward pass: what traces and probes run a model on."""

from collections.abc import Mapping, Sequence

from glassformer.asking.picture_classification import pixel_values, read_pixels
from glassformer.asking.reading import device_of
from glassformer.decoding.generate import encode_prompts, generate
from glassformer.errors import ModelError, PathError
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder, right_padded
from glassformer.layers.image_classifier import ImageClassifier
from glassformer.layers.model import Model
from glassformer.models.causal_classifier import CausalClassifier
from glassformer.models.encoder import Encoder
from glassformer.probes.inputs import Tokens
from glassformer.text.tokenizer import Tokenizer


def forward_inputs(
    model: Model, tokenizer: Tokenizer | None, text: Tokens, second: Tokens | None
) -> tuple[dict[str, object], Mapping[str, Sequence[str]]]:
    """The arguments by name, and the tokens behind them as text; `second` is a target, or the second text of a pair."""
    if isinstance(model, ImageClassifier):
        if not isinstance(text, str):
            raise ModelError("pictures are given as the path of an image file, or as pixel_values by name")
        return {"pixel_values": pixel_values(model, read_pixels(model, text))}, {}
    if isinstance(model, EncoderDecoder):
        rows = {"source": [_ids(model, tokenizer, text)], "target": [_target(model, tokenizer, text, second)]}
    elif isinstance(model, CausalLM | Encoder | CausalClassifier):
        rows = {"ids": [_ids(model, tokenizer, each) for each in (text, second) if each is not None]}
    else:
        raise ModelError(f"{type(model).__name__} does not read text: trace it with gf.trace(model, inputs)")
    values: dict[str, object] = {}
    for name, lines in rows.items():
        values[name], real = right_padded(lines, device_of(model))
        if len(lines) > 1:
            values["attention_mask"] = real
    named = str if tokenizer is None else tokenizer.token
    return values, {name: [named(id) for id in rows[name][0]] for name in rows}


def _ids(model: Model, tokenizer: Tokenizer | None, text: Tokens) -> list[int]:
    """Token ids of a text as the model reads it, or the ids given."""
    if isinstance(text, str):
        text = encode_prompts(model, _required(tokenizer), [text])[0]
    if not isinstance(text, Sequence) or not all(isinstance(id, int) for id in text):
        raise ModelError(f"text is of the type {type(text).__name__}, wanted a text or a list of token ids")
    if not text:
        raise ModelError("the text is empty, wanted at least one token")
    return list(text)


def _target(model: Model, tokenizer: Tokenizer | None, text: Tokens, second: Tokens | None) -> list[int]:
    """The decoder input of a translator: the start token, then the target given, or else its own translation."""
    if second is not None and not isinstance(second, str):
        return [0 if tokenizer is None else tokenizer.decoder_start, *_ids(model, tokenizer, second)]
    tokenizer = _required(tokenizer)
    if second is not None:
        return [tokenizer.decoder_start, *tokenizer.encode_targets([second])[0]]
    source = text if isinstance(text, str) else tokenizer.decode(text)
    (written,) = generate(model, tokenizer, source)
    return [tokenizer.decoder_start, *(written.ids[:-1] if written.finish_reason == "stop" else written.ids)]


def _required(tokenizer: Tokenizer | None) -> Tokenizer:
    if tokenizer is None:
        raise PathError("the model has no tokenizer, so it cannot read or write text: give token ids")
    return tokenizer
