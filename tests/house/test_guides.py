"""The files that the guides and documents name exist."""

import re
from pathlib import Path

import pytest

from tests.house.source import PACKAGE, ROOT

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PATHS = re.compile(r"(?<![\w./-])((?:[\w-]+/)+[\w-]+\.(?:py|md|toml|json|txt))")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_named_exists(document: Path) -> None:
    named = {
        path
        for path in PATHS.findall(document.read_text(encoding="utf-8"))
        if "NAME" not in path and not path.startswith("runs/")
    }
    homes = (ROOT, PACKAGE, document.parent)
    assert not [path for path in sorted(named) if not any((home / path).exists() for home in homes)]
