"""Every recipe says its task and means something."""

from pathlib import Path

import pytest

from glassformer.training.config import resolve
from tests.house.source import ROOT

RECIPES = sorted((ROOT / "recipes").glob("*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_it_resolves(path: Path) -> None:
    assert resolve(file=path).origins
