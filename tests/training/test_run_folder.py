"""A run folder: what goes in comes out, the newest and the best are kept, and the log follows the checkpoints."""

import os
import stat
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from glassformer import durable
from glassformer.errors import RunFolderError, RunFolderWarning
from glassformer.training.run_folder import BEST, LOG, RunFolder, Snapshot
from tests.training.fake_snapshots import moment, same, same_tensors, whole

WORDS = st.text(st.characters(codec="utf-8"), max_size=12).filter(lambda name: name != "__metadata__")
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "runs" / "one", report=pytest.fail)


def test_an_empty_folder_has_nothing(folder: RunFolder) -> None:
    assert (folder.steps(), folder.latest(), folder.best(), folder.best_step()) == ([], None, None, None)
    assert not folder.path.exists()


def test_what_goes_in_comes_out(folder: RunFolder) -> None:
    numbers = torch.tensor([0.0, -0.0, float("nan"), float("inf"), 1e-45, 3.4e38])
    kinds = (torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool, torch.float8_e4m3fn)
    model = {str(kind): torch.arange(6).reshape(2, 3).to(kind) for kind in kinds}
    tied = torch.randn(4, 4)
    model |= {"numbers": numbers, "tied": tied, "tied too": tied, "part": tied[1], "turned": tied.T, "one": tied[0, 0]}
    model |= {"none": torch.empty(0, 3), "parameter": torch.nn.Parameter(torch.randn(3))}
    snapshot = Snapshot(7, model, {}, {"a": [1, 2.5, None, True], "b": {"c": "é\n"}, "big": 2**70, "small": 5e-324})
    assert folder.save(snapshot) == folder.path / "step-00000007"
    found = folder.latest()
    assert found is not None and not found.model["parameter"].requires_grad
    assert same(found, snapshot)


@settings(max_examples=20)
@given(names=st.lists(WORDS, unique=True, max_size=4), state=st.dictionaries(WORDS, PLAIN, max_size=4))
def test_any_names_and_any_plain_state_come_back(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], state: dict[str, object]
) -> None:
    folder = RunFolder(tmp_path_factory.mktemp("any"), report=pytest.fail)
    snapshot = Snapshot(0, {}, {name: torch.randn(2) for name in names}, state)
    folder.save(snapshot)
    found = folder.load(0)
    assert same_tensors(found.optimizer, snapshot.optimizer)
    assert found.state == state


def test_the_state_stored_is_that_of_the_call(folder: RunFolder) -> None:
    generator = torch.Generator().manual_seed(0)
    weight, trace = torch.randn(50, generator=generator), torch.zeros(50)
    state: dict[str, object] = {"position": [0]}
    for step in range(1, 101):
        wanted = Snapshot(step, {"weight": weight.clone()}, {"trace": trace.clone()}, {"position": [step - 1]})
        folder.save(Snapshot(step, {"weight": weight}, {"trace": trace}, state))
        weight.add_(torch.randn(50, generator=generator))
        trace.copy_(weight)
        state["position"] = [step]
        assert same(folder.latest(), wanted)


def test_other_libraries_read_the_weights(folder: RunFolder) -> None:
    with safe_open(folder.save(moment(1)) / "model.safetensors", framework="np") as file:
        assert file.metadata() == {"format": "pt"}
        assert sorted(file.keys()) == ["steps", "weight"]


def test_files_can_be_read_by_whom_the_umask_lets(folder: RunFolder) -> None:
    before = os.umask(0o027)
    try:
        saved = folder.save(moment(1))
        folder.mark_best(1)
        folder.write_text("config.toml", "a = 1\n")
        folder.log({"step": 1})
    finally:
        os.umask(before)
    files = [*saved.iterdir(), folder.path / BEST, folder.path / "config.toml", folder.path / LOG]
    assert len(files) == 7
    assert {oct(stat.S_IMODE(file.stat().st_mode)) for file in files} == {"0o640"}
    assert stat.S_IMODE(saved.stat().st_mode) == 0o750


def test_the_newest_and_the_best_are_kept(folder: RunFolder) -> None:
    for step in range(0, 100, 10):
        folder.save(moment(step))
        if step in (20, 50):
            folder.mark_best(step)
    assert folder.steps() == [50, 80, 90]
    assert same(folder.best(), moment(50))
    assert same(folder.latest(), moment(90))
    assert whole(folder) == [50, 80, 90]


def test_more_can_be_kept_and_not_less_than_two(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, keep=4)
    for step in range(6):
        folder.save(moment(step))
    assert folder.steps() == [2, 3, 4, 5]
    with pytest.raises(RunFolderError, match="keep is 1, wanted at least 2"):
        RunFolder(tmp_path, keep=1)


def test_steps_of_nine_digits_come_after_those_of_eight(folder: RunFolder) -> None:
    for step in (99_999_999, 100_000_000):
        folder.save(moment(step))
    assert folder.steps() == [99_999_999, 100_000_000]


def test_a_step_can_be_saved_again(folder: RunFolder) -> None:
    folder.save(Snapshot(5, {}, {}, {"first": True}))
    folder.save(moment(5))
    assert same(folder.latest(), moment(5))
    assert os.listdir(folder.path) == ["step-00000005"]


def test_an_older_step_is_not_saved_over_a_newer(folder: RunFolder) -> None:
    folder.save(moment(5))
    with pytest.raises(RunFolderError, match="step 4 cannot be saved, the folder holds step 5; resume from there"):
        folder.save(moment(4))
    assert whole(folder) == [5]
    with pytest.raises(RunFolderError, match="steps are counted from 0"):
        Snapshot(-1, {}, {}, {})


def test_the_best_must_be_there(folder: RunFolder) -> None:
    folder.save(moment(1))
    with pytest.raises(RunFolderError, match="has no checkpoint of step 2 to mark as the best; save it first"):
        folder.mark_best(2)
    with pytest.raises(RunFolderError, match="holds no checkpoint of step 2; there are: 1$"):
        folder.load(2)


def test_nothing_is_pruned_while_the_best_cannot_be_told(tmp_path: Path) -> None:
    said: list[str] = []
    folder = RunFolder(tmp_path, report=said.append)
    folder.save(moment(1))
    folder.mark_best(1)
    (tmp_path / BEST).write_text("{}")
    for step in (2, 3, 4):
        folder.save(moment(step))
    assert folder.steps() == [1, 2, 3, 4]
    assert len(said) == 3 and "no checkpoint is pruned" in said[0]


def test_what_cannot_be_pruned_is_said_and_the_save_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    folder = RunFolder(tmp_path, report=said.append)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "denied", str(path))

    monkeypatch.setattr(durable, "remove", refuse)
    for step in (1, 2, 3):
        folder.save(moment(step))
    assert same(folder.latest(), moment(3))
    assert len(said) == 1 and "step-00000001: not pruned: permission is denied" in said[0]


def test_reports_are_warnings_unless_told_otherwise(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.save(moment(1))
    (folder.save(moment(2)) / "state.json").unlink()
    with pytest.warns(RunFolderWarning, match="state.json: cannot be read: No such file.*an older one is tried"):
        assert same(folder.latest(), moment(1))


def test_a_reader_of_the_mapped_file_and_a_new_save_are_both_right(folder: RunFolder) -> None:
    path = folder.save(moment(3, 5000)) / "model.safetensors"
    with safe_open(path, framework="pt") as file:
        mapped = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - the file is no dictionary
        folder.save(Snapshot(3, {name: tensor + 1 for name, tensor in mapped.items()}, {}, {}))
        again = folder.load(3).model
        for step in (4, 5):
            folder.save(moment(step))
        assert folder.steps() == [4, 5]
        assert same_tensors(mapped, moment(3, 5000).model)
        assert same_tensors(again, {name: tensor + 1 for name, tensor in mapped.items()})


def test_loaded_tensors_do_not_hang_on_the_file(folder: RunFolder) -> None:
    path = folder.save(moment(3, 5000))
    found = folder.load(3)
    for file in path.iterdir():
        file.write_bytes(b"\0" * file.stat().st_size)
    assert same(found, moment(3, 5000))


@pytest.mark.parametrize(
    ("snapshot", "said"),
    [
        (Snapshot(1, {"a": torch.ones(1, dtype=torch.complex128)}, {}, {}), "the model: cannot be stored.*complex128"),
        (Snapshot(1, {"a": torch.ones(1, device="meta")}, {}, {}), "the model: cannot be stored: a: .*meta"),
        (Snapshot(1, {"a": torch.eye(2).to_sparse()}, {}, {}), "the model: cannot be stored: a: "),
        (Snapshot(1, {}, {"__metadata__": torch.ones(1)}, {}), "the optimizer: cannot be stored: __metadata__: the fo"),
        (Snapshot(1, {}, {"\ud800": torch.ones(1)}, {}), "the optimizer: cannot be stored: .*surrogates"),
        (Snapshot(1, {}, {}, {"best": float("inf")}), "the state: best: is inf, which JSON has no word for"),
        (Snapshot(1, {}, {}, {"a": [{"b": float("nan")}]}), "the state: a: b: is nan"),
        (Snapshot(1, {}, {}, {"a": b"x"}), "the state: a: is a bytes, wanted plain"),
        (Snapshot(1, {}, {}, {"a": {1: 2}}), "the state: a: has the key 1, wanted text"),
        (Snapshot(1, {}, {}, {"a": torch.ones(1)}), "the state: a: is a Tensor, wanted plain"),
        (Snapshot(1, {}, {}, {"a": "\ud800"}), "the state: a text has .* in it"),
    ],
)
def test_what_cannot_be_stored_is_refused_and_leaves_nothing(folder: RunFolder, snapshot: Snapshot, said: str) -> None:
    folder.save(moment(0))
    with pytest.raises(RunFolderError, match=f"^step 1: {said}") as caught:
        folder.save(snapshot)
    assert "\n" not in str(caught.value)
    assert os.listdir(folder.path) == ["step-00000000"]


def test_the_log_is_that_of_the_unbroken_run(tmp_path: Path) -> None:
    def train(folder: RunFolder, first: int, last: int) -> None:
        for step in range(first, last):
            folder.log({"step": step, "loss": 1 / (step + 3)})
            if step % 4 == 0:
                folder.save(moment(step))
                folder.log({"step": step, "validation": 0.5})  # of the saved step, and yet after it was saved

    unbroken, broken = (RunFolder(tmp_path / name, report=pytest.fail) for name in ("unbroken", "broken"))
    with unbroken.lock(), broken.lock():
        train(unbroken, 1, 30)
        train(broken, 1, 3)
        broken.rewind_log(0)
        train(broken, 1, 12)
        for last in (13, 18, 21, 30):
            with (broken.path / LOG).open("a") as file:
                file.write('{"step":')  # a kill can tear the last line
            found = broken.latest()
            assert found is not None
            broken.rewind_log(found.step)
            broken.log({"step": found.step, "validation": 0.5})
            train(broken, found.step + 1, last)
    assert (broken.path / LOG).read_bytes() == (unbroken.path / LOG).read_bytes()


def test_a_log_that_lost_lines_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    folder = RunFolder(tmp_path, report=said.append)
    for step in (1, 2):
        folder.log({"step": step})
    folder.save(moment(2))
    (tmp_path / LOG).write_text('{"step":1}\n{"st')
    folder.rewind_log(2)
    assert (tmp_path / LOG).read_text() == '{"step":1}\n'
    (tmp_path / LOG).unlink()
    folder.rewind_log(2)
    assert len(said) == 2 and all("lines are missing" in text for text in said)
    with pytest.raises(RunFolderError, match="holds no checkpoint of step 7"):
        folder.rewind_log(7)


def test_a_record_that_json_would_change_is_refused(folder: RunFolder) -> None:
    with folder.lock():
        folder.log({"step": 1, "loss": 0.1})
        with pytest.raises(RunFolderError, match="metrics.jsonl: a record: loss: is nan"):
            folder.log({"step": 2, "loss": float("nan")})
    assert (folder.path / LOG).read_text() == '{"step":1,"loss":0.1}\n'


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "/etc/x", "a/b", "a\0b", "step-00000001", "best.json", "metrics.jsonl", ".lock"]
)
def test_text_goes_to_a_plain_name_in_the_folder(folder: RunFolder, name: str) -> None:
    with pytest.raises(RunFolderError, match="is not a name for a file of a run"):
        folder.write_text(name, "text")
    assert not folder.path.exists()


def test_text_is_replaced_whole(folder: RunFolder) -> None:
    for text in ("a = 1\n", "", "é\r\n"):
        folder.write_text("config.toml", text)
        assert (folder.path / "config.toml").read_bytes() == text.encode()
    with pytest.raises(RunFolderError, match="config.toml: not written, the text has .* in it"):
        folder.write_text("config.toml", "\ud800")
    assert os.listdir(folder.path) == ["config.toml"]


def test_room_is_asked_for_before_it_is_needed(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    size = moment(0).nbytes
    assert folder.room_needed(1000) == 4800  # two, the best, and one on its way
    monkeypatch.setattr(durable, "free_bytes", lambda path: 4799)
    with pytest.raises(RunFolderError, match="no room for the checkpoints of a run that keeps 2: 0.0 MB wanted"):
        folder.check_room(1000)
    monkeypatch.setattr(durable, "free_bytes", lambda path: 4800)
    folder.check_room(1000)
    for step in range(5):
        folder.save(moment(step))
    assert folder.room_needed(1000) == 2400
    monkeypatch.setattr(durable, "free_bytes", lambda path: size)
    with pytest.raises(RunFolderError, match="no room for this checkpoint.*free some space"):
        folder.save(moment(5))
    assert whole(folder) == [3, 4]


def test_room_on_the_real_disk(folder: RunFolder) -> None:
    folder.check_room(1)
    with pytest.raises(RunFolderError, match="no room"):
        folder.check_room(2**60)
    assert not folder.path.exists()
