"""What is installed is what is imported: every dependency is used, and whatever is used is a dependency."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

from tests.house.source import ROOT, trees

SPELLED = {
    "math-core": "math_core",
    "pillow": "PIL",
    "scikit-learn": "sklearn",
    "tomli-w": "tomli_w",
}  # packages whose modules have another name
NOT_INSTALLED = {"triton": "torch brings it where there is a GPU"}


def imported() -> set[str]:
    """Every module from outside that the package imports, by statement or by name."""
    found: set[str] = set()
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                found.add(str(node.module))
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "find_spec")):
                found.update(re.findall(r"[\w.]+", ast.unparse(node.args[0]).lstrip("f"))[:1])
    tops = {name.partition(".")[0] for name in found}
    return {top for top in tops if top not in sys.stdlib_module_names} - {"glassformer", *NOT_INSTALLED}


def modules_of(requirements: list[str]) -> set[str]:
    names = (re.split(r"[<>=]", each)[0] for each in requirements)
    return {SPELLED.get(name, name) for name in names}


def test_dependencies_and_extras_are_what_is_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name: each for name, each in project["optional-dependencies"].items() if name != "dev"}
    listed = modules_of([*project["dependencies"], *(one for each in extras.values() for one in each)])
    installed = packages_distributions()
    known = {name for name in imported() if name in installed or name in listed}
    assert listed == known


def test_extras_are_documented() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    for name, requirements in project["optional-dependencies"].items():
        packages = [re.split(r"[<>=]", each)[0] for each in requirements]
        assert f"`{name}`" in page and (name == "dev" or all(f"`{package}`" in page for package in packages))
