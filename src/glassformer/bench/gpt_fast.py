"""gpt-fast beside ours: its model, and greedy decoding as its generate.py does it, compiled with CUDA graphs."""

from dataclasses import replace
from types import ModuleType

import torch
from torch import Tensor, nn

from glassformer.bench.distance import relative_distance, require_near
from glassformer.bench.measure import Runner, Step
from glassformer.bench.options import BenchOptions
from glassformer.bench.peers import load_file
from glassformer.models.llama import LlamaConfig
from glassformer.models.registry import build

GPT_FAST = "gpt-fast"
MATRICES = {"feed_forward.gate": "w1", "feed_forward.up": "w3", "feed_forward.down": "w2", "attention.output": "wo"}


def gpt_fast_model(file: ModuleType, config: LlamaConfig) -> nn.Module:
    """gpt-fast's model of these sizes."""
    sizes = {"n_layer": config.layers, "n_head": config.heads, "dim": config.dim, "vocab_size": config.vocab}
    more = {"n_local_heads": config.kv_heads or config.heads, "intermediate_size": config.ffn_dim}
    rest = {"block_size": config.context, "rope_base": config.rope_theta, "norm_eps": config.eps}
    return file.Transformer(file.ModelArgs(**sizes, **more, **rest))


def gpt_fast_runner(config: LlamaConfig, batch: int, read: int, write: int, options: BenchOptions) -> Runner:
    """A runner that reads a prompt and writes tokens greedily; reading is eager, as it is there by default."""
    file, device = load_file(GPT_FAST, options.peers), options.device.device

    def start() -> Step:
        with torch.device("meta"):
            model = gpt_fast_model(file, config)
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        model = model.to_empty(device=device).to(dtype).eval()
        for parameter in model.parameters():
            parameter.data.normal_(0, 0.02) if parameter.dim() > 1 else parameter.data.fill_(1.0)
        prompt = torch.randint(config.vocab, (batch, read), device=device)
        with torch.device(device):
            model.setup_caches(max_batch_size=batch, max_seq_length=read + write)  # pyright: ignore

        def next_token(token: Tensor, position: Tensor) -> Tensor:
            return model(token, position)[:, -1].argmax(-1, keepdim=True)

        compiles = device.type == "cuda"
        step = torch.compile(next_token, mode="reduce-overhead", fullgraph=True) if compiles else next_token

        @torch.no_grad()
        def generate() -> list[list[int]]:
            position = torch.tensor([read], device=device)
            written = [next_token(prompt, torch.arange(read, device=device)).clone()]
            for _ in range(write - 1):
                written.append(step(written[-1], position).clone())
                position += 1
            return torch.cat(written, 1).tolist()

        return generate

    return Runner(GPT_FAST, start)


@torch.no_grad()
def check_gpt_fast(config: LlamaConfig, options: BenchOptions) -> float:
    """How far gpt-fast's logits are from ours in float32, with our weights, of at most four layers."""
    config, device = replace(config, layers=min(config.layers, 4)), options.device.device
    ours = build(config, seed=options.seed).to(device).eval()
    theirs = gpt_fast_model(load_file(GPT_FAST, options.peers), config).to(device).eval()
    copy_to_gpt_fast(ours.state_dict(), theirs.state_dict(), config)
    ids = torch.randint(config.vocab, (2, min(config.context, 64)), device=device)
    with torch.device(device):
        theirs.setup_caches(max_batch_size=2, max_seq_length=ids.shape[1])  # pyright: ignore
    found = theirs(ids, torch.arange(ids.shape[1], device=device))
    apart = relative_distance(found, ours(ids))
    require_near(GPT_FAST, apart)
    return apart


def copy_to_gpt_fast(ours: dict[str, Tensor], theirs: dict[str, Tensor], config: LlamaConfig) -> None:
    """Copy our weights; it turns neighboring numbers of a query or key by one angle, ours those half a head apart."""
    theirs["tok_embeddings.weight"].copy_(ours["embedding.weight"])
    theirs["norm.weight"].copy_(ours["stack.norm.weight"])
    theirs["output.weight"].copy_(ours["output.weight"].T)
    for number in range(config.layers):
        mine, its = f"stack.blocks.{number}.", f"layers.{number}."
        for one, other in (("attention_norm", "attention_norm"), ("feed_forward_norm", "ffn_norm")):
            theirs[f"{its}{other}.weight"].copy_(ours[f"{mine}{one}.weight"])
        for one, other in MATRICES.items():
            folder = one.partition(".")[0]
            theirs[f"{its}{folder}.{other}.weight"].copy_(ours[f"{mine}{one}.weight"].T)
        query, key, value = (ours[f"{mine}attention.{name}.weight"].T for name in ("query", "key", "value"))
        heads, kv_heads = config.heads, config.kv_heads or config.heads
        parts = (_interleaved(query, heads), _interleaved(key, kv_heads), value)
        theirs[f"{its}attention.wqkv.weight"].copy_(torch.cat(parts))


def _interleaved(rows: Tensor, heads: int) -> Tensor:
    """Rows of each head in turn from its first and its second half."""
    return rows.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)
