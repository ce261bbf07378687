"""Routes of changed runs: what can be switched off, two predictions side by side, each head switched off in turn."""

from typing import TYPE_CHECKING

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from torch import Tensor

from glassformer.decoding.comparison import (
    Ablation,
    AttentionPart,
    ComparedCandidate,
    ablations,
    attention_parts,
    compare,
    least_sure,
)
from glassformer.decoding.predictions import Predictor
from glassformer.probes.edits import residual_modules
from glassformer.studio.answers import answer, on_run, sessions_of, whole_number, whole_numbers
from glassformer.studio.explained import explained
from glassformer.studio.snippet import Selected, snippet

if TYPE_CHECKING:
    from glassformer.studio.sessions import KeptRun

CANDIDATES = 8


class Parts(msgspec.Struct, frozen=True):
    """What a run has to switch off: attentions with their heads, modules that add to the stream, tokens by input."""

    attentions: list[AttentionPart]
    modules: list[str]
    tokens: dict[str, list[str]]


class ComparisonData(msgspec.Struct, frozen=True):
    """The predictions of a run without its changes and with them, and both losses.

    `least_sure` says that no position was asked for, and that this is where the run without its changes is least sure.
    """

    position: int | None
    least_sure: bool
    kl: float | str
    candidates: list[ComparedCandidate]
    loss_before: float | None
    loss_after: float | None


def parts_of(kept: "KeptRun") -> Parts:
    """What a run has to switch off."""
    tokens = {name: list(words) for name, words in kept.trace.tokens.items()}
    return Parts(attention_parts(kept.trace), residual_modules(kept.trace), tokens)


def compared(before: "KeptRun", after: "KeptRun", position: int | None) -> ComparisonData:
    """The predictions of two runs, where no position is given at the one that the first is least sure of."""
    unsure = least_sure(_predictor(before)) if position is None else None
    found = compare(_predictor(before), _predictor(after), unsure if position is None else position, CANDIDATES)
    kl = found.kl if found.kl < float("inf") else "Infinity"
    return ComparisonData(
        found.position, unsure is not None, kl, found.candidates, _number(before.trace.loss), _number(after.trace.loss)
    )


def _predictor(kept: "KeptRun") -> Predictor:
    return Predictor(kept.trace, kept.loaded.tokenizer, kept.loaded.labels)


def _number(loss: Tensor | None) -> float | None:
    return None if loss is None else float(loss)


def _position(request: Request) -> int | None:
    return whole_number(request, "position", 0) if "position" in request.query_params else None


async def _before(request: Request) -> "KeptRun":
    """The run without its changes."""
    sessions = sessions_of(request)
    after = sessions.run(request.path_params["id"])
    return await run_in_threadpool(sessions.start, msgspec.structs.replace(after.request, changes=()))


async def parts(request: Request) -> Response:
    """What a run has to switch off."""
    return answer(await on_run(request, parts_of))


async def comparison(request: Request) -> Response:
    """A run beside the same run without its changes, which is computed if it is not kept."""
    position, before = _position(request), await _before(request)
    return answer(await on_run(request, lambda kept: explained(lambda: compared(before, kept, position))))


async def ablations_(request: Request) -> Response:
    """What each head of an attention does to a prediction when it is switched off."""
    module, position = request.query_params.get("module", ""), _position(request)
    before = await _before(request)

    def compute(kept: "KeptRun") -> list[Ablation]:
        run = _predictor(kept)
        at = least_sure(_predictor(before)) if position is None else position
        return list(ablations(run, module, at, kept.request.backward))

    return answer({"ablations": await on_run(request, compute)})


async def snippet_(request: Request) -> Response:
    """Python that computes the selection again."""
    given = request.query_params
    index = whole_numbers(request, "index")
    selected = Selected(given.get("step", ""), given.get("symbol", ""), index, given.get("direction", "forward"))
    return answer({"text": await on_run(request, lambda kept: snippet(kept, selected))})


routes = [
    Route("/runs/{id}/snippet", snippet_),
    Route("/runs/{id}/parts", parts),
    Route("/runs/{id}/comparison", comparison),
    Route("/runs/{id}/ablations", ablations_),
]
