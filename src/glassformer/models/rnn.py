"""What attention replaced: a recurrent network and an LSTM, one step after another (Elman, 1990; Hochreiter, 1997)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.equations.activations import sigmoid, tanh
from glassformer.equations.algebra import add, multiply
from glassformer.equations.initialization import xavier_uniform
from glassformer.equations.places import cut_rows
from glassformer.equations.sequences import cut, row_at, stack_rows
from glassformer.layers.cache import RecurrentState
from glassformer.layers.checked import Checked, OneOrMoreLayers, Size
from glassformer.layers.embedding import Embedding
from glassformer.layers.linear import Linear
from glassformer.layers.model import Model, checked_at_the_boundary


@dataclass(frozen=True, kw_only=True)
class RNNConfig(Checked):
    """Sizes of a recurrent language model."""

    vocab: Size = 256
    dim: Size = 128
    hidden: Size = 256
    layers: OneOrMoreLayers = 1
    cell: Literal["rnn", "lstm"] = "lstm"


class PlainCell(nn.Module):
    """The new state is a bend of the input and the old state."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.input = Linear(inputs, hidden)
        self.state = Linear(hidden, hidden, bias=False)

    def forward(self, x: Tensor, past: tuple[Tensor, ...] | None) -> tuple[Tensor, ...]:
        """One step: the new state."""
        z = self.input(x)
        return (tanh(z if past is None else add(z, self.state(past[0]))),)


class LSTMCell(nn.Module):
    """A memory that gates decide to keep, write and read."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.input = Linear(inputs, 4 * hidden)
        self.state = Linear(hidden, 4 * hidden, bias=False)

    def forward(self, x: Tensor, past: tuple[Tensor, ...] | None) -> tuple[Tensor, ...]:
        """One step: the new state and the new memory."""
        z = self.input(x)
        z = z if past is None else add(z, self.state(past[0]))
        write, keep, new, read = (cut(z, i * self.hidden, (i + 1) * self.hidden) for i in range(4))
        memory = multiply(sigmoid(write), tanh(new))
        if past is not None:
            memory = add(multiply(sigmoid(keep), past[1]), memory)
        return multiply(sigmoid(read), tanh(memory)), memory


class RNN(Model):
    """Tokens in, scores for the next token out, by a state carried from step to step."""

    def __init__(self, config: RNNConfig) -> None:
        super().__init__()
        self.config = config
        cell = LSTMCell if config.cell == "lstm" else PlainCell
        widths = [config.dim, *[config.hidden] * (config.layers - 1)]
        self.embedding = Embedding(config.vocab, config.dim)
        self.cells = nn.ModuleList(cell(width, config.hidden) for width in widths)
        self.output = Linear(config.hidden, config.vocab)

    def check(self, ids: Tensor, cache: RecurrentState | None = None) -> None:
        """Raise on tokens the model cannot take."""
        self.check_tokens("ids", ids, self.config.vocab)

    @checked_at_the_boundary(check)
    def forward(self, ids: Tensor, cache: RecurrentState | None = None) -> Tensor:
        """Scores [batch, seq, vocab] from tokens [batch, seq].

        With a cache the tokens go on from the state it holds, and leave theirs in it.
        """
        x = self.embedding(ids)
        kept = None if cache is None else self._kept(cache, x)
        for layer, cell in enumerate(self.cells):
            past, states = None if cache is None else cache.cells[layer], []
            for t in range(x.shape[-2]):
                past = cell(row_at(x, t), past)
                if kept is not None:
                    past = tuple(multiply(part, kept[t]) for part in past)
                states.append(past[0])
            x = stack_rows(states)
            if cache is not None:
                cache.cells[layer] = past
        if cache is not None:
            cache.advance(ids.shape[1])
            x = x if cache.every else cut_rows(x, x.shape[-2] - 1, x.shape[-2])
        return self.output(x)

    def _kept(self, cache: RecurrentState, x: Tensor) -> list[Tensor] | None:
        """For each new column a one for a token and a zero for padding, which leaves no state behind."""
        if cache.padding is None or cache.count >= int(cache.padding.max()):
            return None
        real = cache.places(x.shape[-2], x.device) >= 0
        return [column[:, None].to(x.dtype) for column in real.unbind(1)]

    def cache(self, batch: int, slots: int, padding: Tensor | None = None, room: int = 1) -> RecurrentState:
        """An empty state for sequences of any length, the first `padding` columns of each empty."""
        return RecurrentState(cells=[None] * len(self.cells), padding=padding)

    @torch.no_grad()
    def reset(self, generator: torch.Generator | None = None) -> None:
        """Start afresh: Xavier weights, no shifts."""
        for weight in self.parameters():
            if weight.dim() > 1:
                weight.copy_(xavier_uniform(*weight.shape, generator=generator))
            else:
                weight.zero_()
