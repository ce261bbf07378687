"""The answer to a question about a context, by an encoder with a span head or by an encoder-decoder."""

from collections.abc import Sequence

from glassformer.asking.reading import require_encoder
from glassformer.decoding.answers import Answer, Asked, span_answers, written_answers
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.model import Model
from glassformer.text.tokenizer import Tokenizer


def answer(model: Model, tokenizer: Tokenizer, asked: Sequence[Asked]) -> list[Answer]:
    """The answers to questions, each with its context: spans of it, or texts that an encoder-decoder writes."""
    if isinstance(model, EncoderDecoder):
        return written_answers(model, tokenizer, asked)
    return span_answers(require_encoder(model, "answer questions", "span"), tokenizer, asked)
