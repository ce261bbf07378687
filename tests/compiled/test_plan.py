"""A plan keeps for the backward pass what torch's compiler keeps: its own partition of forward and backward says so."""

import sys
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes.joint_graph import joint_graph_passes
from torch.fx import GraphModule

from glassformer.equation import no_checks
from glassformer.equations.attention import attention
from glassformer.layers.block import Attention
from glassformer.layers.config import Config
from glassformer.models.encoder import EncoderConfig
from glassformer.models.gpt import GPTConfig
from glassformer.models.llama import LlamaConfig
from glassformer.models.registry import build
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.planning.example_batch import example_batch
from glassformer.planning.kernels import fused
from glassformer.planning.planned_model import objective_of
from glassformer.planning.recorded_step import record_step
from glassformer.training.objective import LossModule

BATCH, LENGTH = 16, 64
CONFIGS: dict[str, Config] = {
    "gpt": GPTConfig(vocab=256, dim=64, heads=2, context=LENGTH, layers=4),
    "llama": LlamaConfig(vocab=256, dim=64, heads=2, context=LENGTH, layers=2, ffn_dim=192),
    "translator": Seq2SeqConfig(vocab=256, dim=64, heads=2, layers=2, ffn_dim=256, dropout=0.1),
    "encoder": EncoderConfig(vocab=256, dim=64, heads=2, context=LENGTH, layers=3, ffn_dim=256),
}


def kept_by_the_compiler(config: Config) -> int:
    """Bytes that the compiled forward pass hands to the backward pass, beside weights and inputs."""
    torch._dynamo.reset()
    model = build(config, seed=0)
    for part in model.modules():
        if isinstance(part, Attention):
            part.dropout = 0.0  # a CPU has no kernel that drops attention weights
    forward: list[GraphModule] = []

    def partition(
        joint: GraphModule,
        arguments: Sequence[object],
        *,
        num_fwd_outputs: int,
        static_lifetime_input_indices: list[int] | None = None,
        **_: object,
    ) -> tuple[GraphModule, GraphModule]:
        joint_graph_passes(joint)
        found = min_cut_rematerialization_partition(
            joint,
            arguments,
            compiler="inductor",
            num_fwd_outputs=num_fwd_outputs,
            static_lifetime_input_indices=static_lifetime_input_indices,
        )
        forward.append(found[0])
        return found

    def as_it_is(graph: GraphModule, _: Sequence[Tensor]) -> Callable[..., object]:
        return graph.forward

    backend = aot_autograd(
        fw_compiler=as_it_is, bw_compiler=as_it_is, partition_fn=partition, decompositions=select_decomp_table()
    )
    objective = objective_of(model)
    module = torch.compile(LossModule(model, objective).train(), backend=backend, fullgraph=True)
    with no_checks(), torch.autocast("cpu", torch.bfloat16):
        module(example_batch(model, objective, BATCH, LENGTH))[0].backward()
    (results,) = forward[0].graph.find_nodes(op="output")
    nodes = [node for node in results.args[0] if node is not None and node.op != "placeholder"]
    values = [node.meta["val"] for node in nodes if isinstance(node.meta.get("val"), Tensor)]
    return sum(value.numel() * value.element_size() for value in values)


def kept_by_the_plan(config: Config) -> int:
    model = build(config, device="meta")
    step = record_step(model, objective_of(model), BATCH, LENGTH, "bfloat16", "cuda", whole=True)
    middle = next(number for number, tag in enumerate(step.tags) if tag.phase == "backward")
    found = fused(step)[1]
    lives = zip(found.sizes, found.born, found.died, strict=True)
    return sum(size for size, born, died in lives if 0 <= born < middle < died)


@pytest.mark.filterwarnings("ignore:Your compiler for AOTAutograd")
@pytest.mark.parametrize("name", CONFIGS)
def test_a_plan_keeps_what_the_compiler_keeps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[attention.fn.__module__], "FEW_KEYS", 0)  # a GPU computes in bfloat16 here
    # a byte or two for each row is counted in another dtype
    assert kept_by_the_plan(CONFIGS[name]) == pytest.approx(kept_by_the_compiler(CONFIGS[name]), rel=0.005)
