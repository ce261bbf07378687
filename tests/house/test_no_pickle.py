"""Nothing is ever unpickled, and no text is run as code."""

import ast
from collections.abc import Iterator

from tests.house.source import trees

MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
CALLS = {"eval", "exec", "compile", "__import__"}
TORCH = {"load", "save"}


def forbidden(tree: ast.Module) -> Iterator[str]:
    """Every use of something that can run code from a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (f"{node.lineno}: import {a.name}" for a in node.names if a.name.partition(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom):
            module = str(node.module).partition(".")[0]
            names = [a.name for a in node.names if module in MODULES or (node.module == "torch" and a.name in TORCH)]
            yield from (f"{node.lineno}: from {node.module} import {name}" for name in names)
        elif isinstance(node, ast.Name) and node.id in CALLS and isinstance(node.ctx, ast.Load):
            yield f"{node.lineno}: {node.id}"
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in {f"torch.{name}" for name in TORCH}:
            yield f"{node.lineno}: {ast.unparse(node)}"


def test_nothing_runs_code_from_a_file() -> None:
    found = {module: list(forbidden(tree)) for module, tree in trees().items()}
    assert {module: uses for module, uses in found.items() if uses} == {}


def test_every_way_in_is_seen() -> None:
    ways = ["import pickle", "from joblib import load", "from torch import load", "torch.load(f)", "eval(s)", "exec(s)"]
    assert [way for way in ways if not list(forbidden(ast.parse(way)))] == []
    assert list(forbidden(ast.parse("model.eval()\nsafetensors.torch.load(f)\ntorch.compile(f)"))) == []
