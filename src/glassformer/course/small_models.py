"""Small models for lessons: a translator of two phrases, and deep encoders with pre-norm or post-norm."""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

from glassformer.equation import reference_mode
from glassformer.equations.adam import adam
from glassformer.equations.embedding import unembed
from glassformer.equations.losses import cross_entropy
from glassformer.models.seq2seq import Seq2Seq, Seq2SeqConfig

PHRASE_TOKENS = ("<pad>", "<start>", "<end>", "you", "are", "welcome", "thanks", "de", "nada", "gracias")
PHRASE_PAIRS = (("you are welcome", "de nada"), ("thanks", "gracias"))
PHRASE_UPDATES, PHRASE_LEARNING_RATE = 60, 0.03


def token_ids(*texts: str) -> Tensor:
    """Ids of texts of known words, padded to the longest."""
    ids = [[PHRASE_TOKENS.index(word) for word in text.split()] for text in texts]
    longest = max(map(len, ids))
    return torch.tensor([row + [0] * (longest - len(row)) for row in ids])


@cache
def trained_translator() -> Seq2Seq:
    """A small encoder-decoder that has learned both phrases."""
    config = Seq2SeqConfig(vocab=len(PHRASE_TOKENS), context=8, dim=4, layers=1, heads=2, ffn_dim=16)
    model = fresh_translator(config, 0)
    source = token_ids(*(phrase for phrase, _ in PHRASE_PAIRS))
    target = token_ids(*(f"<start> {phrase} <end>" for _, phrase in PHRASE_PAIRS))

    def loss() -> Tensor:
        return cross_entropy(model(source, target[:, :-1], source != 0), target[:, 1:], ignore_index=0)

    losses_while_training(model, loss, PHRASE_UPDATES, PHRASE_LEARNING_RATE)
    return model.requires_grad_(False)


def deep_encoder(norm_first: bool, layers: int, seed: int = 0) -> Seq2Seq:
    """An encoder with `layers` blocks, pre-norm or post-norm, with initial weights."""
    config = Seq2SeqConfig(
        vocab=16, context=16, dim=16, layers=layers, decoder_layers=0, heads=2, ffn_dim=32, norm_first=norm_first
    )
    return fresh_translator(config, seed)


@cache
def encoder_losses(norm_first: bool, layers: int, learning_rate: float) -> list[float]:
    """Training losses of such an encoder: Adam without warm-up, predicting the token before each token."""
    model = deep_encoder(norm_first, layers)
    ids = torch.randint(model.config.vocab, (8, 8), generator=torch.Generator().manual_seed(0))

    def loss() -> Tensor:
        return cross_entropy(unembed(model.encode(ids), model.embedding.weight), ids.roll(1, 1))

    return losses_while_training(model, loss, 20, learning_rate)


def fresh_translator(config: Seq2SeqConfig, seed: int) -> Seq2Seq:
    """An encoder-decoder with initial weights, in float64 so that every machine trains it to the same numbers."""
    model = Seq2Seq(config)
    model.init_weights(torch.Generator().manual_seed(seed))
    return model.double()


def losses_while_training(
    model: nn.Module, loss: Callable[[], Tensor], updates: int, learning_rate: float
) -> list[float]:
    """Train by Adam at a constant learning rate, off the caller's tape; the loss before each update."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    moments = [(torch.zeros_like(weight), torch.zeros_like(weight)) for weight in weights]
    losses = []
    with reference_mode():
        for turn in range(1, updates + 1):
            with torch.enable_grad():
                value = loss()
                gradients = torch.autograd.grad(value, weights, allow_unused=True)
            losses.append(value.item())
            with torch.no_grad():
                for i, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
                    if gradient is not None:
                        new, *kept = adam(weight, gradient, *moments[i], turn, learning_rate)
                        moments[i] = kept[0], kept[1]
                        weight.copy_(new)
    return losses
