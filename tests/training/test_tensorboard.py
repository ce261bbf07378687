"""Event files for TensorBoard: what was recorded can be read back."""

import struct
import sys
from pathlib import Path

import pytest

from glassformer.errors import MissingExtraError
from glassformer.training.tensorboard import tensorboard

RECORDS = [
    {"step": 50, "loss": 3.5, "learning_rate": 1e-3, "grad_norm": 2.0, "tokens": 3200, "validation": None},
    {"step": 100, "loss": float("nan"), "learning_rate": 2e-3, "grad_norm": 1.0, "tokens": 6400, "validation": 3.25,
     "note": "slow"},
]  # fmt: skip


def test_records_can_be_read_back(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="the extra `log` is not installed")
    from tensorboardX.proto.event_pb2 import Event

    with tensorboard(tmp_path) as write:
        for record in RECORDS:
            write(record)
    (file,) = tmp_path.iterdir()
    data, at, found = file.read_bytes(), 0, {}
    while at < len(data):  # length, its checksum, the event, its checksum
        (size,) = struct.unpack_from("<Q", data, at)
        event = Event.FromString(data[at + 12 : at + 12 + size])
        at += 16 + size
        for value in event.summary.value:
            found[value.tag, event.step] = value.simple_value or value.tensor.string_val[0].decode()
    assert at == len(data)
    assert found == {
        ("loss", 50): 3.5,
        ("learning_rate", 50): pytest.approx(1e-3),
        ("grad_norm", 50): 2.0,
        ("tokens", 50): 3200.0,
        ("learning_rate", 100): pytest.approx(2e-3),
        ("grad_norm", 100): 1.0,
        ("tokens", 100): 6400.0,
        ("validation", 100): 3.25,
        ("note/text_summary", 100): "slow",
    }


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(MissingExtraError, match=r'pip install "glassformer\[log\]"'), tensorboard(tmp_path):
        pass
    assert not list(tmp_path.iterdir())
