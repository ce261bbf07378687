"""Routes of a live training and its events, and of run folders with their curves and checkpoints."""

from pathlib import Path
from typing import get_args

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from glassformer.errors import GlassformerError
from glassformer.models.registry import architecture_of
from glassformer.studio.answers import answer, read_body, sessions_of
from glassformer.studio.run_folders import RUNS, list_runs, run_checkpoints, run_curves
from glassformer.studio.sessions import Sessions
from glassformer.studio.training import BusyError, Trainer, event_stream
from glassformer.studio.training_events import Command, TrainingRequest
from glassformer.training.registry import TASKS, defaults, families, tasks_for

CONFLICT = 409


def trainer_of(request: Request) -> Trainer:
    """The trainer of this server."""
    state = request.app.state
    if not hasattr(state, "trainer"):
        state.trainer = Trainer()
    return state.trainer


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
    word = request.url.path.rpartition("/")[2]
    training = await run_in_threadpool(trainer_of(request).command, msgspec.convert(word, Command))
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


class Proposal(msgspec.Struct, frozen=True):
    """The task that trains such a model as is open, and its family where the task would take another."""

    task: str
    family: str | None


def proposed(sessions: Sessions, name: str | None) -> Proposal:
    """What to train beside the model that is open: one of its kind; a language model where there is none yet."""
    try:
        model = sessions.model(name).model
    except GlassformerError:  # it is being trained, or the name is of no model
        return Proposal("translate" if sessions.first is not None else "gpt", None)
    task = next(iter(tasks_for(model)), "gpt")
    family = architecture_of(model.config)
    usual = architecture_of(defaults(task).model)
    return Proposal(task, family if family != usual and family in families(task) else None)


async def proposal(request: Request) -> Response:
    """What to train beside the model that is open."""
    return answer(await run_in_threadpool(proposed, sessions_of(request), request.query_params.get("model")))


async def curves(request: Request) -> Response:
    """The curves of a run."""
    return answer(await run_in_threadpool(run_curves, request.path_params["name"]))


async def checkpoints(request: Request) -> Response:
    """The checkpoints of a run."""
    return answer(await run_in_threadpool(run_checkpoints, request.path_params["name"]))


routes = [
    Route("/training", events),
    Route("/training", start, methods=["POST"]),
    Route("/training/runs", runs),
    Route("/training/proposal", proposal),
    Route("/training/runs/{name:path}/curves", curves),
    Route("/training/runs/{name:path}/checkpoints", checkpoints),
    *(Route(f"/training/{word}", command, methods=["POST"]) for word in get_args(Command)),
]
