"""A decoder that classifies: the blocks of a language model under a classifier that reads the last token.

As GPT-1 was fine-tuned on labels (Radford et al., 2018), and as `GPT2ForSequenceClassification` does it. Any causal
model whose configuration has `head` and `classes` becomes one with `head="classifier"`.
"""

import torch
from torch import Tensor

from glassformer.equations.initialization import normal
from glassformer.equations.sequences import last_token
from glassformer.layers.basic import Linear
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.config import Config
from glassformer.layers.model import Model, checks_inputs

BODY = "body."  # what the names of the language model's parameters begin with here


class CausalClassifier(Model):
    """Token ids in, logits for classes out; `body` is the language model without its output layer."""

    def __init__(self, config: Config, body: CausalLM) -> None:
        super().__init__(config)
        self.body = body
        self.body.output = None
        self.classifier = Linear(self.config.dim, self.config.classes, bias=False)

    def rebuilt(self) -> "CausalClassifier":
        """A classifier of the same configuration over a body of the same class, whose weights are not set."""
        return CausalClassifier(self.config, type(self.body)(self.config))

    def check(self, ids: Tensor, attention_mask: Tensor | None = None) -> None:
        """Raise on tokens the model cannot take."""
        self.body.check(ids, attention_mask)

    def hidden_states(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Hidden states [batch, seq, dim] after the last block; the classifier reads that of the last token."""
        return self.body.hidden_states(ids, attention_mask)

    @checks_inputs(check)
    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Logits [batch, classes]; `attention_mask` is false for padding, which follows the text."""
        return self.classifier(last_token(self.hidden_states(ids, attention_mask), attention_mask))

    @torch.no_grad()
    def init_weights(self, generator: torch.Generator | None = None) -> None:
        """Draw fresh weights: those of the language model, and a normal classifier with std 0.02."""
        self.body.init_weights(generator)
        weight = self.classifier.weight
        weight.copy_(normal(tuple(weight.shape), 0.02, generator))


def weights_for(model: Model, start: Model) -> dict[str, Tensor]:
    """The weights of a model under the names of another, which may be a classifier over it."""
    prefix = BODY if isinstance(model, CausalClassifier) and isinstance(start, CausalLM) else ""
    return {prefix + name: weight for name, weight in start.state_dict().items()}
