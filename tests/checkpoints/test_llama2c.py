"""llama2.c's single files: the same model as its Hugging Face twin, every damage to sizes and tokens refused."""

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
from tests.checkpoints.specimens import assert_equal, shaken

CONFIG = LlamaConfig(vocab=11, context=6, dim=8, hidden=10, layers=2, heads=4, kv_heads=2)


def adjacent(weight: Tensor, heads: int) -> Tensor:
    """Rows in the order of llama2.c, where the two numbers that turn together lie side by side."""
    halves = weight.T.view(heads, 2, -1, weight.shape[0])
    return halves.transpose(1, 2).reshape(weight.shape[1], weight.shape[0])


def exported(model: Model) -> bytes:
    """A model as llama2.c writes it."""
    config, blocks = model.config, model.stack.blocks
    vocab = config.vocab if config.tied else -config.vocab
    kv_heads = config.kv_heads or config.heads
    parts = [model.embedding.weight]
    parts += [block.around_attention.norm.weight for block in blocks]
    parts += [adjacent(block.attention.query.weight, config.heads) for block in blocks]
    parts += [adjacent(block.attention.key.weight, kv_heads) for block in blocks]
    parts += [block.attention.value.weight.T for block in blocks]
    parts += [block.attention.output.weight.T for block in blocks]
    parts += [block.around_feed_forward.norm.weight for block in blocks]
    parts += [block.feed_forward.gate.weight.T for block in blocks]
    parts += [block.feed_forward.down.weight.T for block in blocks]
    parts += [block.feed_forward.up.weight.T for block in blocks]
    parts += [model.stack.norm.weight, torch.zeros(2 * config.context, config.dim // config.heads // 2)]
    parts += [] if config.tied else [model.output.weight.T]
    sizes = (config.dim, config.hidden, config.layers, config.heads, kv_heads, vocab, config.context)
    data = b"".join(part.detach().contiguous().numpy().tobytes() for part in parts)
    return HEADER.pack(*sizes) + data


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kv_heads", [None, 2, 1])
def test_a_file_is_the_model_it_was_made_of(tied: bool, kv_heads: int | None, tmp_path: Path) -> None:
    model = shaken(LlamaConfig(**{**vars(CONFIG), "tied": tied, "kv_heads": kv_heads}))
    (tmp_path / "model.bin").write_bytes(exported(model))
    assert_equal(load(tmp_path / "model.bin").model, model)


@pytest.mark.parametrize("place", range(7))
@pytest.mark.parametrize("value", [0, -3, 2**31 - 1, 7])
def test_sizes_that_do_not_fit_are_refused(place: int, value: int, tmp_path: Path) -> None:
    data = bytearray(exported(shaken(LlamaConfig(**{**vars(CONFIG), "tied": True}))))
    struct.pack_into("<i", data, 4 * place, value)
    (tmp_path / "model.bin").write_bytes(data)
    with pytest.raises(CheckpointError):
        load(tmp_path / "model.bin")


@pytest.mark.parametrize("data", [b"", b"\0" * 4, struct.pack("<ifi", 5, 0.0, -1), struct.pack("<ifi", 5, 0.0, 9)])
def test_tokens_that_are_cut_off_are_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.bin").write_bytes(data)
    with pytest.raises(CheckpointError, match="token 0 of 3"):
        read_llama2c_tokenizer(tmp_path / "tokenizer.bin", 3)
