"""Recurrent language models: the Elman RNN (1990) and the LSTM (Hochreiter and Schmidhuber, 1997)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.equations.activations import sigmoid, tanh
from glassformer.equations.algebra import add, multiply
from glassformer.equations.heads import slice_axis
from glassformer.equations.sequences import select_position, stack_steps
from glassformer.equations.variance_scaling import xavier_uniform
from glassformer.errors import ModelError
from glassformer.layers.basic import Embedding, Linear
from glassformer.layers.cache import DecoderState
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.config import Config, OneOrMoreLayers, Size, setting
from glassformer.layers.model import checks_inputs
from glassformer.layers.recurrent_state import RecurrentState


@dataclass(frozen=True, kw_only=True)
class RNNConfig(Config):
    """Sizes of a recurrent language model."""

    vocab: Size = setting(256, "Tokens in the vocabulary.")
    dim: Size = setting(128, "Dimension of the embeddings.", 256)
    hidden_dim: Size = setting(256, "Dimension of the hidden state.", 512)
    layers: OneOrMoreLayers = setting(1, "Number of recurrent layers.", 2)
    cell: Literal["rnn", "lstm"] = setting("lstm", "Kind of the recurrent cell.")


class PlainCell(nn.Module):
    """An Elman cell: the new state is tanh of a linear map of the input and the old state."""

    def __init__(self, inputs: int, hidden_dim: int) -> None:
        super().__init__()
        self.input = Linear(inputs, hidden_dim)
        self.state = Linear(hidden_dim, hidden_dim, bias=False)

    def forward(self, x: Tensor, past: tuple[Tensor, ...] | None) -> tuple[Tensor, ...]:
        """One step: the new state."""
        z = self.input(x)
        return (tanh(z if past is None else add(z, self.state(past[0]))),)


class LSTMCell(nn.Module):
    """An LSTM cell: a cell state with input, forget and output gates."""

    def __init__(self, inputs: int, hidden_dim: int) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.input = Linear(inputs, 4 * hidden_dim)
        self.state = Linear(hidden_dim, 4 * hidden_dim, bias=False)

    def forward(self, x: Tensor, past: tuple[Tensor, ...] | None) -> tuple[Tensor, ...]:
        """One step: the new hidden state and the new cell state."""
        z = self.input(x)
        z = z if past is None else add(z, self.state(past[0]))
        write, keep, new, read = (slice_axis(z, -1, i * self.hidden_dim, (i + 1) * self.hidden_dim) for i in range(4))
        memory = multiply(sigmoid(write), tanh(new))
        if past is not None:
            memory = add(multiply(sigmoid(keep), past[1]), memory)
        return multiply(sigmoid(read), tanh(memory)), memory


class RNN(CausalLM):
    """Token ids in, logits for each next token out, by a state carried from step to step."""

    config: RNNConfig
    can_rewind = False
    loops = True

    def __init__(self, config: RNNConfig) -> None:
        super().__init__(config)
        cell = LSTMCell if config.cell == "lstm" else PlainCell
        widths = [config.dim, *[config.hidden_dim] * (config.layers - 1)]
        self.embedding = Embedding(config.vocab, config.dim)
        self.cells = nn.ModuleList(cell(width, config.hidden_dim) for width in widths)
        self.output = Linear(config.hidden_dim, config.vocab)

    @property
    def max_length(self) -> None:
        """No limit: a recurrent state has a fixed size."""

    def check(self, ids: Tensor, attention_mask: Tensor | None = None, cache: DecoderState | None = None) -> None:
        """Raise on token ids the model cannot take."""
        super().check(ids, None, cache)
        if attention_mask is not None:
            raise ModelError("RNN: attention_mask is given, wanted none: a recurrent state reads padding too")

    @checks_inputs(check)
    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, cache: DecoderState | None = None) -> Tensor:
        """Logits [batch, seq, vocab] from token ids [batch, seq].

        With a cache, the tokens continue from the state it holds, and leave theirs in it.
        """
        assert cache is None or isinstance(cache, RecurrentState)
        x = self.embedding(ids)
        kept = None if cache is None else self._kept(cache, x)
        for layer, cell in enumerate(self.cells):
            past, states = None if cache is None else cache.cells[layer], []
            for t in range(x.shape[-2]):
                past = cell(select_position(x, t), past)
                if kept is not None:
                    past = tuple(multiply(part, kept[t]) for part in past)
                states.append(past[0])
            x = stack_steps(states)
            if cache is not None:
                cache.cells[layer] = past
        if cache is not None:
            cache.advance(ids.shape[1])
            x = x if cache.all_logits else slice_axis(x, -2, x.shape[-2] - 1, x.shape[-2])
        return self.unembed(x)

    def _kept(self, cache: RecurrentState, x: Tensor) -> list[Tensor] | None:
        """For each new column, 1 for tokens and 0 for padding, which resets the state."""
        if cache.padding is None or cache.count >= int(cache.padding.max()):
            return None
        real = cache.positions(x.shape[-2], x.device) >= 0
        return [column[:, None].to(x.dtype) for column in real.unbind(1)]

    def new_cache(self, batch: int, slots: int, padding: Tensor | None = None, headroom: int = 1) -> RecurrentState:
        """An empty state for sequences of any length; the first `padding` columns of each are empty."""
        return RecurrentState(cells=[None] * len(self.cells), padding=padding)

    @torch.no_grad()
    def init_weights(self, generator: torch.Generator | None = None) -> None:
        """Draw fresh weights: Xavier, zero biases, but one for forget gates, so that an LSTM starts by remembering."""
        for weight in self.parameters():
            if weight.dim() > 1:
                weight.copy_(xavier_uniform(*weight.shape, generator=generator))
            else:
                weight.zero_()
        for cell in self.cells:
            if isinstance(cell, LSTMCell) and cell.input.bias is not None:
                cell.input.bias[cell.hidden_dim : 2 * cell.hidden_dim] = 1  # Gers et al., 2000
