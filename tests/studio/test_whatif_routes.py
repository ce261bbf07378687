"""Routes of changed runs: numbers of the library, and errors in words."""

import pytest
import torch
from starlette.testclient import TestClient

from glassformer.probes import on_head, patch
from glassformer.studio.app import studio_app
from glassformer.studio.guard import TOKEN_HEADER, Access
from glassformer.studio.sessions import Sessions
from tests.browser.conftest import small_model

TEXT, MODULE = "I love AI", "layers.0.attention"


@pytest.fixture(scope="module")
def client() -> TestClient:
    sessions = Sessions()
    sessions.add_model("model", small_model("gpt"))
    app = studio_app(sessions, Access(8765, "t"))
    return TestClient(app, base_url="http://127.0.0.1:8765", headers={TOKEN_HEADER: "t"})


def started(client: TestClient, *changes: dict[str, object]) -> str:
    answer = client.post("/runs", json={"text": TEXT, "backward": "next", "changes": changes})
    assert answer.status_code == 200, answer.text
    return answer.json()["id"]


def test_parts_comparison_and_ablations_are_those_of_the_library(client: TestClient) -> None:
    found = client.app.state.sessions.model().trace(TEXT, backward="next")
    run, changed = started(client), started(client, {"kind": "head", "module": MODULE, "head": 1})
    parts = client.get(f"/runs/{run}/parts").json()
    assert [(each["module"], each["heads"]) for each in parts["attentions"]] == [(MODULE, 2), ("layers.1.attention", 2)]
    assert parts["modules"][:2] == ["layers.0", MODULE] and parts["tokens"]["ids"] == list(found.tokens["ids"])
    change = {f"{MODULE}.outputs": on_head(1, torch.zeros_like)}
    new = torch.softmax(patch(found, change)[0, -1], -1)
    compared = client.get(f"/runs/{changed}/comparison").json()
    assert all(each["after"] == pytest.approx(float(new[each["id"]]), rel=1e-5) for each in compared["candidates"])
    assert compared["loss_after"] == pytest.approx(float(patch(found, change, of=found.loss)))
    off = client.get(f"/runs/{run}/ablations", params={"module": MODULE}).json()["ablations"][1]
    assert off["loss"] == pytest.approx(compared["loss_after"]) and off["kl"] == pytest.approx(compared["kl"])
    same = client.get(f"/runs/{run}/comparison").json()
    assert same["kl"] == 0 and same["loss_before"] == same["loss_after"]


BAD = {
    "take a text of as many tokens": {"kind": "patch", "step": "embedding", "text": "much longer than the first"},
    "has no head 7": {"kind": "head", "module": MODULE, "head": 7},
    "Invalid value 'weights'": {"kind": "weights"},
}


@pytest.mark.parametrize("words", BAD)
def test_a_change_that_cannot_be_made_is_said(client: TestClient, words: str) -> None:
    answer = client.post("/runs", json={"text": TEXT, "changes": [BAD[words]]})
    assert answer.status_code == 400 and words in answer.json()["error"]
    assert client.get(f"/runs/{started(client)}/ablations", params={"module": "layers.9"}).status_code == 400
