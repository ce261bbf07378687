"""The public names: all there, all explained, the same for people, checkers and the interpreter."""

import ast
import importlib
import pkgutil
import types

import pytest

import glassformer as gf
from tests.house.source import trees


@pytest.mark.parametrize("name", gf.__all__)
def test_a_public_name_exists_and_is_explained(name: str) -> None:
    assert getattr(gf, name).__doc__
    assert name in dir(gf)


def test_checkers_see_what_one_gets() -> None:
    guarded = next(node for node in trees()["glassformer"].body if isinstance(node, ast.If))
    seen: list[str] = []
    for node in guarded.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            seen.append(alias.asname or alias.name)
            assert getattr(gf, seen[-1]) is getattr(importlib.import_module(str(node.module)), alias.name)
    assert sorted(seen) == sorted(gf.__all__)


def test_no_module_hides_a_public_name() -> None:
    # Importing a module binds its name in the package, over whatever public name was there.
    shared = [module.name for module in pkgutil.iter_modules(gf.__path__) if module.name in gf.__all__]
    assert [name for name in shared if not isinstance(getattr(gf, name), types.ModuleType)] == []


def test_a_name_that_does_not_exist_says_so() -> None:
    with pytest.raises(AttributeError, match="no attribute 'softmaxx'"):
        gf.softmaxx  # noqa: B018 - asking is the test


def test_every_equation_can_be_called_by_name() -> None:
    for name, equation in gf.catalog().items():
        assert getattr(gf.equations, name) is equation
