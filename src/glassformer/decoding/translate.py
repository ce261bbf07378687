"""Source sentences in, target sentences out."""

from collections.abc import Sequence

from glassformer.decoding.generate import write_all
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
    compiled: bool = False,
) -> list[str]:
    """Translate sentences, in their order; a result depends on nothing but its own sentence."""
    if not isinstance(model, Translator):
        raise DecodingError(f"{type(model).__name__} does not translate: it has no encoder to read a source with")
    how = Decoding(limit=limit, beam=beam, length_penalty=length_penalty, batch_tokens=batch_tokens, compiled=compiled)
    return [written.text for written in write_all(model, tokenizer, tokenizer.encode_batch(texts), how)]
