"""Pages that come from the catalog say what the catalog says."""

import subprocess
import sys

from tests.house.source import ROOT


def test_generated_pages_are_up_to_date() -> None:
    # In a program of its own: other tests may have put equations of theirs in this one's catalog.
    command = [sys.executable, ROOT / "docs" / "generate.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
