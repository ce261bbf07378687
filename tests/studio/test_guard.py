"""Who is answered: this machine's page with its token, and nobody else."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from glassformer.studio.app import studio_app
from glassformer.studio.guard import BODY_LIMIT, MOST_OPEN, TOKEN_HEADER, Access, Guard
from glassformer.studio.sessions import Sessions

ACCESS = Access(8765, "a-token")
GOOD = {"host": "127.0.0.1:8765", TOKEN_HEADER: "a-token"}


@pytest.fixture
def client() -> TestClient:
    return TestClient(studio_app(Sessions(), ACCESS), base_url="http://127.0.0.1:8765")


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "[::1]:8765"])
def test_the_page_on_this_machine_is_answered(client: TestClient, host: str) -> None:
    assert client.get("/models", headers=GOOD | {"host": host}).json() == {"models": []}
    assert client.get("/models", headers=GOOD | {"host": host, "origin": f"http://{host}"}).status_code == 200


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"host": "evil.example:8765"}, "another name"),  # a name that was made to point at this machine
        ({"host": "127.0.0.1"}, "another name"),
        ({"origin": "http://evil.example"}, "another page"),
        ({"origin": "null"}, "another page"),
        ({"origin": "https://127.0.0.1:8765"}, "another page"),
        ({TOKEN_HEADER: ""}, "token"),
        ({TOKEN_HEADER: "a-tokem"}, "token"),
        ({TOKEN_HEADER: "ä"}, "token"),
    ],
)
def test_a_wrong_host_origin_or_token_gets_no_data(client: TestClient, changed: dict[str, str], word: str) -> None:
    headers = {name: value.encode() for name, value in (GOOD | changed).items()}
    for path in ("/models", "/runs/x", "/runs/x/slice", "/nowhere"):
        refused = client.get(path, headers=headers)
        assert refused.status_code == 403 and word in refused.json()["error"]
    assert client.post("/runs", content=b"{}", headers=headers).status_code == 403


def test_the_frame_holds_no_data_and_allows_nothing_from_outside(client: TestClient) -> None:
    frame = client.get("/")
    policy = frame.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert ACCESS.token not in frame.text
    assert "access-control-allow-origin" not in frame.headers
    assert frame.headers["x-content-type-options"] == "nosniff"
    nonces = {client.get("/").text.split('nonce="')[1].split('"')[0] for _ in range(3)}
    assert len(nonces) == 3


@pytest.mark.parametrize("name", ["..%2fapp.py", "index.html", "%2e%2e/app.py", "studio.js%00", "nowhere.js"])
def test_only_the_modules_of_the_page_are_served(client: TestClient, name: str) -> None:
    assert client.get(f"/web/{name}").status_code == 404
    assert client.get("/web/studio.js").headers["content-type"].startswith("text/javascript")


def test_a_large_body_is_refused_with_and_without_its_length(client: TestClient) -> None:
    refused = client.post("/runs", content=b"x" * (BODY_LIMIT + 1), headers=GOOD)
    assert refused.status_code == 413 and "1,000,000" in refused.json()["error"]

    def chunks() -> object:
        for _ in range(30):
            yield b"x" * 50_000

    assert client.post("/runs", content=chunks(), headers=GOOD).status_code >= 400


def test_too_many_requests_at_once_are_refused_and_the_next_ones_answered() -> None:
    async def scenario() -> tuple[list[int], int]:
        release = asyncio.Event()

        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            await release.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})

        guard = Guard(slow, ACCESS)
        headers = [(name.encode(), value.encode()) for name, value in GOOD.items()]

        async def no_more() -> Message:
            return {"type": "http.disconnect"}

        async def ask() -> int:
            said: list[int] = []

            async def send(message: Message) -> None:
                said.append(message.get("status", 0))

            await guard({"type": "http", "path": "/models", "headers": headers}, no_more, send)
            return said[0]

        asked = [asyncio.create_task(ask()) for _ in range(MOST_OPEN + 5)]
        await asyncio.sleep(0)
        release.set()
        return [await each for each in asked], await ask()

    with ThreadPoolExecutor(1) as pool:  # in a thread, since a browser of other tests may have its loop on this one
        statuses, after = pool.submit(lambda: asyncio.run(scenario())).result()
    assert sorted(statuses) == [200] * MOST_OPEN + [429] * 5 and after == 200


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"text": 3}', b'{"text": "a", "path": "/etc"}', b'{"second": "a"}']
)
def test_a_wrong_body_is_said_in_words(client: TestClient, body: bytes) -> None:
    refused = client.post("/runs", content=body, headers=GOOD)
    assert refused.status_code == 400 and refused.json()["error"]
