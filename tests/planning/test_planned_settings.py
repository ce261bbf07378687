"""A file of settings or a run is planned by all that its settings say, and what is left out is said."""

from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.cli.main import main
from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.figures import Plan
from glassformer.planning.measure import measure
from glassformer.planning.plan import plan, plans_around, what_is
from glassformer.training.run import train_task

HERE = DeviceSpec(name="here", kind="cpu", memory=8e9, bandwidth=1e10, peaks={"float32": 1e11})
GPU = DeviceSpec(
    name="gpu", kind="cuda", memory=8e10, bandwidth=1e12, peaks={"float32": 1e13, "bfloat16": 1e14}, interconnect=1e11
)
SIZES = "context = 32\ndim = 64\nlayers = 2\nheads = 2"


def planned(folder: Path, lines: str = "", device: DeviceSpec = HERE, devices: int = 1) -> Plan:
    """A plan of settings with these lines."""
    path = folder / f"{abs(hash(lines))}.toml"
    path.write_text(
        f'task = "gpt"\n[model]\nfamily = "gpt"\n{SIZES}\n[data]\nbatch_size = 4\nmax_length = 32\n{lines}\n',
        encoding="utf-8",
    )
    return plan(path, device=device, devices=devices)


def test_the_precision_of_settings_is_planned_unless_another_is_asked_for(tmp_path: Path) -> None:
    assert planned(tmp_path, device=GPU).workload.dtype == "bfloat16"
    half = planned(tmp_path, '[run]\nprecision = "bfloat16"')
    whole = planned(tmp_path, '[run]\nprecision = "float32"', GPU)
    assert (half.workload.dtype, whole.workload.dtype) == ("bfloat16", "float32")
    assert plan(whole.name, device=GPU, dtype="bfloat16").workload.dtype == "bfloat16"
    eight = planned(tmp_path, '[run]\nprecision = "float8"', GPU)
    assert eight.workload.dtype == "bfloat16" and "float8" in eight.notes[0]


def test_the_strategy_of_settings_is_planned_unless_another_is_asked_for(tmp_path: Path) -> None:
    found = planned(tmp_path, '[run]\nstrategy = "fsdp"', GPU, devices=2)
    assert found.workload.strategy == "fsdp"
    assert plan(found.name, device=GPU, strategy="ddp").workload.strategy == "ddp"


def test_gradient_accumulation_takes_more_operations_and_time_and_no_memory(tmp_path: Path) -> None:
    one, four = (planned(tmp_path, f"[recipe]\ngradient_accumulation = {times}") for times in (1, 4))
    assert four.workload.gradient_accumulation == 4 and four.memory == one.memory and four.limits == one.limits
    for name in ("step", "forward", "backward", "matmul_forward", "matmul_backward", "tokens"):
        assert getattr(four.operations, name) == 4 * getattr(one.operations, name), name
    assert four.operations.per_token == one.operations.per_token
    rows = zip(four.operations.by_equation, one.operations.by_equation, strict=True)
    assert all((a.calls, a.forward, a.seconds) == (4 * b.calls, 4 * b.forward, 4 * b.seconds) for a, b in rows)
    passes, update = one.time.seconds - one.time.update, one.time.update
    assert four.time.update == update and four.time.seconds == pytest.approx(4 * passes + update)
    assert four.time.tokens_per_second == pytest.approx(four.operations.tokens / four.time.seconds)
    assert four.time.tokens_per_second > one.time.tokens_per_second
    assert four.time.utilization == pytest.approx(four.operations.step / four.time.seconds / 1e11)


@pytest.mark.parametrize("device", [HERE, GPU])
def test_a_moving_average_takes_a_copy_of_the_weights(tmp_path: Path, device: DeviceSpec) -> None:
    without, with_ = planned(tmp_path, device=device), planned(tmp_path, "[recipe]\nema_decay = 0.99", device)
    assert with_.memory.average == with_.memory.weights and without.memory.average == 0
    more = with_.memory.peak - without.memory.peak
    assert more == pytest.approx(with_.memory.weights * (1.25 if device is HERE else 1), rel=1e-5)
    assert with_.memory.replicated - without.memory.replicated == more
    assert with_.time.update > without.time.update
    assert with_.operations == without.operations
    between = replace(device, memory=(without.memory.peak + with_.memory.peak) / 2)
    assert plan(without.name, device=between).fits and not plan(with_.name, device=between).fits
    shards = [planned(tmp_path, lines, GPU, devices=4).memory.sharded for lines in ("", "[recipe]\nema_decay = 0.99")]
    assert shards[1] - shards[0] == -(-with_.memory.weights // 4)


def test_a_real_update_with_a_moving_average_and_two_batches_takes_what_is_planned(tmp_path: Path) -> None:
    found = planned(tmp_path, "[recipe]\nema_decay = 0.99\ngradient_accumulation = 2")
    measured = measure(what_is(found.name), found, equations=False)
    assert measured.peak == pytest.approx(found.memory.peak - found.memory.overhead, rel=0.1)


def test_what_is_not_planned_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = '[recipe]\nr_drop = 1.0\n[lora]\nrank = 4\n[run]\nfreeze = "embedding"'
    found = planned(tmp_path, lines)
    *left_out, vocabulary = found.notes
    assert [note.split(" is not planned")[0] for note in left_out] == ["recipe.r_drop", "lora.rank", "run.freeze"]
    assert planned(tmp_path).notes == (vocabulary,)
    assert "the tokenizer is not trained yet: planned with 2,000 tokens" in vocabulary
    assert main(["plan", found.name, "--device", "h200"]) == 0
    assert "note: lora.rank is not planned: these are figures of full training" in capsys.readouterr().out


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    text = folder / "text.txt"
    text.write_text("All happy families are alike; each unhappy family is unhappy in its own way. " * 60)
    settings = {
        "model.dim": 32, "model.layers": 2, "model.heads": 2, "model.context": 16, "data.path": str(text),
        "data.max_length": 12, "data.batch_size": 3, "recipe.steps": 2, "recipe.warmup_steps": 1, "run.device": "cpu",
        "recipe.gradient_accumulation": 2, "recipe.optimizer": "sgd", "tokenizer.vocab_size": 300,
    }  # fmt: skip
    train_task("gpt", settings, out=folder / "run", size="tiny")
    return folder / "run"


def test_a_run_is_planned_by_its_settings(run: Path) -> None:
    found = plan(run, device=HERE)
    workload = found.workload
    assert (workload.batch, workload.length, workload.optimizer) == (3, 12, "sgd")
    assert workload.gradient_accumulation == 2
    vocab = vars(what_is(run).model.config)["vocab"]
    assert found.parameters.by_part["embedding"] == 32 * vocab, "the vocabulary of its tokenizer, not of its settings"
    assert plan(run, device=HERE, batch=5).workload.batch == 5


def test_a_run_whose_settings_cannot_be_read_is_planned_without_them(run: Path, tmp_path: Path) -> None:
    for file in run.rglob("*"):
        if file.is_file():
            (tmp_path / file.relative_to(run)).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file.relative_to(run)).write_bytes(file.read_bytes())
    (tmp_path / "config.toml").write_text('task = "gpt"\n[recipe]\nsteps = "many"\n')
    found = plan(tmp_path, device=HERE)
    assert found.workload.batch == 8 and found.notes[0].startswith("not planned by the settings of the run: ")


def test_settings_that_start_from_a_model_have_its_shape(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    path.write_text(f'task = "gpt"\n[data]\nbatch_size = 2\nmax_length = 16\n[run]\ninit = "{run}"\n')
    assert plan(path, device=HERE).parameters == plan(run, device=HERE).parameters


def test_plans_around_one_keep_what_it_is_trained_on(tmp_path: Path) -> None:
    found = planned(tmp_path, "[recipe]\nema_decay = 0.99")
    (_, at_its_size) = plans_around(what_is(found.name), found)["batch"][2]
    assert (at_its_size.memory, at_its_size.operations) == (found.memory, found.operations)
