"""The server of Studio: every group of routes, behind the guard."""

from collections.abc import Callable

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.errors import GlassformerError
from glassformer.interface import load
from glassformer.planning.figures import Plan
from glassformer.studio import (
    attention_routes,
    beam_routes,
    first_model_routes,
    lesson_routes,
    map_routes,
    page_files,
    picture_routes,
    planning_routes,
    prediction_routes,
    run_routes,
    training_routes,
    weight_step_routes,
    whatif_routes,
)
from glassformer.studio.answers import answer, fault
from glassformer.studio.guard import Access, Guard
from glassformer.studio.lesson_pages import LessonPages
from glassformer.studio.run_folders import CheckpointModels
from glassformer.studio.sessions import Sessions

GROUPS = (
    page_files,
    run_routes,
    prediction_routes,
    map_routes,
    attention_routes,
    whatif_routes,
    training_routes,
    weight_step_routes,
    beam_routes,
    first_model_routes,
    lesson_routes,
    picture_routes,
    planning_routes,
)


async def health(_request: Request) -> Response:
    """Whether the server is there."""
    return answer({"status": "ok"})


def studio_app(sessions: Sessions, access: Access, plan: Callable[..., Plan] | None = None) -> Starlette:
    """The application that serves the page to those whom `access` lets in; `plan` is `gf.plan`, for the Plan view."""
    routes = [Route("/health", health), *(route for group in GROUPS for route in group.routes)]
    faults = {GlassformerError: fault, msgspec.DecodeError: fault}
    app = Starlette(routes=routes, middleware=[Middleware(Guard, access=access)], exception_handlers=faults)
    app.state.sessions = sessions
    sessions.open_other = CheckpointModels(lambda folder, step: load(folder, step=step)).open
    app.state.make_plan = None if plan is None else planning_routes.kept(plan)
    app.state.lesson_pages = LessonPages()
    app.state.lessons = lesson_routes.lessons_by_equation
    return app
