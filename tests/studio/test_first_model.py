"""The first start: a translator trained in the background, kept for the next start, made again where it is damaged."""

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from glassformer.errors import GlassformerError, ModelError
from glassformer.studio import first_model
from glassformer.studio.first_model import EXAMPLE, FirstModel, digests, require_whole
from glassformer.training import built_in_translator

STEPS = 20


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cache of its own, and little to learn."""
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    for name, size in {"TRAINING": 1000, "HELD_OUT": 1, "VOCABULARY": 300, "TOKENS_PER_BATCH": 64}.items():
        monkeypatch.setattr(built_in_translator, name, size)


def finished(**settings: object) -> FirstModel:
    model = FirstModel(STEPS, **settings).start()
    model.wait(60)
    return model


def test_it_is_trained_once_and_read_at_the_next_start(monkeypatch: pytest.MonkeyPatch) -> None:
    first = finished()
    progress = first.progress
    assert progress.state == "ready" and progress.step == progress.steps == STEPS and progress.note == ""
    assert [step for step, _ in progress.losses] == [10, 20]
    assert [each.step for each in progress.samples] == [STEPS]
    monkeypatch.setattr(first_model, "begin_translator", pytest.fail)
    second = finished()
    assert second.progress.state == "ready" and second.progress.losses == ()
    assert second.loaded().translate(EXAMPLE) == first.loaded().translate(EXAMPLE)


def test_it_says_how_far_it_is_until_it_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    reached, released = threading.Event(), threading.Event()

    def held(*arguments: object) -> tuple[()]:
        reached.set()
        released.wait(30)
        return ()

    monkeypatch.setattr(FirstModel, "_samples", held)
    model = FirstModel(STEPS).start()
    assert reached.wait(30)
    assert model.progress.state == "training"
    with pytest.raises(ModelError, match="is being trained, step 0 of 20: it is ready in a moment"):
        model.loaded()
    released.set()
    model.wait(30)
    assert model.loaded() is model.loaded()


def test_stopping_ends_it_and_keeps_nothing() -> None:
    model = FirstModel(100_000).start()
    while model.progress.step == 0:
        threading.Event().wait(0.01)
    model.stop()
    assert model.progress.state == "training" and not model.folder.exists()
    FirstModel(STEPS).stop()


def test_a_damaged_cache_is_said_and_made_again() -> None:
    weights = finished().folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1  # in a number, which no reader of the file could notice
    weights.write_bytes(data)
    said: list[str] = []
    again = finished(say=said.append)
    assert again.progress.state == "ready" and again.progress.step == STEPS
    assert len(said) == 1 and "is damaged and is trained again" in said[0] and said[0] == again.progress.note
    assert finished().progress.note == "", "whole again"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "model").write_bytes(b"weight"), "model changed since it was written"),
        (lambda folder: (folder / "model").unlink(), "model changed since it was written"),
        (lambda folder: (folder / "other").write_bytes(b""), "other changed since it was written"),
        (lambda folder: (folder / first_model.DIGESTS).write_bytes(b"{"), "digests.json cannot be read"),
        (lambda folder: (folder / first_model.DIGESTS).unlink(), "it does not exist"),
    ],
)
def test_any_damage_is_noticed(tmp_path: Path, damage: Callable[[Path], object], said: str) -> None:
    (tmp_path / "model").write_bytes(b"weights")
    (tmp_path / first_model.DIGESTS).write_bytes(msgspec.json.encode(digests(tmp_path)))
    require_whole(tmp_path)
    damage(tmp_path)
    with pytest.raises(GlassformerError, match=said):
        require_whole(tmp_path)


def test_without_a_cache_it_is_used_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file is in the way")
    model = finished()
    assert model.progress.state == "ready" and "is not kept for the next start" in model.progress.note
    assert isinstance(model.loaded().translate(EXAMPLE), str)


def test_a_failure_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(first_model, "begin_translator", broken)
    model = finished()
    assert model.progress.state == "failed"
    with pytest.raises(ModelError, match="could not be made: no room"):
        model.loaded()


def test_older_ones_are_removed() -> None:
    old = finished().folder
    newer = FirstModel(STEPS + 1).start()
    newer.wait(60)
    assert newer.folder != old and newer.folder.exists() and not old.exists()
    assert [path.name for path in old.parent.iterdir()] == [newer.folder.name], "nothing half-written is left"
