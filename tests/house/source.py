"""The source tree as data: its modules, what they define and what they import."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "glassformer"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found: dict[str, Path] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def trees() -> dict[str, ast.Module]:
    """The syntax tree of every module."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in modules().items()}


def functions() -> Iterator[tuple[str, Function]]:
    """Every function, however deep, with its file and line."""
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, Function):
                yield f"{modules()[module].relative_to(ROOT)}:{node.lineno} {node.name}", node


@cache
def imports() -> dict[str, set[str]]:
    """Which modules of the package each module imports, anywhere in the file."""
    return {
        module: {target for node in ast.walk(tree) for target in _targets(node)} - {module}
        for module, tree in trees().items()
    }


@cache
def runtime_imports() -> dict[str, set[str]]:
    """The same without what is imported for type checkers only."""
    found: dict[str, set[str]] = {}
    for module, tree in trees().items():
        typing = [
            node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        ]
        left_out = {id(node) for block in typing for node in ast.walk(block)}
        nodes = (node for node in ast.walk(tree) if id(node) not in left_out)
        found[module] = {target for node in nodes for target in _targets(node)} - {module}
    return found


def _targets(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        names = {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
        names = {f"{node.module}.{alias.name}" for alias in node.names}
        names = {name if name in modules() else str(node.module) for name in names}
    else:
        names = set()
    return {name for name in names if name in modules()}
