"""Every equation and every model compiles whole, and the compiled result is the eager one.

These tests run apart, without the type-checking import hook, which cannot be compiled.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import glassformer.equations  # noqa: F401 - fills the catalog
from glassformer.equation import catalog
from glassformer.equations.activations import relu
from glassformer.equations.algebra import linear
from glassformer.equations.softmax import softmax
from tests.compiled.kernels import makes_kernels
from tests.equations.drawing import Draw, draw_arguments
from tests.models.zoo import ZOO, specimen

TENSORS = [name for name, e in catalog().items() if any(p.is_tensor for p in e.parameters)]
RANDOM = [name for name, e in catalog().items() if any(p.name == "generator" for p in e.parameters)]


@pytest.fixture(autouse=True)
def fresh_compiler() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("name", TENSORS)
@settings(max_examples=1, deadline=None)
@given(data=st.data())
def test_every_equation_compiles_whole(name: str, data: st.DataObject) -> None:
    equation = catalog()[name]
    draw = Draw(data, torch.float32)
    arguments = draw_arguments(equation, draw)
    if name in RANDOM:
        arguments["generator"] = None
    # a function of its own, for dynamo counts recompilations by code object
    compiled = torch.compile(lambda **given: equation(**given), fullgraph=True, backend="eager")  # noqa: PLW0108
    torch.manual_seed(0)
    eager = equation(**arguments)
    torch.manual_seed(0)
    assert_close(compiled(**arguments), eager, equal_nan=True)
    torch._dynamo.reset()


# One of each architecture here, three of them in bfloat16 too, and all their variants in both types in `make soak`.
FIRST = {type(config): name for name, config in reversed(ZOO.items())}.values()
ROUGH = ("gpt", "llama", "seq2seq")
ROOM = {torch.float32: 1e-5, torch.bfloat16: 3e-2}
EACH = [
    pytest.param(name, dtype, id=f"{name}-{dtype}", marks=[] if name in few else pytest.mark.soak)
    for dtype, few in ((torch.float32, FIRST), (torch.bfloat16, ROUGH))
    for name in ZOO
]


@pytest.mark.parametrize(("name", "dtype"), EACH)
def test_every_model_compiles_whole(name: str, dtype: torch.dtype) -> None:
    """Captured as one graph, forward and backward."""
    case, room = specimen(name, dtype), ROOM[dtype]
    compiled = torch.compile(case.model, fullgraph=True, backend="aot_eager")
    eager, fast = case(), compiled(**case.inputs)
    size = eager.abs().max().item()
    assert_close(fast, eager, rtol=room, atol=room * size)
    seed = torch.randn_like(eager)
    parameters = [each for each in case.model.parameters() if each.requires_grad]
    for one, other in zip(
        torch.autograd.grad(fast, parameters, seed, allow_unused=True),
        torch.autograd.grad(eager, parameters, seed, allow_unused=True),
        strict=True,
    ):
        if other is not None:
            assert_close(one, other, rtol=room, atol=room * max(1.0, other.abs().max().item()))


@makes_kernels
@pytest.mark.parametrize(
    "name", ["llama-grouped", "seq2seq", *(pytest.param(name, marks=pytest.mark.soak) for name in ("gpt", "t5"))]
)
def test_compiled_kernels_equal_eager(name: str) -> None:
    """The same through the code generator, with real kernels built."""
    case = specimen(name, torch.float32)
    compiled = torch.compile(case.model, fullgraph=True)
    assert_close(compiled(**case.inputs), case(), rtol=1e-4, atol=1e-4)


@makes_kernels
def test_a_network_of_equations_compiles_whole() -> None:
    x, W, V = torch.randn(5, 4), torch.randn(4, 8), torch.randn(8, 3)

    def network(x: Tensor) -> Tensor:
        return softmax(linear(relu(linear(x, W)), V))

    compiled = torch.compile(network, fullgraph=True)
    assert_close(compiled(x), network(x), rtol=1e-5, atol=1e-6)
    bad = torch.full((5, 4), torch.nan)
    assert compiled(bad).isnan().all(), "checks vanish under compile"
