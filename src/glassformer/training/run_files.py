"""Files that a run must not replace, and files that it cannot read."""

from pathlib import Path

from glassformer.checkpoints.save import model_files
from glassformer.data.files import paths_in
from glassformer.errors import ConfigError
from glassformer.training.recorded_run import CONFIG
from glassformer.training.registry import files_of
from glassformer.training.schema import shown
from glassformer.training.settings import Settings


def require_free(folder: Path) -> None:
    """Refuse a folder with a run in it, or with a model that the new one would replace."""
    if folder.is_file():
        raise ConfigError(f"{folder} is a file, wanted a folder for the run")
    if run_files(folder):
        raise ConfigError(f"{folder} already holds a run: resume it, or choose another folder")
    if found := model_files(folder):
        raise ConfigError(f"{folder} already holds a model, in {', '.join(found)}: choose another folder")


def require_real_files(settings: Settings) -> None:
    """Refuse a pipe or a device among the files of a run: data is read more than once, and reading a pipe blocks."""
    for key, path in files_of(settings).items():
        for each in paths_in(path) if path else ():
            if each.exists() and not each.is_file() and not each.is_dir():
                raise ConfigError(f"{key} is {shown(path)}, a pipe or a device: wanted a file or a folder")


def run_files(folder: Path) -> list[str]:
    """The settings and checkpoints of a run in a folder, by name."""
    return [path.name for pattern in (CONFIG, "step-*") for path in sorted(folder.glob(pattern))]
