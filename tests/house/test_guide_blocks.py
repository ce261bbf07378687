"""Every code block of the guides runs as it stands, page by page in an empty folder; what is only shown can be read."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.cli.main import app, main
from glassformer.course.registry import lessons
from tests.house.source import ROOT

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)#:]*)(?:#([\w-]+))?\)")
GUIDES = ROOT / "docs" / "guides.md"
PAGES = [GUIDES, *sorted(GUIDES.with_suffix("").glob("*.md"))]
PRINTED = {  # by each page, besides what its commands say
    "guides": ("<Run gpt:", "<AttentionMaps:", "good\t", "bad\t", "torch.Size([2, 16])", "without head 1:"),
    "elsewhere": ("the same tokens: True",),
    "teaching": (),
}
TEACHING = (GUIDES.with_suffix("") / "teaching.md").read_text(encoding="utf-8")


def blocks(page: Path, *kinds: str) -> list[tuple[str, str]]:
    return [(kind, text) for kind, text in BLOCK.findall(page.read_text(encoding="utf-8")) if kind in kinds]


def run_line(line: str) -> int:
    program, *words = shlex.split(line)
    if program == "torchrun":
        return subprocess.run([sys.executable, "-m", "torch.distributed.run", *words], check=False).returncode
    assert program == "glassformer", line
    return main(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_guide_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    names: dict[str, object] = {}
    for kind, text in blocks(page, "python", "sh"):
        if kind == "python":
            exec(compile(text, page.name, "exec"), names)
            continue
        for line in text.splitlines():
            assert run_line(line) == 0, (line, capsys.readouterr().err)
    shown = capsys.readouterr().out
    assert [part for part in PRINTED[page.stem] if part not in shown] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_that_are_only_shown_can_be_read(page: Path) -> None:
    lines = [line for _, text in blocks(page, "text") for line in text.splitlines()]
    assert lines
    for line in lines:
        _, found, words = (
            line.partition("-m glassformer ") if line.startswith("torchrun") else line.partition("glassformer ")
        )
        if found and line.startswith(("glassformer ", "torchrun ")):
            command, *_ = app.parse_args(shlex.split(words), exit_on_error=False, print_error=False)
            assert callable(command)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for path, heading in LINK.findall(page.read_text(encoding="utf-8")):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        if heading:
            titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.M)
            assert heading in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, heading


def test_the_class_guide_lists_every_lesson_in_order_with_its_title() -> None:
    rows = re.findall(r"^\| (?:\w+)? ?\| `([\w-]+)` \| (.*?) \| \d+ \| [123] \|$", TEACHING, re.M)
    assert rows == [(lesson.name, lesson.title) for lesson in lessons().values()]


def test_the_plans_of_the_class_guide_name_lessons_and_add_up() -> None:
    minutes = {name: int(number) for name, number in re.findall(r"`([\w-]+)` \| .*? \| (\d+) \| [123] \|", TEACHING)}
    plan = re.findall(r"^\| \d \| .*? \| (`.*?`) \| (\d+) \|", TEACHING, re.M)
    assert len(plan) == 5
    for named, total in plan:
        assert sum(minutes[name] for name in re.findall(r"`([\w-]+)`", named)) == int(total) <= 80
    schedule = re.findall(r"^\| (\d+) \| (\d+) \| (.*?) \|$", TEACHING, re.M)
    starts = [sum(int(length) for _, length, _ in schedule[:index]) for index in range(len(schedule) + 1)]
    assert [int(start) for start, _, _ in schedule] == starts[:-1] and starts[-1] == 90
    named = {name for *_, text in schedule for name in re.findall(r"`([a-z-]+)`", text)}
    assert named and named <= set(minutes)
