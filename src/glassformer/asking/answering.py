"""The answer to a question about a context, by an encoder with a span head or by an encoder-decoder."""

import math
from collections.abc import Callable, Sequence

from glassformer.asking.reading import require_encoder
from glassformer.decoding.answers import MOST_TOKENS, Answer, Asked, question_prompt, span_answers
from glassformer.decoding.completion import Completion
from glassformer.decoding.config import GenerationConfig
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.model import Model
from glassformer.text.questions import require_question
from glassformer.text.tokenizer import Tokenizer

Generate = Callable[[Model, Tokenizer, Sequence[str], GenerationConfig], list[Completion]]


def answer(model: Model, tokenizer: Tokenizer, asked: Sequence[Asked], generate: Generate) -> list[Answer]:
    """The answers to questions, each with its context: spans of it, or texts that an encoder-decoder generates."""
    if isinstance(model, EncoderDecoder):
        return _written_answers(model, tokenizer, asked, generate)
    return span_answers(require_encoder(model, "answer questions", "span"), tokenizer, asked)


def _written_answers(model: Model, tokenizer: Tokenizer, asked: Sequence[Asked], generate: Generate) -> list[Answer]:
    """The answers that an encoder-decoder writes, with the characters of the context where they occur first."""
    for question, context in asked:
        require_question(question, context)
    config = GenerationConfig(max_new_tokens=MOST_TOKENS)
    texts = generate(model, tokenizer, [question_prompt(*pair) for pair in asked], config)
    found: list[Answer] = []
    for (_, context), text in zip(asked, texts, strict=True):
        written = text.text.strip()
        start = context.find(written) if written else -1
        where = (None, None) if start < 0 else (start, start + len(written))
        found.append(Answer(written, math.exp(text.score), *where))
    return found
