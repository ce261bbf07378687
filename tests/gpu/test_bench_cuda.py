"""`glassformer bench` on an accelerator: peaks, and what is compared and drawn of them."""

import json
from pathlib import Path

import pytest
import torch

from glassformer.cli.main import main

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("default"),  # torch gives hints about float32 speed
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
WORDS = "--tiny --rounds 1 --device cuda --compile no --seed 1".split()


def test_packed_rows_are_compared_in_speed_and_memory(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    assert main(["bench", "translate", "--only", "packed", *WORDS, "--json", str(path)]) == 0
    ours, theirs = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert ours["memory_ratio"] is None and ours["peak_gigabytes"] > 0
    assert theirs["memory_ratio"] == pytest.approx(ours["peak_gigabytes"] / theirs["peak_gigabytes"])


def test_peaks_of_shapes_are_drawn(tmp_path: Path) -> None:
    path, picture = tmp_path / "found.json", tmp_path / "shapes.svg"
    assert main(["bench", "shapes", *WORDS, "--json", str(path), "--svg", str(picture)]) == 0
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert len(rows) == 6 and all(row["peak_gigabytes"] > 0 for row in rows)
    assert picture.read_text(encoding="utf-8").count("peak memory in GB by") == 3
