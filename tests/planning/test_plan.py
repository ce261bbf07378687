"""`gf.plan`: devices, limits, what does not fit, memory beside a real run, and the command."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer as gf
from glassformer.cli.main import main
from glassformer.errors import ConfigError
from glassformer.models.gpt import GPTConfig
from glassformer.models.vit import ViTConfig
from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.devices import find_device
from glassformer.planning.example_batch import as_trained, example_batch
from glassformer.planning.figures import Workload
from glassformer.planning.known_devices import devices
from glassformer.planning.measure import measure
from glassformer.planning.plan import Planning, plan, what_is
from glassformer.planning.resized import Sizes

TINY = GPTConfig(vocab=61, context=32, dim=32, layers=2, heads=2)
TINY_BUT_WORDY = replace(TINY, vocab=9000)  # whose logits take several pieces
HERE = DeviceSpec(name="here", kind="cpu", memory=8e9, bandwidth=1e10, peaks={"float32": 1e11})


def test_a_model_of_175_billion_parameters_is_planned_in_seconds() -> None:
    began = time.process_time()
    found = plan("gpt3", device="h200", batch=1)
    assert time.process_time() - began < 8  # below two seconds on a machine that has nothing else to do
    assert found.parameters.total == 174_604_259_328 and not found.fits
    assert found.limits.batch == 0


def test_every_device_has_a_source() -> None:
    for name, spec in devices().items():
        assert spec.source and spec.bandwidth > 1e10 and spec.memory > 1e9, name
        assert spec.checked or not spec.price
    assert find_device("h200").peak("bfloat16") == pytest.approx(989.4e12)
    assert find_device("t4").peak("bfloat16") == find_device("t4").peak("float32")


def test_devices_of_a_file_are_added(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("[mine]\nmemory = 10\nbandwidth = 100\npeaks = { float32 = 1 }\n", encoding="utf-8")
    assert find_device("mine", path).memory == 10e9
    assert "h200" in devices(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mine = 3", "wanted a table"),
        ("[mine]\nmemroy = 1", "did you mean memory"),
        ("[mine]\nmemory = -1", "mine.memory is -1, wanted a number above 0"),
        ("[mine]\nmemory = 1\nbandwidth = 1", "wanted TFLOP/s by dtype"),
        ("[mine]\nbandwidth = 1\npeaks = { float32 = 1 }", "memory"),
        ("[mine]\nmemory = 0\nbandwidth = 1\npeaks = { float32 = 1 }", "mine.memory is 0, wanted a number above 0"),
        ("[mine", "is not valid TOML"),
    ],
)
def test_a_wrong_file_of_devices_is_explained(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        devices(path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"device": "h300"}, "did you mean"),
        ({"batch": 0}, "batch is 0, wanted a whole number, 1 or more"),
        ({"length": 33}, "length is 33, wanted at most 32"),
        ({"dtype": "int3"}, "wanted auto, float32, bfloat16"),
        ({"optimizer": "sdg"}, "optimizer is 'sdg', wanted adamw"),
        ({"strategy": "magic"}, "wanted ddp, fsdp"),
        ({"devices": 0}, "devices is 0"),
    ],
)
def test_bad_use_says_what_is_wanted(given: dict[str, str | int], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plan(TINY, **{"device": HERE, **given})  # pyright: ignore[reportArgumentType]


def test_an_unknown_model_says_which_is_near() -> None:
    with pytest.raises(ConfigError, match="did you mean gpt2"):
        plan("gpt22", device=HERE)


def test_the_largest_batch_fits_and_twice_as_many_do_not() -> None:
    small = replace(HERE, memory=1e8)
    limits = plan(TINY, device=small).limits
    assert 0 < limits.batch <= limits.batch_checkpointed
    assert plan(TINY, device=small, batch=limits.batch).fits
    assert not plan(TINY, device=small, batch=2 * limits.batch).fits


def test_shards_take_less_than_copies() -> None:
    memory = plan("gpt2-xl", device="h200", batch=1, length=64, strategy="fsdp", devices=8).memory
    assert memory.sharded < memory.peak < memory.replicated


def test_a_model_of_pictures_has_no_length() -> None:
    config = ViTConfig(image_size=8, channels=1, patch_size=4, dim=16, layers=2, heads=2, ffn_dim=32, classes=3)
    config = replace(config, image_mean=(0.5,), image_std=(0.5,)) if config.channels == 1 else config
    found = plan(config, device=HERE)
    assert found.workload.length == 0 and found.limits.length is None and found.generation is None


def test_gpt2_is_near_what_was_measured_on_an_h200() -> None:
    found = plan("gpt2", device="h200", batch=64, length=1024)
    assert found.memory.peak == pytest.approx(22.7e9, rel=0.05)  # docs/results.md, 2026-11-19
    assert found.time.seconds == pytest.approx(113.6e-3, rel=0.05)


def test_a_translator_on_a_gpu_is_packed_as_it_is_trained() -> None:
    planned = what_is("transformer-base")
    for device, bounds in (("h200", True), ("t4", False)):  # a T4 has no units for bfloat16
        spec = find_device(device)
        dtype = "bfloat16" if "bfloat16" in spec.peaks else "float32"
        objective = as_trained(planned.objective, planned.model, dtype, 16, spec.compiles)
        assert ("source_bounds" in example_batch(planned.model, objective, 2, 16)) == bounds
    whole, half = (plan("transformer-base", device="h200", batch=batch, length=16).operations for batch in (8, 4))
    assert whole.matmul_forward == 2 * half.matmul_forward


@settings(max_examples=6, deadline=None)
@given(batch=st.integers(1, 3000))
def test_the_memory_of_any_batch_follows_from_two(batch: int) -> None:
    """Limits are found from two recordings; a recording of the size itself says the same, loss in pieces included."""
    planned, spec = what_is(TINY_BUT_WORDY), find_device("h200")
    found = [Planning(planned, spec, Workload(batch=n, length=32, dtype="bfloat16")) for n in (8, 16, batch)]
    steps = [each.record(each.workload) for each in found]
    sizes = Sizes("batch", found[0].workload, [(8, steps[0]), (16, steps[1])], found[0].record)
    of = [each.memory_of(found[2].workload, step) for each, step in ((found[0], sizes.at(batch)), (found[2], steps[2]))]
    assert of[0] == of[1]


def test_the_memory_of_a_real_step_is_near_its_plan() -> None:
    found = plan(TINY, device=HERE, batch=16)
    measured = measure(what_is(TINY), found)
    held = found.memory.peak - found.memory.overhead
    assert measured.peak == pytest.approx(held, rel=0.1)
    assert measured.seconds > 0 and any(row.measured > 0 for row in measured.by_equation)


def settings_file(path: Path, again: bool) -> Path:
    """Settings of a deep model on batches of 16."""
    sizes = 'family = "gpt"\ncontext = 64\ndim = 64\nlayers = 12\nheads = 2'
    run = f"activation_checkpointing = {str(again).lower()}"
    data = "batch_size = 16\nmax_length = 64"
    path.write_text(f'task = "gpt"\n[data]\n{data}\n[model]\n{sizes}\n[run]\n{run}\n', encoding="utf-8")
    return path


def test_activation_checkpointing_of_a_file_of_settings_is_planned(tmp_path: Path) -> None:
    kept, again = (plan(settings_file(tmp_path / f"{on}.toml", on), device=HERE) for on in (False, True))
    assert not kept.workload.activation_checkpointing and again.workload.activation_checkpointing
    assert again.memory.peak == again.memory.peak_checkpointed < kept.memory.peak
    assert again.memory.activations == kept.memory.activations_checkpointed
    assert again.time == again.time_checkpointed == kept.time_checkpointed
    assert kept.time.seconds < again.time.seconds < 4 / 3 * kept.time.seconds
    assert again.operations.step == kept.operations.step, "what is computed again is no work of the model"
    assert again.limits.batch == again.limits.batch_checkpointed == kept.limits.batch_checkpointed > kept.limits.batch
    between = replace(HERE, memory=(kept.memory.peak + again.memory.peak) / 2)
    files = (tmp_path / "False.toml", tmp_path / "True.toml")
    assert [plan(file, device=between).fits for file in files] == [False, True]


def test_the_memory_of_a_real_step_that_computes_again_is_near_its_plan(tmp_path: Path) -> None:
    file = settings_file(tmp_path / "deep.toml", again=True)
    found = plan(file, device=HERE)
    measured = measure(what_is(file), found)
    assert measured.peak == pytest.approx(found.memory.peak - found.memory.overhead, rel=0.15)


def test_the_command_says_what_activation_checkpointing_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for again, said in (
        (False, r"ms, with activation checkpointing [\d.,]+ ms, "),
        (True, "ms, with activation check"),
    ):
        file = settings_file(tmp_path / f"{again}.toml", again)
        assert main(["plan", str(file), "--device", "l4", "--what-if"]) == 0
        shown = capsys.readouterr().out
        assert re.search(rf"training step: [\d.,]+ {said}", shown)
        changes = [line.strip() for line in shown[shown.index("half the width") :].splitlines()]
        assert any(line.startswith("activation checkpointing") for line in changes) != again


def test_it_is_public() -> None:
    assert gf.plan is plan and isinstance(gf.plan(TINY, device=HERE), gf.Plan)


def test_the_command_prints_json_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.svg"
    given = ["plan", "mlp-xor", "--device", "l4", "--batch", "4", "--json", "--svg", str(path)]
    assert main(given) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["plan"]["parameters"]["total"] > 0 and found["measured"] is None
    assert path.read_text(encoding="utf-8").startswith("<svg")


def test_the_command_says_what_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "llama-7b", "--device", "t4", "--batch", "1", "--length", "16"]) == 0
    assert "does not fit into 16 GB" in capsys.readouterr().out
