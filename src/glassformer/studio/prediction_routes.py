"""Routes of predictions: what a model reads, what a run predicts at a position, and at every depth."""

from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from torch import Tensor

from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.predictions import Prediction, PredictionCandidate, Predictor, SamplingStep
from glassformer.equation import Equation
from glassformer.equations.sampling import greedy, min_p, temperature, top_k, top_p
from glassformer.equations.softmax import softmax
from glassformer.probes.cells import written as arithmetic
from glassformer.probes.readout import residual_stream
from glassformer.studio.answers import answer, on_run, sessions_of
from glassformer.studio.explained import explained
from glassformer.studio.reading import Reading, reading
from glassformer.studio.run_inputs import token_ids
from glassformer.views.mathml import marked_mathml

if TYPE_CHECKING:
    from glassformer.studio.sessions import KeptRun

EQUATIONS = (temperature, top_k, top_p, min_p, softmax, greedy)  # of the settings, in the order they are applied
NAMED = 6  # of the tokens that a setting removes
S = TypeVar("S", bound=msgspec.Struct)


class PredictionQuery(msgspec.Struct, frozen=True):
    """Where to predict, and the settings of sampling."""

    position: int | None = None
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int = 0
    count: Annotated[int, msgspec.Meta(ge=1, le=100)] = 8


class LensQuery(msgspec.Struct, frozen=True):
    """Which positions to read at every depth, and how many candidates at each."""

    count: Annotated[int, msgspec.Meta(ge=1, le=20)] = 3
    start: Annotated[int, msgspec.Meta(ge=0)] = 0
    stop: Annotated[int, msgspec.Meta(ge=0)] | None = None


class StepOfSampling(msgspec.Struct, frozen=True):
    """A setting that was applied: what it left and removed, and the arithmetic of the most likely candidate."""

    equation: str
    left: int
    removed: int
    mass: float
    texts: list[str]
    arithmetic: str


class PredictionData(msgspec.Struct, frozen=True):
    """A prediction as the page shows it."""

    target: str
    position: int | None
    positions: list[int]
    ids: list[int]
    vocab: int
    greedy: int
    sampled: int
    actual: PredictionCandidate | None
    rank: int | None
    candidates: list[PredictionCandidate]
    steps: list[StepOfSampling]


class LensData(msgspec.Struct, frozen=True):
    """The logit lens: the step whose hidden states each depth reads, and its candidates at each position."""

    steps: list[str]
    start: int
    cells: list[list[list[PredictionCandidate]]]


class ReadingData(msgspec.Struct, frozen=True):
    """What a model reads, and the equations of sampling."""

    reading: Reading
    equations: dict[str, dict[str, object]]


def predicted(kept: "KeptRun", query: PredictionQuery) -> PredictionData:
    """What a run predicts at a position with some settings."""
    predictor = _predictor(kept)
    config = GenerationConfig(
        temperature=query.temperature, top_k=query.top_k, top_p=query.top_p, min_p=query.min_p, seed=query.seed
    )
    count = len(token_ids(kept.request.written or ""))
    found = predictor.at(query.position, config, query.count, count)
    return PredictionData(
        target=found.target,
        position=found.position,
        positions=predictor.positions,
        ids=predictor.ids,
        vocab=found.vocab,
        greedy=found.greedy,
        sampled=found.sampled,
        actual=found.actual,
        rank=found.rank,
        candidates=found.candidates,
        steps=[_step_data(predictor, found, step) for step in found.steps],
    )


def lens(kept: "KeptRun", query: LensQuery) -> LensData:
    """The most likely candidates if each depth were the last."""
    steps = [kept.trace.source_of(hidden) for hidden in residual_stream(kept.trace)]
    return LensData(steps, query.start, _predictor(kept).lens(query.count, query.start, query.stop))


def _predictor(kept: "KeptRun") -> Predictor:
    return Predictor(kept.trace, kept.loaded.tokenizer, kept.loaded.labels)


def _step_data(predictor: Predictor, found: Prediction, sampling: SamplingStep) -> StepOfSampling:
    step, best = sampling.step, found.candidates[0].id
    shown = arithmetic(step, (best,)) if step.output.dim() else str(int(step.output))
    texts = [predictor.text(id) for id in sampling.removed[:NAMED]]
    return StepOfSampling(step.equation.name, sampling.left, len(sampling.removed), sampling.mass, texts, shown)


def _equation_data(equation: Equation[..., Tensor]) -> dict[str, object]:
    symbols = [{"name": s.name, "written": s.written, "meaning": s.meaning} for s in equation.symbols]
    latex = marked_mathml(equation.latex, tuple(equation.symbols))
    return {"mathml": latex, "meaning": equation.meaning, "symbols": symbols}


async def predictions(request: Request) -> Response:
    """What a run predicts at a position."""
    query = _query(request, PredictionQuery)
    return answer(await on_run(request, lambda kept: explained(lambda: predicted(kept, query))))


async def lens_(request: Request) -> Response:
    """What each depth of a run predicts."""
    query = _query(request, LensQuery)
    return answer(await on_run(request, lambda kept: explained(lambda: lens(kept, query))))


async def reading_(request: Request) -> Response:
    """What a model reads, for the page before its first run."""
    loaded = await run_in_threadpool(sessions_of(request).model, request.query_params.get("model"))
    equations = {equation.name: _equation_data(equation) for equation in EQUATIONS}
    return answer(ReadingData(reading(loaded, sessions_of(request).pictures), equations))


def _query(request: Request, kind: type[S]) -> S:
    return msgspec.convert(dict(request.query_params), kind, strict=False)


routes = [
    Route("/reading", reading_),
    Route("/runs/{id}/predictions", predictions),
    Route("/runs/{id}/lens", lens_),
]
