"""Source sentences in, target sentences out."""

from collections.abc import Sequence

from glassformer.decoding.generate import generate
from glassformer.decoding.session import Translator
from glassformer.decoding.settings import Decoding
from glassformer.errors import DecodingError
from glassformer.layers.model import Model
from glassformer.text.tokenizer import Tokenizer


def translate(
    model: Model,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    limit: int = 64,
    *,
    beam: int = 1,
    length_penalty: float = 0.6,
    batch_tokens: int = 8192,
    how: Decoding | None = None,
) -> list[str]:
    """Translate sentences, in their order; a result depends on nothing but its own sentence.

    `how` says all there is to say in place of the four settings before it.
    """
    if not isinstance(model, Translator):
        raise DecodingError(f"{type(model).__name__} does not translate: it has no encoder to read a source with")
    how = how or Decoding(limit=limit, beam=beam, length_penalty=length_penalty, batch_tokens=batch_tokens)
    if how.n > 1:
        raise DecodingError(f"n is {how.n}, wanted 1: a sentence has one translation here; `generate` gives several")
    return [written.text for written in generate(model, tokenizer, texts, how)]
