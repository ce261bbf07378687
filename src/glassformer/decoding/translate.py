"""Source sentences in, target sentences out."""

from collections.abc import Sequence

from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import generate
from glassformer.errors import DecodingError
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.model import Model
from glassformer.text.tokenizer import Tokenizer


def translate(
    model: Model,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    max_new_tokens: int = 64,
    *,
    num_beams: int = 1,
    length_penalty: float = 0.6,
    batch_tokens: int = 8192,
    config: GenerationConfig | None = None,
) -> list[str]:
    """Translate sentences, in their order; a result depends on nothing but its own sentence.

    `how` says all there is to say in place of the four settings before it.
    """
    if not isinstance(model, EncoderDecoder):
        raise DecodingError(f"{type(model).__name__} does not translate: it has no encoder to read a source with")
    config = config or GenerationConfig(
        max_new_tokens=max_new_tokens, num_beams=num_beams, length_penalty=length_penalty, batch_tokens=batch_tokens
    )
    if config.n > 1:
        raise DecodingError(f"n is {config.n}, wanted 1: a sentence has one translation here; `generate` gives several")
    return [written.text for written in generate(model, tokenizer, texts, config)]
