"""A file is named after what it holds."""

from tests.house.source import modules

EMPTY_NAMES = {"utils", "util", "common", "helpers", "helper", "base", "misc", "core", "v2"}


def test_no_file_is_called_anything() -> None:
    assert [name for name in modules() if set(name.split(".")) & EMPTY_NAMES] == []
