"""Files and functions stay small enough to be read in one sitting, and nothing goes round in a ring."""

import ast
from graphlib import CycleError, TopologicalSorter

from tests.house.source import PACKAGE, ROOT, functions, imports, modules, trees

FILE_LINES = 400
MODEL_LINES = 200
FUNCTION_LINES = 50
PARAMETERS = 8
FIELDS = 20


def test_no_file_is_too_long() -> None:
    def limit(folder: str) -> int:
        return MODEL_LINES if folder == "models" else FILE_LINES

    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in modules().values()}
    assert {str(path.relative_to(ROOT)): n for path, n in lines.items() if n > limit(path.parent.name)} == {}


def test_no_function_is_too_long() -> None:
    lengths = {name: (node.end_lineno or 0) - node.lineno + 1 for name, node in functions()}
    assert {name: n for name, n in lengths.items() if n > FUNCTION_LINES} == {}


def test_no_function_takes_too_much() -> None:
    def counts(name: str) -> bool:
        # A gradient rule takes what its formula takes, and beside it the cotangents.
        return name not in ("self", "cls") and not name.endswith("_bar")

    taken: dict[str, int] = {}
    for name, node in functions():
        if any(ast.unparse(decorator) == "triton.jit" for decorator in node.decorator_list):
            continue  # a kernel takes addresses and sizes one by one, and nobody calls it but the function below it
        named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        taken[name] = sum(counts(argument.arg) for argument in named)
    assert {name: n for name, n in taken.items() if n > PARAMETERS} == {}


def test_no_class_has_too_many_fields() -> None:
    counts = {
        f"{module}.{node.name}": sum(isinstance(line, ast.AnnAssign) for line in node.body)
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    assert {name: n for name, n in counts.items() if n > FIELDS} == {}


def test_no_imports_go_round() -> None:
    ring: list[str] = []
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        ring = error.args[1]
    assert not ring, " imports ".join(reversed(ring))


def test_there_is_something_to_measure() -> None:
    assert PACKAGE / "equation.py" in modules().values()
    assert "glassformer.errors" in imports()["glassformer.recording"]
    assert len(list(functions())) > 50
