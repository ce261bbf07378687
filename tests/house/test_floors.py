"""Imports go down only; the floors stand in pyproject.toml."""

import subprocess
import sys

from tests.house.source import ROOT

LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"


def test_imports_go_down_the_floors() -> None:
    # In a program of its own: the linter sets up logging anew, which other tests look at.
    done = subprocess.run([sys.executable, "-c", LINT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
