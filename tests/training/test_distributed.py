"""Two processes equal one: whole models or shards, uneven batches, a run stopped and resumed, bad numbers."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.checkpoints.load import load
from glassformer.training.run_folder import LOG, RunFolder
from tests.training.fake_snapshots import same
from tests.training.fork_server import ROOT
from tests.training.tiny_run import copy_of
from tests.training.two_process_worker import HOW, RESUMED, learn

STRATEGIES = ("ddp", "fsdp")
TEXT = "a rose is a rose is a rose, and a thorn is a thorn. " * 8
Found = list[dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("two")


@pytest.fixture(scope="module")
def found(folder: Path) -> Found:
    """What each of two processes found."""
    (folder / "text.txt").write_text(TEXT)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.training.two_process_worker", str(folder)]
    environment = {**os.environ, **processes, "GLASSFORMER_CACHE": str(folder)}
    with subprocess.Popen(command, env=environment, cwd=ROOT, start_new_session=True) as program:
        try:
            assert program.wait(timeout=250) == 0
        finally:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


pytestmark = pytest.mark.enable_socket  # to find a free port


def assert_alike(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert len(one["logs"]) == len(other["logs"])
    for here, there in zip(one["logs"], other["logs"], strict=True):
        assert here[0] == there[0] and here[3] == there[3]  # step and tokens
        assert here[1:3] == pytest.approx(there[1:3], rel=1e-9)
        assert here[4] == (None if there[4] is None else pytest.approx(there[4], rel=1e-9))
    for name, value in one["weights"].items():
        torch.testing.assert_close(torch.tensor(value), torch.tensor(other["weights"][name]), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("model", ["translator", "masked", "pairs"])
def test_two_processes_learn_what_one_learns(found: Found, strategy: str, model: str) -> None:
    alone = learn(model, HOW)
    for each in found:
        assert_alike(each[f"{strategy} {model}"], alone)
    assert found[0][f"{strategy} {model}"] == found[1][f"{strategy} {model}"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("model", ["translator", "masked", "pairs"])
def test_two_processes_that_compute_activations_again_learn_the_same(found: Found, strategy: str, model: str) -> None:
    for each in found:
        assert each[f"{strategy} recomputed {model}"] == each[f"{strategy} {model}"]


def test_ddp_learns_by_muon_too_and_fsdp_refuses(found: Found) -> None:
    alone = learn("translator", replace(HOW, optimizer="muon"))
    for each in found:
        assert_alike(each["ddp muon"], alone)
        assert each["fsdp muon"]["kind"] == "ours"
        assert each["fsdp muon"]["error"] == (
            'optimizer is muon, which needs whole matrices; use adamw, or run.strategy = "ddp"'
        )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_both_stop_at_one_step_when_one_is_told_and_go_on_exactly(found: Found, folder: Path, strategy: str) -> None:
    for each in found:
        case = each[f"{strategy} resumed"]
        assert case["stopped"]["error"] == "stopped by SIGTERM after step 5, which is saved"
        assert case["stopped"]["status"] == 143
        assert case["resumed"]["weights"] == case["unbroken"]["weights"]
        assert case["resumed"]["logs"] == case["unbroken"]["logs"][5:]
    unbroken, stopped = (RunFolder(folder / strategy / name, 20) for name in ("unbroken", "stopped"))
    assert same(unbroken.latest(), stopped.latest())
    assert (unbroken.path / LOG).read_text() == (stopped.path / LOG).read_text()
    assert unbroken.best_step() == stopped.best_step()


def test_a_run_goes_on_in_another_number_of_processes_and_says_so(found: Found, folder: Path, tmp_path: Path) -> None:
    """What two began one can end: the same numbers but for rounding, since no dropout is in it."""
    path = copy_of(folder / "fsdp" / "stopped", tmp_path / "alone", 5)
    alone = learn("translator", RESUMED, folder=path)
    wanted = found[0]["fsdp resumed"]["unbroken"]
    assert alone["logs"][0][5].endswith("1 threads, on cpu, in 2 processes: it goes on, not to the last bit")
    assert_alike(alone, {"logs": wanted["logs"][5:], "weights": wanted["weights"]})


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_bad_numbers_of_one_process_are_named_in_all(found: Found, strategy: str) -> None:
    module = "feed_forward_residual.residual: residual" if strategy == "ddp" else "feed_forward.down.linear: linear"
    for each in found:
        case = each[f"{strategy} spoiled"]
        assert case["kind"] == "ours"
        assert (
            f"nothing was updated: encoder.blocks.0.{module} is the first that is not finite, at element"
            in case["error"]
        )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_whole_run_ends_in_a_model_that_loads(found: Found, folder: Path, strategy: str) -> None:
    for each in found:
        case = each[f"{strategy} run"]
        assert "error" not in case and [log[0] for log in case["logs"]] == [1, 2, 3, 4]
    folder = folder / f"run {strategy}"
    loaded = load(folder)
    assert loaded.tokenizer is not None
    best = RunFolder(folder).best()
    assert best is not None
    for name, value in loaded.model.named_parameters():
        assert torch.equal(value, best.optimizer[f"average/{name}"])


@pytest.mark.soak
def test_torchrun_trains_and_a_signal_to_it_stops_all(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "glassformer", "train"]
    settings = ["gpt", "--data", str(tmp_path / "text.txt"), "--out", str(tmp_path / "run"), "--no-progress"]
    settings += ["tokenizer.kind=characters", "model.dim=8", "model.layers=1", "model.heads=2", "model.context=8"]
    settings += [
        "data.max_length=8",
        "data.batch_size=4",
        "data.validation_fraction=0.2",
        "recipe.warmup_steps=1",
        "recipe.log_every=1",
        "run.device=cpu",
    ]
    environment = {**os.environ, "GLASSFORMER_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*command, *settings, "recipe.steps=100000"], stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    ) as program:
        assert program.stderr is not None
        said = []
        for line in program.stderr:
            said.append(line)
            if line.startswith("glassformer: step"):
                program.send_signal(signal.SIGTERM)
                break
        said.append(program.stderr.read())
    assert "stopped by SIGTERM after step" in "".join(said)
    assert len(RunFolder(tmp_path / "run").steps()) == 1
    settings[settings.index(str(tmp_path / "run"))] = str(tmp_path / "whole")
    subprocess.run([*command, *settings, "recipe.steps=20"], check=True, env=environment, cwd=ROOT)
    assert load(tmp_path / "whole").tokenizer is not None
