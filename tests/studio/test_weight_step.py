"""One training step over HTTP: on a copy, with fresh moments or those of a checkpoint, as the optimizer takes it."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

from glassformer.arithmetic import number
from glassformer.interface import LoadedModel, load
from glassformer.studio.app import studio_app
from glassformer.studio.guard import TOKEN_HEADER, Access
from glassformer.studio.run_folders import RunSummary, list_runs
from glassformer.studio.sessions import Sessions
from glassformer.training.run import prepare_task
from tests.browser.conftest import small_model
from tests.studio.test_training import CORPUS, SMALL

TEXT = {"text": "I love AI"}


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return small_model("gpt")


@pytest.fixture(scope="module")
def client(model: LoadedModel) -> Iterator[TestClient]:
    sessions = Sessions()
    sessions.add_model("mine", model)
    for name in ("seq2seq", "encoder-classifier", "encoder"):
        sessions.add_model(name, lambda name=name: small_model(name))
    app = studio_app(sessions, Access(8765, "t"))
    yield TestClient(app, base_url="http://127.0.0.1:8765", headers={TOKEN_HEADER: "t"})


def ask(client: TestClient, body: dict[str, object], **step: object) -> dict:
    run = client.post("/runs", json=body).json()["id"]
    answer = client.post("/training/step", json={"run": run, **step})
    assert answer.status_code == 200, answer.text
    return answer.json()


def entry(client: TestClient, step: dict, *index: int) -> dict:
    return client.get(f"/training/step/{step['id']}/entry", params={"index": ",".join(map(str, index))}).json()


def test_the_new_weight_is_the_optimizers_and_the_model_stays_as_it_was(client: TestClient, model: LoadedModel) -> None:
    before = {name: value.clone() for name, value in model.model.state_dict().items()}
    step = ask(client, TEXT, learning_rate=0.01, weight_decay=0.1)
    assert step["weight"] == "stack.blocks.0.attention.qkv.weight" and step["step"] == 1
    assert 0 <= step["difference"] < 1e-6 and not step["from_checkpoint"]
    found = entry(client, step, 2, 3)
    assert abs(found["numbers"][-1]["value"] - found["actual"]) <= step["difference"]
    assert found["before"] == float(before[step["weight"]][2, 3]) != found["actual"]
    assert all(torch.equal(value, before[name]) for name, value in model.model.state_dict().items())
    for stage in step["stages"]:
        equation = step["equations"][stage["equation"]]
        assert "<math" in (equation["rule_mathml"] if stage["rule"] else equation["mathml"])


def test_later_steps_have_a_lower_loss_and_moments(client: TestClient) -> None:
    losses = [ask(client, TEXT, taken=taken, learning_rate=0.01)["loss"] for taken in (0, 1, 5)]
    assert losses[0] > losses[1] > losses[2]
    third = ask(client, TEXT, taken=2, learning_rate=0.01)
    names = [stage["title"] for stage in third["stages"]]
    text = entry(client, third, 0, 0)["numbers"][names.index("Corrected first moment")]["text"]
    assert third["step"] == 3 and "0.9^3" in text


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "muon", "momentum", "rmsprop", "sgd"])
def test_every_optimizer_agrees_with_torch(client: TestClient, optimizer: str) -> None:
    step = ask(client, TEXT, optimizer=optimizer, learning_rate=0.05, weight_decay=0.1, taken=2)
    largest = 1e-5  # an update of the smallest gradients is as large as others, and so is what their rounding changes
    if optimizer == "muon":
        largest = 0.02  # the iterations of a run are in bfloat16
    assert step["difference"] < largest and step["optimizer"] == optimizer
    assert (step["weight"] == "stack.blocks.0.attention.output.weight") == (optimizer == "muon"), "which Muon has whole"


@pytest.mark.parametrize(("name", "more"), [("seq2seq", {"second": "you are"}), ("encoder-classifier", {})])
def test_other_models_take_a_step_too(client: TestClient, name: str, more: dict[str, str]) -> None:
    step = ask(client, {**TEXT, **more, "model": name})
    assert step["difference"] < 1e-6 and step["stages"][0]["title"] == "Loss"


def test_a_model_without_a_loss_says_so(client: TestClient) -> None:
    run = client.post("/runs", json={**TEXT, "model": "encoder"}).json()["id"]
    refused = client.post("/training/step", json={"run": run})
    assert refused.status_code == 400 and "Encoder gives hidden states and no logits" in refused.json()["error"]


def test_a_window_of_a_stage_is_its_numbers(client: TestClient) -> None:
    step = ask(client, TEXT)
    where = {"top": 1, "left": 2, "height": 3, "width": 4}
    for stage in ("gradient", "before", "actual", "normalized_descent"):
        raw = client.get(f"/training/step/{step['id']}/slice", params={"stage": stage, **where}).content
        window = np.frombuffer(raw, "<f4").reshape(3, 4)
        found = entry(client, step, 2, 4)
        names = {"before": found["before"], "actual": found["actual"]}
        names |= {each["name"]: each["value"] for each in found["numbers"]}
        assert window[1, 2] == pytest.approx(names[stage], rel=1e-6)


def test_what_cannot_be_shown_is_said(client: TestClient) -> None:
    step = ask(client, TEXT)
    run = client.post("/runs", json=TEXT).json()["id"]
    for path, words in [
        (f"/training/step/{step['id']}/entry?index=1", "there is no entry [1]"),
        (f"/training/step/{step['id']}/slice?stage=x", "there is no stage 'x'"),
        ("/training/step/old/entry?index=0,0", "is not kept any more"),
    ]:
        refused = client.get(path)
        assert refused.status_code == 400 and words in refused.json()["error"]
    for body, words in [
        ({"run": run, "weight": "qkv"}, "no parameter is called 'qkv'"),
        ({"run": run, "taken": 51}, "taken is 51"),
        ({"run": run, "learning_rate": -1}, "learning_rate"),
        ({"run": run, "optimizer": "adagrad"}, "adagrad"),
        ({"run": run, "optimizer": "muon", "weight": "stack.blocks.0.attention.qkv.weight"}, "by itself"),
    ]:
        refused = client.post("/training/step", json=body)
        assert refused.status_code == 400 and words in refused.json()["error"]
    assert client.post("/training/step", json={"run": "x"}).status_code == 404


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of ten steps, with checkpoints of two of them."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text(CORPUS)
    settings = {**SMALL, "recipe.steps": 10, "data.path": str(folder / "text.txt"), "run.keep_checkpoints": 5}
    list(prepare_task("gpt", settings, out=folder / "gpt-1", size="tiny").train())
    return folder


def test_a_checkpoint_brings_its_moments_and_its_learning_rate(client: TestClient, run_folder: Path) -> None:
    step = ask(client, {"text": "the cat", "model": f"{run_folder / 'gpt-1'}@5"}, learning_rate=123.0)
    assert step["from_checkpoint"] and step["step"] == 6 and 0 < step["learning_rate"] < 0.01
    assert step["difference"] < 1e-6
    names = [stage["title"] for stage in step["stages"]]
    found = entry(client, step, 0, 0)
    assert "^6" in found["numbers"][names.index("Corrected first moment")]["text"]
    first = load(run_folder / "gpt-1", step=5).model.get_parameter(step["weight"])
    assert found["before"] == float(first.detach()[0, 0])


def test_runs_are_found_in_a_folder_and_by_themselves(run_folder: Path) -> None:
    (found,) = list_runs([run_folder])
    assert found == RunSummary(str(run_folder / "gpt-1"), "gpt", 10, 10, found.loss, 2, False)
    assert list_runs([run_folder / "gpt-1"]) == [found]
    assert list_runs([Path("/nowhere/at/all")]) == []


@pytest.mark.parametrize(
    ("weight", "index"), [("stack.blocks.0.attention.output.bias", (3,)), ("embedding.weight", ())]
)
def test_the_gradient_of_a_bias_and_of_an_embedding_is_a_sum_over_positions(
    client: TestClient, weight: str, index: tuple[int, ...]
) -> None:
    body = {**TEXT, "model": "encoder-classifier"}
    run = client.post("/runs", json=body).json()
    at = index or (run["data"]["ids"]["ids"][1], 2)
    numbers = entry(client, ask(client, body, weight=weight), *at)["numbers"]
    (gradient,) = [each for each in numbers if each["name"] == "gradient"]
    assert any(sign in gradient["text"] for sign in (" + ", " − ")) and gradient["text"].endswith(
        f" = {number(gradient['value'])}"
    )
