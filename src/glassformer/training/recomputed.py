"""Activation checkpointing: blocks that keep only their input, and compute the rest again in the backward pass."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from glassformer.equation import MODE, no_checks
from glassformer.errors import ConfigError
from glassformer.layers.block import Block, Separated
from glassformer.layers.cache import AttentionContext, LayerKV
from glassformer.layers.model import Model
from glassformer.torch_private import accept_kept_kernels


def on_gpu(x: Tensor) -> bool:
    """Whether a CUDA graph may capture what is computed of a tensor."""
    return x.is_cuda


class RecomputedBlock(Block):
    """A block whose activations are computed again in the backward pass, with the same random numbers."""

    def forward(
        self,
        x: Tensor,
        mask: Tensor | Separated | None = None,
        bias: Tensor | None = None,
        encoder_output: Tensor | None = None,
        encoder_mask: Tensor | Separated | None = None,
        self_kv: LayerKV | None = None,
        cross_kv: LayerKV | None = None,
        context: AttentionContext | None = None,
    ) -> Tensor:
        """Update hidden states; without gradients, with a KV cache, and under a tape, as any block does."""
        recorded = not torch.compiler.is_compiling() and MODE.dispatcher is not None
        cached = self_kv is not None or cross_kv is not None or context is not None
        if recorded or cached or not torch.is_grad_enabled():
            return super().forward(x, mask, bias, encoder_output, encoder_mask, self_kv, cross_kv, context)
        inputs = (x, mask, bias, encoder_output, encoder_mask)
        if not on_gpu(x):
            return checkpoint(self._compute, *inputs, use_reentrant=False)
        # While a CUDA graph is captured, the state of the generator can be neither read nor set back, so what was drawn
        # is kept. Compiled dropout has seeds, which are kept by themselves, and only attention draws in another way.
        run = partial(checkpoint, self._compute, *inputs, use_reentrant=False, preserve_rng_state=False)
        if torch.compiler.is_compiling():
            return run(context_fn=keep_attention)
        return run(context_fn=keep_random) if self._draws() else run()

    def _compute(
        self,
        x: Tensor,
        mask: Tensor | Separated | None,
        bias: Tensor | None,
        encoder_output: Tensor | None,
        encoder_mask: Tensor | Separated | None,
    ) -> Tensor:
        if torch.compiler.is_compiling():
            return super().forward(x, mask, bias, encoder_output, encoder_mask)
        with no_checks():  # the backward pass of a GPU has its own thread, where checks are on
            return super().forward(x, mask, bias, encoder_output, encoder_mask)

    def _draws(self) -> bool:
        """Whether a part of the block draws random numbers."""
        return any(getattr(part, "dropout", 0.0) > 0 for part in self.modules())


Contexts = tuple[AbstractContextManager[object], AbstractContextManager[object]]


def keep_random() -> Contexts:
    """Contexts of the forward pass and of its recomputation, in which random kernels run once."""
    return create_selective_checkpoint_contexts(_random_once)


def keep_attention() -> Contexts:
    """Contexts for compiled code, in which attention runs once: the compiler takes it for random in any case."""
    return create_selective_checkpoint_contexts(_attention_once)


def _random_once(
    _context: SelectiveCheckpointContext, kernel: Callable[..., object], *_args: object, **_kwargs: object
) -> CheckpointPolicy:
    random = torch.Tag.nondeterministic_seeded in getattr(kernel, "tags", ())
    return CheckpointPolicy.MUST_SAVE if random else CheckpointPolicy.PREFER_RECOMPUTE


def _attention_once(
    context: SelectiveCheckpointContext, kernel: Callable[..., object], *_args: object, **_kwargs: object
) -> CheckpointPolicy:
    return _random_once(context, kernel) if "attention" in str(kernel) else CheckpointPolicy.PREFER_RECOMPUTE


def blocks_of(model: nn.Module) -> list[Block]:
    """The blocks of a model, shared ones once."""
    return [part for part in model.modules() if isinstance(part, Block)]


def recompute_blocks(model: Model) -> None:
    """Have every block of a model compute its activations again in the backward pass."""
    require_blocks(model)
    accept_kept_kernels()
    for block in blocks_of(model):
        block.__class__ = RecomputedBlock


def keep_activations(model: Model) -> None:
    """Undo `recompute_blocks`; sharded blocks stay as they are."""
    for block in blocks_of(model):
        if type(block) is RecomputedBlock:
            block.__class__ = Block  # pyright: ignore[reportAttributeAccessIssue]


def require_blocks(model: Model) -> None:
    """Refuse activation checkpointing of a model that has nothing to compute again."""
    if not blocks_of(model):
        what = f"{type(model).__name__} has no Transformer blocks, whose activations it would recompute"
        raise ConfigError(f"run.activation_checkpointing is true, but {what}: leave it out")
