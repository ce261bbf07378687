"""The task `image`: digits are learned, data of every kind is read, runs resume exactly, and bad data is refused."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import glassformer as gf
from glassformer.cli.main import main
from glassformer.data.batches import WEIGHTS
from glassformer.data.image_arrays import digits
from glassformer.data.image_batches import Augmentation, ImageBatches, channel_statistics, normalize_pixels
from glassformer.errors import ConfigError, DataError, PathError
from glassformer.models.vit import ViT
from glassformer.training.config import resolve
from glassformer.training.run import prepare_task, train_task
from glassformer.training.tasks.classify import ClassifierMetrics
from tests.data.test_image_arrays import idx_bytes

FEW = {"recipe.steps": 8, "recipe.warmup_steps": 2, "recipe.save_every": 4, "run.device": "cpu", "model.dim": 16}
RANDOM = np.random.default_rng(0)


def stripes(count: int = 40, side: int = 8) -> tuple[np.ndarray, list[str]]:
    """Pictures with stripes down or across, which a mean of pixels cannot tell apart."""
    pixels = RANDOM.integers(0, 60, (count, side, side), dtype=np.uint8)
    for number, picture in enumerate(pixels):
        (picture if number % 2 else picture.T)[::2, :] += 150
    return pixels, ["across" if number % 2 else "down" for number in range(count)]


def image_folder(folder: Path, count: int = 40, side: int = 8) -> Path:
    for number, (picture, label) in enumerate(zip(*stripes(count, side), strict=True)):
        (folder / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / label / f"{number}.png")
    return folder


def test_digits_are_learned_in_seconds() -> None:
    settings = {"recipe.steps": 150, "run.device": "cpu", "run.precision": "float32", "recipe.warmup_steps": 20}
    run = train_task("image", settings)
    metrics = run.evaluate()
    assert isinstance(metrics, ClassifierMetrics) and metrics.accuracy > 0.85
    assert metrics.examples == 180 and len(metrics.classes) == 10
    assert run.logs[-1].sample is not None and "→" in run.logs[-1].sample
    assert run.logs[-1].tokens == 150 * 64 * 16, "patches are counted as tokens"


def test_every_kind_of_data_gives_the_same_run(tmp_path: Path) -> None:
    pixels, labels = stripes()
    numbers = np.array([label == "across" for label in labels], dtype=np.uint8)
    np.savez(tmp_path / "data.npz", images=pixels, labels=numbers)
    for name, values in (("images-idx3", pixels), ("labels-idx1", numbers)):
        (tmp_path / f"train-{name}-ubyte.gz").write_bytes(gzip.compress(idx_bytes(values)))
    paths = [tmp_path / "data.npz", tmp_path / "train-images-idx3-ubyte.gz"]
    losses = [[log.loss for log in train_task("image", {**FEW, "data.path": str(path)}).logs] for path in paths]
    assert losses[0] == losses[1]


def test_a_folder_of_pictures_is_trained_on_saved_and_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = image_folder(tmp_path / "data", 60, 12)
    (folder / "down" / "broken.png").write_bytes(b"broken")
    settings = {**FEW, "recipe.steps": 120, "recipe.learning_rate": 5e-3, "data.path": str(folder), "data.shift": 1}
    said: list[str] = []
    run = prepare_task("image", settings, out=tmp_path / "run", report=said.append)
    assert any("broken.png" in line for line in said) and "1 of 61 pictures cannot be read and are skipped" in said
    for _ in run.train():
        pass
    assert run.model.config.image_size == 12 and run.model.config.channels == 1
    loaded = gf.load(tmp_path / "run")
    assert loaded.labels == ("across", "down") and isinstance(loaded.model, ViT)
    path = folder / "down" / "0.png"
    found = loaded.classify(str(path))
    assert found.label == "down" and sum(found.probabilities.values()) == pytest.approx(1)
    pixels = np.asarray(Image.open(path))
    mean, std = run.model.config.image_mean, run.model.config.image_std
    alone = (loaded.classify([path])[0], loaded.classify(normalize_pixels(pixels[None, :, :, None], mean, std)[0]))
    for same in (*alone, loaded.classify([path, pixels])[1]):  # of two at once the last bits differ
        assert same.label == found.label and same.probabilities == pytest.approx(found.probabilities, rel=1e-5)
    for given in ([], ["--data", str(folder)]):
        assert main(["evaluate", str(tmp_path / "run"), *given]) == 0
        shown = capsys.readouterr().err
        assert "broken.png" in shown and "1 of 61 pictures cannot be read and are skipped" in shown
    metrics = gf.evaluate(tmp_path / "run", str(folder))
    assert isinstance(metrics, ClassifierMetrics) and metrics.accuracy > 0.9 and metrics.examples == 60
    assert gf.evaluate(tmp_path / "run") == run.evaluate()


@pytest.mark.parametrize("mixed", [{}, {"data.cutmix": 0.5, "data.mixup": 0.3, "data.erase": 0.3, "data.flip": True}])
def test_a_run_resumes_to_the_bit(tmp_path: Path, mixed: dict[str, object]) -> None:
    settings = {**FEW, **mixed, "data.shift": 1, "recipe.log_every": 1}
    whole = train_task("image", settings, out=tmp_path / "whole")
    run = prepare_task("image", settings, out=tmp_path / "part")
    for log in run.train():
        if log.step == 6:
            break
    again = train_task(out=tmp_path / "part", resume=True)
    assert [log.loss for log in again.logs] == [log.loss for log in whole.logs][4:]
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name])
    assert not (tmp_path / "part" / "tokenizer.json").exists()


def test_fine_tuning_keeps_size_scale_and_labels_or_makes_a_new_head(tmp_path: Path) -> None:
    train_task("image", FEW, out=tmp_path / "start")
    start = gf.load(tmp_path / "start").model.config
    run = train_task("image", {**_without_model(FEW), "run.init": str(tmp_path / "start")})
    assert run.model.config == start and run.labels == tuple("0123456789")
    folder = image_folder(tmp_path / "data", 20, 20)
    said: list[str] = []
    settings = {**_without_model(FEW), "run.init": str(tmp_path / "start"), "data.path": str(folder)}
    run = prepare_task("image", settings, out=tmp_path / "new", report=said.append)
    assert any(line.startswith("a new classification head") for line in said)
    for log in run.train():
        if log.step == 6:
            break
    for file in (tmp_path / "start").iterdir():
        file.unlink() if file.is_file() else None
    again = train_task(out=tmp_path / "new", resume=True)
    config = again.model.config
    assert config.image_size == 8 and config.image_mean == start.image_mean and again.labels == ("across", "down")


def _without_model(settings: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in settings.items() if not key.startswith("model.")}


def test_a_cnn_is_trained_by_the_same_task() -> None:
    settings = {**FEW, "model.family": "cnn", "model.groups": 2, "recipe.steps": 60, "recipe.learning_rate": 1e-2}
    run = train_task("image", settings)
    assert type(run.model).__name__ == "CNN" and run.logs[-1].loss < 2.0


def test_a_perceptron_is_trained_by_the_same_task(tmp_path: Path) -> None:
    settings = {**FEW, "model.family": "image_mlp", "recipe.steps": 60, "recipe.learning_rate": 1e-2}
    run = train_task("image", settings, out=tmp_path / "run")
    assert type(run.model).__name__ == "ImageMLP" and run.logs[-1].loss < 2.0
    assert run.logs[-1].tokens == 60 * 64, "a picture is one position"
    picture = digits().pixels[0]
    assert gf.load(tmp_path / "run").classify(picture).label in tuple("0123456789")


def test_settings_that_follow_from_the_data_or_do_not_exist_are_refused() -> None:
    for word, said in (
        ("tokenizer.kind=bpe", "tokenizer.kind cannot be set: image reads no text"),
        ("model.image_size=9", "model.image_size cannot be set, it follows from the pictures in the data"),
        ("model.channels=9", "follows from the pictures in the data"),
    ):
        with pytest.raises(ConfigError, match=said):
            resolve("image", words=[word])
    with pytest.raises(ConfigError, match=r"model\.patch_size is 3, which does not divide model\.image_size 8"):
        prepare_task("image", {"model.patch_size": 3})
    with pytest.raises(ConfigError, match="r_drop and mixed pictures"):
        prepare_task("image", {"recipe.r_drop": 1.0, "data.cutmix": 0.5})


def test_bad_data_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("no pictures")
    for path, said in (
        (tmp_path / "missing", "no such file"),
        (tmp_path / "text.txt", "is not a folder with a folder for each class"),
        (tmp_path, "holds no pictures"),
    ):
        with pytest.raises((PathError, ConfigError), match=said):
            prepare_task("image", {"data.path": str(path)})
    pixels, labels = stripes()
    np.savez(tmp_path / "wide.npz", images=pixels[:, :, :6], labels=np.array(labels))
    with pytest.raises(DataError, match="have 8 × 6 pixels, wanted a square: set data.image_size"):
        prepare_task("image", {"data.path": str(tmp_path / "wide.npz")})
    run = prepare_task("image", {"data.path": str(tmp_path / "wide.npz"), "data.image_size": 4, "data.color": "rgb"})
    assert run.model.config.image_size == 4 and run.model.config.channels == 3
    np.savez(tmp_path / "one.npz", images=pixels[:1], labels=np.array(labels[:1]))
    with pytest.raises(DataError, match="has 1 different pictures"):
        prepare_task("image", {"data.path": str(tmp_path / "one.npz")})
    np.savez(tmp_path / "test.npz", images=pixels, labels=np.arange(40))
    with pytest.raises(DataError, match=r"test\.npz:2: the label is '2', wanted one of"):
        np.savez(tmp_path / "two.npz", images=pixels, labels=np.arange(40) % 2)
        prepare_task("image", {"data.path": str(tmp_path / "two.npz"), "data.test": str(tmp_path / "test.npz")})


def batches(augmentation: Augmentation, rank: int = 0, world: int = 1) -> ImageBatches:
    found = digits()
    numbers = [int(label) for label in found.labels]
    return ImageBatches(found.pixels, numbers, 32, channel_statistics(found.pixels), augmentation, 0, rank, world)


def test_augmentation_depends_on_seed_epoch_and_batch_alone() -> None:
    every = Augmentation(shift=1, flip=True, erase=0.5, cutmix=0.4, mixup=0.4)
    one, other = batches(every), batches(every)
    first = [next(one) for _ in range(60)]  # into the second epoch
    for batch in first[:30]:
        again = next(other)
        assert all(torch.equal(value, again[name]) for name, value in batch.items())
    state = other.state()
    fresh = batches(every)
    fresh.resume(state)
    for batch in first[30:]:
        assert torch.equal(batch["pixel_values"], next(fresh)["pixel_values"])
    assert not torch.equal(first[0]["pixel_values"], first[56]["pixel_values"])


def test_processes_share_the_batches_of_one() -> None:
    every = Augmentation(shift=1, flip=True, erase=0.5, cutmix=0.5)
    whole, parts = batches(every), [batches(every, rank, 2) for rank in range(2)]
    for _ in range(5):
        batch, halves = next(whole), [next(part) for part in parts]
        for name, value in batch.items():
            assert torch.equal(value[0::2], halves[0][name]) and torch.equal(value[1::2], halves[1][name])


def test_each_change_does_what_it_says() -> None:
    plain = next(batches(Augmentation()))["pixel_values"]
    moved = next(batches(Augmentation(shift=1)))["pixel_values"]
    windows = plain.unfold(2, 6, 1).unfold(3, 6, 1).flatten(2, 3)  # [batch, channel, 9, 6, 6]
    assert all(any(torch.equal(window, m[0, 1:7, 1:7]) for window in w[0]) for m, w in zip(moved, windows, strict=True))
    flipped = next(batches(Augmentation(flip=True)))["pixel_values"]
    same = [(torch.equal(f, p), torch.equal(f, p.flip(-1))) for f, p in zip(flipped, plain, strict=True)]
    assert all(any(pair) for pair in same) and 5 < sum(not pair[0] for pair in same) < 27
    erased = next(batches(Augmentation(erase=0.9)))["pixel_values"]
    gone = (erased == 0).float().mean((1, 2, 3))
    assert int((gone > 0).sum()) > 20 and float(gone.max()) < 0.5
    assert torch.equal(erased[erased != 0], plain[erased != 0])


def test_mixed_pictures_have_two_labels_by_area() -> None:
    cut = next(batches(Augmentation(cutmix=0.99)))
    plain = next(batches(Augmentation()))["pixel_values"]
    assert cut["labels"].shape == (32, 2) and torch.allclose(cut[WEIGHTS].sum(-1), torch.ones(32))
    kept = float(cut[WEIGHTS][0, 0])
    unchanged = (cut["pixel_values"] == plain).all(0).all(0).float().mean()
    assert float(unchanged) >= kept - 1e-6
    mix = next(batches(Augmentation(mixup=0.99)))
    kept = float(mix[WEIGHTS][0, 0])
    assert torch.allclose(mix["pixel_values"].mean(), plain.mean(), atol=1e-4) and 0 < kept < 1


def test_commands_take_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train_task("image", FEW, out=tmp_path / "run")
    Image.fromarray(digits().pixels[0, :, :, 0]).save(tmp_path / "zero.png")
    assert main(["classify", str(tmp_path / "run"), str(tmp_path / "zero.png"), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["label"] in "0123456789" and len(found["probabilities"]) == 10
    page = tmp_path / "page.html"
    assert main(["classify", str(tmp_path / "run"), str(tmp_path / "zero.png"), "--attention", str(page)]) == 0
    text = page.read_text()
    assert text.count("<svg") == 2 * 4 and text.count("<rect") == 2 * 4 * 16 and "data:image/png" in text
    assert main(["trace", str(tmp_path / "run"), str(tmp_path / "zero.png")]) == 0
    assert "patchify" in capsys.readouterr().out
    assert main(["trace", "vit-tiny", str(tmp_path / "zero.png"), "--equation", "patchify"]) == 0
    assert "patchify" in capsys.readouterr().out
    assert main(["evaluate", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["examples"] == 180
    (tmp_path / "bad.png").write_bytes(b"bad")
    assert main(["classify", str(tmp_path / "run"), str(tmp_path / "bad.png")]) != 0
    assert "is not an image" in capsys.readouterr().err
    assert main(["generate", str(tmp_path / "run"), "text"]) != 0
