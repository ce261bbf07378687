"""`glassformer walk`: lessons that run the library step by step."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from glassformer.cli.report import (
    FAILED,
    Json,
    UsageError,
    page_width,
    talk,
    write,
    write_json,
    write_table,
    write_text,
)

if TYPE_CHECKING:
    from glassformer.lessons.exercise import Exercise
    from glassformer.lessons.registry import CourseLesson
    from glassformer.lessons.walk import Walk

ATTEMPTS = 2  # answers to a question of a quiz before the right one is told
Flag = Annotated[bool, Parameter(negative="", show_default=False)]


def walk(
    lesson: str | None = None,
    /,
    *,
    all: Flag = False,
    quiz: Flag = False,
    html: Path | None = None,
    notebook: Path | None = None,
    json: Json = False,
) -> int | None:
    """Take a lesson step by step, every number computed while you read; or list the lessons.

    Exits with 1 if an answer of a quiz was wrong.

    Parameters
    ----------
    lesson
        A lesson, such as slope; a list of all of them if left out.
    all
        Everything at once, without waiting for Enter; without a lesson, every lesson.
    quiz
        Ask the lesson's exercises, and judge the answers typed.
    html
        Write the lesson as a page that opens in any browser; without a lesson, a folder with all of them.
    notebook
        Write the lesson as a Jupyter notebook; without a lesson, a folder with all of them.
    """
    from glassformer.errors import LessonError
    from glassformer.lessons.registry import lesson_called, lessons

    if lesson is None and quiz:
        raise UsageError("a quiz needs a lesson, such as `glassformer walk slope --quiz`")
    if lesson is None and not (all or html or notebook):
        _list_lessons(json)
        return None
    try:
        chosen = list(lessons().values()) if lesson is None else [lesson_called(lesson)]
    except LessonError as error:
        raise UsageError(str(error)) from None
    if html is not None or notebook is not None:
        _write_files(chosen, html, notebook, whole=lesson is None)
        return None
    if quiz:
        return _quiz(chosen[0].run().exercises, json)
    _show_lessons(chosen, json, wait=not all and sys.stdin.isatty() and sys.stdout.isatty())
    return None


def _list_lessons(json: bool) -> None:
    from glassformer.lessons.registry import lessons

    found = list(lessons().values())
    if json:
        write_json([{"name": e.name, "title": e.title, "chapter": e.chapter, "about": e.about} for e in found])
        return
    for chapter in dict.fromkeys(each.chapter for each in found):
        rows = [(each.name, each.title) for each in found if each.chapter == chapter]
        write_table(("lesson", "title"), rows, title=chapter)
    write("`glassformer walk LESSON` takes one; `--quiz` asks its exercises.")


def _write_files(chosen: list["CourseLesson"], html: Path | None, notebook: Path | None, whole: bool) -> None:
    import msgspec

    from glassformer.lessons.html import contents_page, lesson_page
    from glassformer.lessons.notebook import lesson_notebook

    for folder in (html, notebook):
        if whole and folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    if whole and html is not None:
        (html / "index.html").write_text(contents_page(), encoding="utf-8")
    for lesson in chosen:
        walk = lesson.run()
        if html is not None:
            path = html / f"{lesson.name}.html" if whole else html
            path.write_text(lesson_page(lesson, walk, links=whole), encoding="utf-8")
        if notebook is not None:
            path = notebook / f"{lesson.name}.ipynb" if whole else notebook
            path.write_bytes(msgspec.json.format(msgspec.json.encode(lesson_notebook(lesson, walk)), indent=1) + b"\n")
    talk(f"wrote {len(chosen)} {'lesson' if len(chosen) == 1 else 'lessons'}")


def _show_lessons(chosen: list["CourseLesson"], json: bool, wait: bool) -> None:
    from glassformer.lessons.data import lesson_data

    runs = [(lesson, lesson.run()) for lesson in chosen]
    if json:
        data = [lesson_data(lesson, walk) for lesson, walk in runs]
        write_json(data[0] if len(data) == 1 else data)
        return
    for lesson, walk in runs:
        write_text(f"{lesson.title}\n{lesson.about}\n")
        if not _show_pages(walk, wait):
            return
        write(f"{len(walk.exercises)} exercises: glassformer walk {lesson.name} --quiz\n")


def _show_pages(walk: "Walk", wait: bool) -> bool:
    """Write the pages one by one; false if the reader has had enough."""
    from glassformer.lessons.terminal import page_view
    from glassformer.views.terminal import render

    colour = sys.stdout.isatty()
    for place, page in enumerate(walk.pages, 1):
        write(render(page_view(page, place, len(walk.pages)), page_width(), colour) + "\n")
        if wait and place < len(walk.pages):
            print("Enter for the next step, Ctrl-D to stop ", end="", file=sys.stderr, flush=True)
            if not sys.stdin.readline():
                return False
    return True


def _quiz(exercises: list["Exercise"], json: bool) -> int | None:
    """Ask each question, up to a few times; status 1 unless all were answered rightly."""
    results = []
    for place, exercise in enumerate(exercises, 1):
        if not json:
            write_text("\n    ".join([f"{place}/{len(exercises)}  {exercise.question}", *exercise.given_lines]))
        right, typed = False, []
        for attempt in range(ATTEMPTS):
            line = sys.stdin.readline()
            if not line:
                break
            typed.append(line.strip())
            judged = exercise.judge(line)
            right = judged.right
            if not json:
                write_text(f"    {judged.text}")
            if right:
                break
            if attempt == ATTEMPTS - 1 and not json:
                write_text(f"    It is {exercise.solution}")
        if not json:
            write()
        results.append({"question": exercise.question, "typed": typed, "right": right})
    count = sum(bool(result["right"]) for result in results)
    if json:
        write_json(results)
    else:
        write(f"{count} of {len(results)} right")
    return None if count == len(results) else FAILED
