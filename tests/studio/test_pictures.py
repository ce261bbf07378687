"""Pictures that the page sends, models that read pictures or numbers, and lessons that are computed once."""

import io
import threading
import time
import zlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from starlette.testclient import TestClient

from glassformer.course.walk import Walk
from glassformer.interface import LoadedModel
from glassformer.models.registry import build
from glassformer.studio import lesson_pages
from glassformer.studio.app import studio_app
from glassformer.studio.guard import TOKEN_HEADER, Access
from glassformer.studio.lesson_pages import LessonPages
from glassformer.studio.reading import reading
from glassformer.studio.sessions import Sessions
from glassformer.studio.snippet import Selected, snippet
from tests.browser.conftest import small_model
from tests.models.zoo import ZOO

image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
COLOR = {"channels": 3, "image_mean": (0.5, 0.4, 0.3), "image_std": (0.5, 0.2, 0.1)}


def file_of(height: int, width: int, kind: str = "PNG") -> bytes:
    """A picture file."""
    pixels = np.random.default_rng(0).integers(256, size=(height, width, 3), dtype=np.uint8)
    file = io.BytesIO()
    image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def opened(**models: LoadedModel) -> tuple[TestClient, Sessions]:
    sessions = Sessions()
    for name, model in models.items():
        sessions.add_model(name, model)
    app = studio_app(sessions, Access(8765, "t"))
    return TestClient(app, base_url="http://127.0.0.1:8765", headers={TOKEN_HEADER: "t"}), sessions


def vit() -> LoadedModel:
    return LoadedModel(build(replace(ZOO["vit"], **COLOR)).eval())


def test_a_picture_that_is_sent_is_read_in_the_models_size() -> None:
    client, sessions = opened(vit=vit())
    sent = client.post("/pictures", params={"name": "../my cat.png"}, content=file_of(40, 60)).json()
    assert sent["text"].startswith("sent-") and sent["label"] == "my cat.png" and len(sent["rows"][0][0]) == 3
    run = client.post("/runs", json={"text": sent["text"]}).json()
    found = client.get(f"/runs/{run['id']}/picture").json()
    assert (found["height"], found["width"], found["channels"], found["patches"]) == (6, 6, 3, 3) and run["pictures"]
    assert sent["text"] in [each.text for each in reading(sessions.model(), sessions.pictures).pictures]
    assert "read_image" in snippet(sessions.run(run["id"]), Selected())


def test_what_is_no_picture_or_too_large_is_refused_before_it_is_decoded() -> None:
    client, _ = opened(vit=vit())
    bomb = bytearray(file_of(1, 1))
    bomb[16:24] = (60_000).to_bytes(4, "big") * 2  # the size in its header, with its checksum
    bomb[29:33] = zlib.crc32(bomb[12:29]).to_bytes(4, "big")
    for data, words in [
        (b"no picture", "is not an image"),
        (bytes(bomb), "exceeds limit|pixels, wanted at most"),
        (file_of(5, 5)[:40], "cannot|not an image"),
        (b"x" * 1_000_001, "over 1,000,000 bytes"),
    ]:
        refused = client.post("/pictures", content=data)
        assert refused.status_code >= 400 and any(w in refused.json()["error"] for w in words.split("|")), words
        assert "/tmp" not in refused.json()["error"]
    refused = client.post("/runs", json={"text": "sent-0"})
    assert "choose its file again" in refused.json()["error"]
    refused = client.post("/runs", json={"text": __file__})
    assert "there is no picture" in refused.json()["error"]
    change = {"kind": "patch", "step": "patches", "text": __file__}
    run = client.post("/pictures", content=file_of(6, 6)).json()["text"]
    refused = client.post("/runs", json={"text": run, "changes": [change]})
    assert "there is no picture" in refused.json()["error"], "no file of this machine is read"


def test_clip_reads_a_picture_with_a_caption_and_an_autoencoder_a_picture() -> None:
    clip = replace(ZOO["clip"], **COLOR)
    coder = replace(ZOO["image-autoencoder"], channels=3)
    client, _ = opened(clip=LoadedModel(build(clip).eval()), coder=LoadedModel(build(coder).eval()))
    sent = client.post("/pictures", content=file_of(6, 6)).json()["text"]
    for model, more in [("clip", {"second": "1 2 3"}), ("coder", {})]:
        run = client.post("/runs", json={"text": sent, "model": model, **more}).json()
        assert client.get(f"/runs/{run['id']}/picture").json()["channels"] == 3


def test_a_regression_reads_numbers_and_others_say_that_they_read_nothing() -> None:
    client, sessions = opened(mlp=LoadedModel(build("mlp-xor").eval()), skip=LoadedModel(build(ZOO["skip-gram"])))
    assert reading(sessions.model()).reads == "numbers" and reading(sessions.model()).example == "0.5 1.0"
    assert client.post("/runs", json={"text": "0,5 1"}).status_code == 400
    assert client.post("/runs", json={"text": "0.5, −1"}).json()["data"]["kind"] == "other"
    found = reading(sessions.model("skip"))
    assert found.reads == "nothing" and "neither a text nor a picture" in found.warnings[0]


def test_a_lesson_is_computed_once_and_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    go, runs = threading.Event(), []

    class SlowWalk(Walk):
        """A lesson."""

        def run(self) -> None:
            runs.append(self)
            self.begin("The first step")
            go.wait(30)
            self.close()

    lesson = SimpleNamespace(name="slow", title="Slow", about="", walk=SlowWalk)
    monkeypatch.setattr(lesson_pages, "lesson_page", lambda *given, **more: "<p>done</p>")
    pages = LessonPages(0.05, lambda name: lesson)
    waiting = pages.page("slow")
    assert "The first step" in waiting and 'http-equiv="refresh"' in waiting
    again = threading.Thread(target=pages.page, args=("slow",))
    again.start()
    go.set()
    again.join()
    for _ in range(100):
        if pages.page("slow") == "<p>done</p>":
            break
        time.sleep(0.02)
    assert pages.page("slow") == "<p>done</p>" and len(runs) == 1


def test_a_lesson_that_fails_says_so_and_is_tried_again() -> None:
    def fail(self: Walk) -> None:
        raise ValueError("no")

    lesson = SimpleNamespace(name="bad", title="Bad", about="", walk=type("BadWalk", (Walk,), {"run": fail}))
    pages = LessonPages(5, lambda name: lesson)
    assert "ValueError: no" in pages.page("bad") and "refresh" not in pages.page("bad")


def test_the_snippet_of_the_built_in_translator_opens_it() -> None:
    sessions = Sessions()
    sessions.first = SimpleNamespace()
    sessions.add_model("built-in translator", small_model("seq2seq"))
    from glassformer.studio.sessions import Request

    text = snippet(sessions.start(Request("I love AI", "you are")), Selected())
    assert "FirstModel().start()" in text and "gf.load" not in text
    compile(text, "snippet", "exec")
