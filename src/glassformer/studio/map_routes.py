"""The route of the map: the boxes of a run and how they are connected."""

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.probes.model_map import model_map
from glassformer.studio.answers import answer, on_run
from glassformer.views.run_data import plain


async def map_(request: Request) -> Response:
    """The model as the tape of a run shows it."""
    return answer(await on_run(request, lambda kept: _for_json(asdict(model_map(kept.trace)))))


def _for_json(value: object) -> object:
    """A value whose numbers may be NaN or infinite, which JSON lacks."""
    if isinstance(value, dict):
        return {name: _for_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_for_json(part) for part in value]
    return plain(value) if isinstance(value, float) else value


routes = [Route("/runs/{id}/map", map_)]
