"""The quick reference is read from the cache, and computed again when it has to be."""

import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.cli import cached_reference
from glassformer.cli.cached_reference import cached_entries
from glassformer.views.reference import entries

WITHOUT_TORCH = """
import sys
from glassformer.cli.main import main
assert main(["equations", "softmax"]) == 0 and main(["equations", "--search", "mask"]) == 0
sys.exit("torch" in sys.modules)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_it_is_what_the_catalog_says_and_needs_no_torch() -> None:
    assert cached_entries() == cached_entries() == entries()
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "") and "softmax" in done.stdout


def test_a_changed_source_or_a_damaged_cache_is_computed_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached_entries()
    (file,) = cache.iterdir()
    file.write_bytes(b"[{")
    assert cached_entries() == entries()
    sources = cache.parent / "sources"
    sources.mkdir()
    (sources / "new.py").write_text("")
    (sources / "views").mkdir()
    (sources / "views" / "reference.py").write_text("")
    monkeypatch.setattr(cached_reference, "SOURCES", sources)
    assert cached_entries() == entries()
    (other,) = cache.iterdir()
    assert other != file


def test_without_a_place_for_a_cache_it_works(cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    assert cached_entries() == entries()
