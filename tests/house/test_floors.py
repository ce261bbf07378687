"""Imports go down only; the floors stand in pyproject.toml."""

import os

from importlinter import cli as linter

from tests.house.source import ROOT


def test_imports_go_down_the_floors() -> None:
    assert linter.lint_imports(config_filename=os.fspath(ROOT / "pyproject.toml"), no_cache=True) == 0
