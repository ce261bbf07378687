"""Live training: its events, pause and stop, what it leaves alone, and what happens when nobody listens."""

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from starlette.testclient import TestClient

from glassformer.checkpoints.run_checkpoints import checkpoint_steps
from glassformer.errors import TrainingError
from glassformer.interface import LoadedModel, load
from glassformer.studio import training
from glassformer.studio.app import studio_app
from glassformer.studio.guard import TOKEN_HEADER, Access
from glassformer.studio.run_folders import CheckpointModels, run_checkpoints, run_curves
from glassformer.studio.sessions import Sessions
from glassformer.studio.training import BusyError, LiveTraining, Trainer, event_stream
from glassformer.studio.training_events import LogEvent, StartEvent, StatusEvent, TrainingEvent, TrainingRequest
from glassformer.studio.training_worker import Control, work
from glassformer.training.run_folder import LOG
from tests.browser.conftest import small_model

CORPUS = "the cat sat on the mat and the dog ran home. " * 30
SMALL = {
    "tokenizer.kind": "characters", "model.layers": 2, "model.dim": 8, "model.heads": 2, "model.context": 16,
    "model.dropout": 0.0, "data.max_length": 16, "data.batch_size": 2, "recipe.evaluate_every": 5,
    "recipe.save_every": 5, "run.precision": "float32",
}  # fmt: skip


def request(steps: int = 10, **more: object) -> TrainingRequest:
    settings = {**SMALL, "recipe.steps": steps}
    return TrainingRequest(**{"task": "gpt", "corpus": CORPUS, "text": "the cat", "settings": settings, **more})


def events_of(
    asked: TrainingRequest, folder: Path, obey: Callable[[Control, TrainingEvent], None]
) -> list[TrainingEvent]:
    """The events of a training in this process; `obey` may give commands after each."""
    found: list[TrainingEvent] = []
    control = Control()

    def emit(event: TrainingEvent) -> None:
        found.append(event)
        obey(control, event)

    work(asked, folder, control, emit)
    return found


def waited(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


def test_a_training_reports_its_log_its_layers_its_attention_and_samples(tmp_path: Path) -> None:
    found = events_of(request(), tmp_path, lambda control, event: None)
    (start,) = (event for event in found if isinstance(event, StartEvent))
    logs = [event for event in found if isinstance(event, LogEvent)]
    assert [log.step for log in logs] == list(range(1, 11))
    assert start.layers == ["embedding", "positions", "layers.0", "layers.1", "stack.norm"]
    for log in logs:
        assert list(log.layers) == start.layers
        assert sum(norm**2 for norm in log.layers.values()) ** 0.5 == pytest.approx(log.grad_norm)
    assert [log.step for log in logs if log.validation is not None and log.sample] == [5, 10]
    maps = [event for event in found if event not in logs and hasattr(event, "maps")]
    assert [each.step for each in maps] == list(range(11))
    first = maps[0].maps[0]
    assert first.name == "layers.0.attention" and "".join(first.queries) == "the cat" == "".join(first.keys)
    assert maps[0].maps != maps[-1].maps, "attention changes"
    assert sum(first.weights[0][3]) == pytest.approx(1, abs=0.01)
    assert found[-1] == StatusEvent("finished")
    assert checkpoint_steps(tmp_path / "run") == [5, 10]


def test_layer_norms_are_those_of_autograd(tmp_path: Path) -> None:
    """The first step of the same run, differentiated by hand."""
    from glassformer.studio.training_worker import prepare_run
    from glassformer.training.objective import LossModule

    logs = [e for e in events_of(request(1), tmp_path / "a", lambda *_: None) if isinstance(e, LogEvent)]
    run = prepare_run(request(1), tmp_path / "b", lambda event: None)
    loss, count = LossModule(run.model, run.objective)(next(run.data.batches))
    (loss / count).backward()
    squares = [p.grad.square().sum() for n, p in run.model.named_parameters() if n.startswith("stack.blocks.1.")]
    assert logs[0].layers["layers.1"] == pytest.approx(float(sum(squares)) ** 0.5, rel=1e-4)


def test_a_paused_training_waits_and_goes_on_as_if_it_had_not(tmp_path: Path) -> None:
    import threading

    waits: list[float] = []

    def pause(control: Control, event: TrainingEvent) -> None:
        if isinstance(event, LogEvent) and event.step == 3:
            control.obey("pause")
        if event == StatusEvent("paused"):
            waits.append(time.monotonic())
            threading.Timer(0.3, control.obey, ["resume"]).start()

    paused = events_of(request(), tmp_path / "a", pause)
    straight = events_of(request(), tmp_path / "b", lambda *_: None)
    at = paused.index(StatusEvent("paused"))
    assert isinstance(paused[at - 2], LogEvent) and paused[at - 2].step == 3 and paused[at + 1].status == "training"
    assert time.monotonic() - waits[0] >= 0.3
    losses = [[e.loss for e in found if isinstance(e, LogEvent)] for found in (paused, straight)]
    assert losses[0] == losses[1] and len(losses[0]) == 10


def test_a_long_training_reports_some_of_its_steps_and_stops_at_once(tmp_path: Path) -> None:
    def stop(control: Control, event: TrainingEvent) -> None:
        if isinstance(event, LogEvent) and event.step == 6:
            control.obey("stop")

    found = events_of(request(6000), tmp_path, stop)
    assert [e.step for e in found if isinstance(e, LogEvent)] == [1, 3, 5, 6]  # each third, and each validation
    assert found[-1] == StatusEvent("stopped", "stopped after step 7, which is saved")
    assert [row["step"] for row in run_curves(str(tmp_path / "run")).rows] == list(range(1, 8)), "its log has them all"


def test_a_stopped_training_saves_its_last_step(tmp_path: Path) -> None:
    found = events_of(
        request(), tmp_path, lambda control, e: control.obey("stop") if getattr(e, "step", 0) == 3 else None
    )
    assert found[-1] == StatusEvent("stopped", "stopped after step 4, which is saved")
    assert checkpoint_steps(tmp_path / "run") == [4]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (request(settings={"recipe.stepps": 3}), "recipe.stepps"),
        (request(settings={"recipe.steps": "many"}), "recipe.steps"),
        (request(corpus=None, settings={**SMALL, "data.path": "/nowhere/at/all.txt"}), "/nowhere/at/all.txt"),
        (request(task=None), "neither a task nor a model"),
        (request(settings={**SMALL, "recipe.learning_rate": 1e38, "recipe.steps": 20}), "not finite"),
    ],
)
def test_what_goes_wrong_is_said_in_one_line(asked: TrainingRequest, words: str, tmp_path: Path) -> None:
    last = events_of(asked, tmp_path, lambda *_: None)[-1]
    assert isinstance(last, StatusEvent) and last.status == "failed"
    assert words in last.text and "\n" not in last.text and "Traceback" not in last.text


@pytest.fixture(scope="module")
def user_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("user") / "model"
    small_model("gpt").save(folder)
    return folder


def hashes(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def client(user_model: Path) -> Iterator[TestClient]:
    sessions = Sessions()
    sessions.add_model("mine", lambda: load(user_model))
    access = Access(8765, "t")
    app = studio_app(sessions, access)
    yield TestClient(app, base_url="http://127.0.0.1:8765", headers={TOKEN_HEADER: "t"})
    if hasattr(app.state, "trainer"):
        app.state.trainer.close()


@pytest.fixture(scope="module")
def trained(client: TestClient, user_model: Path) -> LiveTraining:
    """A copy of the user's model, trained in a process of its own, paused and resumed on the way."""
    client.app.state.trainer = Trainer()
    with client.app.state.trainer.listening():
        return train(client, user_model)


def train(client: TestClient, user_model: Path) -> LiveTraining:
    before = hashes(user_model)
    settings = {"recipe.steps": 24, "recipe.learning_rate": 0.01, "data.max_length": 16, "data.batch_size": 4}
    body = {"model": "mine", "corpus": CORPUS, "settings": settings}
    assert client.post("/training", json=body).status_code == 200
    live = client.app.state.trainer.current
    waited(lambda: live.step >= 2)
    assert client.post("/training/pause").status_code == 200
    busy = client.post("/training", json=body)
    assert busy.status_code == 409 and "a training is under way (gpt, step" in busy.json()["error"]
    waited(lambda: live.status == "paused" or live.ended.is_set())
    stood = live.step
    time.sleep(0.3)
    assert live.status == "paused" and live.step == stood < 24, "nothing goes on while it is paused"
    assert client.post("/training/resume").status_code == 200
    assert live.ended.wait(60) and live.status == "finished"
    assert hashes(user_model) == before, "the user's model is as it was"
    return live


def test_a_copy_is_trained_and_the_model_keeps_its_hash(trained: LiveTraining, user_model: Path) -> None:
    logs = [event for event in map(json.loads, trained.events) if event["kind"] == "log"]
    assert [log["step"] for log in logs] == list(range(1, 25))
    assert logs[-1]["loss"] < logs[0]["loss"]
    weights = [dict(each.model.named_parameters()) for each in (load(trained.run_folder), load(user_model))]
    assert not weights[0]["embedding.weight"].equal(weights[1]["embedding.weight"])


def received(stream: training.AsyncIterator[str], until: str) -> list[tuple[str, dict]]:
    async def read() -> list[tuple[str, dict]]:
        found: list[tuple[str, dict]] = []
        async for part in stream:
            for block in part.strip().split("\n\n"):
                if block.startswith("id: "):
                    id, data = block.split("\n")
                    found.append((id.removeprefix("id: "), json.loads(data.removeprefix("data: "))))
            if found and found[-1][1].get("status") == until:
                return found
        return found

    with ThreadPoolExecutor(1) as pool:  # in a thread, since a browser of other tests may have its loop on this one
        return pool.submit(lambda: asyncio.run(asyncio.wait_for(read(), 30))).result()


def test_events_are_replayed_from_the_first_or_after_the_last_one_seen(
    client: TestClient, trained: LiveTraining
) -> None:
    trainer = client.app.state.trainer
    every = received(event_stream(trainer), "finished")
    assert [data for _, data in every] == [json.loads(event) for event in trained.events]
    assert every[0][1]["kind"] == "begin" and len({id for id, _ in every}) == len(every)
    middle = len(every) // 2
    assert received(event_stream(trainer, every[middle][0]), "finished") == every[middle + 1 :]
    assert received(event_stream(trainer, "anothertraining-7"), "finished") == every, "of another server"
    assert trainer._listeners == 0, "a listener that is gone is not counted"


def test_runs_curves_and_checkpoints_are_listed(client: TestClient, trained: LiveTraining) -> None:
    (run,) = [each for each in client.get("/training/runs").json()["runs"] if each["live"]]
    assert (run["name"], run["task"], run["step"], run["steps"]) == (str(trained.run_folder), "gpt", 24, 24)
    curves = client.get(f"/training/runs/{run['name']}/curves").json()
    assert [row["step"] for row in curves["rows"]] == list(range(1, 25)) and curves["damaged"] == 0
    checkpoints = client.get(f"/training/runs/{run['name']}/checkpoints").json()
    assert checkpoints["steps"][-1] == 24 and checkpoints["best"] in checkpoints["steps"]
    losses = []
    for name in (checkpoints["models"][0], checkpoints["models"][-1]):
        answer = client.post("/runs", json={"text": "the cat sat", "model": name}).json()
        losses.append(client.get(f"/training/loss/{answer['id']}").json()["loss"])
    assert losses[1] < losses[0], "the same text through an early checkpoint and a late one"
    nothing = client.get("/training/runs/nowhere/curves")
    assert nothing.status_code == 400 and "is not the folder of a run" in nothing.json()["error"]
    gone = client.post("/runs", json={"text": "a", "model": f"{run['name']}@7777"})
    assert gone.status_code == 400 and "holds no checkpoint of step 7777" in gone.json()["error"]


def test_half_a_line_at_the_end_of_a_log_is_fine(trained: LiveTraining, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(trained.run_folder, folder)
    whole = (folder / LOG).read_bytes()
    for cut in range(0, 200, 7):
        (folder / LOG).write_bytes(whole[: len(whole) - cut])
        found = run_curves(str(folder))
        assert found.damaged == 0 and [row["step"] for row in found.rows] == list(range(1, len(found.rows) + 1))
    (folder / LOG).write_bytes(whole[:40] + b"\xff\n" + whole)
    assert run_curves(str(folder)).damaged == 1
    (folder / LOG).unlink()
    assert run_curves(str(folder)).rows == []


def test_a_command_without_a_training_says_so(client: TestClient, trained: LiveTraining) -> None:
    ended = client.post("/training/pause")
    assert ended.status_code == 400 and ended.json()["error"] == "the training has ended (finished): begin another one"
    assert client.post("/training/faster").status_code == 404
    with pytest.raises(TrainingError, match="no training is under way"):
        Trainer().command("pause")
    assert "there is no task 'sing'" in client.post("/training", json={"task": "sing"}).json()["error"]
    assert "say what to train" in client.post("/training", json={}).json()["error"]
    assert client.post("/training", json={"model": "other"}).status_code == 404


class _Recorded:
    """In place of a training: notes its commands."""

    def __init__(self) -> None:
        self.status, self.commands, self.id, self.events = "training", [], "a", ["{}"]

    def command(self, command: str) -> None:
        self.commands.append(command)

    def close(self) -> None:
        self.commands.append("close")


def test_a_training_that_nobody_follows_is_paused_and_then_stopped() -> None:
    trainer, live = Trainer(), _Recorded()
    trainer.current = live  # pyright: ignore[reportAttributeAccessIssue]
    now = time.monotonic()
    with trainer.listening():
        trainer.tend(now + 1000)
        assert live.commands == [], "there is a listener"
    left = time.monotonic()
    trainer.tend(left + training.PAUSE_AFTER - 1)
    assert live.commands == []
    trainer.tend(left + training.PAUSE_AFTER + 1)
    assert live.commands == ["pause"]
    live.status = "paused"
    with trainer.listening():
        assert live.commands == ["pause", "resume"], "who comes back finds it going on"
    live.status = "training"
    trainer.tend(time.monotonic() + training.STOP_AFTER + 1)
    assert live.commands[-1] == "stop"
    live.status = "stopped"
    trainer.tend(time.monotonic() + training.STOP_AFTER + 2)
    assert live.commands[-1] == "stop" and len(live.commands) == 3


def test_who_paused_it_by_hand_finds_it_paused() -> None:
    trainer, live = Trainer(), _Recorded()
    trainer.current = live  # pyright: ignore[reportAttributeAccessIssue]
    trainer.command("pause")
    live.status = "paused"
    trainer.tend(time.monotonic() + training.PAUSE_AFTER + 1)
    with trainer.listening():
        assert live.commands == ["pause"]


def test_a_process_that_dies_is_reported_and_its_folder_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "WORKER", "glassformer.there_is_no_such_module")
    live = LiveTraining(request())
    assert live.ended.wait(30) and live.status == "failed"
    last = msgspec.json.decode(live.events[-1])
    assert "ended with status 1" in last["text"] and "No module named" in last["text"] and "\n" not in last["text"]
    live.close()
    assert not live.folder.exists()


@pytest.mark.enable_socket
def test_a_closed_connection_is_no_listener_any_more() -> None:
    from http.client import HTTPConnection

    from glassformer.studio.serving import listen, served

    listening = listen(0)
    access = Access(listening.getsockname()[1])
    app = studio_app(Sessions(), access)
    app.state.trainer = Trainer()
    app.state.trainer.current = _Recorded()
    with served(app, listening):
        connection = HTTPConnection("127.0.0.1", listening.getsockname()[1])
        connection.request("GET", "/training", headers={TOKEN_HEADER: access.token})
        waited(lambda: app.state.trainer._listeners == 1, 10)
        assert connection.getresponse().getheader("content-type").startswith("text/event-stream")
        connection.close()
        waited(lambda: app.state.trainer._listeners == 0, 10)


def test_one_training_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, live = Trainer(), _Recorded()
    live.step, live.steps, live.name = 3, 0, "gpt"  # pyright: ignore[reportAttributeAccessIssue]
    trainer.current = live  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(BusyError, match=r"a training is under way \(gpt, training\): stop it"):
        trainer.start(request())


def test_a_checkpoint_is_opened_by_its_name(trained: LiveTraining) -> None:
    name = run_checkpoints(str(trained.run_folder)).models[-1]
    models = CheckpointModels(lambda folder, step: load(folder, step=step))
    opened = models.open(name)
    assert isinstance(opened, LoadedModel) and opened is models.open(name), "and kept for a while"
    assert models.open("mine") is None and models.open("nowhere@3") is None
