"""Replace several files in a folder atomically: after a crash at any moment, a reader finds all old or all new files.

The new files are written to a separate folder, and one rename publishes it. From then on readers use the files in it
instead of those beside it, until all of them have been moved into the folder.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from glassformer import durable

JOURNAL = ".saving"


def atomic_save(folder: Path, write: Callable[[Path], None], is_stale: Callable[[str], bool]) -> None:
    """Run `write` on an empty folder, move its files into `folder`, and delete stale files of an earlier save."""
    with durable.explained(f"{folder}: not saved, what was there is untouched"):
        durable.make_folder(folder)
        for leftover in folder.glob(f"{durable.SCRATCH}*saving-*"):
            durable.remove(leftover)
        _finish(folder, is_stale)
        scratch = folder / durable.scratch_name("saving")
        os.mkdir(scratch)
        try:
            write(scratch)
            for path in (*_files(scratch), *(path for path in scratch.rglob("*") if path.is_dir()), scratch):
                durable.sync(path)
            durable.move(scratch, folder / JOURNAL)
        except BaseException:
            durable.discard(scratch)
            raise
    with durable.explained(f"{folder}: saved, but not tidied up; the next save goes on with it"):
        _finish(folder, is_stale)


def newest_set(folder: Path) -> Path:
    """The folder of the newest complete set of files: `folder` itself, unless a writer was interrupted."""
    return folder / JOURNAL if (folder / JOURNAL).is_dir() else folder


def write_json(path: Path, content: object) -> None:
    """Write a JSON file for people to read; `atomic_save` makes it durable."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _finish(folder: Path, is_stale: Callable[[str], bool]) -> None:
    """Move the files of a published set into the folder, then delete the set."""
    journal = folder / JOURNAL
    if not journal.is_dir():
        return
    files = _files(journal)
    for path in files:
        target = folder / path.relative_to(journal)
        durable.make_folder(target.parent)
        _put(path, target)
    fresh = {path.name for path in files}
    for path in list(folder.iterdir()):
        if is_stale(path.name) and path.name not in fresh and not path.is_dir():
            path.unlink()
    durable.sync(folder)
    durable.remove(journal)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _put(source: Path, target: Path) -> None:
    """Make the target the same file as the source, at once; the source stays for readers that have opened it."""
    if target.is_file() and not target.is_symlink() and target.samefile(source):
        return  # placed before a crash; renaming one link to a file over another would leave both
    scratch = target.with_name(durable.scratch_name(f"saving-{target.name}"))
    try:
        try:
            os.link(source, scratch)
        except OSError:  # a file system without links
            shutil.copyfile(source, scratch)
            durable.sync(scratch)
        os.replace(scratch, target)
    except BaseException:
        durable.discard(scratch)
        raise
    durable.sync(target.parent)
