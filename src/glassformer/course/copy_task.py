"""The copy task: symbols to remember, a gap, then recall; and models of equal size that try it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from glassformer.equation import no_checks
from glassformer.equations.adam import adam
from glassformer.equations.losses import cross_entropy
from glassformer.equations.metrics import accuracy
from glassformer.equations.sampling import greedy
from glassformer.layers.causal_lm import CausalLM
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.registry import build
from glassformer.models.rnn import RNN, RNNConfig

NAMES = ("RNN", "LSTM", "Transformer")
BETAS = (0.9, 0.98)
LARGEST_NORM = 1.0  # of a gradient; a longer one is shortened, or recurrent models diverge


@dataclass(frozen=True)
class CopyTask:
    """So many symbols to remember out of so many, and so many blanks before they are asked for."""

    gap: int
    symbols: int = 8
    remembered: int = 4

    @property
    def vocab(self) -> int:
        """The symbols, the blank and the question."""
        return self.symbols + 2

    @property
    def length(self) -> int:
        """Tokens that a model reads: all but the last symbol of the answer."""
        return 2 * self.remembered + self.gap

    def batch(self, rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Token ids [rows, length], and the symbols [rows, remembered] to recall at the end of each row."""
        symbols = torch.randint(self.symbols, (rows, self.remembered), generator=generator)
        blank, question = torch.full((rows, self.gap), self.symbols), torch.full((rows, 1), self.symbols + 1)
        return torch.cat([symbols, blank, question, symbols[:, :-1]], 1), symbols

    def answers(self, logits: Tensor) -> Tensor:
        """The logits of the positions where symbols are recalled."""
        return logits[:, -self.remembered :]

    @torch.no_grad()
    def accuracy(self, model: CausalLM, rows: int = 256, seed: int = 1) -> float:
        """The fraction of symbols that a model recalls, of new sequences."""
        weight = next(model.parameters())
        ids, symbols = (t.to(weight.device) for t in self.batch(rows, torch.Generator().manual_seed(seed)))
        with no_checks():
            guesses = greedy(self.answers(model(ids)))
            return float(accuracy(guesses.flatten(), symbols.flatten()))


def contestants(task: CopyTask, dim: int = 32, layers: int = 2) -> dict[str, GPTConfig | RNNConfig]:
    """A small Transformer, and an RNN and an LSTM with as many parameters."""
    transformer = GPTConfig(vocab=task.vocab, context=task.length, dim=dim, layers=layers, heads=4)
    wanted = build(transformer, device="meta").parameter_count()
    found: dict[str, GPTConfig | RNNConfig] = {}
    cells: dict[str, Literal["rnn", "lstm"]] = {"RNN": "rnn", "LSTM": "lstm"}
    for name, cell in cells.items():
        sizes = (RNNConfig(vocab=task.vocab, dim=dim // 2, hidden_dim=size, cell=cell) for size in range(4, 400))
        found[name] = min(sizes, key=lambda config: abs(build(config, device="meta").parameter_count() - wanted))
    return {**found, "Transformer": transformer}


def fresh(config: GPTConfig | RNNConfig, seed: int, dtype: torch.dtype = torch.float32) -> CausalLM:
    """A model with initial weights."""
    model = build(config, seed).to(dtype)
    assert isinstance(model, (GPT, RNN))
    return model


def training(
    model: CausalLM, task: CopyTask, updates: int, learning_rate: float, rows: int = 64, seed: int = 0
) -> Iterator[float]:
    """Train by Adam on new sequences in every update, with a short warm-up; the loss before each."""
    generator = torch.Generator().manual_seed(seed)
    weights = list(model.parameters())
    moments = [(torch.zeros_like(weight), torch.zeros_like(weight)) for weight in weights]
    for turn in range(1, updates + 1):
        ids, symbols = (t.to(weights[0].device) for t in task.batch(rows, generator))
        with no_checks():
            with torch.enable_grad():
                loss = cross_entropy(task.answers(model(ids)), symbols)
                gradients = torch.autograd.grad(loss, weights)
            norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
            factor = (LARGEST_NORM / norm).clamp(max=1)
            rate = learning_rate * min(1.0, turn / 30)
            with torch.no_grad():
                for i, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
                    new, first, second = adam(weight, gradient * factor, *moments[i], turn, rate, BETAS)
                    moments[i] = first, second
                    weight.copy_(new)
        yield loss.item()


def gradient_by_position(model: CausalLM, task: CopyTask, rows: int = 32, seed: int = 2) -> Tensor:
    """For each input position the norm of the gradient of the loss of the first recalled symbol, averaged over rows."""
    weight = model.embedding.weight
    ids, symbols = (t.to(weight.device) for t in task.batch(rows, torch.Generator().manual_seed(seed)))
    found: list[Tensor] = []

    def keep(module: object, inputs: object, output: Tensor) -> None:
        output.retain_grad()
        found.append(output)

    handle = model.embedding.register_forward_hook(keep)
    try:
        with no_checks(), torch.enable_grad():
            cross_entropy(task.answers(model(ids))[:, 0], symbols[:, 0], reduction="sum").backward()
    finally:
        handle.remove()
        model.zero_grad()
    gradient = found[0].grad
    assert gradient is not None
    return gradient.norm(dim=-1).mean(0)
