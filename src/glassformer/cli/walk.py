"""`glassformer walk`: lessons, step by step."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.cli.output_files import NOTEBOOK_MARK, PAGE_MARK, require_free
from glassformer.cli.report import (
    Flag,
    Json,
    MaybePath,
    UsageError,
    page_width,
    talk,
    write,
    write_json,
    write_styled,
    write_table,
    write_text,
)
from glassformer.errors import FAILED

if TYPE_CHECKING:
    from glassformer.course.exercise import Exercise
    from glassformer.course.registry import CourseLesson
    from glassformer.course.walk import Walk

CONTENTS = "index"  # the page that lists all lessons
ATTEMPTS = 2  # answers to a quiz question before the solution is shown


def walk(
    lesson: str | None = None,
    /,
    *,
    all: Flag = False,
    quiz: Flag = False,
    html: MaybePath = None,
    notebook: MaybePath = None,
    json: Json = False,
) -> int | None:
    """Take a lesson step by step, every number computed as you read; or list the lessons.

    Exits with 1 if a quiz answer is wrong.

    Parameters
    ----------
    lesson
        Name of a lesson, such as slope; lists all if left out.
    all
        Show everything without waiting for Enter; without a lesson, every lesson.
    quiz
        Ask the exercises of the lesson and check the answers.
    html
        Write the lesson as a self-contained HTML page; without a lesson, a folder of all lessons.
    notebook
        Write the lesson as a Jupyter notebook; without a lesson, a folder of all lessons.
    """
    from glassformer.course.registry import lesson_called, lessons
    from glassformer.errors import LessonError

    if quiz and (lesson is None or html or notebook):
        raise UsageError("--quiz needs a lesson and writes no file, as in `glassformer walk slope --quiz`")
    if lesson is None and not (all or html or notebook):
        _list_lessons(json)
        return None
    try:
        chosen = list(lessons().values()) if lesson is None else [lesson_called(lesson)]
    except LessonError as error:
        raise UsageError(str(error)) from None
    if quiz:
        return _quiz(chosen[0].run().exercises, json)
    pages, notebooks = (_paths(chosen, *to, lesson is None) for to in ((html, ".html"), (notebook, ".ipynb")))
    marks = dict.fromkeys(pages.values(), PAGE_MARK), dict.fromkeys(notebooks.values(), NOTEBOOK_MARK)
    require_free(pair for each in marks for pair in each.items())
    runs = [(each, each.run()) for each in chosen]
    if pages or notebooks:
        _write_files(runs, pages, notebooks)
    if json or not (pages or notebooks):
        _show_lessons(runs, json, wait=not all)
    return None


def _list_lessons(json: bool) -> None:
    from glassformer.course.registry import lessons

    found = list(lessons().values())
    if json:
        write_json([{"name": e.name, "title": e.title, "chapter": e.chapter, "about": e.about} for e in found])
        return
    for chapter in dict.fromkeys(each.chapter for each in found):
        rows = [(each.name, each.title) for each in found if each.chapter == chapter]
        write_table(("lesson", "title"), rows, title=chapter)
    write("`glassformer walk LESSON` starts one; `--quiz` asks its exercises.")


def _paths(chosen: list["CourseLesson"], target: Path | None, ending: str, whole: bool) -> dict[str, Path]:
    """The output file of each lesson, in a new folder if there are several; none without a target."""
    if target is None:
        return {}
    if not whole:
        return {chosen[0].name: target}
    target.mkdir(parents=True, exist_ok=True)
    contents = {CONTENTS: target / f"{CONTENTS}{ending}"} if ending == ".html" else {}
    return contents | {lesson.name: target / f"{lesson.name}{ending}" for lesson in chosen}


def _write_files(runs: list[tuple["CourseLesson", "Walk"]], pages: dict[str, Path], notebooks: dict[str, Path]) -> None:
    import msgspec

    from glassformer.course.contents import contents_page, lesson_page
    from glassformer.course.notebook import lesson_notebook

    if CONTENTS in pages:
        pages[CONTENTS].write_text(contents_page(), encoding="utf-8")
    for lesson, walk in runs:
        if lesson.name in pages:
            pages[lesson.name].write_text(lesson_page(lesson, walk, links=CONTENTS in pages), encoding="utf-8")
        if lesson.name in notebooks:
            data = msgspec.json.format(msgspec.json.encode(lesson_notebook(lesson, walk)), indent=1)
            notebooks[lesson.name].write_bytes(data + b"\n")
    talk(f"wrote {len(runs)} {'lesson' if len(runs) == 1 else 'lessons'}")


def _show_lessons(runs: list[tuple["CourseLesson", "Walk"]], json: bool, wait: bool) -> None:
    from glassformer.course.data import lesson_data
    from glassformer.course.terminal import page_view
    from glassformer.views.terminal import render

    if json:
        data = [lesson_data(lesson, walk) for lesson, walk in runs]
        write_json(data[0] if len(data) == 1 else data)
        return
    keyboard = sys.stdin if wait and sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty() else None
    for lesson, walk in runs:
        write_text(f"{lesson.title}\n{lesson.about}\n")
        for number, page in enumerate(walk.pages, 1):
            write_styled(render(page_view(page, number, len(walk.pages)), page_width(), sys.stdout.isatty()) + "\n")
            if keyboard is not None and number < len(walk.pages):
                print("Enter for the next step, Ctrl-D to stop ", end="", file=sys.stderr, flush=True)
                if not keyboard.readline():
                    return
        write(f"{len(walk.exercises)} exercises: glassformer walk {lesson.name} --quiz\n")


def _quiz(exercises: list["Exercise"], json: bool) -> int | None:
    """Ask each question a few times; status 1 unless all answers are right."""
    results = []
    for number, exercise in enumerate(exercises, 1):
        if not json:
            write_text("\n    ".join([f"{number}/{len(exercises)}  {exercise.question}", *exercise.given_lines]))
        right, typed = False, []
        while not right and len(typed) < ATTEMPTS and (line := sys.stdin.readline()):
            typed.append(line.strip())
            judged = exercise.judge(line)
            right = judged.right
            if not json:
                write_text(f"    {judged.text}")
        if not json:
            if not right and len(typed) == ATTEMPTS:
                write_text(f"    It is {exercise.solution}")
            write()
        results.append({"question": exercise.question, "typed": typed, "right": right})
    count = sum(bool(result["right"]) for result in results)
    if json:
        write_json(results)
    else:
        write(f"{count} of {len(results)} right")
    return None if count == len(results) else FAILED
