"""What does not fit is refused, or ends in an error that names settings which do, as they turn out when tried."""

import gc
import re
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from glassformer.errors import ConfigError, TrainingError
from glassformer.layers.block import Block
from glassformer.models.gpt import GPTConfig
from glassformer.models.mlp import MLPConfig
from glassformer.training import fitting as module
from glassformer.training.config import from_settings
from glassformer.training.fitting import SMALLER_MODEL, SMALLER_START, Fitting, fitting_of, is_out_of_memory
from glassformer.training.run import prepare, train_task
from glassformer.training.settings import RunSettings, Settings
from glassformer.training.tasks.regress import RegressSettings, TableData
from tests.training.test_run import CPU, settings_of, started
from tests.training.test_tasks import write
from tests.training.tiny_run import recipe

FULL = "[enforce fail at alloc_cpu.cpp:126] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to 5 TB"
ERRORS = [
    RuntimeError(FULL), RuntimeError("DefaultCPUAllocator: not enough memory"), MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
]  # fmt: skip
DEEP = GPTConfig(dim=32, layers=12, heads=2, context=64)
SET = re.compile(r"([a-z]+\.[a-z_]+)=(\d+|true|no)")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))


def deep(tmp_path: Path, batch: int = 16, run: RunSettings = CPU) -> Settings:
    settings = settings_of("gpt", tmp_path, steps=2, gradient_accumulation=1, warmup_steps=1)
    text = "a rose is a rose is a rose, and a thorn is a thorn. " * 200
    data = replace(settings.data, path=write(tmp_path / "long.txt", text), batch_size=batch, max_length=64)
    return replace(settings, data=data, model=DEEP, run=run)


def fitting(settings: Settings) -> Fitting:
    run = prepare(from_settings(settings), None, [].append)
    return fitting_of(run.settings, run.data, run.objective, run.model)


def full(monkeypatch: pytest.MonkeyPatch, error: Exception, call: int = 3) -> None:
    """Let the memory end in a call of a block."""
    forward, calls = Block.forward, iter(range(1000))

    def fails(self: Block, *inputs: object, **named: object) -> Tensor:
        if self.training and torch.is_grad_enabled() and not is_fake(inputs[0]) and next(calls) >= call:
            raise error
        return forward(self, *inputs, **named)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Block, "forward", fails)


def is_fake(value: object) -> bool:
    return type(value).__name__ == "FakeTensor" or (isinstance(value, Tensor) and value.is_meta)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_run_without_memory_ends_in_words_that_name_settings(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full(monkeypatch, error)
    with pytest.raises(TrainingError, match="out of memory: the machine has .* GB: .* for activations") as caught:
        list(started(deep(tmp_path), tmp_path / "run").train())
    said = str(caught.value)
    assert "run.activation_checkpointing=true, which takes less memory and more time" in said
    assert re.search(r"data\.batch_size=[5-8] instead of 16, with recipe\.gradient_accumulation=[234]", said)
    assert "data.max_length=32 instead of 64" in said
    assert caught.value.__suppress_context__


def test_other_errors_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full(monkeypatch, RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        list(started(deep(tmp_path), tmp_path / "run").train())


def test_what_filled_the_memory_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[weakref.ref[Tensor]] = []
    forward = Block.forward

    def fails(self: Block, x: Tensor, *inputs: object, **named: object) -> Tensor:
        if is_fake(x) or not self.training:
            return forward(self, x, *inputs, **named)  # pyright: ignore[reportArgumentType]
        large = torch.zeros(1000)
        held.append(weakref.ref(large))
        raise torch.OutOfMemoryError(f"CUDA out of memory beside {len(large)}")

    monkeypatch.setattr(Block, "forward", fails)
    with pytest.raises(TrainingError) as caught:
        list(started(deep(tmp_path), None).train())
    gc.collect()
    assert held[0]() is None and caught.value is not None


def test_a_stopped_run_says_that_it_can_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(deep(tmp_path), recipe=recipe(steps=9, gradient_accumulation=1, save_every=1))
    full(monkeypatch, ERRORS[0], call=3 * DEEP.layers)
    with pytest.raises(
        TrainingError,
        match="step 3 is saved: the run can be resumed with run.activation_checkpointing=true, and other sizes need",
    ):
        list(started(settings, tmp_path / "run").train())
    monkeypatch.undo()
    again = replace(settings, run=replace(CPU, activation_checkpointing=True))
    assert list(started(again, tmp_path / "run", resume=True).train(resume=True))[-1].step == 9


def proposals(said: str) -> Iterator[dict[str, str]]:
    """The settings of each proposal."""
    for part in said.rsplit(": ", maxsplit=1)[-1].split("; or "):
        yield dict(SET.findall(part))


@pytest.mark.parametrize("share", [0.9, 0.5, 0.2])
def test_what_is_proposed_is_estimated_to_fit(share: float, tmp_path: Path) -> None:
    found = fitting(deep(tmp_path))
    fixed = found.now.memory - found.now.activations
    room = int(fixed + share * found.now.activations)
    proposed = list(proposals(found.remedy(room)))
    assert proposed
    for each in proposed:
        settings = found.settings
        batch, length = int(each.get("data.batch_size", "16")), int(each.get("data.max_length", "64"))
        run = replace(CPU, activation_checkpointing="run.activation_checkpointing" in each)
        changed = replace(settings, data=replace(settings.data, batch_size=batch, max_length=length), run=run)
        assert fitting(changed).now.memory <= room, each
    rows = [int(each["data.batch_size"]) for each in proposed if "recipe.gradient_accumulation" in each]
    assert rows and 16 * share / 2 < rows[0] <= 16 * share, "about as many as fit, not far fewer"


def test_a_batch_that_was_estimated_to_fit_is_not_proposed_again(tmp_path: Path) -> None:
    found = fitting(deep(tmp_path))
    said = found.remedy(100 * found.now.memory)
    rows = [int(each["data.batch_size"]) for each in proposals(said) if "data.batch_size" in each]
    assert rows and max(rows) <= 8


def test_what_is_on_already_is_not_proposed(tmp_path: Path) -> None:
    found = fitting(deep(tmp_path, run=replace(CPU, activation_checkpointing=True)))
    assert "activation_checkpointing" not in found.remedy(2 * found.now.memory)


def test_a_model_that_is_too_large_by_itself_is_named(tmp_path: Path) -> None:
    found = fitting(deep(tmp_path))
    held = found.now.weights + found.now.gradients + found.now.optimizer
    assert found.remedy(held) == f"try {SMALLER_MODEL}"
    assert found.remedy(int(held / module.MOST) + 10) == f"a batch of one does not fit either: try {SMALLER_MODEL}"


def test_a_model_without_blocks_gets_a_smaller_batch_alone(tmp_path: Path) -> None:
    table = "".join(f"{n},{n * n}\n" for n in range(300))
    data = TableData(path=write(tmp_path / "t.csv", table), target="column 2", batch_size=200)
    how = recipe(label_smoothing=0.0)
    found = fitting(RegressSettings(data=data, model=MLPConfig(hidden_dims=(64, 64)), recipe=how, run=CPU))
    said = found.remedy(100 * found.now.memory)
    assert "data.batch_size=" in said and "activation_checkpointing" not in said


def test_packed_pairs_are_lowered_by_their_tokens(tmp_path: Path) -> None:
    settings = settings_of("translate", tmp_path, steps=2, warmup_steps=1)
    packed = replace(settings, data=replace(settings.data, packing="yes", tokens_per_batch=64, max_length=16))
    said = fitting(packed).remedy(10**12)
    assert re.search(r"data\.tokens_per_batch=\d\d instead of 64", said)


def test_a_batch_that_takes_all_the_data_is_lowered_from_its_rows(tmp_path: Path) -> None:
    found = fitting(deep(tmp_path, batch=10_000))
    assert found.rows < 200
    room = int(found.now.memory - 0.6 * found.now.activations)
    fewer = [each for each in proposals(found.remedy(room)) if "recipe.gradient_accumulation" in each]
    assert len(fewer) == 1 and int(fewer[0]["data.batch_size"]) < found.rows
    assert "data.max_length" not in found.remedy(room), "half the length would be twice the rows"
    data = replace(found.settings.data, batch_size=int(fewer[0]["data.batch_size"]))
    assert fitting(replace(found.settings, data=data)).now.memory <= room


@pytest.mark.parametrize("share", [0.6, 0.3])
def test_what_is_proposed_for_packed_pairs_is_estimated_to_fit(share: float, tmp_path: Path) -> None:
    """On a CPU each token of a packed row attends to all others: half the row takes a quarter of the scores."""
    pairs = "".join(f"a rose is number {n}\tuna rosa es la {n}\n" for n in range(300))
    data = {"path": write(tmp_path / "pairs.tsv", pairs), "packing": "yes", "tokens_per_batch": 2048, "max_length": 16}
    settings = settings_of("translate", tmp_path, steps=2, warmup_steps=1)
    settings = replace(settings, data=replace(settings.data, **data))
    found = fitting(settings)
    assert found.rows > 8, "a packed row has many pairs"
    room = int(found.now.memory - (1 - share) * found.now.activations)
    proposed = list(proposals(found.remedy(room)))
    assert len(proposed) >= 2
    for each in proposed:
        tokens = int(each.get("data.tokens_per_batch", "2048"))
        run = replace(CPU, activation_checkpointing="run.activation_checkpointing" in each)
        packing = "no" if "data.packing" in each else "yes"
        changed = replace(settings.data, tokens_per_batch=tokens, packing=packing)
        assert fitting(replace(settings, data=changed, run=run)).now.memory <= room, each


def test_shorter_texts_are_not_proposed_where_a_batch_then_has_more(tmp_path: Path) -> None:
    settings = settings_of("translate", tmp_path, steps=2, warmup_steps=1)
    for packing in ("yes", "no"):
        data = replace(settings.data, packing=packing, tokens_per_batch=64, max_length=16)
        assert "max_length" not in fitting(replace(settings, data=data)).remedy(10**12)


def test_a_resumed_run_gets_no_sizes_that_it_would_refuse(tmp_path: Path) -> None:
    found = replace(fitting(deep(tmp_path)), resumed=True)
    again = replace(found.device, activation_checkpointing=True)
    less = replace(found, device=again).now.memory
    assert found.remedy(int(1.2 * less)).startswith("try run.activation_checkpointing=true, which")
    for said in (found.remedy(less - found.now.activations // 4), replace(found, device=again).remedy(less // 2)):
        assert said.startswith("resume it where there is more memory") and "data." not in said


def test_a_run_from_another_model_is_told_to_start_from_a_smaller_one(tmp_path: Path) -> None:
    found = fitting(deep(tmp_path))
    tuned = replace(found, settings=replace(found.settings, run=replace(CPU, init="runs/large")))
    assert tuned.remedy(10) == f"try {SMALLER_START}"


def test_what_does_not_fit_is_refused_before_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "certainly_fits", lambda *_: False)
    now = fitting(deep(tmp_path)).now
    monkeypatch.setattr(module, "memory_of", lambda device: now.memory - now.activations // 2)
    with pytest.raises(ConfigError, match=r"needs about \d+ MB of memory and the machine has \d+ MB: .*fit: run"):
        started(deep(tmp_path), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    again = replace(CPU, activation_checkpointing=True)
    started(deep(tmp_path, run=again), tmp_path / "run")


def test_only_what_says_so_is_a_lack_of_memory() -> None:
    assert all(map(is_out_of_memory, ERRORS))
    assert not is_out_of_memory(RuntimeError("shape mismatch")) and not is_out_of_memory(None)
    try:
        raise ValueError("compiled code failed") from ERRORS[0]
    except ValueError as error:
        assert is_out_of_memory(error)


def test_a_model_without_blocks_is_refused_before_there_is_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "text.txt", "a rose is a rose. " * 50)
    asked = {"data.path": str(tmp_path / "text.txt"), "model.family": "rnn", "run.activation_checkpointing": True}
    with pytest.raises(ConfigError, match="run.activation_checkpointing is true, but RNN has no Transformer blocks"):
        train_task("gpt", asked, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
