"""Beam search as a tree: every token that was considered, what became of it, and the text that won."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

from glassformer.decoding.beam_listener import BeamCandidate, BeamListener, BeamStep
from glassformer.decoding.completion import Completion
from glassformer.decoding.config import GenerationConfig
from glassformer.equations.sampling import length_penalty
from glassformer.errors import DecodingError
from glassformer.text.tokenizer import Tokenizer

# kept: on the way to a hypothesis of the last beam; dropped: was in the beam, and all its continuations were pruned;
# open: in the last beam and not finished, when nothing could overtake the winner any more
State = Literal["kept", "pruned", "dropped", "finished", "open"]
WIDEST, LONGEST = 8, 64  # beams and new tokens
Search: TypeAlias = Callable[[GenerationConfig, BeamListener], list[Completion]]


class BeamRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text to translate or continue by beam search."""

    text: str
    model: str | None = None
    num_beams: int = 4
    length_penalty: float = 0.6
    max_new_tokens: int = 40


class BeamNode(msgspec.Struct, frozen=True):
    """A token of the tree; `score` is the log-probability of the text up to it, `length` the number of its tokens.

    `rank` is the score over the length penalty, by which finished texts are compared, and `whole` is the whole text;
    others have neither.
    """

    token: int
    text: str
    log_probability: float
    score: float
    length: int
    state: State
    winner: bool
    penalty: float | None
    rank: float | None
    whole: str | None
    parts: list["BeamNode"]


class BeamTree(msgspec.Struct, frozen=True):
    """The tree of a search: its first tokens, and the text that won with its ids and its rank."""

    text: str
    ids: list[int]
    rank: float
    steps: int
    considered: int
    num_beams: int
    length_penalty: float
    parts: list[BeamNode]


@dataclass
class _Branch:
    """A node while the tree grows."""

    candidate: BeamCandidate
    length: int
    parts: list["_Branch"] = field(default_factory=list)
    finished: bool = False
    live: bool = False  # it leads to a hypothesis of the last beam, or is one
    winner: bool = False


ROOT = BeamCandidate(parent=0, token=None, log_probability=0.0, score=0.0, slot=0, ended=False)


def beam_tree(search: Search, tokenizer: Tokenizer, request: BeamRequest) -> BeamTree:
    """Search, and return the tree of everything that was considered."""
    if request.num_beams > WIDEST or request.max_new_tokens > LONGEST:
        raise DecodingError(f"wanted at most {WIDEST} beams and {LONGEST} new tokens")
    alpha, steps = request.length_penalty, list[list[BeamCandidate]]()

    def hear(step: BeamStep) -> None:
        steps.append(step.candidates())

    config = GenerationConfig(max_new_tokens=request.max_new_tokens, num_beams=request.num_beams, length_penalty=alpha)
    (best,) = search(config, hear)
    root = grow(steps, best)

    def node(branch: _Branch, before: list[int]) -> BeamNode:
        made, over = branch.candidate, length_penalty(branch.length, alpha)
        token = made.token or 0
        ids = [*before, token]
        end = (over, made.score / over, tokenizer.decode(ids)) if branch.finished else (None, None, None)
        parts = [node(part, ids) for part in branch.parts]
        facts = (made.log_probability, made.score, branch.length, _state(branch), branch.winner)
        return BeamNode(token, tokenizer.token(token), *facts, *end, parts)

    return BeamTree(
        text=best.text,
        ids=best.ids,
        rank=best.score / length_penalty(len(best.ids), alpha),
        steps=len(steps),
        considered=sum(len(step) for step in steps),
        num_beams=request.num_beams,
        length_penalty=alpha,
        parts=[node(part, []) for part in root.parts],
    )


def grow(steps: list[list[BeamCandidate]], best: Completion) -> _Branch:
    """The tree of the candidates of every step, with the text that won marked."""
    root = _Branch(ROOT, 0)
    slots = {0: [root]}  # the way from the root to the hypothesis in each slot
    for candidates in steps:
        after: dict[int, list[_Branch]] = {}
        for candidate in candidates:
            way = slots[candidate.parent]
            if candidate.token is not None:
                branch = _Branch(candidate, way[-1].length + 1, finished=candidate.ended)
                way[-1].parts.append(branch)
                way = [*way, branch]
            if candidate.slot is not None:
                after[candidate.slot] = way
        slots = after
    for way in slots.values():
        won = [branch.candidate.token for branch in way[1:]] == best.ids
        for branch in way:
            branch.live, branch.winner = True, branch.winner or won
    return root


def _state(branch: _Branch) -> State:
    if branch.candidate.slot is None:
        return "pruned"
    if branch.finished:
        return "finished"
    if not branch.live:
        return "dropped"
    return "kept" if any(part.live for part in branch.parts) else "open"
