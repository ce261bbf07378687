"""Single-file Llama checkpoints of llama2.c: seven sizes, then every weight as float32.

They rotate adjacent pairs where Hugging Face rotates the two halves of a head, so the rows of the query and key
projections are reordered; their products, and so the model, are the same.
"""

import math
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer as Pieces
from tokenizers import decoders, models, normalizers, processors
from torch import Tensor

from glassformer.checkpoints.hf_config import MOST_LAYERS, MOST_POSITIONS, MOST_TOKENS, MOST_WIDTH
from glassformer.errors import CheckpointError
from glassformer.models.llama import LlamaConfig
from glassformer.safe_read import plain_file
from glassformer.text.read_sentencepiece import SPACE, merges_by_score
from glassformer.text.tokenizer import Tokenizer, guarded

HEADER = struct.Struct("<7i")
MOST_PIECE = 1000  # bytes in one token
FIRST_PIECE = 259  # after three special tokens and one for each byte


class Llama2C:
    """The tensors of one file under Hugging Face's names, each a view of the mapped file."""

    def __init__(self, path: Path) -> None:
        self.path = plain_file(path)
        self.config = _read_sizes(path)
        self.dtype = torch.float32
        self._offsets: dict[str, int] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        offset = HEADER.size // 4
        for name, count, shape in _contents(self.config):
            for i in range(count):
                if name:
                    self._offsets[name.replace("{i}", str(i))] = offset
                    self.shapes[name.replace("{i}", str(i))] = shape
                offset += math.prod(shape)
        if path.stat().st_size != 4 * offset:
            raise CheckpointError(f"{path}: has {path.stat().st_size:,} bytes, but its sizes make {4 * offset:,}")

    def read(self, name: str) -> Tensor:
        """One tensor of one layer."""
        shape = self.shapes[name]
        numbers = np.memmap(self.path, np.dtype("<f4"), "c", offset=4 * self._offsets[name], shape=math.prod(shape))
        tensor = torch.from_numpy(numbers).view(shape)
        rotated = {"q_proj": self.config.heads, "k_proj": self.config.kv_heads or self.config.heads}
        for part, heads in rotated.items():
            if part in name:  # even rows of each head first, then odd ones
                return tensor.view(heads, -1, 2, shape[1]).transpose(1, 2).reshape(shape)
        return tensor


def is_llama2c(path: Path) -> bool:
    """Whether a file starts with seven sizes that add up to its length."""
    try:
        Llama2C(path)
    except CheckpointError:
        return False
    return True


def _read_sizes(path: Path) -> LlamaConfig:
    with path.open("rb") as file:
        head = file.read(HEADER.size)
    if len(head) < HEADER.size:
        raise CheckpointError(f"{path}: has no header of seven sizes")
    dim, hidden, layers, heads, kv_heads, vocab, context = HEADER.unpack(head)
    limits = (MOST_WIDTH, MOST_WIDTH, MOST_LAYERS, MOST_WIDTH, MOST_WIDTH, MOST_TOKENS, MOST_POSITIONS)
    sizes = (dim, hidden, layers, heads, kv_heads, abs(vocab), context)
    if not all(1 <= size <= most for size, most in zip(sizes, limits, strict=True)):
        raise CheckpointError(f"{path}: starts with {sizes}, which are not the sizes of a llama2.c checkpoint")
    if dim % heads or heads % kv_heads or dim // heads % 2:
        raise CheckpointError(f"{path}: has {heads} heads and {kv_heads} for keys, which do not divide {dim}")
    return LlamaConfig(
        vocab=abs(vocab),
        context=context,
        dim=dim,
        layers=layers,
        heads=heads,
        kv_heads=None if kv_heads == heads else kv_heads,
        ffn_dim=hidden,
        tie_embeddings=vocab > 0,  # a negative number means that the output is not tied
        eps=1e-5,
    )


def _contents(config: LlamaConfig) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """Every tensor in the order of the file: its name, its count if there is one for each layer, and its shape."""
    layers, dim, ffn_dim = config.layers, config.dim, config.ffn_dim
    width = dim // config.heads
    keys = (config.kv_heads or config.heads) * width
    yield "model.embed_tokens.weight", 1, (config.vocab, dim)
    for name, *shape in (
        ("input_layernorm", dim),
        ("self_attn.q_proj", dim, dim),
        ("self_attn.k_proj", keys, dim),
        ("self_attn.v_proj", keys, dim),
        ("self_attn.o_proj", dim, dim),
        ("post_attention_layernorm", dim),
        ("mlp.gate_proj", ffn_dim, dim),
        ("mlp.down_proj", dim, ffn_dim),
        ("mlp.up_proj", ffn_dim, dim),
    ):
        yield f"model.layers.{{i}}.{name}.weight", layers, tuple(shape)
    yield "model.norm.weight", 1, (dim,)
    yield "", 2, (config.context, width // 2)  # cosines and sines, which the model computes
    if not config.tie_embeddings:
        yield "lm_head.weight", 1, (config.vocab, dim)


def read_llama2c_tokenizer(path: Path, vocab: int) -> Tokenizer:
    """The tokenizer beside a checkpoint: a length, then for each token its score and bytes."""
    data = plain_file(path).read_bytes() if path.stat().st_size <= 100 * MOST_TOKENS else b""
    tokens: list[tuple[str, float]] = []
    offset = 4
    while len(tokens) < vocab:
        head = data[offset : offset + 8]
        score, size = struct.unpack("<fi", head) if len(head) == 8 else (0.0, -1)
        if not 0 <= size <= MOST_PIECE or len(data) < offset + 8 + size:
            raise CheckpointError(f"{path}: token {len(tokens)} of {vocab} is cut off or has {size} bytes")
        if not math.isfinite(score):
            raise CheckpointError(f"{path}: token {len(tokens)} of {vocab} has the score {score}, wanted a number")
        tokens.append((data[offset + 8 : offset + 8 + size].decode("utf-8", "replace"), score))
        offset += 8 + size
    if offset != len(data):
        raise CheckpointError(f"{path}: holds more than the {vocab} tokens of the model")
    return _pieces(tokens)


def _pieces(tokens: Sequence[tuple[str, float]]) -> Tokenizer:
    """A tokenizer that merges the two pieces whose token has the highest score, as llama2.c and SentencePiece do."""
    special = {"<unk>": "<unk>", "\n<s>\n": "<s>", "\n</s>\n": "</s>"}
    vocab: dict[str, int] = {}
    scores: dict[str, float] = {}
    for number, (token, score) in enumerate(tokens):
        name = special.get(token, token).replace(" ", SPACE)
        vocab.setdefault(name, number)
        if number >= FIRST_PIECE:
            scores.setdefault(name, score)
    with guarded("reading tokens"):
        merges = merges_by_score(scores)
        inner = Pieces(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        inner.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
        inner.decoder = decoders.Sequence(
            [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
        inner.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A $B", [("<s>", vocab["<s>"])])
    return Tokenizer(inner, {"bos": "<s>", "eos": "</s>", "unk": "<unk>"})
