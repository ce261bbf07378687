"""The lessons, computed when they are first opened; they hold no data of the user."""

from functools import cache

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.course.contents import contents_page, lesson_page
from glassformer.course.registry import lesson_called, lessons
from glassformer.equation import Equation

FRAME = {"content-security-policy": "frame-ancestors 'self'"}  # the page itself says what it may load


@cache
def lessons_by_equation() -> dict[str, str]:
    """The lesson of each equation, by the equation's name: the one called after it, or the first one that uses it."""
    found: dict[str, str] = {}
    for lesson in sorted(lessons().values(), key=lambda each: each.chapter == "Overview"):  # which uses everything
        for value in vars(lesson.module).values():
            if isinstance(value, Equation):
                found.setdefault(value.name, lesson.name)
    called = {name.replace("-", "_"): name for name in lessons()}
    return found | {name: called[name] for name in found if name in called}


@cache
def _page(name: str) -> str:
    lesson = lesson_called(name)
    return lesson_page(lesson, lesson.run(), links=True)


async def contents(_request: Request) -> Response:
    """Where to begin, a search, and all lessons."""
    return Response(await run_in_threadpool(contents_page), media_type="text/html", headers=FRAME)


async def lesson(request: Request) -> Response:
    """One lesson."""
    name = request.path_params["name"].removesuffix(".html")
    return Response(await run_in_threadpool(_page, name), media_type="text/html", headers=FRAME)


routes = [Route("/lessons/", contents), Route("/lessons/index.html", contents), Route("/lessons/{name}", lesson)]
