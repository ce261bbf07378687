"""File operations that a crash or a power cut leaves either done or not done, and what their failures mean."""

import errno
import fcntl
import os
import secrets
import shutil
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from glassformer.errors import RunFolderError

SCRATCH = ".tmp-"  # prefix of half-written or half-deleted files, whose content nobody needs

REMEDIES = {
    errno.ENOSPC: ("the disk is full", "free some space, or choose a folder on another disk"),
    errno.EDQUOT: ("the disk quota is used up", "delete some of your files, or choose a folder on another disk"),
    errno.EFBIG: ("the file is larger than allowed", "raise the limit (ulimit -f), or choose another file system"),
    errno.EROFS: ("the file system is read-only", "choose a folder on one that can be written"),
    errno.EACCES: ("permission is denied", "change the permissions, or choose another folder"),
    errno.EPERM: ("the operation is not permitted", "change the permissions, or choose another folder"),
    errno.EIO: ("the disk reports an input/output error", "copy what is there to another disk and check this one"),
    errno.ENOTDIR: ("a part of the path is a file", "choose another folder"),
    errno.EEXIST: ("a file of that name is in the way", "move it, or choose another folder"),
    errno.ENOENT: ("it does not exist", "check the path, and that nothing else moves or deletes in it"),
    errno.ENAMETOOLONG: ("the path is too long", "choose a shorter one"),
    errno.ELOOP: ("it is a symbolic link, which is not followed", "remove the link, or choose another folder"),
    errno.EINVAL: ("it is not a regular file", "move it, or choose another folder"),
    errno.ENXIO: ("it is not a regular file", "move it, or choose another folder"),
    errno.EMFILE: ("too many files are open", "raise the limit (ulimit -n)"),
}


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn an operating system error inside the block into one line with its cause and a remedy."""
    try:
        yield
    except OSError as error:
        unknown = (error.strerror or str(error), "check the folder and its disk")
        cause, advice = REMEDIES.get(error.errno or 0, unknown)
        raise RunFolderError(f"{what}: {cause}; {advice}") from error


def cache_folder() -> Path:
    """The folder of what can be computed again: $GLASSFORMER_CACHE, or the user's usual cache folder."""
    folder = os.environ.get("GLASSFORMER_CACHE")
    return Path(folder) if folder else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "glassformer"


def scratch_name(label: str) -> str:
    """A fresh name for something that is not finished."""
    return f"{SCRATCH}{label}-{secrets.token_hex(4)}"


def make_folder(path: Path) -> None:
    """Make a folder and those above it, durably."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        with suppress(FileExistsError):  # another process made it meanwhile
            os.mkdir(folder)
        sync(folder.parent)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", os.fspath(path))


def write_new(path: Path, data: bytes) -> None:
    """Write a file that does not exist yet, through to the disk."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        _write_all(file, data)
        os.fsync(file)
    finally:
        os.close(file)


def replace(path: Path, data: bytes) -> None:
    """Write a file whole: a reader sees the old content or the new, never a part."""
    scratch = path.with_name(scratch_name(path.name))
    try:
        write_new(scratch, data)
        os.replace(scratch, path)
    except BaseException:
        discard(scratch)
        raise
    sync(path.parent)


def move(source: Path, target: Path) -> None:
    """Give something another name in the same folder, durably."""
    os.rename(source, target)
    sync(target.parent)


def file_size(path: Path) -> int:
    """Bytes of a regular file, 0 where there is none; a link or a pipe in its place is an error."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return 0
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.ELOOP if stat.S_ISLNK(status.st_mode) else errno.EINVAL, "not a regular file", str(path))
    return status.st_size


def append(path: Path, line: bytes) -> None:
    """Add a line to the end of a file, or leave the file as it was."""
    file = _open_in_place(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        before = os.fstat(file).st_size
        try:
            _write_all(file, line)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(file, before)
            raise
    finally:
        os.close(file)


def shorten(path: Path, size: int) -> None:
    """Shorten a file, durably."""
    file = _open_in_place(path, os.O_WRONLY)
    try:
        os.ftruncate(file, size)
        os.fsync(file)
    finally:
        os.close(file)


def sync(path: Path) -> None:
    """Wait until a file's content, or the names in a folder, are on the disk."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def remove(path: Path) -> None:
    """Delete a file, a link or a folder, renamed first so that no half of it is taken for whole."""
    if not path.name.startswith(SCRATCH):
        scratch = path.with_name(scratch_name(path.name))
        move(path, scratch)
        path = scratch
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        os.unlink(path)


def discard(path: Path) -> None:
    """Delete what a failure left behind, ignoring errors: the failure itself is reported."""
    with suppress(OSError):
        remove(path)


def free_bytes(path: Path) -> int:
    """Bytes that this user may still write where a folder is, or will be."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def _open_in_place(path: Path, flags: int) -> int:
    """Open a regular file for changes; a link may point outside the folder, and opening a pipe may block."""
    file = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return file


def _write_all(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]  # one call may take less than all of it


class FolderLock:
    """A lock file that one process holds at a time; the system takes it from a process that dies.

    A record lock, because forked workers do not inherit it: a worker that outlives a killed
    trainer does not keep the folder locked. The system grants such a lock to its holder again,
    and drops it when the holder closes the file a second time, so each process keeps a list.
    """

    _ours: dict[tuple[int, int], int] = {}  # noqa: RUF012 - shared by all locks of the process
    _guard = threading.Lock()

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def take(self) -> None:
        """Take the lock, or raise an error that names its holder."""
        with self._guard:
            while self._file is None:
                self._try()

    def give_back(self) -> None:
        """Release the lock; the file stays, since removing it would let two processes take it."""
        if self._file is not None:
            with self._guard:
                self._ours.pop(_identity(os.fstat(self._file)), None)
                os.close(self._file)
                self._file = None

    @property
    def held(self) -> bool:
        """Whether this lock is taken."""
        return self._file is not None

    def in_place(self) -> bool:
        """Whether the lock file on the path is still the one that is held."""
        return self._file is not None and self._at_path() == _identity(os.fstat(self._file))

    def _try(self) -> None:
        if self._ours.get(self._at_path()) == os.getpid():
            raise self._taken(f"this process ({os.getpid()})")
        file = _open_in_place(self.path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._at_path() == _identity(os.fstat(file)):  # else it was removed meanwhile: try again
                os.ftruncate(file, 0)
                os.write(file, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
                self._ours[_identity(os.fstat(file))] = os.getpid()
                self._file, file = file, -1
        except (BlockingIOError, PermissionError):
            raise self._taken(os.read(file, 200).decode(errors="replace").strip() or "another process") from None
        finally:
            if file != -1:
                os.close(file)

    def _at_path(self) -> tuple[int, int]:
        try:
            return _identity(os.lstat(self.path))
        except FileNotFoundError:
            return (-1, -1)

    def _taken(self, holder: str) -> RunFolderError:
        return RunFolderError(
            f"{self.path.parent}: is in use by {holder}; wait for it, stop it, or choose another folder"
        )


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
