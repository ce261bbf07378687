"""GPTs of installed packages beside ours, compiled, with the optimizer and the step of nanoGPT's loop."""

from collections.abc import Callable

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

X_TRANSFORMERS = "x-transformers"
Tokens = Integer[np.ndarray, " tokens"]


class _WithLoss(nn.Module):
    """Logits, as `read` gets them of a model, and their mean cross-entropy."""

    def __init__(self, model: nn.Module, read: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.model, self.read = model, read

    def forward(self, ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.read(self.model, ids)
        return logits, functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def hugging_face_runner(config: GPTConfig, recipe: Recipe, rows: int, tokens: Tokens, options: BenchOptions) -> Runner:
    """A runner that trains Hugging Face's GPT-2."""
    load_package("transformers")

    def made() -> _WithLoss:
        return _WithLoss(hugging_face_model(config), lambda model, ids: model(ids, use_cache=False).logits)

    return _runner(HUGGING_FACE, made, config.context, recipe, rows, tokens, options)


def x_transformers_runner(
    config: GPTConfig, recipe: Recipe, rows: int, tokens: Tokens, options: BenchOptions
) -> Runner:
    """A runner that trains a decoder of x-transformers of the same size; its attention has no biases."""
    package = load_package(X_TRANSFORMERS)

    def made() -> _WithLoss:
        dropped = {"attn_dropout": config.dropout, "ff_dropout": config.dropout}
        layers = package.Decoder(
            dim=config.dim, depth=config.layers, heads=config.heads, attn_dim_head=config.dim // config.heads,
            attn_flash=True, **dropped,
        )  # fmt: skip
        model = package.TransformerWrapper(
            num_tokens=config.vocab, max_seq_len=config.context, attn_layers=layers, tie_embedding=True,
            emb_dropout=config.dropout,
        )  # fmt: skip
        return _WithLoss(model, lambda model, ids: model(ids))

    return _runner(X_TRANSFORMERS, made, config.context, recipe, rows, tokens, options)


def _runner(
    name: str, made: Callable[[], _WithLoss], length: int, recipe: Recipe, rows: int, tokens: Tokens,
    options: BenchOptions,
) -> Runner:  # fmt: skip
    device = options.device

    def start() -> Step:
        model = made().to(device.device).train()
        groups = [
            {"params": [p for p in model.parameters() if (p.dim() > 1) == decays], "weight_decay": rate}
            for decays, rate in ((True, recipe.weight_decay), (False, 0.0))
        ]
        optimizer = torch.optim.AdamW(groups, recipe.learning_rate, recipe.betas, fused=True)
        stepped = torch.compile(model) if device.compile is not False else model
        return gpt_step(stepped, model, optimizer, lambda: next_batch(tokens, rows, length, device), device)

    return Runner(name, start)


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
