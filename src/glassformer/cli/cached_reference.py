"""The quick reference, kept in the cache: to compute it takes the import of PyTorch, which is most of the time."""

import hashlib
from contextlib import suppress
from pathlib import Path

import msgspec

from glassformer import durable
from glassformer.entry import Entry

SOURCES = Path(__file__).parents[1]


def cached_entries() -> tuple[Entry, ...]:
    """Every equation of the catalog, from the cache unless a source file has changed since it was written."""
    path = durable.cache_folder() / f"equations-{_fingerprint()}.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=tuple[Entry, ...])
    except (OSError, msgspec.DecodeError):
        from glassformer.views.reference import entries

        found = entries()
        with suppress(OSError):  # without a cache it only takes longer
            durable.make_folder(path.parent)
            for old in path.parent.glob("equations-*.json"):
                durable.remove(old)
            durable.replace(path, msgspec.json.encode(found))
        return found


def _fingerprint() -> str:
    """A short text that changes with the files that the reference is computed from, and with their place."""
    files = sorted([*SOURCES.glob("*.py"), *SOURCES.glob("equations/*.py"), SOURCES / "views" / "reference.py"])
    known = [(str(file), stat.st_mtime_ns, stat.st_size) for file in files for stat in [file.stat()]]
    return hashlib.sha256(repr(known).encode()).hexdigest()[:16]
