"""Sentence encoders in the layout of sentence-transformers: an encoder, mean pooling, normalization."""

from pathlib import Path

from glassformer.checkpoints.atomic_save import write_json
from glassformer.errors import CheckpointError
from glassformer.safe_read import read_json, read_table

MODULES = "modules.json"
POOLING = "1_Pooling"
_KINDS = [f"sentence_transformers.models.{part}" for part in ("Transformer", "Pooling", "Normalize")]
_MEAN = "pooling_mode_mean_tokens"


def is_sentence_model(folder: Path) -> bool:
    """Whether a folder describes sentence embeddings: hidden states averaged, then normalized to length one."""
    if not (folder / MODULES).exists():
        return False
    listed = read_json(folder / MODULES)
    kinds = [part.get("type") for part in listed if isinstance(part, dict)] if isinstance(listed, list) else listed
    if kinds != _KINDS:
        raise CheckpointError(f"{folder / MODULES}: has the parts {str(kinds)[:200]}, wanted {', '.join(_KINDS)}")
    pooling = read_table(folder / POOLING / "config.json")
    modes = [name for name, value in pooling.items() if name.startswith("pooling_mode") and value is not False]
    if modes != [_MEAN]:
        raise CheckpointError(f"{folder / POOLING}: takes {modes}, wanted {_MEAN} alone, which this version supports")
    return True


def write_sentence_model(folder: Path, dim: int) -> None:
    """Write the files that describe sentence embeddings."""
    paths = ["", POOLING, "2_Normalize"]
    parts = [{"idx": i, "name": str(i), "path": paths[i], "type": kind} for i, kind in enumerate(_KINDS)]
    write_json(folder / MODULES, parts)
    (folder / POOLING).mkdir()
    write_json(folder / POOLING / "config.json", {"word_embedding_dimension": dim, _MEAN: True})
