"""A task that this file defines is trained, resumed and evaluated by the functions that all tasks share."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from glassformer.checkpoints.load import load
from glassformer.cli.main import main
from glassformer.data.files import Document, read_texts
from glassformer.data.padded_batches import LabeledBatches
from glassformer.data.splitting import split
from glassformer.decoding.generate import generate
from glassformer.equations.losses import mean_squared_error
from glassformer.errors import ConfigError
from glassformer.layers.config import Config, Size
from glassformer.layers.model import Model
from glassformer.models.encoder import Encoder, EncoderConfig
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.config import from_settings, resolve
from glassformer.training.evaluate import evaluate
from glassformer.training.objective import Objective
from glassformer.training.recipe import Recipe
from glassformer.training.registry import TASKS, families, keys
from glassformer.training.run import Run, prepare, train_task
from glassformer.training.run_folder import LOG, RunFolder
from glassformer.training.settings import DataSettings, RunSettings, Settings, TokenizerSettings
from glassformer.training.task import (
    DataContext,
    EvaluatedModel,
    EvaluationSet,
    Generate,
    Metrics,
    Part,
    Progress,
    Record,
    Task,
    TaskData,
    require_context,
    silent,
)
from tests.training.fake_snapshots import same

BUILT_IN = ["ab " * count for count in range(1, 30)]


def squared_error(
    model: Model, inputs: Sequence[Tensor], targets: Tensor, weights: object, label_smoothing: float, r_drop: float
) -> tuple[Tensor, Tensor]:
    predicted = model(*inputs)
    wanted = targets[:, None].to(predicted.dtype)
    return mean_squared_error(predicted, wanted) * len(targets), torch.tensor(len(targets), device=targets.device)


LENGTH = Objective(inputs=("ids", "attention_mask"), targets="labels", loss=squared_error, baseline=None)


@dataclass(frozen=True, kw_only=True)
class LengthData(DataSettings):
    """Texts, each a document of a file."""

    path: str = "counting"
    max_length: Size = 16
    batch_size: Size = 4


@dataclass(frozen=True, kw_only=True)
class LengthSettings(Settings):
    """An encoder that predicts how long a text is."""

    data: LengthData = LengthData()
    model: Config = EncoderConfig(head="classifier", dim=8, layers=1, heads=2, ffn_dim=8, context=16)


@dataclass(frozen=True, kw_only=True)
class LengthMetrics(Metrics):
    """The mean squared error is the loss."""

    texts: int


@dataclass(frozen=True)
class LengthSet(EvaluationSet):
    """Texts with their lengths."""

    def evaluate(
        self, model: Model, generate: Generate, progress: Progress = silent, record: Record | None = None
    ) -> LengthMetrics:
        """The mean squared error."""
        total, count = 0.0, 0
        with torch.no_grad():
            for batch in progress(self.batches.once(), "batches evaluated"):
                inputs = [batch[name] for name in LENGTH.inputs]
                loss, texts = squared_error(model, inputs, batch["labels"], None, 0.0, 0.0)
                total, count = total + float(loss), count + int(texts)
        return LengthMetrics(loss=total / count, texts=count)


class Length(Task[LengthSettings]):
    """Regression of the number of tokens."""

    settings = LengthSettings
    protocol = Encoder
    objective = LENGTH
    built_in = "counting"
    parts = ("path",)
    config_values = {"head": "classifier"}  # noqa: RUF012

    def read(self, settings: LengthSettings, part: Part) -> Iterator[Document]:
        path = vars(settings.data)[part]
        return iter([Document(text, "built in") for text in BUILT_IN]) if path == self.built_in else read_texts(path)

    def prepare(self, settings: LengthSettings, context: DataContext) -> TaskData:
        data, seed = settings.data, settings.recipe.seed
        require_context(settings.model, "data.max_length", data.max_length)
        texts = [document.text for document in self.read(settings, "path")]
        train, validation = split(texts, data.validation_fraction, seed)
        tokenizer = context.tokenizer(settings.tokenizer, lambda: train).for_encoder()

        def made(part: list[str], name: str) -> LabeledBatches:
            return batches(tokenizer, part, settings, *context.shard(len(part), name, "texts"))

        held = made(validation, "validation")
        return TaskData(tokenizer, made(train, "training"), held, LengthSet(held), config_values={"classes": 1})

    def evaluation_set(self, evaluated: EvaluatedModel, settings: LengthSettings) -> LengthSet:
        texts = [document.text for document in self.read(settings, "path")]
        if settings.data.path == self.built_in:
            texts = split(texts, settings.data.validation_fraction, settings.recipe.seed)[1]
        return LengthSet(batches(evaluated.tokenizer, texts, settings))


def batches(
    tokenizer: Tokenizer, texts: Sequence[str], settings: LengthSettings, rank: int = 0, world: int = 1
) -> LabeledBatches:
    rows, data = tokenizer.encode_inputs(list(texts), settings.data.max_length), settings.data
    lengths = [len(row) for row in rows]
    return LabeledBatches(rows, lengths, data.batch_size, tokenizer.required("pad"), settings.recipe.seed, rank, world)


SETTINGS = LengthSettings(
    data=LengthData(validation_fraction=0.3),
    tokenizer=TokenizerSettings(kind="characters"),
    recipe=Recipe(steps=40, warmup_steps=2, learning_rate=0.1, log_every=1, evaluate_every=10, save_every=4),
    run=RunSettings(device="cpu", precision="float32"),
)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "length", Length())


def started(out: Path, resume: bool = False) -> Run:
    return prepare(from_settings(SETTINGS), out, [].append, resume)


def test_it_is_trained_resumed_to_the_bit_and_evaluated(tmp_path: Path) -> None:
    whole = started(tmp_path / "whole")
    logs = list(whole.train())
    assert logs[-1].loss < 0.2 * logs[0].loss
    assert not any("uniform guess" in (log.note or "") for log in logs), "this loss has no such baseline"
    for log in started(tmp_path / "stopped").train():
        if log.step == 21:
            break
    resumed = train_task(out=tmp_path / "stopped", resume=True)
    assert same(RunFolder(tmp_path / "stopped").latest(), RunFolder(tmp_path / "whole").latest())
    for name in (LOG, "config.toml", "model.safetensors", "tokenizer.json"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    found = whole.evaluate()
    assert isinstance(found, LengthMetrics) and found.texts == round(0.3 * len(BUILT_IN))
    assert resumed.evaluate() == found == evaluate(tmp_path / "whole")
    assert load(tmp_path / "whole").model.config.classes == 1
    file = tmp_path / "texts.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in BUILT_IN[:5]))
    assert evaluate(tmp_path / "whole", str(file)).texts == 5  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ConfigError, match="num_beams is given, and .* is for length, which has no such option"):
        evaluate(tmp_path / "whole", num_beams=2)


def test_commands_know_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["recipe.steps=4", "tokenizer.kind=characters", "run.device=cpu", "data.validation_fraction=0.3"]
    assert main(["train", "length", *words, "--out", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["texts"] == 9
    assert main(["evaluate", str(tmp_path / "run"), "--task", "length"]) == 0
    assert "texts" in capsys.readouterr().out
    assert main(["config", "length"]) == 0
    assert 'path = "counting"' in capsys.readouterr().out
    assert main(["config", "lenght"]) == 2
    assert "did you mean length?" in capsys.readouterr().err


def test_its_settings_are_those_of_its_data_and_of_every_model_it_trains() -> None:
    assert families("length") == ("encoder",)
    assert {"data.max_length", "model.layers", "recipe.steps"} <= keys("length", "encoder").keys()
    assert "model.classes" not in keys("length", "encoder")
    with pytest.raises(ConfigError, match="data.batch_size is 0, wanted a whole number, 1 or more"):
        resolve("length", words=["data.batch_size=0"])


def test_a_part_of_the_data_that_it_does_not_read_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.txt").write_text("ab ab")
    for part in ("validation", "test"):
        words = [f"data.{part}={tmp_path / 'x.txt'}", "run.device=cpu", "--out", str(tmp_path / "run")]
        assert main(["train", "length", *words]) == 2
        err = capsys.readouterr().err
        assert err == f"glassformer: error: data.{part} is {tmp_path / 'x.txt'}, which this task does not read\n"


def test_a_text_that_is_generated_can_be_evaluated_too(tmp_path: Path) -> None:
    """Every evaluation is given the function that generates text."""
    run = started(tmp_path / "run")
    assert run.data.test.evaluate(run.model.eval(), generate).loss > 0
