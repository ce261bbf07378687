"""The tasks image-tokens and dalle: both stages by one command, the autoencoder kept, exact resume, bad input."""

import dataclasses
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.data.batches import IGNORE, WEIGHTS
from glassformer.data.picture_batches import CaptionedTokenBatches, PictureBatches, TokenLayout
from glassformer.errors import ConfigError, DataError, PathError
from glassformer.models.dalle import DALLE
from glassformer.models.gpt import GPTConfig
from glassformer.models.image_autoencoder import ImageAutoencoder
from glassformer.models.registry import build
from glassformer.training.evaluate import evaluate
from glassformer.training.run import prepare_task, train_task
from glassformer.training.tasks import dalle
from tests.training.tiny_pictures import DECODER, pictures, write_table

TOKENS = {
    "data.batch_size": 4, "model.features": 8, "model.halvings": 1, "model.levels": [4, 3], "model.blocks": 1,
    "recipe.steps": 6, "recipe.warmup_steps": 1, "recipe.log_every": 1, "recipe.evaluate_every": 3,
    "recipe.save_every": 2, "run.device": "cpu", "run.precision": "float32",
}  # fmt: skip


@pytest.fixture(autouse=True)
def often_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first stage that is evaluated and saved within its few steps."""
    monkeypatch.setattr(dalle, "FIRST_STAGE", dataclasses.replace(dalle.FIRST_STAGE, evaluate_every=3, save_every=2))


@pytest.fixture
def table(tmp_path: Path) -> dict[str, object]:
    return write_table(tmp_path)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return gf.load(folder).model.state_dict()


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def test_activation_checkpointing_is_for_the_second_stage(table: dict, tmp_path: Path) -> None:
    settings = {**DECODER, **table, "run.activation_checkpointing": True}
    run = train_task("dalle", settings, out=tmp_path / "run")
    assert run.device.activation_checkpointing and run.logs


def test_one_command_trains_both_stages_and_one_folder_holds_them(table: dict, tmp_path: Path) -> None:
    run = train_task("dalle", {**DECODER, **table}, out=tmp_path / "run")
    model, first = gf.load(tmp_path / "run").model, gf.load(tmp_path / "run" / "autoencoder").model
    assert isinstance(model, DALLE) and isinstance(first, ImageAutoencoder)
    assert same(model.autoencoder.state_dict(), first.state_dict()), "the second stage leaves the first as it is"
    assert model.config.text_length == 4 and model.config.context == 4 + 4
    assert model.config.text_vocab == run.data.required_tokenizer().vocab_size
    metrics = vars(run.evaluate())
    assert metrics["pictures"] == 6 and metrics["text_loss"] > 0
    again = vars(evaluate(tmp_path / "run", device="cpu"))
    assert again == pytest.approx(metrics, rel=1e-4)
    assert gf.load(tmp_path / "run").draw("red left", n=2).shape == (2, 8, 8, 3)


def test_the_decoder_learns_and_the_autoencoder_does_not_change(table: dict, tmp_path: Path) -> None:
    run = prepare_task("dalle", {**DECODER, **table, "recipe.steps": 30, "recipe.learning_rate": 0.01})
    before = {name: value.clone() for name, value in run.model.autoencoder.state_dict().items()}
    logs = list(run.train())
    assert logs[-1].loss < 0.7 * logs[0].loss
    assert same(run.model.autoencoder.state_dict(), before)


def test_a_trained_autoencoder_is_taken(table: dict, tmp_path: Path) -> None:
    settings = {**TOKENS, "data.path": table["data.images"]}
    first = train_task("image-tokens", settings, out=tmp_path / "tokens")
    assert vars(first.evaluate()) == pytest.approx(vars(evaluate(tmp_path / "tokens", device="cpu")), rel=1e-5)
    named = {**DECODER, **table, "data.autoencoder": str(tmp_path / "tokens")}
    run = train_task("dalle", named, out=tmp_path / "run")
    assert same(run.model.autoencoder.state_dict(), weights(tmp_path / "tokens"))
    assert not (tmp_path / "run" / "autoencoder").exists()
    inside = {**DECODER, **table, "data.autoencoder": str(tmp_path / "run")}  # the one inside a DALL-E does too
    assert same(prepare_task("dalle", inside).model.autoencoder.state_dict(), weights(tmp_path / "tokens"))


def test_reconstructions_become_better(table: dict) -> None:
    settings = {**TOKENS, "data.path": table["data.images"], "recipe.steps": 60, "recipe.learning_rate": 0.005}
    run = prepare_task("image-tokens", settings)
    before = run.evaluate()
    list(run.train())
    after = run.evaluate()
    assert after.loss < 0.3 * before.loss
    assert after.psnr == pytest.approx(-10 * np.log10(after.loss))
    assert after.codes == 12 and 1 < after.codes_used <= 12


@pytest.mark.parametrize("task", ["image-tokens", "dalle"])
def test_a_run_that_died_ends_in_the_same_bits(task: str, table: dict, tmp_path: Path) -> None:
    settings = {**TOKENS, "data.path": table["data.images"]} if task == "image-tokens" else {**DECODER, **table}
    train_task(task, settings, out=tmp_path / "unbroken")
    logs = iter(prepare_task(task, settings, out=tmp_path / "died").train())
    for log in logs:
        if log.step == 5:  # the last checkpoint is of step 4
            break
    del logs
    train_task(task, out=tmp_path / "died", resume=True)
    assert same(weights(tmp_path / "died"), weights(tmp_path / "unbroken"))


class DeathError(Exception):
    """The end of a process in a test."""


def test_a_run_that_died_in_its_first_stage_is_begun_again_where_it_was(table: dict, tmp_path: Path) -> None:
    settings = {**DECODER, **table}
    train_task("dalle", settings, out=tmp_path / "unbroken")
    steps = []

    def die(text: str) -> None:
        steps.append(text)
        if "step 3 of 6" in text:
            raise DeathError

    with pytest.raises(DeathError):
        prepare_task("dalle", settings, out=tmp_path / "died", report=die)
    assert (tmp_path / "died" / "autoencoder" / "step-00000003").exists()
    assert not (tmp_path / "died" / "config.toml").exists()
    said: list[str] = []
    for _ in prepare_task("dalle", settings, out=tmp_path / "died", report=said.append).train():
        pass
    assert not any("step 3 of 6" in text for text in said), "the first stage begins from its checkpoint"
    assert same(weights(tmp_path / "died"), weights(tmp_path / "unbroken"))


def test_a_dry_run_trains_nothing(table: dict, tmp_path: Path) -> None:
    from glassformer.training.config import resolve
    from glassformer.training.run import prepare

    words = [f"{key}={value}".replace("False", "false") for key, value in {**DECODER, **table}.items()]
    said: list[str] = []
    run = prepare(resolve("dalle", words=words), tmp_path / "run", said.append, dry_run=True)
    assert run.parameters > 1000 and not any("first stage" in text for text in said)
    assert not (tmp_path / "run").exists()


def batches(**changes: object) -> CaptionedTokenBatches:
    captions = [[[5, 6], [7]], [[8]], [[9, 9, 9, 9]]]
    codes = np.arange(2 * 3 * 4).reshape(2, 3, 4) % 10
    found = CaptionedTokenBatches(captions, codes, TokenLayout(3, 20, 0), 3, 0)
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def test_a_batch_is_the_caption_and_then_the_picture() -> None:
    (batch,) = batches(text_weight=0.25).once()
    assert batch["ids"].tolist() == [[5, 6, 0, 20, 21, 22], [8, 0, 0, 24, 25, 26], [9, 9, 9, 28, 29, 20]]
    assert batch["targets"].tolist() == [
        [6, IGNORE, 20, 21, 22, 23], [IGNORE, IGNORE, 24, 25, 26, 27], [9, 9, 28, 29, 20, 21],
    ]  # fmt: skip
    assert batch[WEIGHTS][0].tolist() == [0.25, 0.0, 1.0, 1.0, 1.0, 1.0]


def test_training_draws_captions_and_variations_and_leaves_some_empty() -> None:
    found = batches(varies=True, caption_dropout=0.3)
    seen = [(tuple(row[:3].tolist()), tuple(row[3:].tolist())) for _ in range(200) for row in next(found)["ids"]]
    texts = [text for text, _ in seen]
    assert {(5, 6, 0), (7, 0, 0), (8, 0, 0), (9, 9, 9), (0, 0, 0)} == set(texts)
    assert 0.2 < texts.count((0, 0, 0)) / len(texts) < 0.4
    assert len({picture for _, picture in seen}) > 3, "variations of the pictures"
    one, other = batches(varies=True, caption_dropout=0.3), batches(varies=True, caption_dropout=0.3)
    assert all(torch.equal(next(one)["ids"], next(other)["ids"]) for _ in range(5))


def test_processes_share_a_batch() -> None:
    whole = batches(varies=True)
    halves = [CaptionedTokenBatches(whole.captions, whole.codes, whole.layout, 3, 0, rank, 2) for rank in (0, 1)]
    for half in halves:
        half.varies = True
    ids = next(whole)["ids"]
    assert torch.equal(ids[0::2], next(halves[0])["ids"]) and torch.equal(ids[1::2], next(halves[1])["ids"])


def test_pictures_are_varied_the_same_way_again() -> None:
    pixels, _ = pictures()
    one, other = (PictureBatches(pixels, 4, 0, strength="light") for _ in range(2))
    first = next(one)["pixel_values"]
    assert torch.equal(first, next(other)["pixel_values"]) and first.shape == (4, 3, 8, 8)
    assert float(first.min()) >= 0 and float(first.max()) <= 1
    plain = next(PictureBatches(pixels, 4, 0))["pixel_values"]
    assert not torch.equal(first, plain)


def rows(table: dict, text: str) -> dict[str, object]:
    Path(str(table["data.path"])).write_text(text)
    return table


def wrong(table: dict, tmp_path: Path) -> Iterator[tuple[dict[str, object], type[Exception], str]]:
    yield {"data.autoencoder": str(tmp_path / "none")}, PathError, "there is no such file or folder"
    yield rows(table, "image\tcaption\n99\tred\n"), DataError, "wanted the number of a picture, 0 to 23"
    yield rows(table, "image\tcaption\n1\t\n"), DataError, "caption"
    yield {"model.context": 30}, ConfigError, "model.context cannot be set, it follows from data.caption_length"
    yield {"data.channels": 1}, DataError, "pictures have 3 channels, wanted 1"
    yield {"data.images": str(tmp_path / "train.tsv")}, DataError, "cannot be read"


def test_bad_settings_and_data_are_named(table: dict, tmp_path: Path) -> None:
    for change, error, message in wrong(table, tmp_path):
        with pytest.raises(error, match=message):
            prepare_task("dalle", {**DECODER, **table, **change}, out=tmp_path / "bad")
        write_table(tmp_path)


def test_a_folder_that_holds_no_autoencoder_is_refused(table: dict, tmp_path: Path) -> None:
    gf.save(build(GPTConfig(vocab=9, context=4, dim=4, layers=1, heads=1)), tmp_path / "gpt")
    with pytest.raises(ConfigError, match="holds a GPT, wanted an autoencoder"):
        prepare_task("dalle", {**DECODER, **table, "data.autoencoder": str(tmp_path / "gpt")})
    settings = {**TOKENS, "data.path": table["data.images"], "data.image_size": 16, "recipe.steps": 2}
    train_task("image-tokens", settings, out=tmp_path / "large")
    with pytest.raises(ConfigError, match="reads pictures of 16 pixels and 3 channels, and those of the data have 8"):
        prepare_task("dalle", {**DECODER, **table, "data.autoencoder": str(tmp_path / "large")})


@pytest.mark.parametrize(
    ("name", "message"),
    [("text.txt", "wanted a folder of pictures, an .npz file or an IDX file"), ("empty", "holds no pictures")],
)
def test_what_holds_no_pictures_is_refused(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("text")
    (tmp_path / "empty").mkdir()
    with pytest.raises(PathError, match=message):
        prepare_task("image-tokens", {**TOKENS, "data.path": str(tmp_path / name)})


def test_a_folder_of_pictures_with_a_broken_one(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    from glassformer.data.png import png_bytes

    for number, picture in enumerate(pictures()[0]):
        (tmp_path / f"{number:02}.png").write_bytes(png_bytes(picture))
    (tmp_path / "broken.png").write_bytes(png_bytes(pictures()[0][0])[:-30])
    said: list[str] = []
    settings = {**TOKENS, "data.path": str(tmp_path), "data.image_size": 8}
    run = prepare_task("image-tokens", settings, report=said.append)
    assert run.data.batches.count + run.data.validation.count == 24
    assert any("broken.png" in text for text in said) and any("1 of 25 pictures" in text for text in said)


@pytest.mark.soak
def test_a_run_killed_at_random_moments_ends_in_the_same_bits(table: dict, tmp_path: Path) -> None:
    """By SIGKILL, as a machine that goes down does it."""
    words = [f"{key}={value}" for key, value in {**TOKENS, "data.path": table["data.images"]}.items()]
    words = [word for word in words if not word.startswith(("recipe.steps", "recipe.save"))]
    words += ["recipe.steps=60", "recipe.save_every=1"]
    command = [sys.executable, "-m", "glassformer", "train"]

    def start(folder: str, *more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*command, *more, "--out", str(tmp_path / folder)], stderr=subprocess.DEVNULL)

    assert start("unbroken", "image-tokens", *words).wait() == 0
    run = start("killed", "image-tokens", *words)
    for checkpoint in (5, 20, 40):
        while run.poll() is None and not (tmp_path / "killed" / f"step-{checkpoint:08d}").exists():
            time.sleep(0.001)
        run.kill()
        run.wait()
        run = start("killed", "--resume")
    assert run.wait() == 0
    assert same(weights(tmp_path / "killed"), weights(tmp_path / "unbroken"))
