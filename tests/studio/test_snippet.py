"""The Python of a selection, run by another process: it prints the number that the page shows."""

import subprocess
import sys
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.errors import TapeError
from glassformer.probes import HeadOff, NewValue, Patched, TokenOff
from glassformer.studio.sessions import Request, Sessions
from glassformer.studio.snippet import Selected, snippet
from tests.browser.conftest import small_model

END = "end of a script"
WEIGHTS, INDEX = "layers.0.attention.weights", (0, 1, 2, 1)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Sessions:
    found = Sessions()
    for name in ("gpt", "seq2seq"):
        folder = tmp_path_factory.mktemp("models") / name
        small_model(name).save(folder)
        found.add_model(name, gf.load(folder))
    return found


def printed(scripts: list[str], tmp_path: Path) -> list[list[str]]:
    """What each script prints, run in one other process, since reading torch takes seconds."""
    files = [tmp_path / f"selection_{number}.py" for number in range(len(scripts))]
    for file, text in zip(files, scripts, strict=True):
        file.write_text(text, encoding="utf-8")
    each = f"import runpy, sys\nfor path in sys.argv[1:]:\n    runpy.run_path(path)\n    print({END!r})"
    done = subprocess.run([sys.executable, "-c", each, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [lines.splitlines() for lines in done.stdout.split(f"{END}\n")[:-1]]


CASES = {
    "forward": (Request("I love AI", model="gpt"), Selected(WEIGHTS, "", INDEX)),
    "gradient": (Request("I love AI", backward="next", model="gpt"), Selected(WEIGHTS, "", INDEX, "backward")),
    "changes": (
        Request(
            "I love 'AI'",
            model="gpt",
            backward="next",
            changes=(HeadOff("layers.0.attention", 1), TokenOff(0), NewValue("embedding", (0, 1, 2), 0.5)),
        ),
        Selected("layers.1.attention.weights", "", INDEX),
    ),
    "an input": (Request("I love AI", model="gpt"), Selected("layers.0.attention.output", "x", (0, 2, 1))),
    "a translator": (
        Request(
            "I love AI",
            "you are",
            "next",
            "seq2seq",
            changes=(Patched("encoder.layers.0.feed_forward_norm", "AI love I"),),
        ),
        Selected("decoder.layers.1.cross_attention.weights", "", INDEX),
    ),
    "written tokens": (Request("I love AI", model="gpt", written="3,4"), Selected("embedding", "", (0, -1, 0))),
}


def test_each_script_prints_the_number_of_the_selection(sessions: Sessions, tmp_path: Path) -> None:
    runs = [(sessions.start(request), selected) for request, selected in CASES.values()]
    said = printed([snippet(*run) for run in runs], tmp_path)
    for (kept, selected), lines, name in zip(runs, said, CASES, strict=True):
        shown = kept.trace[selected.step]
        symbols = {each.symbol.name: each.value for each in shown.symbols}
        value = symbols[selected.symbol] if selected.symbol else shown.output
        value = value if selected.direction == "forward" else kept.trace.gradient_of(value)
        assert float(lines[-1]) == float(value[selected.index]), name
        if selected.direction == "forward" and not selected.symbol:
            assert lines[0] == kept.trace.cell(selected.step, *selected.index), name


def test_a_model_in_memory_and_a_missing_step_are_said() -> None:
    sessions = Sessions()
    sessions.add_model("model", small_model("gpt"))
    kept = sessions.start(Request("I love AI"))
    assert "name the folder you saved it to" in snippet(kept, Selected())
    with pytest.raises(TapeError, match="no step is called 'layer'"):
        snippet(kept, Selected("layer"))
