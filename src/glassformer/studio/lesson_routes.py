"""The lessons, each computed once, when it is first opened; they hold no data of the user."""

from functools import cache

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.course.contents import contents_page
from glassformer.course.registry import lessons
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


async def contents(_request: Request) -> Response:
    """Where to begin, a search, and all lessons."""
    return Response(await run_in_threadpool(contents_page), media_type="text/html", headers=FRAME)


async def lesson(request: Request) -> Response:
    """One lesson, or how far it is."""
    name, pages = request.path_params["name"].removesuffix(".html"), request.app.state.lesson_pages
    return Response(await run_in_threadpool(pages.page, name), media_type="text/html", headers=FRAME)


routes = [Route("/lessons/", contents), Route("/lessons/index.html", contents), Route("/lessons/{name}", lesson)]
