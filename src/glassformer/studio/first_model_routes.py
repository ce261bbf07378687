"""The route of the first start: how far the built-in translator is."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.studio.answers import answer, sessions_of


async def first(request: Request) -> Response:
    """How far the built-in translator is, or null where a model was given."""
    model = sessions_of(request).first
    return answer(None if model is None else model.progress)


routes = [Route("/first", first)]
