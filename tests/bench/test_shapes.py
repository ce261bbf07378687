"""`glassformer bench shapes`: its points, what it leaves out, and its chart."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch

from glassformer.bench import shapes as suite
from glassformer.bench.options import BenchOptions
from glassformer.bench.shapes import CPU, GPU, ROWS, TINY, Sweeps, shapes
from glassformer.cli.main import main
from glassformer.training.device import Device

WORDS = "shapes --tiny --rounds 1 --device cpu --precision float32".split()


def options(*only: str, seconds: float | None = None) -> BenchOptions:
    return BenchOptions(say=lambda text: None, rounds=1, tiny=True, only=only, seconds=seconds)


@pytest.mark.parametrize("sizes", [CPU, GPU, TINY])
def test_every_point_is_there_and_shared_ones_are_measured_once(sizes: Sweeps) -> None:
    points = suite._points(sizes, [*ROWS])  # pyright: ignore[reportPrivateUsage]
    names = [name for names in points.values() for name in names]
    wanted = {f"{row} {n}" for row in ROWS for n in getattr(sizes, row)}
    assert sorted(names) == sorted(wanted) and len(points) == len(names) - 2
    for (model, rows), named in points.items():
        assert rows * model.context == sizes.tokens or all(name.startswith("batch") for name in named)
        assert model.dim // model.heads == sizes.model.dim // sizes.model.heads and model.dim % model.heads == 0
    assert next(iter(points.values())) == [f"{row} {getattr(sizes, row)[0]}" for row in ROWS]


def test_the_sizes_on_a_gpu_are_those_of_gpt2_up_to_32k_tokens() -> None:
    assert (GPU.model.dim, GPU.model.layers, max(GPU.context), min(GPU.context)) == (768, 12, 32_768, 512)


def test_the_suite_writes_rows_and_a_chart(tmp_path: Path) -> None:
    path, picture = tmp_path / "shapes.json", tmp_path / "shapes.svg"
    assert main(["bench", *WORDS, "--json", str(path), "--svg", str(picture)]) == 0
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert [row["row"] for row in rows] == [f"{row} {n}" for row in ROWS for n in sorted(getattr(TINY, row))]
    assert len({row["milliseconds"] for row in rows}) == len(rows) - 2
    svg = ET.fromstring(picture.read_text(encoding="utf-8"))
    titles = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text") if text.get("class") == "title"]
    assert titles[1:] == [f"ms a step by {row} ({what})" for row, what in ROWS.items()]
    assert len(list(svg.iter("{http://www.w3.org/2000/svg}circle"))) == len(rows)


def test_a_row_can_be_measured_alone() -> None:
    assert [row.row for row in shapes(options("width"))] == ["width 16", "width 32"]


def test_peaks_are_drawn_where_they_are_measured() -> None:
    rows = shapes(options("batch"))
    for row in rows:
        row.peak_gigabytes = 1.5
    assert "peak memory in GB by batch (rows)" in suite.shapes_chart(rows, "a GPU")


def test_the_first_point_is_measured_and_others_while_there_is_time() -> None:
    asked = options(seconds=1e-9)
    assert [row.row for row in shapes(asked)] == ["context 8", "width 16", "batch 2"]  # one shape
    assert [text.partition(" left out")[0] for text in asked.skipped] == ["context 16", "width 32", "batch 4"]
    plenty = options(seconds=1000)
    assert len(shapes(plenty)) == 6 and not plenty.skipped


def test_a_shape_that_does_not_fit_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = suite.our_runner

    def full(model: suite.GPTConfig, *words: object) -> object:
        if model.context == 16:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return made(model, *words)  # pyright: ignore

    monkeypatch.setattr(suite, "our_runner", full)
    asked = options()
    assert "context 16" not in [row.row for row in shapes(asked)]
    assert asked.skipped == ["context 16 left out: it does not fit into the memory of the device"]


def test_the_model_is_trained_as_a_run_trains_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Device] = []
    made = suite.our_runner
    monkeypatch.setattr(suite, "our_runner", lambda *words: seen.append(words[4]) or made(*words))
    asked = options("batch")
    shapes(asked)
    assert seen == [asked.device] * 2
