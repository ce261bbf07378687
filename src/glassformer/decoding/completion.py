"""A generated text: its tokens, why it ended, and which part of it can be streamed already."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from glassformer.errors import NonFiniteError
from glassformer.text.tokenizer import Tokenizer

Finish = Literal["stop", "length", "context"]
SHOWN = 60  # characters of a text in its `repr`
PROMPT_TAIL = 4  # tokens of the prompt to decode with: the text of a token can depend on those before it
INCOMPLETE = "\N{REPLACEMENT CHARACTER}"  # how an incomplete UTF-8 character is decoded


@dataclass(frozen=True, repr=False)
class Completion:
    """A finished text: its tokens, each one's log-probability under the model, and why it ended.

    `finish_reason` is "stop" after an end token or a stop text, "length" at `max_new_tokens`, and "context" where the
    model's context is full: that of a translator, or of beam search.
    """

    text: str
    ids: list[int]
    log_probabilities: list[float]
    finish_reason: Finish

    def __repr__(self) -> str:
        shown = self.text if len(self.text) <= SHOWN else f"{self.text[:SHOWN]}…"
        return f"<Completion {shown!r}: {len(self.ids)} tokens, {self.finish_reason}>"

    def _repr_html_(self) -> str:
        """The text and its facts, as a notebook shows them."""
        facts = f"{len(self.ids)} tokens, log-probability {self.score:.4g}, ended by {self.finish_reason}"
        return f'<pre style="white-space: pre-wrap">{html.escape(self.text)}</pre><small>{facts}</small>'

    @property
    def score(self) -> float:
        """The log-probability of the whole text."""
        return sum(self.log_probabilities)


@dataclass
class PartialText:
    """A text being generated after a prompt; it ends with `limit_reason` after `max_tokens` tokens."""

    tokenizer: Tokenizer
    prompt: Sequence[int]
    ends: frozenset[int]
    stops: tuple[str, ...]
    max_tokens: int
    limit_reason: Finish
    ids: list[int] = field(default_factory=list)
    log_probabilities: list[float] = field(default_factory=list)
    finish_reason: Finish | None = None
    _stopped: str | None = None  # the text up to a stop text
    _shown: int = 0

    def __post_init__(self) -> None:
        if self.max_tokens <= 0:
            self.finish_reason = self.limit_reason

    def add(self, token: int, log_probability: float) -> None:
        """Append a token; after the end it is ignored."""
        if self.finish_reason is not None:
            return
        if not log_probability < math.inf:  # it is NaN or infinite wherever a logit is
            raise NonFiniteError(
                f"the logits of token {len(self.ids) + 1} are not finite numbers: the model's weights are damaged, "
                "or its numbers overflow in this dtype"
            )
        self.ids.append(token)
        self.log_probabilities.append(log_probability)
        if token in self.ends:
            self.finish_reason = "stop"
        elif self.stops:
            text = self._decoded()
            if found := [start for start in map(text.find, self.stops) if start >= 0]:
                self.finish_reason, self._stopped = "stop", text[: min(found)]
        if self.finish_reason is None and len(self.ids) >= self.max_tokens:
            self.finish_reason = self.limit_reason

    def _decoded(self) -> str:
        """The text of the tokens as they decode after the prompt."""
        before = list(self.prompt[-PROMPT_TAIL:])
        known, both = self.tokenizer.decode(before), self.tokenizer.decode([*before, *self.ids])
        return both[len(known) :] if both.startswith(known) else self.tokenizer.decode(self.ids)

    def new_text(self) -> str:
        """Text that is certain now and was not returned before: whole characters that cannot begin a stop text."""
        if self.finish_reason is None:
            text = self._decoded().rstrip(INCOMPLETE)
            starts = (stop[:size] for stop in self.stops for size in range(1, len(stop) + 1))
            end = len(text) - max((len(start) for start in starts if text.endswith(start)), default=0)
        else:
            text = self.text
            end = len(text)
        new = text[self._shown : end]
        self._shown = max(self._shown, end)
        return new

    @property
    def text(self) -> str:
        """The text so far, or up to where it was stopped."""
        return self._decoded() if self._stopped is None else self._stopped

    def done(self) -> Completion:
        """The finished text."""
        return Completion(self.text, self.ids, self.log_probabilities, self.finish_reason or self.limit_reason)
