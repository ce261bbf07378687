"""The attentions of a run."""

from collections.abc import Iterable

from glassformer.equations.attention import attention, dropout_attention, weighted_sum
from glassformer.equations.block_attention import block_attention
from glassformer.equations.window_attention import window_attention
from glassformer.steps import Step


def attention_steps(steps: Iterable[Step]) -> list[Step]:
    """Of the outermost steps of a run, those that give the output [batch, heads, seq, head_dim] of an attention."""
    # While training with dropout beside a bias, attention runs in parts.
    attentions = (attention, dropout_attention, weighted_sum, window_attention, block_attention)
    found = [step for step in steps if step.kept and step.equation in attentions]
    return [step for step in found if step.output.dim() == 4]
