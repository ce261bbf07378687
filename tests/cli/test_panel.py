"""The live panel: what it shows, and plain lines where there is nobody to watch."""

import io
import re

import pytest

from glassformer.cli.panel import panel
from glassformer.training.loop import Log
from glassformer.views import panel as module
from glassformer.views.console import SafeConsole
from glassformer.views.panel import LivePanel, PlainLines, duration

LOGS = [
    Log(100, 3.0, 1e-3, 2.0, 6400, seconds=10.0, speed=640.0),
    Log(200, 2.0, 2e-3, 1.5, 12800, 2.25, "the loss is [red]diverging[/red]", 30.0, 320.0, 0.123),
    Log(600, 1.5, 1e-3, 1.0, 38400, seconds=110.0, speed=1234.5, peak=0.5),
]


def test_lines_are_plain_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with panel(1000) as watcher:
        assert isinstance(watcher, PlainLines)
        for log in LOGS:
            watcher.update(log)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "glassformer: step 100 of 1,000: loss 3, 640 tokens/s, 10 s elapsed",
        "glassformer: step 200 of 1,000: loss 2, validation 2.25, 320 tokens/s, MFU 12.3 %, 30 s elapsed, "
        "2 min 40 s left",
        "glassformer: the loss is [red]diverging[/red]",
        "glassformer: step 600 of 1,000: loss 1.5, 1,234 tokens/s, MFU 50 %, 1 min 50 s elapsed, 1 min 20 s left",
    ]


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal of 80 columns."""
    text = io.StringIO()
    monkeypatch.setattr(
        module,
        "SafeConsole",
        lambda **settings: SafeConsole(file=text, force_terminal=True, width=80, _environ={}, **settings),
    )
    monkeypatch.delenv("NO_COLOR", raising=False)
    return text


def test_a_terminal_gets_a_curve_and_where_the_run_stands(screen: io.StringIO) -> None:
    with panel(1000) as watcher:
        assert isinstance(watcher, LivePanel)
        for log in LOGS:
            watcher.update(log)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    last = text[text.rindex("step 600 of 1,000") :]
    assert "loss 1.5, validation 2.25 at step 200, learning rate 0.001, gradient norm 1" in last
    assert "1,234 tokens/s · MFU 50 % · 1 min 50 s elapsed · 1 min 20 s left" in last
    assert "step 200: the loss is [red]diverging[/red]" in last
    curve = [line for line in last.splitlines() if re.search("[\u2801-\u28ff]", line)]
    assert len(curve) >= 2 and curve[0].rstrip("│ ").endswith(" 3")
    assert max(len(line) for line in last.splitlines()) <= 80
    assert screen.getvalue().rstrip().endswith("\x1b[?25h"), "the cursor is back"


def test_the_cursor_comes_back_after_an_error(screen: io.StringIO) -> None:
    with pytest.raises(RuntimeError), panel(10) as watcher:
        watcher.update(LOGS[0])
        raise RuntimeError
    assert screen.getvalue().rstrip().endswith("\x1b[?25h")


def test_whoever_wants_no_panel_gets_none(screen: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    with panel(10, progress=False) as watcher:
        assert isinstance(watcher, PlainLines)
    monkeypatch.setenv("NO_COLOR", "1")
    with panel(10) as watcher:
        assert isinstance(watcher, PlainLines)
    assert screen.getvalue() == ""


def test_a_terminal_without_the_dots_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    class Narrow(io.StringIO):
        encoding = "ascii"

    monkeypatch.setattr(
        module, "SafeConsole", lambda **settings: SafeConsole(file=Narrow(), force_terminal=True, _environ={})
    )
    monkeypatch.delenv("NO_COLOR", raising=False)
    with panel(10) as watcher:
        assert isinstance(watcher, PlainLines)


def test_a_loss_that_is_no_number_does_not_stop_the_show(screen: io.StringIO) -> None:
    with panel(10) as watcher:
        watcher.update(Log(1, float("nan"), 1e-3, float("inf"), 64, seconds=1.0, speed=64.0))
    assert "loss nan" in screen.getvalue()


def test_the_end_has_no_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    with panel(600, progress=False) as watcher:
        watcher.update(LOGS[2])
    assert "0 s left" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0 s"), (59.6, "1 min 0 s"), (3599, "59 min 59 s"), (7260, "2 h 1 min")]
)
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said
