"""What beam search considers at each step, for a listener: every candidate, and which of them the beam takes."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor


@dataclass(frozen=True)
class BeamCandidate:
    """A continuation of one hypothesis of the beam by one token; `slot` is its slot in the new beam, None if pruned.

    `parent` is the slot of the hypothesis it continues, `score` the log-probability of the whole text. A finished
    hypothesis has one candidate, itself, whose `token` is None.
    """

    parent: int
    token: int | None
    log_probability: float
    score: float
    slot: int | None
    ended: bool


@dataclass(frozen=True)
class BeamStep:
    """The candidates of one step [prompts, beams, options], and the beam it ends with [prompts, beams].

    `finished` tells which hypotheses were finished before it, and `taken` is the number of the candidate in each slot.
    """

    tokens: Tensor
    log_probabilities: Tensor
    scores: Tensor
    finished: Tensor
    taken: Tensor
    ended: Tensor

    def candidates(self, prompt: int = 0) -> list[BeamCandidate]:
        """The candidates of one prompt; those that are impossible, such as a suppressed token, are left out."""
        slots = {candidate: slot for slot, candidate in enumerate(self.taken[prompt].tolist())}
        ended, finished, options = self.ended[prompt].tolist(), self.finished[prompt].tolist(), self.tokens.shape[-1]
        columns = (self.tokens, self.log_probabilities, self.scores)
        rows = zip(*(column[prompt].flatten().tolist() for column in columns), strict=True)
        found: list[BeamCandidate] = []
        for number, (token, log_probability, score) in enumerate(rows):
            parent, slot = number // options, slots.get(number)
            if score != -math.inf:
                over = slot is not None and ended[slot]
                found.append(
                    BeamCandidate(parent, None if finished[parent] else token, log_probability, score, slot, over)
                )
        return found


BeamListener: TypeAlias = Callable[[BeamStep], None]
