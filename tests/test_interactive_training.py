"""`gf.train` shows its progress in a terminal or a notebook, and is quiet in a pipe or for someone who watches."""

import html
import io
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import glassformer as gf
from glassformer.training.step import Log
from glassformer.views import panel as module
from glassformer.views.console import SafeConsole

TINY: dict[str, object] = {
    "tokenizer.kind": "characters", "model.dim": 8, "model.layers": 1, "model.heads": 1, "model.context": 16,
    "data.max_length": 8, "data.batch_size": 4, "data.validation_fraction": 0.2, "recipe.steps": 6,
    "recipe.log_every": 2, "recipe.evaluate_every": 3, "run.device": "cpu",
}  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """A run of a few steps on a short text."""
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    (tmp_path / "notes.txt").write_text("to be or not to be, that is the question. " * 8, encoding="utf-8")
    return {**TINY, "data.path": str(tmp_path / "notes.txt")}


def test_a_pipe_stays_quiet(settings: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    run = gf.train("gpt", settings)
    assert capsys.readouterr() == ("", "")
    assert [log.step for log in run.logs] == [2, 3, 4, 6]


def test_a_terminal_gets_the_panel(settings: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(
        module,
        "SafeConsole",
        lambda **more: SafeConsole(file=screen, force_terminal=True, width=80, _environ={}, **more),
    )
    monkeypatch.delenv("NO_COLOR", raising=False)
    gf.train("gpt", settings)
    assert "step 6 of 6" in screen.getvalue()
    shown = screen.getvalue()
    seen: list[Log] = []
    gf.train("gpt", settings, watch=seen.append)
    assert len(seen) == 4 and screen.getvalue() == shown, "whoever watches gets no panel"


def test_a_notebook_gets_a_bar_and_the_run_its_curves(
    settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[str] = []
    handle = SimpleNamespace(update=pages.append)
    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # pyright: ignore[reportAttributeAccessIssue]
    display.HTML = lambda text: text  # pyright: ignore[reportAttributeAccessIssue]
    display.display = lambda page, display_id: handle  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    run = gf.train("gpt", settings)
    assert '<progress max="6" value="6">' in pages[-1] and "validation" in pages[-1] and "left" in pages[-1]
    page = html.unescape(run._repr_html_())
    assert page.startswith("<iframe sandbox=") and "<svg" in page and "<Run gpt: " in html.unescape(page)
    assert "script-src 'none'" in page


def test_a_run_says_what_it_is(settings: dict[str, object], tmp_path: Path) -> None:
    run = gf.train("gpt", settings, out=tmp_path / "run")
    assert repr(run).startswith(f"<Run gpt: {run.parameters:,} parameters, step 6 of 6, loss ")
    assert "best validation" in repr(run) and repr(run).endswith(f"in {tmp_path / 'run'}>") and len(repr(run)) < 300
