"""Peers: libraries that are installed, and `model.py` files in a folder that the caller names."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from glassformer.bench.measure import BenchError

FOLDERS = {"nanoGPT": "github.com/karpathy/nanoGPT", "gpt-fast": "github.com/pytorch-labs/gpt-fast"}
PACKAGES = {"transformers": "transformers", "x-transformers": "x_transformers", "CTranslate2": "ctranslate2"}
FILE = "model.py"


class MissingPeerError(BenchError):
    """A peer is neither installed nor given."""


def folder_of(name: str, peers: Path | None) -> Path:
    """The folder of a peer that comes as files."""
    if peers is None or not (peers / name / FILE).is_file():
        where = "no folder of peers is given" if peers is None else f"{peers / name / FILE} does not exist"
        raise MissingPeerError(f"{where}; put a copy of {FOLDERS[name]} at {name}/ in a folder, and name that folder")
    return peers / name


def load_file(name: str, peers: Path | None, file: str = FILE) -> ModuleType:
    """A peer's file as a module. This runs the file, so it is done only for a folder that the caller names."""
    path = folder_of(name, peers) / file
    unique = f"glassformer_bench_{name.replace('-', '_')}_{path.stem}"
    spec = importlib.util.spec_from_file_location(unique, path)
    if spec is None or spec.loader is None:
        raise MissingPeerError(f"{path}: cannot be read as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BenchError(f"{path}: cannot be run: {type(error).__name__}: {error}") from error
    return module


def load_package(name: str) -> ModuleType:
    """A peer that is installed."""
    package = PACKAGES[name]
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingPeerError(f"{package} is not installed; pip install {package.replace('_', '-')}") from error


def load_module(name: str, part: str) -> ModuleType:
    """A module of a peer that is installed."""
    return importlib.import_module(f"{load_package(name).__name__}.{part}")
