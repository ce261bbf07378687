"""A whole run: what it leaves in its folder, how it is resumed, and how another model is its start."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.checkpoints.load import load
from glassformer.checkpoints.save import save
from glassformer.errors import ConfigError, GlassformerError
from glassformer.models.encoder import Encoder
from glassformer.models.gpt import GPTConfig
from glassformer.models.llama import LlamaConfig
from glassformer.models.registry import build
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.training.config import COMMAND_LINE, Resolved, from_settings, resolve
from glassformer.training.device import Device
from glassformer.training.held_out import HeldOutLoss
from glassformer.training.objective import LossModule
from glassformer.training.optimizer import average_checkpoints
from glassformer.training.run import Run, prepare, train_task
from glassformer.training.run_folder import LOG, RunFolder
from glassformer.training.running_text import TextData
from glassformer.training.schema import as_toml, shown, toml_value
from glassformer.training.settings import RunSettings, Settings, TokenizerSettings
from glassformer.training.tasks.classify import LabeledData
from tests.training.fake_snapshots import same_tensors
from tests.training.test_tasks import CLASSIFY, GPT, MASKED, TEXT, TRANSLATE, pair_data, write
from tests.training.tiny_run import recipe

CPU = RunSettings(device="cpu", precision="float32")
TASKS = ("translate", "gpt", "masked", "classify")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))


def settings_of(task: str, tmp_path: Path, **recipe_values: object) -> Settings:
    how = recipe(**{"steps": 6, "ema_decay": 0.0, **recipe_values})  # pyright: ignore[reportArgumentType]
    text = TextData(path=write(tmp_path / "text.txt", TEXT), batch_size=4, max_length=8, validation_fraction=0.2)
    labeled = "".join(f"{label}\t{text} {n}\n" for n in range(8) for label, text in (("a", "rose"), ("b", "thorn")))
    data = {
        "translate": (TRANSLATE, pair_data(tmp_path, validation_fraction=0.25)),
        "gpt": (GPT, text),
        "masked": (MASKED, text),
        "classify": (
            CLASSIFY,
            LabeledData(path=write(tmp_path / "l.tsv", labeled), max_length=16, batch_size=4, validation_fraction=0.25),
        ),
    }
    return replace(data[task][0], data=data[task][1], recipe=how, run=CPU)


def started(settings: Settings, out: Path | None, resume: bool = False, said: list[str] | None = None) -> Run:
    return prepare(from_settings(settings), out, [].append if said is None else said.append, resume)


@pytest.mark.parametrize("average", [0.0, 0.5])
@pytest.mark.parametrize("task", TASKS)
def test_a_run_leaves_everything_and_its_model_loads_with_the_same_loss(
    task: str, average: float, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    run = started(settings_of(task, tmp_path, ema_decay=average), out)
    logs = list(run.train())
    assert [log.step for log in logs] == [1, 2, 3, 4, 5, 6]
    assert resolve(file=out / "config.toml").settings == run.settings
    lines = [json.loads(line) for line in (out / LOG).read_text().splitlines()]
    assert [line["loss"] for line in lines] == [log.loss for log in logs]
    loaded = load(out)
    assert loaded.labels == run.labels == (("a", "b") if task == "classify" else None)
    assert loaded.tokenizer is not None and loaded.tokenizer.fingerprint == run.tokenizer.fingerprint
    best = min(log.validation for log in logs if log.validation is not None)
    loss_module = LossModule(loaded.model, run.objective)
    assert HeldOutLoss(loss_module, Device())(run.data.validation) == pytest.approx(best, rel=1e-6)
    with torch.no_grad():
        batch = next(run.data.test.batches.once())
        inputs = [batch[name] for name in run.objective.inputs]
        assert torch.equal(loaded.model.eval()(*inputs), run.model.eval()(*inputs))


def test_a_run_stopped_goes_on_to_the_same_folder(tmp_path: Path) -> None:
    how = settings_of("translate", tmp_path)
    list(started(how, tmp_path / "whole").train())
    for log in started(how, tmp_path / "run").train():
        if log.step == 5:
            break
    assert not (tmp_path / "run" / "model.safetensors").exists()
    list(started(how, tmp_path / "run", resume=True).train(resume=True))
    one, other = (load(tmp_path / name).model.state_dict() for name in ("run", "whole"))
    assert same_tensors(dict(one), dict(other))
    for name in ("tokenizer.json", LOG, "config.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_folder_that_holds_a_run_is_not_overwritten(tmp_path: Path) -> None:
    how = settings_of("gpt", tmp_path)
    list(started(how, tmp_path / "run").train())
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    late = started(how, tmp_path / "late")
    list(started(how, tmp_path / "late").train())
    for begin in (lambda: started(how, tmp_path / "run"), lambda: list(late.train())):
        with pytest.raises(ConfigError, match="already holds a run: resume it, or choose another folder"):
            begin()
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before
    assert list(started(how, tmp_path / "run", True).train(resume=True)) == []


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_folder_that_holds_a_model_is_not_overwritten(name: str, tmp_path: Path) -> None:
    file = tmp_path / "model" / name
    write(file, "precious")
    with pytest.raises(ConfigError) as found:
        started(settings_of("gpt", tmp_path), tmp_path / "model")
    assert str(found.value) == f"{file.parent} already holds a model, in {name}: choose another folder"
    assert [path.read_text() for path in file.parent.iterdir()] == ["precious"]


def test_resuming_from_python_is_as_strict_as_the_command(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(ConfigError, match="nowhere holds no run to resume: there is no config.toml in it$"):
        train_task("gpt", out=tmp_path / "nowhere", resume=True)
    with pytest.raises(ConfigError, match="say which by out$"):
        train_task("gpt", resume=True)
    list(started(settings_of("gpt", tmp_path), out).train())
    before = (out / "config.toml").read_bytes()
    for other in ({"recipe.learning_rate": 0.5}, {"model.dim": 16}, {"tokenizer.vocab_size": 100}):
        with pytest.raises(ConfigError, match=f"run was begun with another {next(iter(other))}; resume it without"):
            train_task("gpt", other, out=out, resume=True)
    train_task("gpt", {"recipe.steps": 6, "run.precision": "auto"}, out=out, resume=True)
    assert (out / "config.toml").read_bytes() == before


def test_a_resumed_run_keeps_its_tokenizer_whatever_its_text_has_become(tmp_path: Path) -> None:
    how = settings_of("gpt", tmp_path)
    (tmp_path / "run").mkdir()
    kept = started(how, tmp_path / "run").tokenizer
    kept.save(tmp_path / "run")
    write(tmp_path / "text.txt", TEXT.replace("rose", "lily"))
    assert started(how, tmp_path / "run", resume=True).tokenizer.fingerprint == kept.fingerprint
    assert started(how, tmp_path / "other").tokenizer.fingerprint != kept.fingerprint


def test_the_mean_of_the_last_checkpoints_is_the_result_if_asked_for(tmp_path: Path) -> None:
    run = started(settings_of("gpt", tmp_path, average_checkpoints=3, save_every=1), tmp_path / "run")
    list(run.train())
    wanted = average_checkpoints(RunFolder(tmp_path / "run", 3), 3)
    assert same_tensors(dict(run.model.state_dict()), wanted)
    assert same_tensors(dict(load(tmp_path / "run").model.state_dict()), wanted)


def test_a_run_without_a_folder_keeps_nothing(tmp_path: Path) -> None:
    run = started(settings_of("gpt", tmp_path), None)
    assert len(list(run.train())) == 6 and not (tmp_path / "run").exists()
    assert run.parameters == sum(p.numel() for p in run.model.parameters())
    assert run.tokens_per_step == 4 * 8 * 2
    assert (held(run), run.bytes_per_checkpoint) == (16 * run.parameters, 12 * run.parameters)


def held(run: Run) -> int:
    """Bytes of weights, gradients and the optimizer's state, as estimated."""
    return run.estimate.weights + run.estimate.gradients + run.estimate.optimizer


def test_memory_depends_on_the_optimizer_and_weights_on_the_initialization(tmp_path: Path) -> None:
    for name, copies in {"sgd": 2, "momentum": 3, "rmsprop": 3, "adam": 4}.items():
        run = started(settings_of("gpt", tmp_path, optimizer=name, weight_decay=0.0), None)
        assert (held(run), run.bytes_per_checkpoint) == (
            4 * copies * run.parameters,
            4 * (copies - 1) * run.parameters,
        )
    usual, drawn = (
        started(settings_of("gpt", tmp_path, initialization=name), None).model.state_dict()[
            "stack.blocks.0.feed_forward.up.weight"
        ]
        for name in ("default", "he_normal")
    )
    assert usual.std() < 0.03 and drawn.std() > 0.3
    tuned = replace(settings_of("gpt", tmp_path, initialization="he_normal"), run=replace(CPU, init=str(tmp_path)))
    with pytest.raises(ConfigError, match="recipe.initialization is he_normal, but run.init brings its weights"):
        started(tuned, None)


def test_fine_tuning_starts_where_the_other_ended(tmp_path: Path) -> None:
    how = settings_of("gpt", tmp_path, steps=30, learning_rate=0.05, evaluate_every=30)
    long = list(started(how, tmp_path / "run").train())
    said: list[str] = []
    other = replace(how, run=replace(CPU, init=str(tmp_path / "run")), model=GPTConfig(dim=4, layers=3, heads=1))
    run = started(other, None, said=said)
    assert run.model.config == load(tmp_path / "run").model.config, "the model to start from decides"
    loss_module = LossModule(run.model, run.objective)
    assert HeldOutLoss(loss_module, Device())(run.data.validation) == pytest.approx(long[-1].validation, rel=1e-6)
    first = next(iter(run.train()))
    assert abs(first.loss - long[-1].loss) < 0.3 * (long[0].loss - long[-1].loss)
    assert not any("afresh" in text for text in said)


def test_a_masked_encoder_becomes_a_classifier_that_keeps_its_body(tmp_path: Path) -> None:
    list(started(settings_of("masked", tmp_path), tmp_path / "masked").train())
    body = load(tmp_path / "masked").model
    said: list[str] = []
    how = settings_of("classify", tmp_path)
    run = started(replace(how, run=replace(CPU, init=str(tmp_path / "masked"))), tmp_path / "run", said=said)
    assert isinstance(run.model, Encoder) and run.model.config.head == "classifier" and run.model.config.classes == 2
    new = {"classifier.bias", "classifier.weight", "pooler.bias", "pooler.weight"}
    begun = "not in the initial model, so initialized at random: " + ", ".join(sorted(new))
    assert said[-1] == begun
    kept = {name: value for name, value in run.model.state_dict().items() if name not in new}
    assert same_tensors(kept, {name: body.state_dict()[name] for name in kept}) and len(kept) > 10
    list(run.train())
    assert load(tmp_path / "run").labels == ("a", "b")


def test_a_model_of_another_kind_is_no_start(tmp_path: Path) -> None:
    list(started(settings_of("gpt", tmp_path), tmp_path / "run").train())
    how = replace(settings_of("translate", tmp_path), run=replace(CPU, init=str(tmp_path / "run")))
    with pytest.raises(GlassformerError, match="run.init holds GPT, which this task does not train"):
        started(how, None)
    missing = replace(how, run=replace(CPU, init=str(tmp_path / "nothing")))
    with pytest.raises(GlassformerError, match="nothing"):
        started(missing, None)


def asked(settings: Settings, *given: str) -> Resolved:
    """Settings of which some keys were given on the command line."""
    plain = from_settings(settings)
    return replace(plain, origins={**plain.origins, **dict.fromkeys(given, COMMAND_LINE)})


def test_a_tokenizer_beside_a_model_that_brings_its_own_is_refused(tmp_path: Path) -> None:
    run = started(settings_of("gpt", tmp_path), None)
    save(run.model, tmp_path / "model", run.tokenizer)
    run.tokenizer.save(tmp_path)
    init, file = str(tmp_path / "model"), str(tmp_path / "tokenizer.json")
    how = replace(settings_of("gpt", tmp_path), run=replace(CPU, init=init))
    why = f"the tokenizer comes with the model of run.init, {init}; leave one of them out"
    for name, value in {"file": file, "kind": "characters", "vocab_size": 300}.items():
        both = replace(how, tokenizer=replace(TokenizerSettings(), **{name: value}))
        with pytest.raises(ConfigError) as found:
            prepare(asked(both, f"tokenizer.{name}"), None, print)
        assert str(found.value) == f"tokenizer.{name} is {shown(value)}, but {why}"
    usual = replace(how, tokenizer=TokenizerSettings())
    run = prepare(asked(usual, "tokenizer.kind", "tokenizer.vocab_size"), None, print)
    assert run.resolved.origins["tokenizer.kind"] == "not used, the tokenizer is that of run.init"


@pytest.mark.parametrize(
    ("name", "value", "has"),
    [("layers", 3, "1"), ("dim", 16, "8"), ("context", 32, "16"), ("tie_embeddings", False, "true")],
)
def test_a_model_that_is_started_from_keeps_its_shape(name: str, value: object, has: str, tmp_path: Path) -> None:
    list(started(settings_of("gpt", tmp_path), tmp_path / "run").train())
    how = replace(settings_of("gpt", tmp_path), run=replace(CPU, init=str(tmp_path / "run")))
    other = replace(how, model=replace(how.model, **{name: value}))
    with pytest.raises(ConfigError) as found:
        prepare(asked(other, f"model.{name}"), None, print)
    why = "the initial model keeps its shape, so leave the setting out"
    assert str(found.value) == f"model.{name} is {shown(value)}, but {tmp_path / 'run'} has {has}: {why}"
    with pytest.raises(ConfigError, match=f'^model.family is "llama", but .*run has "gpt": {why}$'):
        prepare(asked(replace(how, model=LlamaConfig()), "model.family"), None, print)


def test_fine_tuning_has_its_own_dropout_and_says_what_its_model_is(tmp_path: Path) -> None:
    data = {"data.path": pair_data(tmp_path).path, "data.max_length": 8, "data.validation_fraction": 0.25}
    small = {"recipe.steps": 6, "recipe.warmup_steps": 1, "run.device": "cpu", "run.precision": "float32", **data}
    shape = {"model.dim": 8, "model.layers": 1, "model.heads": 2, "model.ffn_dim": 8, "model.context": 16}
    train_task("translate", {**small, **shape, "tokenizer.kind": "words"}, out=tmp_path / "run")
    more = {"run.init": str(tmp_path / "run"), "model.dropout": 0.5, "model.heads": 2}
    tuned = train_task("translate", {**small, **more}, out=tmp_path / "tuned")
    assert tuned.model.config == replace(load(tmp_path / "run").model.config, dropout=0.5)
    assert load(tmp_path / "tuned").model.config == tuned.model.config
    kept = resolve(file=tmp_path / "tuned" / "config.toml")
    assert replace(kept.settings.model, vocab=tuned.model.config.vocab) == tuned.model.config
    again = train_task(config=tmp_path / "tuned" / "config.toml", out=tmp_path / "again")
    assert same_tensors(dict(again.model.state_dict()), dict(tuned.model.state_dict()))


@pytest.mark.parametrize("change", ["gone", "another"])
def test_fine_tuning_goes_on_without_the_model_it_started_from(change: str, tmp_path: Path) -> None:
    how = settings_of("gpt", tmp_path)
    whole = started(how, None)
    spare = replace(whole.model.config, vocab=whole.tokenizer.vocab_size + 3)  # as public models have
    save(build(spare), tmp_path / "start", whole.tokenizer)
    how = replace(how, run=replace(CPU, init=str(tmp_path / "start")))
    list(started(how, tmp_path / "whole").train())
    for log in started(how, tmp_path / "stopped").train():
        if log.step == 5:
            break
    shutil.rmtree(tmp_path / "start")
    if change == "another":
        list(started(settings_of("masked", tmp_path), tmp_path / "start").train())
    for log in started(how, tmp_path / "stopped", resume=True).train(resume=True):
        assert log.step > 3
    for name in (LOG, "config.toml", "tokenizer.json"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    one, other = (dict(load(tmp_path / name).model.state_dict()) for name in ("stopped", "whole"))
    assert same_tensors(one, other)


def test_a_model_to_start_from_without_a_tokenizer_takes_the_one_of_a_file(tmp_path: Path) -> None:
    run = started(settings_of("gpt", tmp_path), None)
    save(run.model, tmp_path / "model")
    run.tokenizer.save(tmp_path / "elsewhere")
    how = settings_of("gpt", tmp_path)
    kept = replace(how.tokenizer, file=str(tmp_path / "elsewhere" / "tokenizer.json"))
    both = replace(how, run=replace(CPU, init=str(tmp_path / "model")), tokenizer=kept)
    assert started(both, None).tokenizer.fingerprint == run.tokenizer.fingerprint


def test_a_tokenizer_with_more_tokens_than_the_model_does_not_belong_to_it(tmp_path: Path) -> None:
    run = started(settings_of("gpt", tmp_path), None)
    save(run.model, tmp_path / "model", learn_tokenizer([TEXT + "xyzXYZ0123456789"], "characters"))
    how = replace(settings_of("gpt", tmp_path), run=replace(CPU, init=str(tmp_path / "model")))
    with pytest.raises(GlassformerError, match="the tokenizer has 3. tokens and the model of run.init 1.: they do not"):
        started(how, None)


def test_the_mean_of_checkpoints_is_of_those_that_were_planned(tmp_path: Path) -> None:
    """A checkpoint that only a stop or a good evaluation made takes no part in it, and pushes none out."""
    run = started(settings_of("gpt", tmp_path, average_checkpoints=3, save_every=2), tmp_path / "run")
    list(run.train())
    assert run.folder is not None and run.folder.planned() == [2, 4, 6]
    saved = run.folder.load(6)
    folder = RunFolder(tmp_path / "other", 3, every=10)
    for step in (10, 13, 20, 26, 27, 30, 31, 40):
        folder.save(replace(saved, step=step, model={name: value * step for name, value in saved.model.items()}))
        assert folder.steps()[-1] == step
    assert folder.steps() == [20, 30, 40]
    mean = average_checkpoints(folder, 3)
    assert all(torch.allclose(mean[name], value * 30) for name, value in saved.model.items())


def test_a_lost_best_checkpoint_does_not_lose_the_run(tmp_path: Path) -> None:
    run = started(settings_of("gpt", tmp_path, steps=6), tmp_path / "run")
    said: list[str] = []
    folder = RunFolder(tmp_path / "run", 3, said.append)
    logs = run.train()
    for log in logs:
        if log.step == 4:
            break
    logs.close()
    best = folder.best_step()
    assert best is not None
    shutil.rmtree(next((tmp_path / "run").glob(f"step-*{best}")))
    found = folder.best_or_newest()
    assert found.step == folder.steps()[-1] and "the newest whole checkpoint is used instead" in said[0]


@pytest.mark.parametrize("value", [Path("text.txt"), np.int64(3), np.float32(0.5), np.array([1, 2])])
def test_values_of_python_become_settings(value: object) -> None:
    assert toml_value(as_toml(value)) in ('"text.txt"', "3", "0.5", "[1, 2]")


def test_what_python_cannot_say_in_a_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="recipe.steps is of the type set, wanted text, a number"):
        train_task("gpt", {"recipe.steps": {3}})
    with pytest.raises(ConfigError, match="average_checkpoints takes the mean of checkpoints: give a folder"):
        train_task("gpt", {"recipe.average_checkpoints": 2, "recipe.save_every": 5, "recipe.steps": 20})
    with pytest.raises(
        ConfigError, match="average_checkpoints is 5, wanted at most the checkpoints there are: 2 are made"
    ):
        recipe(steps=20, save_every=10, average_checkpoints=5, ema_decay=0.0)
