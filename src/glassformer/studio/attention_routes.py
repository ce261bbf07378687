"""The route of the Attention view: every attention map of a run, small."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.studio.answers import answer, on_run
from glassformer.views.attention_sheet import attention_sheet


async def attention(request: Request) -> Response:
    """The maps of a run with their thumbnails."""
    return answer(await on_run(request, lambda kept: attention_sheet(kept.trace)))


routes = [Route("/runs/{id}/attention", attention)]
