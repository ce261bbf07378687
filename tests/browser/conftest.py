"""A browser, models of each kind, and a running Studio for the tests of the page."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias

import pytest

from glassformer.interface import LoadedModel
from glassformer.models.registry import build
from glassformer.text.learn_tokenizer import learn_tokenizer
from tests.models.zoo import ZOO

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OpenPage: TypeAlias = Callable[..., object]
VIEWS = ["home", "run", "map", "step", "path", "attention", "whatif", "translate", "learn", "plan"]
WORDS = ["The cat sat on the mat.", "I love AI", "you are welcome", "a small dog runs home"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each test here speaks to the browser over a local socket, and is skipped where there is none."""
    for item in items:
        if "tests/browser/" in item.nodeid:
            item.add_marker(pytest.mark.enable_socket)
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="there is no Chromium here"))


@pytest.fixture(scope="session")
def chromium() -> Iterator[object]:
    """One browser for all tests."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def small_model(name: str) -> LoadedModel:
    """A small model of an architecture (`gpt`, `seq2seq`, …) with random weights and a tokenizer."""
    tokenizer = learn_tokenizer(WORDS, "bpe", 300)
    config = replace(ZOO[name], vocab=tokenizer.vocab_size, context=64)
    return LoadedModel(build(config).eval(), tokenizer)


@pytest.fixture
def studio(chromium: object) -> Iterator[OpenPage]:
    """Open a Studio on a model: `page = studio(model, "#/step")`; errors of the page fail the test."""
    from glassformer.planning.plan import plan
    from glassformer.studio.app import studio_app
    from glassformer.studio.guard import Access
    from glassformer.studio.serving import listen, served
    from glassformer.studio.sessions import Sessions

    opened, faults = [], []

    @contextmanager
    def running(model: LoadedModel) -> Iterator[str]:
        sessions, listening = Sessions(), listen(0)
        sessions.add_model("model", model)
        access = Access(listening.getsockname()[1])
        with served(studio_app(sessions, access, plan), listening):
            yield access.address

    def open_page(model: LoadedModel, state: str = "", refused: bool = False, **options: object) -> object:
        """`refused` says that the server refuses a request on purpose, which the browser logs."""
        manager = running(model)
        address = manager.__enter__()
        page = chromium.new_page(**options)
        opened.append((manager, page))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda said: faults.append(said.text) if said.type == "error" and not refused else None)
        page.goto(address + state)
        page.wait_for_selector("body[data-ready=yes]")
        return page

    yield open_page
    for manager, page in opened:
        page.close()
        manager.__exit__(None, None, None)
    assert faults == []
