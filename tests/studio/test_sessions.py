"""What the server holds: the same request gives the same run, the oldest is dropped, and errors are said in words."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.testclient import TestClient

from glassformer.errors import GlassformerError
from glassformer.studio.app import studio_app
from glassformer.studio.faults import UnknownRunError
from glassformer.studio.guard import TOKEN_HEADER, Access
from glassformer.studio.sessions import KEPT, LONGEST_TEXT, Request, Sessions
from tests.browser.conftest import small_model

CLIENTS = 50


@pytest.fixture(scope="module")
def sessions() -> Sessions:
    found = Sessions()
    found.add_model("model", small_model("gpt"))
    return found


def test_the_same_request_gives_the_same_run(sessions: Sessions) -> None:
    first = sessions.start(Request("I love AI"))
    assert sessions.start(Request("I love AI")) is first
    assert sessions.start(Request("I love AI", backward="next")) is not first
    assert sessions.run(first.request.id) is first


def test_the_oldest_run_is_dropped_and_said_so(sessions: Sessions) -> None:
    first = sessions.start(Request("first"))
    for number in range(KEPT):
        sessions.start(Request(f"text {number}"))
    with pytest.raises(UnknownRunError, match="not kept any more"):
        sessions.run(first.request.id)


def test_a_model_is_opened_when_it_is_needed_and_once() -> None:
    sessions, opened = Sessions(), []
    with pytest.raises(UnknownRunError, match="none yet"):
        sessions.model()

    def load() -> object:
        opened.append(1)
        return small_model("gpt")

    sessions.add_model("late", load)
    assert opened == []
    assert sessions.model() is sessions.model("late") and len(opened) == 1
    with pytest.raises(UnknownRunError, match="there are late"):
        sessions.model("/etc/passwd")


@pytest.mark.parametrize("text", ["a" * (LONGEST_TEXT + 1), "word " * 200])
def test_a_text_that_cannot_be_run_is_said_in_words(sessions: Sessions, text: str) -> None:
    with pytest.raises(GlassformerError):
        sessions.start(Request(text))


def test_fifty_clients_at_once_get_their_own_numbers(sessions: Sessions) -> None:
    client = TestClient(studio_app(sessions, Access(8765, "t")), base_url="http://127.0.0.1:8765")
    headers = {TOKEN_HEADER: "t"}
    texts = ["I love AI", "you are welcome", "a small dog"]
    want = {text: sessions.start(Request(text)).trace.cell("layers.0.attention.weights", 0, 1, 1) for text in texts}

    def ask(number: int) -> bool:
        text = texts[number % len(texts)]
        run = client.post("/runs", json={"text": text}, headers=headers).json()
        where = {"step": "layers.0.attention.weights", "index": "0,0,1,1"}
        return client.get(f"/runs/{run['id']}/cell", params=where, headers=headers).json()["text"] == want[text]

    with ThreadPoolExecutor(CLIENTS) as pool:
        assert all(pool.map(ask, range(CLIENTS)))
