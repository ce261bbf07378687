"""What one must read to know how a model computes: the definitions that its forward pass reaches.

From the model class the count follows every name that a constructor or a forward pass uses, into the function or class
that defines it, in whatever file. Of a class it takes the constructor, `forward` and the methods these call; of an
equation the formula. Checks, errors and what only annotations mention are left out.

    python -m tests.house.reading glassformer.models.gpt GPT
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from tests.house.source import modules, trees

FIRST = ("__init__", "forward", "of", "embed", "unembed", "mask")
LEFT_OUT = ("check", "errors")  # functions and modules whose names begin so say what is refused


@dataclass(frozen=True)
class Definition:
    """A function, a method or a class's fields, with its module and its length in lines."""

    module: str
    name: str
    lines: int


def reading(module: str, name: str) -> list[Definition]:
    """Every definition that the forward pass of a class reaches."""
    seen: set[tuple[str, str]] = set()
    found: list[Definition] = []
    waiting = [(module, name)]
    while waiting:
        key = waiting.pop()
        if key in seen:
            continue
        seen.add(key)
        node = _definition(*key)
        if isinstance(node, ast.ClassDef):
            waiting.extend(_bases(key[0], node))
            for part in _parts(key[0], node):
                if isinstance(part, ast.FunctionDef):
                    found.append(Definition(key[0], f"{node.name}.{part.name}", _length(part)))
                waiting.extend(_names(key[0], part))
            fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
            if fields:
                found.append(Definition(key[0], f"{node.name} fields", len(fields)))
        elif isinstance(node, ast.FunctionDef):
            found.append(Definition(key[0], node.name, _length(node)))
            waiting.extend(_names(key[0], node))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            found.append(Definition(key[0], key[1], _length(node)))
            waiting.extend(_names(key[0], node))
    return found


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _definition(module: str, name: str) -> ast.ClassDef | ast.FunctionDef | ast.Assign | ast.AnnAssign | None:
    for node in trees()[module].body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            return node
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and name in map(ast.unparse, targets):
            return node
    return None


def _imported(module: str) -> dict[str, tuple[str, str]]:
    """Where each imported name of a module is defined."""
    return {
        alias.asname or alias.name: (str(node.module), alias.name)
        for node in trees()[module].body
        if isinstance(node, ast.ImportFrom) and node.module in modules()
        for alias in node.names
    }


def _bases(module: str, node: ast.ClassDef) -> list[tuple[str, str]]:
    return [key for base in node.bases if (key := _resolved(module, ast.unparse(base)))]


def _resolved(module: str, name: str) -> tuple[str, str] | None:
    key = _imported(module).get(name, (module, name))
    known = not key[0].rpartition(".")[2].startswith(LEFT_OUT) and not key[1].startswith((*LEFT_OUT, "_check"))
    return key if known and _definition(*key) is not None else None


def _parts(module: str, node: ast.ClassDef) -> Iterator[ast.AST]:
    """The constructor and the forward pass of a class, and the methods they call."""
    methods = {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
    waiting = [name for name in FIRST if name in methods]
    done: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in done or name.startswith(LEFT_OUT):
            continue
        done.add(name)
        yield methods[name]
        used = (part.attr for part in ast.walk(methods[name]) if isinstance(part, ast.Attribute))
        waiting.extend(attribute for attribute in used if attribute in methods)


def _names(module: str, node: ast.AST) -> Iterator[tuple[str, str]]:
    """The definitions behind the names that a body uses; annotations and decorators do not count."""
    body = (
        node.body if isinstance(node, ast.FunctionDef) else [node.value] if isinstance(node, ast.AnnAssign) else [node]
    )
    for part in (part for statement in body for part in ast.walk(statement)):
        if isinstance(part, ast.Name) and (key := _resolved(module, part.id)):
            yield key


def main(module: str, name: str) -> None:
    """Print what must be read, file by file."""
    found = reading(module, name)
    for path in sorted({each.module for each in found}):
        parts = [each for each in found if each.module == path]
        print(f"{sum(each.lines for each in parts):4} {path}: {', '.join(each.name for each in parts)}")
    files = len({each.module for each in found})
    print(f"{files} files, {len(found)} definitions, {sum(each.lines for each in found)} lines")


if __name__ == "__main__":
    main(*sys.argv[1:3])
