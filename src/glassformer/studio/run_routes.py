"""Routes of a run: its data, windows of its matrices, the arithmetic of a cell, the path back from it."""

from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.studio import sessions
from glassformer.studio.answers import answer, on_run, read_body, sessions_of, whole_number, whole_numbers
from glassformer.views.cell_data import cell, path
from glassformer.views.run_data import MatrixPart, TensorName, run_data, slice_of

PATH_DEPTH, PATH_WIDTH = 3, 3


async def start(request: Request) -> Response:
    """Run a model on a text."""
    wanted = await read_body(request, sessions.Request)
    kept = await run_in_threadpool(sessions_of(request).start, wanted)
    return answer(await run_in_threadpool(_described, kept, request.app.state.lessons()))


async def again(request: Request) -> Response:
    """The data of a run that is kept."""
    return answer(await on_run(request, lambda kept: _described(kept, request.app.state.lessons())))


async def slice_(request: Request) -> Response:
    """A window of a matrix as float32, row by row."""
    which = _tensor(request)
    window = MatrixPart(*(whole_number(request, name, 0) for name in ("top", "left", "height", "width")))
    leading = whole_numbers(request, "leading")
    found = await on_run(request, lambda kept: slice_of(kept.trace, which, leading, window))
    return Response(found, media_type="application/octet-stream")


async def cell_(request: Request) -> Response:
    """The arithmetic of one number, and its operands."""
    which, index = _tensor(request), whole_numbers(request, "index")
    return answer(await on_run(request, lambda kept: cell(kept.trace, which, index)))


async def path_(request: Request) -> Response:
    """One number as a tree back to embeddings and weights."""
    which, index = _tensor(request), whole_numbers(request, "index")
    depth, width = whole_number(request, "depth", PATH_DEPTH), whole_number(request, "width", PATH_WIDTH)
    return answer(await on_run(request, lambda kept: path(kept.trace, which.step, index, depth, width)))


async def models(request: Request) -> Response:
    """The names of the models."""
    return answer({"models": sessions_of(request).models})


def _described(kept: sessions.KeptRun, lessons: Mapping[str, str]) -> dict[str, object]:
    data = run_data(kept.trace, lessons)
    pictures = "pixel_values" in kept.trace.inputs
    named = {"id": kept.request.id, "request": kept.request, "model": kept.loaded.name}
    return {**named, "pictures": pictures, "data": data}


def _tensor(request: Request) -> TensorName:
    given = request.query_params
    return TensorName(given.get("step", ""), given.get("symbol", ""), given.get("direction", "forward"))


routes = [
    Route("/models", models),
    Route("/runs", start, methods=["POST"]),
    Route("/runs/{id}", again),
    Route("/runs/{id}/slice", slice_),
    Route("/runs/{id}/cell", cell_),
    Route("/runs/{id}/path", path_),
]
