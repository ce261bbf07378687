"""The standard library as text: all of it but its tests, always in one order, and labeled by package."""

import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from glassformer.data import python_source
from glassformer.data.files import Document
from glassformer.data.python_source import PACKAGES, SNIPPET, stdlib_labeled, stdlib_text
from glassformer.errors import DataError


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return list(stdlib_text())


def test_modules_come_in_one_order_and_whole(documents: list[Document]) -> None:
    paths = [document.source for document in documents]
    assert paths == sorted(paths)
    assert {"abc.py", "json/decoder.py", "argparse.py"} <= set(paths)
    assert sum(len(document.text) for document in documents) > 5_000_000
    json_text = Path(sysconfig.get_path("stdlib"), "json", "decoder.py").read_text(encoding="utf-8")
    assert documents[paths.index("json/decoder.py")].text == json_text


def test_what_is_not_the_library_is_left_out(documents: list[Document]) -> None:
    parts = [set(Path(document.source).parts) for document in documents]
    assert not any(found & {"site-packages", "test", "tests", "idle_test", "__pycache__"} for found in parts)
    assert not any("torch" in found for found in parts)
    assert all(document.text.strip() for document in documents)
    assert not any(document.source.startswith(("_sysconfigdata", "config-")) for document in documents)


def test_snippets_bear_the_name_of_their_package(documents: list[Document]) -> None:
    snippets = stdlib_labeled()
    counts = Counter(snippet.label for snippet in snippets)
    assert set(counts) == set(PACKAGES)
    assert min(counts.values()) > 100
    sources = {document.source: document.text for document in documents}
    for snippet in snippets[::97]:
        path, line = snippet.source.split(":")
        lines = sources[path].split("\n")[int(line) - 1 :]
        assert path.startswith(f"{snippet.label}/")
        assert snippet.text == "\n".join([line for line in lines if line.strip()][:SNIPPET])
    assert len({snippet.source for snippet in snippets}) == len(snippets)
    assert {snippet.text.count("\n") for snippet in snippets} == {SNIPPET - 1}


def test_a_package_that_there_is_not_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="has no package abc, nothing"):
        stdlib_labeled(["json", "nothing", "abc"])
    monkeypatch.setattr(python_source.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(DataError, match="no source text of its standard library"):
        list(stdlib_text())
    (tmp_path / "bad.py").write_bytes(b"x = '\xff'")
    with pytest.raises(DataError, match=r"bad\.py: cannot be read"):
        list(stdlib_text())
