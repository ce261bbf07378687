"""One idea, one definition: no name is given a meaning in two modules."""

import ast
from collections.abc import Iterator

from tests.house.source import trees


def defined(tree: ast.Module) -> Iterator[str]:
    """Names that a module defines at its top level; imports and type variables mean nothing by themselves."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith(("TypeVar(", "ParamSpec(")):
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))


def is_command(module: str, name: str) -> bool:
    """Whether this is the function of a command, which bears the name of its file."""
    return module == f"glassformer.cli.{name}"


def test_no_name_is_defined_twice() -> None:
    places: dict[str, set[str]] = {}
    for module, tree in trees().items():
        for name in defined(tree):
            if not name.startswith("__") and not is_command(module, name):
                places.setdefault(name, set()).add(module)
    assert {name: sorted(where) for name, where in places.items() if len(where) > 1} == {}


def test_definitions_are_found() -> None:
    tree = ast.parse("a, b = 1, 2\nc: int = 3\ndef d(): pass\nclass E: pass\nimport f\nG = TypeVar('G')")
    assert list(defined(tree)) == ["a", "b", "c", "d", "E"]
