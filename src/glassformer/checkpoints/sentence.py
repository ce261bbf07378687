"""Sentence encoders as the sentence-transformers library lays them out: an encoder, a mean, a normalisation."""

import json
from pathlib import Path

from glassformer.checkpoints.safe_read import read_json, read_table
from glassformer.errors import CheckpointError

MODULES = "modules.json"
POOLING = "1_Pooling"
_KINDS = [f"sentence_transformers.models.{part}" for part in ("Transformer", "Pooling", "Normalize")]
_MEAN = "pooling_mode_mean_tokens"


def is_sentence_model(folder: Path) -> bool:
    """Whether a folder says that sentence vectors come out: means of rows, of length one."""
    if not (folder / MODULES).exists():
        return False
    listed = read_json(folder / MODULES)
    kinds = [part.get("type") for part in listed if isinstance(part, dict)] if isinstance(listed, list) else listed
    if kinds != _KINDS:
        raise CheckpointError(f"{folder / MODULES}: has the parts {str(kinds)[:200]}, wanted {', '.join(_KINDS)}")
    pooling = read_table(folder / POOLING / "config.json")
    modes = [name for name, value in pooling.items() if name.startswith("pooling_mode") and value is not False]
    if modes != [_MEAN]:
        raise CheckpointError(f"{folder / POOLING}: takes {modes}, wanted {_MEAN} alone, which this version honours")
    return True


def write_sentence_model(folder: Path, dim: int) -> None:
    """Write the files that say so."""
    paths = ["", POOLING, "2_Normalize"]
    parts = [{"idx": i, "name": str(i), "path": paths[i], "type": kind} for i, kind in enumerate(_KINDS)]
    (folder / MODULES).write_text(json.dumps(parts, indent=2) + "\n", encoding="utf-8")
    (folder / POOLING).mkdir()
    pooling = {"word_embedding_dimension": dim, _MEAN: True}
    (folder / POOLING / "config.json").write_text(json.dumps(pooling, indent=2) + "\n", encoding="utf-8")
