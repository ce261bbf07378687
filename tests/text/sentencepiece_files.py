"""SentencePiece models in the format of its files, small and made up."""

import tokenizers
from tokenizers import decoders, models, normalizers

from glassformer.text.read_sentencepiece import merges_by_score
from glassformer.text.tokenizer import Tokenizer


def llama_tokenizer() -> Tokenizer:
    """A tokenizer as Llama's: a space before each text, spaces as marks, bytes for what is not in the vocabulary."""
    letters = ["▁", *"thecasonmd"]
    scores = dict.fromkeys(letters, -100.0) | {"▁t": -1.0, "he": -2.0, "▁the": -3.0, "▁▁": -4.0, "at": -5.0}
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *scores]
    vocab = {token: id for id, token in enumerate(tokens)}
    merges = merges_by_score(scores)
    inner = tokenizers.Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    inner.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return Tokenizer(inner, {"start": "<s>", "end": "</s>", "unknown": "<unk>"})
