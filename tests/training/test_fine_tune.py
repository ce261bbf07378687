"""Fine-tuning a part of a model: frozen weights stay to the bit, exact resume, merged or as an adapter."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from glassformer.checkpoints.load import load
from glassformer.checkpoints.tensor_files import ADAPTER_CONFIG
from glassformer.errors import ConfigError
from glassformer.layers.lora import lora_layers
from glassformer.training.config import from_settings, resolve
from glassformer.training.optimizer import trainable
from glassformer.training.recipe import Recipe
from glassformer.training.run import Run, prepare, train_task
from glassformer.training.run_folder import LOG, RunFolder
from glassformer.training.settings import LoRASettings, RunSettings, Settings
from tests.training.fake_snapshots import same_tensors
from tests.training.test_run import CPU, settings_of, started

LORA = LoRASettings(rank=2, alpha=4.0, dropout=0.1)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained gpt and a trained masked model."""
    home = tmp_path_factory.mktemp("fine_tune")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLASSFORMER_CACHE", str(home / "cache"))
        for task in ("gpt", "masked"):
            list(started(settings_of(task, home, steps=3, warmup_steps=1), home / task).train())
    return home


@pytest.fixture(autouse=True)
def cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(home / "cache"))


def tuned(
    home: Path, task: str = "gpt", lora: LoRASettings = LORA, freeze: str = "", **recipe_values: object
) -> Settings:
    """The settings of a run that fine-tunes one of the trained models."""
    init = home / ("masked" if task == "classify" else task)
    settings = settings_of(task, home, **{"ema_decay": 0.5, "evaluate_every": 2, **recipe_values})
    return replace(settings, lora=lora, run=replace(CPU, init=str(init), freeze=freeze))


def weights(path: Path) -> dict[str, Tensor]:
    return dict(load(path).model.state_dict())


@pytest.mark.parametrize("optimizer", ["adamw", "muon", "momentum", "sgd"])
def test_only_lora_moves_and_the_frozen_stay_to_the_bit(optimizer: str, home: Path, tmp_path: Path) -> None:
    run = started(tuned(home, optimizer=optimizer), tmp_path / "run")
    list(run.train())
    base, last = weights(home / "gpt"), RunFolder(tmp_path / "run").latest()
    assert last is not None
    for name, value in last.model.items():
        if name in base:
            assert torch.equal(value, base[name]), f"{name} has moved"
        else:
            assert name.endswith(("lora_A", "lora_B")) and value.any()
    names = {key.removeprefix("average/").partition("/")[0] for key in last.optimizer}
    assert names == {name for name in last.model if name not in base}, "state of a frozen parameter"
    found = weights(tmp_path / "run")
    changed = {name for name in base if not torch.equal(found[name], base[name])}
    assert changed == {name for name in base if "attention." in name and name.endswith("weight")}


def test_a_part_can_be_frozen(home: Path, tmp_path: Path) -> None:
    said: list[str] = []
    run = started(tuned(home, lora=LoRASettings(), freeze="embedding, positions, *norm"), tmp_path / "run", said=said)
    list(run.train())
    base, found = weights(home / "gpt"), weights(tmp_path / "run")
    frozen = {name for name in base if torch.equal(found[name], base[name])}
    assert frozen == {name for name in base if name.startswith(("embedding", "positions")) or "norm." in name}
    count = sum(value.numel() for name, value in base.items() if name not in frozen)
    total = sum(value.numel() for value in base.values())
    assert f"{count:,} of {total:,} parameters are trained ({count / total:.2%})" in said


@pytest.mark.parametrize("save", ["merged", "adapter"])
@pytest.mark.parametrize("task", ["gpt", "classify"])
def test_a_run_ends_with_what_it_evaluated_and_resumes_to_the_bit(
    task: str, save: str, home: Path, tmp_path: Path
) -> None:
    how = tuned(home, task, replace(LORA, save=save))
    run = started(how, tmp_path / "whole")
    list(run.train())
    assert not lora_layers(run.model) and (tmp_path / "whole" / ADAPTER_CONFIG).exists() == (save == "adapter")
    loaded = load(tmp_path / "whole")
    assert loaded.labels == run.labels and loaded.tokenizer is not None
    assert_close(dict(loaded.model.state_dict()), dict(run.model.state_dict()))
    assert same_tensors(dict(loaded.model.state_dict()), weights_of(run))
    for log in started(how, tmp_path / "run").train():
        if log.step == 4:
            break
    with pytest.warns(match="the run is not finished; using its"):
        unfinished = load(tmp_path / "run")
    assert unfinished.model.state_dict().keys() == run.model.state_dict().keys()
    list(prepare(from_settings(settings_in(tmp_path / "run")), tmp_path / "run", [].append, True).train(resume=True))
    assert (tmp_path / "run" / LOG).read_bytes() == (tmp_path / "whole" / LOG).read_bytes()
    one, other = (RunFolder(tmp_path / name).latest() for name in ("run", "whole"))
    assert one is not None and other is not None
    assert same_tensors(one.model, other.model) and same_tensors(one.optimizer, other.optimizer)
    assert same_tensors(weights(tmp_path / "run"), weights(tmp_path / "whole"))


def weights_of(run: Run) -> dict[str, Tensor]:
    return {name: value.detach() for name, value in run.model.state_dict().items()}


def settings_in(folder: Path) -> Settings:
    """The settings that a run has written down, which name the head it trains in full."""
    return resolve(file=folder / "config.toml").settings


def test_a_checkpoint_is_loaded_with_its_update_merged(home: Path, tmp_path: Path) -> None:
    run = started(tuned(home, ema_decay=0.0), tmp_path / "run")
    list(run.train())
    last = RunFolder(tmp_path / "run").load(6).model
    name = "stack.blocks.0.attention.qkv"
    wanted = last[f"{name}.weight"] + 4.0 / 2 * last[f"{name}.lora_A"] @ last[f"{name}.lora_B"]
    assert_close(load(tmp_path / "run", step=6).model.state_dict()[f"{name}.weight"], wanted)
    assert json.loads((tmp_path / "run" / "model.json").read_text())["lora_alpha"] == 4.0


def test_the_fresh_head_of_a_task_is_trained_in_full(home: Path, tmp_path: Path) -> None:
    run = started(tuned(home, "classify"), tmp_path / "run")
    assert run.settings.lora.modules_to_save == "classifier, pooler"
    full = {name for name in trainable(run.model) if "lora" not in name}
    assert full == {"classifier.weight", "classifier.bias", "pooler.weight", "pooler.bias"}


def test_memory_and_checkpoints_count_what_is_trained(home: Path) -> None:
    whole, part = started(tuned(home, lora=LoRASettings()), None), started(tuned(home), None)
    trained, total = sum(4 * p.numel() for p in trainable(part.model).values()), 4 * part.parameters
    assert part.estimate.weights == total and part.estimate.gradients == trained
    assert part.estimate.optimizer == 3 * trained < whole.estimate.optimizer
    assert part.estimate.memory < whole.estimate.memory
    assert part.bytes_per_checkpoint == total + 3 * trained
    assert whole.bytes_per_checkpoint == 4 * 4 * whole.parameters


def test_without_a_folder_the_model_ends_merged(home: Path) -> None:
    run = started(tuned(home), None)
    before = {name: value.clone() for name, value in weights_of(run).items()}
    list(run.train())
    assert not lora_layers(run.model)
    name = "stack.blocks.0.attention.qkv.weight"
    assert not torch.equal(weights_of(run)[name], before[name])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"run.init": ""}, "lora.rank is 2, but run.init names no trained model to fine-tune"),
        ({"run.freeze": "embedding"}, "lora.rank and run.freeze are both set, wanted one"),
        ({"lora.rank": 0}, "lora.alpha is set, but lora.rank is 0: give a rank such as lora.rank=8"),
        ({"lora.targets": "nope"}, "targets: nope matches no linear layer of the model; there are stack.blocks.att"),
        ({"lora.modules_to_save": "nope"}, "modules_to_save: nope matches no parameter of the model"),
        (
            {"lora.save": "adapter", "lora.modules_to_save": "embedding"},
            "lora.save is adapter, but .*wte.weight is tied",
        ),
        ({"lora.rank": 0, "lora.alpha": 16.0, "run.freeze": "*"}, r"run.freeze is \*, which leaves nothing to train"),
        (
            {"lora.rank": 0, "lora.alpha": 16.0, "run.init": "", "run.freeze": "x"},
            "run.freeze is x, but run.init names",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_work(changes: dict[str, object], said: str, home: Path) -> None:
    text = {"data.path": str(home / "text.txt"), "data.max_length": 8, "data.batch_size": 4}
    usual = {**text, "run.init": str(home / "gpt"), "lora.rank": 2, "lora.alpha": 4.0, "recipe.steps": 2}
    with pytest.raises(ConfigError, match=said) as caught:
        train_task("gpt", {**usual, **changes})
    assert "\n" not in str(caught.value)


def test_an_adapter_needs_the_folder_of_a_finished_model(home: Path) -> None:
    settings = tuned(home, lora=replace(LORA, save="adapter"))
    file = str(home / "gpt" / "model.safetensors")
    with pytest.raises(ConfigError, match="wanted the folder of a finished model, or lora.save=merged"):
        started(replace(settings, run=replace(settings.run, init=file)), None)


def test_the_length_of_the_data_follows_the_context_of_the_model(home: Path) -> None:
    context = load(home / "gpt").model.config.context  # pyright: ignore[reportAttributeAccessIssue]
    words = [f"run.init={home / 'gpt'}", f"data.path={home / 'text.txt'}"]
    asked = resolve("gpt", words=words)
    assert asked.settings.data.max_length > context  # pyright: ignore[reportAttributeAccessIssue]
    assert prepare(asked, None, [].append).settings.data.max_length == context  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ConfigError, match="max_length"):
        prepare(resolve("gpt", words=[*words, f"data.max_length={context + 1}"]), None, [].append)


def test_settings_are_data() -> None:
    assert LoRASettings().rank == 0 and RunSettings().freeze == "" and Recipe().ema_decay == 0.0
    with pytest.raises(ConfigError, match="alpha is 0, wanted a number above 0"):
        LoRASettings(alpha=0)
