"""Hugging Face's GPT-2 beside ours, compiled, with the optimizer and the step of nanoGPT's loop."""

import numpy as np
import torch
from jaxtyping import Integer
from torch import Tensor, nn
from torch.nn import functional

from glassformer.bench.distance import draw_vectors, relative_distance
from glassformer.bench.measure import Runner, Step
from glassformer.bench.options import BenchOptions
from glassformer.bench.peer_decoding import HUGGING_FACE, hugging_face_model
from glassformer.bench.peer_steps import LAYERS, gpt_step, next_batch
from glassformer.bench.peers import load_package
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.training.recipe import Recipe

Tokens = Integer[np.ndarray, " tokens"]


class _WithLoss(nn.Module):
    """Logits and their mean cross-entropy."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.model(ids, use_cache=False).logits
        return logits, functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def hugging_face_runner(config: GPTConfig, recipe: Recipe, rows: int, tokens: Tokens, options: BenchOptions) -> Runner:
    """A runner that trains Hugging Face's GPT-2."""
    load_package("transformers")
    device = options.device

    def start() -> Step:
        model = _WithLoss(hugging_face_model(config)).to(device.device).train()
        groups = [
            {"params": [p for p in model.parameters() if (p.dim() > 1) == decays], "weight_decay": rate}
            for decays, rate in ((True, recipe.weight_decay), (False, 0.0))
        ]
        optimizer = torch.optim.AdamW(groups, recipe.learning_rate, recipe.betas, fused=True)
        stepped = torch.compile(model) if device.compile is not False else model
        return gpt_step(stepped, model, optimizer, lambda: next_batch(tokens, rows, config.context, device), device)

    return Runner(HUGGING_FACE, start)


@torch.no_grad()
def hugging_face_apart(config: GPTConfig, options: BenchOptions) -> float:
    """How far Hugging Face's logits are from ours in float32, with our weights, on random tokens."""
    device = options.device.device
    ours = build(config, seed=options.seed).to(device).eval()
    draw_vectors(ours)
    theirs = hugging_face_model(config).to(device).eval()
    state, names = theirs.state_dict(), {"embedding": "wte", "positions": "wpe", "stack.norm": "ln_f"}
    for name, value in ours.state_dict().items():
        layer, _, kind = name.rpartition(".")
        number, _, part = layer.removeprefix("stack.blocks.").partition(".")
        target = names[layer] if layer in names else f"h.{number}.{LAYERS[part]}"
        state[f"transformer.{target}.{kind}"].copy_(value)
    ids = torch.randint(config.vocab, (2, config.context), device=device)
    return relative_distance(theirs(ids).logits, ours(ids))
