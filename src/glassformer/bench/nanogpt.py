"""nanoGPT beside ours: its model and its optimizer, stepped as its train.py does."""

import io
from contextlib import redirect_stdout
from types import ModuleType

import numpy as np
import torch
from jaxtyping import Integer
from torch import Tensor, nn

from glassformer.bench.distance import draw_vectors, relative_distance
from glassformer.bench.measure import BenchError, Runner, Step
from glassformer.bench.options import BenchOptions
from glassformer.bench.peer_steps import LAYERS, gpt_step, next_batch
from glassformer.bench.peers import load_file
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.training.recipe import Recipe

NANOGPT = "nanoGPT"
NANOGPT_BIASES = "nanoGPT with biases"  # as GPT-2, and ours, has them; its train.py has none by default
NANOGPT_COMPILED = "nanoGPT compiled"  # on a CPU, where it is not unless asked
Tokens = Integer[np.ndarray, " tokens"]


def nanogpt_model(file: ModuleType, config: GPTConfig, bias: bool = False) -> nn.Module:
    """nanoGPT's model of these sizes, without biases, as its train.py has it, or with; what it prints is dropped."""
    sizes = {"n_layer": config.layers, "n_head": config.heads, "n_embd": config.dim, "block_size": config.context}
    with redirect_stdout(io.StringIO()):
        return file.GPT(file.GPTConfig(**sizes, vocab_size=config.vocab, dropout=config.dropout, bias=bias))


def nanogpt_runner(
    name: str, config: GPTConfig, recipe: Recipe, rows: int, tokens: Tokens, options: BenchOptions
) -> Runner:
    """A runner that takes the step of nanoGPT's train.py; by its name with biases, and compiled on a CPU."""
    file, device = load_file(NANOGPT, options.peers), options.device
    compiles = device.compile is not False or name == NANOGPT_COMPILED

    def start() -> Step:
        with device.device:
            model = nanogpt_model(file, config, name == NANOGPT_BIASES)
        settings = (recipe.weight_decay, recipe.learning_rate, recipe.betas, device.device.type)
        with redirect_stdout(io.StringIO()):
            optimizer = model.configure_optimizers(*settings)  # pyright: ignore[reportCallIssue]
        stepped = torch.compile(model) if compiles else model
        return gpt_step(stepped, model, optimizer, lambda: next_batch(tokens, rows, config.context, device), device)

    return Runner(name, start)


@torch.no_grad()
def nanogpt_apart(config: GPTConfig, options: BenchOptions, bias: bool = False) -> float:
    """How far nanoGPT's logits are from ours in float32, with our weights, on random tokens."""
    device = options.device.device
    ours = build(config, seed=options.seed).to(device).eval()
    theirs = nanogpt_model(load_file(NANOGPT, options.peers), config, bias).to(device).eval()
    draw_vectors(ours, (".weight", ".bias") if bias else (".weight",))
    copy_to_nanogpt(ours.state_dict(), theirs.state_dict())
    ids = torch.randint(config.vocab, (2, config.context), device=device)
    logits = theirs(ids, ids)[0]  # with targets it returns the logits of every position
    return relative_distance(logits, ours(ids))


def copy_to_nanogpt(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    """Copy our weights into nanoGPT's state; where it has no biases, ours have to be zero."""
    names = {"embedding.": "transformer.wte.", "positions.": "transformer.wpe.", "stack.norm.": "transformer.ln_f."}
    taken = set[str]()
    for name, value in ours.items():
        short = name.rpartition(".")[0] + "."
        layer, kind = name.removeprefix("stack.blocks."), name.rpartition(".")[2]
        if short in names:
            target = names[short] + kind
        else:
            number, _, part = layer.partition(".")
            target = f"transformer.h.{number}.{LAYERS[part.rpartition('.')[0]]}.{kind}"
        if target not in theirs:
            if kind != "bias" or bool(value.any()):
                raise BenchError(f"{NANOGPT} has nothing for {name}")
            continue
        matrix = value.dim() > 1 and "blocks" in name
        theirs[target].copy_(value.T if matrix else value)
        taken.add(target)
    tied = {"lm_head.weight"} if "lm_head.weight" in theirs else set[str]()
    if left := [name for name in theirs if name not in taken | tied and not name.endswith("attn.bias")]:
        raise BenchError(f"{NANOGPT} has {left[0]}, which ours has not")
