"""Routes of learning: a live training and its events, run folders with their curves and checkpoints, one step."""

from pathlib import Path
from typing import get_args

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from glassformer.errors import GlassformerError
from glassformer.studio.answers import answer, on_run, read_body, sessions_of, whole_number, whole_numbers
from glassformer.studio.run_folders import RUNS, list_runs, run_checkpoints, run_curves
from glassformer.studio.training import BusyError, Trainer, event_stream
from glassformer.studio.training_events import Command, TrainingRequest
from glassformer.studio.weight_step import StepRequest, TakenSteps, entry, loss_of_text, stage_window
from glassformer.training.registry import TASKS
from glassformer.views.run_data import MatrixPart

CONFLICT = 409


def trainer_of(request: Request) -> Trainer:
    """The trainer of this server."""
    state = request.app.state
    if not hasattr(state, "trainer"):
        state.trainer = Trainer()
    return state.trainer


def _steps_of(request: Request) -> TakenSteps:
    state = request.app.state
    if not hasattr(state, "steps"):
        state.steps = TakenSteps()
    return state.steps


async def start(request: Request) -> Response:
    """Begin a training: a task from nothing, or a copy of a model."""
    wanted = await read_body(request, TrainingRequest)
    if wanted.task is None and wanted.model is None:
        raise GlassformerError("neither a task nor a model is given: say what to train")
    if wanted.task is not None and wanted.task not in TASKS:
        raise GlassformerError(f"there is no task {wanted.task!r}; there are {', '.join(TASKS)}")
    sessions, trainer = sessions_of(request), trainer_of(request)

    def begin() -> str:
        save = None if wanted.model is None else sessions.model(wanted.model).save
        return trainer.start(wanted, save).id

    try:
        return answer({"id": await run_in_threadpool(begin)})
    except BusyError as error:
        return answer({"error": str(error)}, CONFLICT)


async def command(request: Request) -> Response:
    """Pause the training, resume it or stop it."""
    word = request.path_params["command"]
    if word not in get_args(Command):
        raise GlassformerError(f"there is no command {word!r}; there are {', '.join(get_args(Command))}")
    training = await run_in_threadpool(trainer_of(request).command, word)
    return answer({"id": training.id})


async def events(request: Request) -> Response:
    """The events of the training, from the first or from the one after Last-Event-ID."""
    stream = event_stream(trainer_of(request), request.headers.get("last-event-id", ""))
    return StreamingResponse(stream, media_type="text/event-stream")


async def runs(request: Request) -> Response:
    """The run folders of this machine: in ./runs, in the folder asked for, and of the live trainings."""
    folder, live = request.query_params.get("folder"), trainer_of(request).folders()
    found = await run_in_threadpool(list_runs, [RUNS, *([Path(folder)] if folder else [])], live)
    return answer({"runs": found, "tasks": list(TASKS)})


async def curves(request: Request) -> Response:
    """The curves of a run."""
    return answer(await run_in_threadpool(run_curves, request.path_params["name"]))


async def checkpoints(request: Request) -> Response:
    """The checkpoints of a run."""
    return answer(await run_in_threadpool(run_checkpoints, request.path_params["name"]))


async def take_step(request: Request) -> Response:
    """Take one training step on a copy of a run's model, and trace it."""
    wanted, steps = await read_body(request, StepRequest), _steps_of(request)
    kept = sessions_of(request).run(wanted.run)

    def locked() -> object:
        with kept.lock:
            return steps.take(kept, wanted)

    return answer(await run_in_threadpool(locked))


async def text_loss(request: Request) -> Response:
    """The loss of a run's text, and null for a model that predicts no tokens."""
    return answer({"loss": await on_run(request, loss_of_text)})


async def step_entry(request: Request) -> Response:
    """One entry of the weight through all stages of a step."""
    kept, index = _steps_of(request).get(request.path_params["id"]), whole_numbers(request, "index")
    return answer(await run_in_threadpool(entry, kept, index))


async def step_window(request: Request) -> Response:
    """A window of the matrix of a stage as float32, row by row."""
    kept = _steps_of(request).get(request.path_params["id"])
    window = MatrixPart(*(whole_number(request, name, 0) for name in ("top", "left", "height", "width")))
    found = await run_in_threadpool(stage_window, kept, request.query_params.get("stage", ""), window)
    return Response(found, media_type="application/octet-stream")


routes = [
    Route("/training", events),
    Route("/training", start, methods=["POST"]),
    Route("/training/step", take_step, methods=["POST"]),
    Route("/training/step/{id}/entry", step_entry),
    Route("/training/step/{id}/slice", step_window),
    Route("/training/loss/{id}", text_loss),
    Route("/training/runs", runs),
    Route("/training/runs/{name:path}/curves", curves),
    Route("/training/runs/{name:path}/checkpoints", checkpoints),
    Route("/training/{command}", command, methods=["POST"]),
]
