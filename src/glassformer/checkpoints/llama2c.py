"""The single-file Llama checkpoints of llama2.c: seven sizes, then every weight as float32, layer by layer.

They turn adjacent pairs of numbers where Hugging Face turns the two halves of a head, so queries and
keys are put in the other order on the way in; the products, and so the model, are the same.
"""

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
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
FIRST_PIECE = 259  # before it come three special tokens and one for each byte


class Llama2C:
    """The tensors of one file under Hugging Face's names, each a window onto the file."""

    def __init__(self, path: Path) -> None:
        self.path = plain_file(path)
        self.config = _read_sizes(path)
        self.dtype = torch.float32
        parts: dict[str, tuple[int, tuple[int, ...]]] = {}
        place = HEADER.size // 4
        for name, shape in _contents(self.config):
            parts[name] = place, shape
            place += math.prod(shape)
        if path.stat().st_size != 4 * place:
            raise CheckpointError(f"{path}: has {path.stat().st_size:,} bytes, but its sizes make {4 * place:,}")
        self._places = dict(_each_layer(parts, self.config.layers))
        self.shapes = {name: shape for name, (_, shape) in self._places.items()}

    def read(self, name: str) -> Tensor:
        """One tensor of one layer."""
        place, shape = self._places[name]
        numbers = np.memmap(self.path, np.dtype("<f4"), "c", offset=4 * place, shape=math.prod(shape))
        tensor = torch.from_numpy(numbers).view(shape)
        config = self.config
        groups = {"q_proj": config.heads, "k_proj": config.kv_heads or config.heads}
        heads = next((count for part, count in groups.items() if part in name), None)
        return tensor if heads is None else _halves(tensor, heads)


def _each_layer(
    parts: Mapping[str, tuple[int, tuple[int, ...]]], layers: int
) -> Iterator[tuple[str, tuple[int, tuple[int, ...]]]]:
    """Where each tensor begins; those of all layers lie one after another, and tables of angles are left out."""
    for name, (place, shape) in parts.items():
        if "{i}" in name:
            for i in range(layers):
                yield name.replace("{i}", str(i)), (place + i * math.prod(shape[1:]), shape[1:])
        elif not name.startswith("freq_cis"):
            yield name, (place, shape)


def is_llama2c(path: Path) -> bool:
    """Whether a file begins with seven sizes that make just its length."""
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
        raise CheckpointError(f"{path}: begins with {sizes}, which are no sizes of a llama2.c checkpoint")
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
        tie_embeddings=vocab > 0,  # a negative number says that the output has weights of its own
        eps=1e-5,
    )


def _contents(config: LlamaConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every tensor in the order of the file, those of all layers as one."""
    layers, dim, hidden = config.layers, config.dim, config.ffn_dim
    width = dim // config.heads
    keys = (config.kv_heads or config.heads) * width
    block = "model.layers.{i}"
    yield "model.embed_tokens.weight", (config.vocab, dim)
    yield f"{block}.input_layernorm.weight", (layers, dim)
    yield f"{block}.self_attn.q_proj.weight", (layers, dim, dim)
    yield f"{block}.self_attn.k_proj.weight", (layers, keys, dim)
    yield f"{block}.self_attn.v_proj.weight", (layers, keys, dim)
    yield f"{block}.self_attn.o_proj.weight", (layers, dim, dim)
    yield f"{block}.post_attention_layernorm.weight", (layers, dim)
    yield f"{block}.mlp.gate_proj.weight", (layers, hidden, dim)
    yield f"{block}.mlp.down_proj.weight", (layers, dim, hidden)
    yield f"{block}.mlp.up_proj.weight", (layers, hidden, dim)
    yield "model.norm.weight", (dim,)
    yield "freq_cis_real", (config.context, width // 2)
    yield "freq_cis_imag", (config.context, width // 2)
    if not config.tie_embeddings:
        yield "lm_head.weight", (config.vocab, dim)


def _halves(weight: Tensor, heads: int) -> Tensor:
    """The rows of each head with those of even number first, then those of odd."""
    return weight.view(heads, -1, 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


def read_llama2c_tokenizer(path: Path, vocab: int) -> Tokenizer:
    """The tokens beside such a checkpoint: a length, then for each token a score and its bytes."""
    data = plain_file(path).read_bytes() if path.stat().st_size <= 100 * MOST_TOKENS else b""
    tokens: list[tuple[str, float]] = []
    place = 4
    while len(tokens) < vocab:
        head = data[place : place + 8]
        score, size = struct.unpack("<fi", head) if len(head) == 8 else (0.0, -1)
        if not 0 <= size <= MOST_PIECE or len(data) < place + 8 + size:
            raise CheckpointError(f"{path}: token {len(tokens)} of {vocab} is cut off or has {size} bytes")
        if not math.isfinite(score):
            raise CheckpointError(f"{path}: token {len(tokens)} of {vocab} has the score {score}, wanted a number")
        tokens.append((data[place + 8 : place + 8 + size].decode("utf-8", "replace"), score))
        place += 8 + size
    if place != len(data):
        raise CheckpointError(f"{path}: holds more than the {vocab} tokens of the model")
    return _pieces(tokens)


def _pieces(tokens: Sequence[tuple[str, float]]) -> Tokenizer:
    """A tokenizer that joins the two pieces whose token has the highest score, as llama2.c and SentencePiece do."""
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
    return Tokenizer(inner, {"start": "<s>", "end": "</s>", "unknown": "<unk>"})
