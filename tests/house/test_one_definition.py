"""One idea, one definition: no equation and no public class is defined in two modules."""

import ast
from collections.abc import Iterator

from tests.house.source import trees


def defined(tree: ast.Module) -> Iterator[str]:
    """Public classes and equations that a module defines; private names may be shared."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
        if isinstance(node, ast.FunctionDef) and any("equation(" in ast.unparse(d) for d in node.decorator_list):
            yield node.name


def test_no_name_is_defined_twice() -> None:
    modules: dict[str, set[str]] = {}
    for module, tree in trees().items():
        for name in defined(tree):
            modules.setdefault(name, set()).add(module)
    assert {name: sorted(where) for name, where in modules.items() if len(where) > 1} == {}


def test_definitions_are_found() -> None:
    tree = ast.parse("a = 1\ndef b(): pass\n@equation('x')\ndef c(): pass\nclass D: pass\nclass _E: pass")
    assert list(defined(tree)) == ["c", "D"]
