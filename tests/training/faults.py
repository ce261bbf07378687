"""A layer between the package and the system: file operations that fail, kill the process, or cut the power."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

CALLS = ("open", "write", "fsync", "rename", "replace", "mkdir", "unlink", "rmdir", "ftruncate")
REAL = {name: getattr(os, name) for name in CALLS}


class PowerCut(BaseException):
    """Raised where the power went; nothing of the program runs after it that touches the disk."""


@dataclass
class Faults:
    """Count file operations, and at the one with number `at` do something else."""

    at: int
    act: Callable[[str], None]
    only: str = ""
    lasting: bool = False
    count: int = 0

    def before(self, name: str) -> None:
        """Called with the name of each operation in place of it; raises when it is not to happen."""
        if self.only in ("", name):
            self.count += 1
            if self.count == self.at or (self.lasting and self.count > self.at):
                self.act(name)

    @contextmanager
    def armed(self) -> Iterator["Faults"]:
        """The layer is in place inside."""
        with patch.multiple(os, **{name: self._wrapped(name) for name in CALLS}):
            yield self

    def _wrapped(self, name: str) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            if name == "write" and self.count + 1 == self.at:  # a torn write: the first half gets there
                REAL["write"](args[0], bytes(args[1])[: len(args[1]) // 2])  # pyright: ignore
            self.before(name)
            return self.after(name, args, kwargs)

        return call

    def after(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Do the operation itself."""
        return REAL[name](*args, **kwargs)


def failing(number: int) -> Callable[[str], None]:
    """The operation fails with this error number."""

    def act(name: str) -> None:
        raise OSError(number, os.strerror(number), name)

    return act


def dying(_name: str) -> None:
    """The process is killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def cutting(_name: str) -> None:
    """The power goes."""
    raise PowerCut


@dataclass
class Name:
    """A change of names in a folder that is not flushed yet: something made, or renamed from `source`."""

    folder: str
    path: str
    source: str = ""
    replaced: bytes | None = None


@dataclass
class Disk(Faults):
    """Remember what was never flushed, and lose it when the power goes; deletions reach the disk at once."""

    files: dict[int, str] = field(default_factory=dict)
    dirty: dict[str, int] = field(default_factory=dict)  # file, and how much of it was flushed
    names: list[Name] = field(default_factory=list)

    def after(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Do the operation, and note what it leaves unflushed."""
        paths = [os.path.realpath(path) for path in args if isinstance(path, (str, Path))]
        new = name in ("open", "mkdir") and bool(paths) and not os.path.lexists(paths[0])
        replaced = Path(paths[1]).read_bytes() if name == "replace" and os.path.isfile(paths[1]) else None
        if name == "write":
            path = self.files[int(str(args[0]))]
            self.dirty.setdefault(path, os.path.getsize(path))
        result = REAL[name](*args, **kwargs)
        if name == "open" and paths and isinstance(result, int) and "dir_fd" not in kwargs:
            self.files[result] = paths[0]
        if new:
            self.names.append(Name(os.path.dirname(paths[0]), paths[0]))
        if name == "fsync":
            self._flush(self.files[int(str(args[0]))])
        if name in ("rename", "replace"):
            self.dirty = {_moved(path, *paths): size for path, size in self.dirty.items()}
            self.names.append(Name(os.path.dirname(paths[1]), paths[1], paths[0], replaced))
        return result

    def _flush(self, path: str) -> None:
        self.dirty.pop(path, None)
        for index, name in enumerate(self.names):
            if name.folder == path and name.source:
                for earlier in self.names[:index]:
                    earlier.folder = _moved(earlier.folder, name.source, name.path)
                    earlier.path = _moved(earlier.path, name.source, name.path)
        self.names = [name for name in self.names if name.folder != path]

    def cut(self, keep_names: bool) -> None:
        """Lose what was not flushed: content always, and the changes of names unless they are kept."""
        for path, size in self.dirty.items():
            if os.path.isfile(path):
                os.truncate(path, size)
        for name in [] if keep_names else reversed(self.names):
            if not os.path.lexists(name.path):
                continue
            if name.source:
                os.rename(name.path, name.source)
            elif os.path.isdir(name.path):
                shutil.rmtree(name.path)
            else:
                os.unlink(name.path)
            if name.replaced is not None:
                Path(name.path).write_bytes(name.replaced)


def _moved(path: str, source: str, target: str) -> str:
    return target + path[len(source) :] if path == source or path.startswith(source + "/") else path
