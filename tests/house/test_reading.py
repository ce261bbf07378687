"""How much one must read: import chains, what a model stands on, the definitions behind a forward pass."""

from functools import cache

from tests.house.reading import reading
from tests.house.source import modules, runtime_imports

DEPTH, MODEL_DEPTH = 14, 10
GPT = "glassformer.models.gpt"
GPT_LINES = 3890  # among them attention with dropout, several texts in a row, fast forms on a CPU and in compiled code
FILES, LINES = 15, 570  # 550 before them


@cache
def chain(module: str) -> tuple[str, ...]:
    """The longest chain of imports that begins with a module."""
    return (module, *max((chain(each) for each in runtime_imports()[module]), key=len, default=()))


@cache
def below(module: str) -> frozenset[str]:
    """Every module that a module needs, itself included."""
    return frozenset({module}).union(*(below(each) for each in runtime_imports()[module]))


def test_no_chain_of_imports_is_too_long() -> None:
    longest = max((chain(module) for module in modules()), key=len)
    assert len(longest) <= DEPTH, " imports ".join(longest)
    models = max((chain(module) for module in modules() if module.startswith("glassformer.models.")), key=len)
    assert len(models) <= MODEL_DEPTH, " imports ".join(models)


def test_a_model_stands_on_little() -> None:
    lines = {module: len(modules()[module].read_text(encoding="utf-8").splitlines()) for module in below(GPT)}
    assert sum(lines.values()) <= GPT_LINES, sorted(lines.items(), key=lambda item: -item[1])


def test_a_forward_pass_is_read_in_one_sitting() -> None:
    found = reading(GPT, "GPT")
    assert len({each.module for each in found}) <= FILES
    assert sum(each.lines for each in found) <= LINES
    names = {each.name for each in found}
    assert {"GPT._block", "Block.forward", "Attention.forward", "softmax", "layer_norm", "gelu_tanh"} <= names
