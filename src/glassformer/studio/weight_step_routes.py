"""Routes of one real training step on a copy of a model, stage by stage, for one weight."""

import copy
import secrets
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import msgspec
import torch
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from glassformer.errors import ConfigError, GlassformerError, TapeError
from glassformer.layers.model import Model
from glassformer.probes.loss_targets import next_token_loss, read_loss_target
from glassformer.probes.names import Names
from glassformer.probes.step_stages import Stage, require_entry, stages
from glassformer.probes.training_step import TrainingStep, training_step
from glassformer.recording import Tape
from glassformer.studio.answers import answer, on_run, read_body, sessions_of, whole_number, whole_numbers
from glassformer.studio.run_folders import split_checkpoint
from glassformer.training.optimizer import Optimizers
from glassformer.training.recipe import Recipe
from glassformer.training.recorded_run import recorded_settings
from glassformer.training.run_folder import RunFolder
from glassformer.views.run_data import EquationData, MatrixPart, Number, equation_data, plain

if TYPE_CHECKING:
    from glassformer.studio.sessions import KeptRun

KEPT = 4  # steps that the page can go back to
MOST_TAKEN = 50  # steps before the one that is shown
OptimizerName = Literal["adamw", "adam", "muon", "momentum", "rmsprop", "sgd"]
FUSED = (
    "{} holds several matrices in one, and Muon updates each of them by itself: choose another weight, such as {}, "
    "or another optimizer"
)


class StepRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which step to take: on the text of a run, for one weight, after `taken` steps on the same text.

    If the run is of a checkpoint of a training, its optimizer, moments and learning rate are used, and the settings
    here are not.
    """

    run: str
    weight: str | None = None
    taken: int = 0
    optimizer: OptimizerName = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0


class WeightName(msgspec.Struct, frozen=True):
    """A weight of a model, with its name as steps have it."""

    name: str
    readable: str
    shape: list[int]


class StageData(msgspec.Struct, frozen=True):
    """A stage without its numbers; `rule` says that its formula is the gradient rule of the equation."""

    name: str
    title: str
    equation: str
    rule: bool
    scalar: bool


class StepAnswer(msgspec.Struct, frozen=True):
    """A training step: the weight, its stages, their equations, and how far the optimizer's result is from ours."""

    id: str
    weight: str
    shape: list[int]
    weights: list[WeightName]
    stages: list[StageData]
    equations: dict[str, EquationData]
    loss: Number
    difference: Number
    optimizer: str
    learning_rate: float
    step: int
    from_checkpoint: bool


class StageNumber(msgspec.Struct, frozen=True):
    """The number of a stage for one entry of the weight, with its arithmetic and the numbers behind its letters."""

    name: str
    value: Number
    text: str
    operands: dict[str, Number]


class EntryAnswer(msgspec.Struct, frozen=True):
    """One entry of the weight through all stages: before, every stage, and after the optimizer's own step."""

    index: list[int]
    before: Number
    numbers: list[StageNumber]
    actual: Number
    difference: Number


@dataclass(frozen=True)
class KeptStep:
    """A step that was taken, with its stages."""

    id: str
    step: TrainingStep
    stages: list[Stage]


class TakenSteps:
    """The last few steps that were taken."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, KeptStep] = OrderedDict()

    def take(self, kept: "KeptRun", request: StepRequest) -> StepAnswer:
        """Take a training step on a copy of a run's model, with the run's text as the batch."""
        if not 0 <= request.taken <= MOST_TAKEN:
            raise ConfigError(f"taken is {request.taken}, wanted 0 to {MOST_TAKEN} steps before this one")
        model = copy.deepcopy(kept.loaded.model).eval().requires_grad_(True)  # the copy may train what is frozen
        recipe, optimizers, before = _optimizers(model, kept, request)
        names = Names(model, Tape())
        weights = [WeightName(n, names.readable(n), list(p.shape)) for n, p in model.named_parameters()]
        loss = _Loss(model, kept)
        with torch.enable_grad():
            for _ in range(request.taken):
                _plain_step(model, optimizers, loss, recipe)
            held = {name for each in optimizers.optimizers for name in _held(model, each)}
            weight = request.weight or _usual_weight([each for each in weights if each.name in held])
            optimizer = next((o for o in optimizers.optimizers if weight in _held(model, o)), None)
            if optimizer is None and weight in dict(model.named_parameters()):
                raise ConfigError(
                    FUSED.format(
                        names.readable(weight),
                        names.readable(_usual_weight([each for each in weights if each.name in held])),
                    )
                )
            optimizer = optimizer or optimizers.optimizers[0]  # which says that there is no such weight
            taken = training_step(model, optimizer, loss, weight, recipe.max_grad_norm or None)
        found = KeptStep(secrets.token_hex(6), taken, stages(taken))
        self._keep(found)
        return _answer(found, weights, recipe, before + request.taken + 1, before > 0)

    def _keep(self, step: KeptStep) -> None:
        self._kept[step.id] = step
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def get(self, id: str) -> KeptStep:
        """A step by its id."""
        if id not in self._kept:
            raise GlassformerError(f"step {id} is not kept any more: take it again")
        return self._kept[id]


class _Loss:
    """The loss that a run went backward from; else that of each next token, or of the first class."""

    def __init__(self, model: Model, kept: "KeptRun") -> None:
        self.model, self.inputs = model, {n: v for n, v in kept.trace.inputs.items() if isinstance(v, Tensor)}
        self.target = kept.request.backward

    def __call__(self) -> Tensor:
        """The loss of one forward pass."""
        output = self.model(**self.inputs)
        if self.target is not None:
            return read_loss_target(self.target)(output, self.inputs)
        if output.dim() == 2:
            return read_loss_target("class:0")(output, self.inputs)
        if output.shape[-1] != self.model.config.vocab:
            raise TapeError(
                f"{type(self.model).__name__} gives hidden states and no logits: there is no loss to learn from"
            )
        return next_token_loss(output, self.inputs)


def _optimizers(model: Model, kept: "KeptRun", request: StepRequest) -> tuple[Recipe, Optimizers, int]:
    """The recipe, the optimizers and the steps before: those of a checkpoint, or fresh ones."""
    checkpoint = split_checkpoint(kept.request.model or "")
    if checkpoint is None:
        decay = request.weight_decay if request.optimizer in ("adamw", "muon") else 0.0
        recipe = Recipe(
            optimizer=request.optimizer,
            learning_rate=request.learning_rate,
            weight_decay=decay,
            max_grad_norm=request.max_grad_norm,
        )
        return recipe, Optimizers(model, recipe), 0
    folder, step = checkpoint
    recipe = recorded_settings(folder).recipe
    snapshot = RunFolder(folder).load(step)
    if set(snapshot.model) != set(model.state_dict()):
        raise ConfigError(f"{folder}: its checkpoints hold LoRA updates: open the merged model instead")
    model.load_state_dict(snapshot.model)  # not their moving average, which is not what training updates
    optimizers = Optimizers(model, recipe)
    optimizers.resume(snapshot.optimizer)
    rate = recipe.learning_rate_at(step + 1)
    for group in (group for each in optimizers.optimizers for group in each.param_groups):
        group["lr"] = rate
    return replace(recipe, learning_rate=rate), optimizers, step


def _held(model: Model, optimizer: Optimizer) -> set[str]:
    """The names of the weights that an optimizer updates whole."""
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    return {name for name, parameter in model.named_parameters() if id(parameter) in held}


def _plain_step(model: Model, optimizers: Optimizers, loss: _Loss, recipe: Recipe) -> None:
    """One step as training takes it."""
    model.zero_grad(set_to_none=True)
    loss().backward()
    clip_grad_norm_(model.parameters(), recipe.gradient_limit)
    optimizers.update(recipe.learning_rate)


def _usual_weight(weights: list[WeightName]) -> str:
    """A matrix of the first attention, or else the first matrix."""
    matrices = [weight.name for weight in weights if len(weight.shape) == 2]
    if not matrices:
        raise TapeError("the model has no matrix to show a step of")
    return next((name for name in matrices if "attention" in name), matrices[0])


def _answer(kept: KeptStep, weights: list[WeightName], recipe: Recipe, step: int, from_checkpoint: bool) -> StepAnswer:
    taken = kept.step
    equations = {stage.equation.name: equation_data(stage.equation) for stage in kept.stages}
    parts = [StageData(s.name, s.title, s.equation.name, s.rule, s.value.dim() == 0) for s in kept.stages]
    return StepAnswer(
        id=kept.id,
        weight=taken.weight,
        shape=list(taken.before.shape),
        weights=weights,
        stages=parts,
        equations=equations,
        loss=plain(kept.stages[0].at(())),
        difference=plain(taken.difference),
        optimizer=recipe.optimizer,
        learning_rate=recipe.learning_rate,
        step=step,
        from_checkpoint=from_checkpoint,
    )


def loss_of_text(kept: "KeptRun") -> Number | None:
    """The mean loss of every token of a run's text given those before it, if the model predicts tokens."""
    output = kept.trace.output
    try:
        return plain(float(next_token_loss(output, kept.trace.inputs))) if isinstance(output, Tensor) else None
    except TapeError:
        return None


def entry(kept: KeptStep, index: tuple[int, ...]) -> EntryAnswer:
    """One entry of the weight through all stages."""
    at, step = require_entry(kept.step, index), kept.step
    numbers = [_number(stage, at) for stage in kept.stages]
    apart = abs(float(step.shown[at]) - float(step.actual[at]))
    return EntryAnswer(list(at), plain(float(step.before[at])), numbers, plain(float(step.actual[at])), plain(apart))


def _number(stage: Stage, at: tuple[int, ...]) -> StageNumber:
    operands = {name: plain(value) for name, value in stage.operands(at).items()}
    return StageNumber(stage.name, plain(stage.at(at)), stage.arithmetic(at), operands)


def stage_window(kept: KeptStep, name: str, window: MatrixPart) -> bytes:
    """A window of a stage's matrix as float32; `before` and `actual` are the weight before and after the real step."""
    whole = {"before": kept.step.before, "actual": kept.step.actual} | {s.name: s.value for s in kept.stages}
    if name not in whole:
        raise TapeError(f"there is no stage {name!r}; there are {', '.join(whole)}")
    value = whole[name].detach()
    matrix = value.reshape(-1, value.shape[-1] if value.dim() else 1)
    rows = slice(window.top, window.top + window.height)
    part = matrix[rows, window.left : window.left + window.width]
    return part.to(torch.float32).contiguous().numpy().tobytes()


def _steps_of(request: Request) -> TakenSteps:
    state = request.app.state
    if not hasattr(state, "steps"):
        state.steps = TakenSteps()
    return state.steps


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
    Route("/training/step", take_step, methods=["POST"]),
    Route("/training/step/{id}/entry", step_entry),
    Route("/training/step/{id}/slice", step_window),
    Route("/training/loss/{id}", text_loss),
]
