"""Word2vec: skip-gram with negative sampling, two vectors for each word (Mikolov et al., 2013)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.equations.similarity import inner_product
from glassformer.equations.variance_scaling import uniform
from glassformer.errors import ModelError
from glassformer.layers.basic import Embedding
from glassformer.layers.config import Config, Size, setting
from glassformer.layers.model import Model, checks_inputs


@dataclass(frozen=True, kw_only=True)
class SkipGramConfig(Config):
    """Sizes of a skip-gram model."""

    vocab: Size = setting(10000, "Tokens in the vocabulary.")
    dim: Size = setting(100, "Dimension of the word vectors.", 300)


class SkipGram(Model):
    """Words and candidates for their neighbors in, a logit for each candidate out.

    `embedding` holds the word vectors; `contexts` holds the vectors of the same words as neighbors of others, which
    only training needs.
    """

    config: SkipGramConfig

    def __init__(self, config: SkipGramConfig) -> None:
        super().__init__(config)
        self.embedding = Embedding(config.vocab, config.dim)
        self.contexts = Embedding(config.vocab, config.dim)

    def check(self, centers: Tensor, candidates: Tensor) -> None:
        """Raise on words the model cannot take."""
        self.check_tokens("centers", centers, self.config.vocab, 1)
        self.check_tokens("candidates", candidates, self.config.vocab)
        if len(centers) != len(candidates):
            what = f"candidates has {len(candidates)} rows, wanted {len(centers)}, one for each of centers"
            raise ModelError(f"SkipGram: {what}")

    @checks_inputs(check)
    def forward(self, centers: Tensor, candidates: Tensor) -> Tensor:
        """Logits [batch, words] of candidates [batch, words] for the neighbors of centers [batch, 1]."""
        return inner_product(self.embedding(centers), self.contexts(candidates))

    @torch.no_grad()
    def init_weights(self, generator: torch.Generator | None = None) -> None:
        """Draw fresh weights: word vectors uniform within half of 1 / dim, context vectors zero."""
        shape = (self.config.vocab, self.config.dim)
        self.embedding.weight.copy_(uniform(shape, 0.5 / self.config.dim, generator))
        self.contexts.weight.zero_()
