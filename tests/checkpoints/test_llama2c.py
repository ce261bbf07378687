"""llama2.c's single files: the same model as its Hugging Face twin, every damage to sizes and tokens refused."""

import math
import struct
from pathlib import Path

import pytest
import torch
from torch import Tensor

from glassformer.checkpoints.llama2c import HEADER, read_llama2c_tokenizer
from glassformer.checkpoints.load import load
from glassformer.errors import CheckpointError
from glassformer.layers.model import Model
from glassformer.models.llama import LlamaConfig
from glassformer.text.tokenizer import Tokenizer
from tests.checkpoints.parity_configs import assert_equal, shaken

CONFIG = LlamaConfig(vocab=11, context=6, dim=8, ffn_dim=10, layers=2, heads=4, kv_heads=2)


def adjacent(weight: Tensor, heads: int) -> Tensor:
    """Rows in the order of llama2.c, where the two numbers that turn together lie side by side."""
    halves = weight.T.view(heads, 2, -1, weight.shape[0])
    return halves.transpose(1, 2).reshape(weight.shape[1], weight.shape[0])


def exported(model: Model) -> bytes:
    """A model as llama2.c writes it."""
    config, blocks = model.config, model.stack.blocks
    vocab = config.vocab if config.tie_embeddings else -config.vocab
    kv_heads = config.kv_heads or config.heads
    parts = [model.embedding.weight]
    parts += [block.attention_norm.weight for block in blocks]
    parts += [adjacent(block.attention.query.weight, config.heads) for block in blocks]
    parts += [adjacent(block.attention.key.weight, kv_heads) for block in blocks]
    parts += [block.attention.value.weight.T for block in blocks]
    parts += [block.attention.output.weight.T for block in blocks]
    parts += [block.feed_forward_norm.weight for block in blocks]
    parts += [block.feed_forward.gate.weight.T for block in blocks]
    parts += [block.feed_forward.down.weight.T for block in blocks]
    parts += [block.feed_forward.up.weight.T for block in blocks]
    parts += [model.stack.norm.weight, torch.zeros(2 * config.context, config.dim // config.heads // 2)]
    parts += [] if config.tie_embeddings else [model.output.weight.T]
    sizes = (config.dim, config.ffn_dim, config.layers, config.heads, kv_heads, vocab, config.context)
    data = b"".join(part.detach().contiguous().numpy().tobytes() for part in parts)
    return HEADER.pack(*sizes) + data


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kv_heads", [None, 2, 1])
def test_a_file_is_the_model_it_was_made_of(tied: bool, kv_heads: int | None, tmp_path: Path) -> None:
    model = shaken(LlamaConfig(**{**vars(CONFIG), "tie_embeddings": tied, "kv_heads": kv_heads}))
    (tmp_path / "model.bin").write_bytes(exported(model))
    assert_equal(load(tmp_path / "model.bin").model, model)


@pytest.mark.parametrize("position", range(7))
@pytest.mark.parametrize("value", [0, -3, 2**31 - 1, 7])
def test_sizes_that_do_not_fit_are_refused(position: int, value: int, tmp_path: Path) -> None:
    data = bytearray(exported(shaken(LlamaConfig(**{**vars(CONFIG), "tie_embeddings": True}))))
    struct.pack_into("<i", data, 4 * position, value)
    (tmp_path / "model.bin").write_bytes(data)
    with pytest.raises(CheckpointError):
        load(tmp_path / "model.bin")


@pytest.mark.parametrize("data", [b"", b"\0" * 4, struct.pack("<ifi", 5, 0.0, -1), struct.pack("<ifi", 5, 0.0, 9)])
def test_tokens_that_are_cut_off_are_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.bin").write_bytes(data)
    with pytest.raises(CheckpointError, match="token 0 of 3"):
        read_llama2c_tokenizer(tmp_path / "tokenizer.bin", 3)


def test_tokens_are_joined_by_score_as_sentencepiece_joins_them(tmp_path: Path) -> None:
    folder = Path(__file__).parents[2] / "../shared/data/tokenizers"
    if not folder.exists():
        pytest.skip("needs the Llama 2 tokenizer")
    ours = read_llama2c_tokenizer(folder / "llama2-tokenizer.bin", 32_000)
    (tmp_path / "tokenizer.model").symlink_to(folder / "llama2-tokenizer.model")
    theirs = Tokenizer.load(tmp_path)
    texts = ["two  spaces", "   three", "a\n    b = 1  # c", "日本 🙂", "Once upon a time", " " * 40]
    assert ours.encode_inputs(texts) == theirs.encode_inputs(texts)
    assert ours.decode(ours.encode(texts[2])) == texts[2]


def test_the_score_decides_and_not_the_number(tmp_path: Path) -> None:
    special = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(f"<0x{byte:02X}>".encode() for byte in range(256))]
    scored = [(b"ab", -5.0), (b"bc", -1.0), *((letter.encode(), -9.0) for letter in " abc")]
    tokens = [*((token, 0.0) for token in special), *scored]
    data = b"".join(struct.pack("<fi", score, len(token)) + token for token, score in tokens)
    (tmp_path / "tokenizer.bin").write_bytes(struct.pack("<i", 6) + data)
    made = read_llama2c_tokenizer(tmp_path / "tokenizer.bin", len(tokens))
    assert [made.token(id) for id in made.encode("abc")] == ["▁", "a", "bc"]
    assert made.encode_inputs([""]) == [[1]], "a text begins with the start token"
    (tmp_path / "tokenizer.bin").write_bytes(struct.pack("<ifi", 6, math.nan, 0))
    with pytest.raises(CheckpointError, match="token 0 of 1 has the score nan"):
        read_llama2c_tokenizer(tmp_path / "tokenizer.bin", 1)
