"""Small files with the interface of the peers, so that the suites can be tested without them."""

from pathlib import Path

MODEL = """
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class GPTConfig:
    block_size: int
    vocab_size: int
    n_layer: int
    n_head: int
    n_embd: int
    dropout: float
    bias: bool


class Norm(nn.Module):
    def __init__(self, size, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)

    def forward(self, x):
        rows, length, size = x.shape
        parts = [p.view(rows, length, self.heads, -1).transpose(1, 2) for p in self.c_attn(x).chunk(3, -1)]
        mixed = F.scaled_dot_product_attention(*parts, is_causal=True)
        return self.c_proj(mixed.transpose(1, 2).reshape(rows, length, size))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.attn = Norm(config.n_embd, config.bias), Attention(config)
        self.ln_2, self.mlp = Norm(config.n_embd, config.bias), MLP(config)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + SCALE * self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        print("a line that is dropped")
        size = config.n_embd
        parts = {"wte": nn.Embedding(config.vocab_size, size), "wpe": nn.Embedding(config.block_size, size)}
        parts |= {"h": nn.ModuleList(Block(config) for _ in range(config.n_layer)), "ln_f": Norm(size, config.bias)}
        self.transformer = nn.ModuleDict(parts)
        self.lm_head = nn.Linear(size, config.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, idx, targets=None):
        x = self.transformer.wte(idx) + self.transformer.wpe(torch.arange(idx.shape[1], device=idx.device))
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def configure_optimizers(self, weight_decay, learning_rate, betas, device_type):
        return torch.optim.AdamW(self.parameters(), learning_rate, betas, weight_decay=weight_decay)
"""
TRAIN = """
import sys
assert sys.argv[1] == "config/train_shakespeare_char.py" and open("data/shakespeare_char/train.bin").read() == "text"
for step, loss in ((0, 4.2), (250, 2.5)):
    print(f"step {step}: train loss 4.0000, val loss {loss:.4f}")
    print(f"iter {step}: loss {loss + 0.1:.4f}, time 9.00ms, mfu -100.00%")
"""
PREPARE = """
import os
import requests
folder = os.path.dirname(os.path.abspath(__file__))
assert open(os.path.join(folder, "input.txt")).read()
open(os.path.join(folder, "train.bin"), "w").write("text")
"""


def peers(folder: Path, scale: float = 1.0) -> Path:
    """A folder with a stand-in for nanoGPT; with another scale its model is not ours."""
    data = folder / "nanoGPT" / "data" / "shakespeare_char"
    data.mkdir(parents=True)
    (folder / "nanoGPT" / "model.py").write_text(f"SCALE = {scale}\n{MODEL}", encoding="utf-8")
    (folder / "nanoGPT" / "train.py").write_text(TRAIN, encoding="utf-8")
    (data / "prepare.py").write_text(PREPARE, encoding="utf-8")
    return folder
