"""A stopped run goes on only with the settings and the data it was started with."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.errors import CheckpointError, ConfigError, DataError
from glassformer.models.registry import build
from glassformer.training.loop import train
from glassformer.training.objective import NEXT_TOKEN
from glassformer.training.run import train_task
from glassformer.training.run_folder import RunFolder
from tests.training.test_run import settings_of, started
from tests.training.tiny_run import CONFIG, batches, recipe


@pytest.fixture(autouse=True)
def cache(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(stopped / "cache"))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data of its own for each part, and a run of each kind of data that was stopped at step 4."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLASSFORMER_CACHE", str(folder / "cache"))
        for task in ("translate", "gpt", "classify"):
            settings = settings_of(task, folder)
            file = Path(settings.data.path)
            held = {part: folder / f"{task}-{part}{file.suffix}" for part in ("validation", "test")}
            held = {part: str(shutil.copy(file, copy)) for part, copy in held.items()}
            run = started(replace(settings, data=replace(settings.data, **held)), folder / task)
            for log in run.train():
                if log.step == 4:
                    break
    return folder


@pytest.mark.parametrize("part", ["validation", "test"])
@pytest.mark.parametrize("task", ["translate", "gpt", "classify"])
def test_held_out_data_that_changed_is_noticed(task: str, part: str, stopped: Path) -> None:
    (file,) = stopped.glob(f"{task}-{part}.*")
    before = file.read_bytes()
    first, newline, rest = before.partition(b"\n") if b"\n" in before else (before[:9], b"", before[9:])
    file.write_bytes(rest + first + newline)  # as many tokens as before
    try:
        with pytest.raises(
            DataError, match=f"^the {part} data has changed since the run began .checksum \\d+, now \\d+"
        ):
            train_task(out=stopped / task, resume=True)
    finally:
        file.write_bytes(before)


@pytest.mark.parametrize(
    ("line", "other", "said"),
    [
        (
            "learning_rate = 0.02",
            "learning_rate = 0.5",
            "recipe.learning_rate is 0.5, but the run was started with 0.02",
        ),
        ("dim = 8", "dim = 16", "model.dim is 16, but the run was started with 8"),
        ("seed = 0", "seed = 1", "recipe.seed is 1, but the run was started with 0"),
        (
            'kind = "characters"',
            'kind = "words"',
            'tokenizer.kind is "words", but the run was started with "characters"',
        ),
        ("max_grad_norm = 1.0", "max_grad_norm = inf", "recipe.max_grad_norm is inf, but the run was started with 1.0"),
    ],
)
def test_an_edited_configuration_is_noticed(line: str, other: str, said: str, stopped: Path) -> None:
    config = stopped / "gpt" / "config.toml"
    before = config.read_text()
    assert line in before
    config.write_text(before.replace(line, other))
    try:
        with pytest.raises(ConfigError) as found:
            train_task(out=stopped / "gpt", resume=True)
    finally:
        config.write_text(before)
    assert str(found.value) == f"{said}: put it back as it was, or begin another run"


def test_what_changes_no_number_may_be_edited(stopped: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(stopped / "gpt", tmp_path / "run"))
    config = out / "config.toml"
    config.write_text("# mine\n" + config.read_text().replace('compile = "auto"', 'compile = "no"'))
    assert train_task(out=out, resume=True).model.config.dim == 8


def test_older_names_of_keys_are_answered_with_the_new_ones(stopped: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(stopped / "gpt", tmp_path / "run"))
    said = "unknown setting recipe.rate: it is now recipe.learning_rate"
    with pytest.raises(ConfigError) as found:
        train_task(None, {"recipe.rate": 0.5}, out=out, resume=True)
    assert str(found.value) == f"settings: {said}"
    config = out / "config.toml"
    config.write_text(config.read_text().replace("\nlearning_rate =", "\nrate ="))
    with pytest.raises(ConfigError) as found:
        train_task(out=out, resume=True)
    assert str(found.value) == f"{config}: {said}"


def test_a_checkpoint_of_another_version_is_named(tmp_path: Path) -> None:
    list(train(build(CONFIG), batches(), NEXT_TOKEN, recipe(steps=6), RunFolder(tmp_path)))
    folder = RunFolder(tmp_path)
    saved = folder.latest()
    assert saved is not None
    folder.save(replace(saved, state={key: value for key, value in saved.state.items() if key != "monitor"}))
    with pytest.raises(CheckpointError, match="of another version of glassformer: .*`monitor`"):
        list(train(build(CONFIG), batches(), NEXT_TOKEN, recipe(steps=6), RunFolder(tmp_path)))


def test_a_checkpoint_of_another_model_is_named(tmp_path: Path) -> None:
    list(train(build(CONFIG), batches(), NEXT_TOKEN, recipe(steps=6), RunFolder(tmp_path)))
    wider = build(replace(CONFIG, dim=16))
    said = r"another model: its embedding.weight is \[11, 8\], the model's is \[11, 16\]"
    with pytest.raises(CheckpointError, match=said):
        list(train(wider, batches(), NEXT_TOKEN, recipe(steps=6), RunFolder(tmp_path)))
