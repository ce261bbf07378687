"""Generation settings: lengths, sampling, beam search and stopping."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from numbers import Integral, Real
from typing import TypeVar

from glassformer.errors import DecodingError
from glassformer.suggestions import did_you_mean

COLDEST = 1e-6  # temperature by which float32 logits can be divided without overflow
COMPACT_BELOW = 0.75  # fraction of a batch; once no more are unfinished they are moved together


T = TypeVar("T")


def _names_unknown_settings(config: type[T]) -> type[T]:
    """Let a config answer an unknown setting with the nearest ones, which Python's own error does not."""
    init = config.__init__

    @wraps(init)
    def checked(self: T, *given: object, **settings: object) -> None:
        if given:
            raise DecodingError(f"{given[0]!r} has no name, wanted settings such as temperature=0.8")
        require_known_settings(settings)
        init(self, **settings)

    config.__init__ = checked
    return config


@_names_unknown_settings
@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """Generation settings; the default is greedy decoding.

    `stop` may hold token ids beside strings. Each random draw depends on the seed, the prompt and the index of the
    sample alone, so a text does not depend on the others in its batch.
    """

    max_new_tokens: int = 128
    """Maximum number of tokens to generate."""
    min_new_tokens: int = 0
    """Minimum number of tokens to generate before an end token is allowed."""
    temperature: float = 0.0
    """Sampling temperature; 0 is greedy."""
    top_k: int | None = None
    """Sample from the k most likely tokens."""
    top_p: float | None = None
    """Nucleus sampling: sample from the fewest tokens whose probabilities add up to this."""
    min_p: float | None = None
    """Sample from the tokens at least this fraction as likely as the most likely one."""
    repetition_penalty: float = 1.0
    """Repetition penalty; above 1, tokens that occurred before become less likely."""
    no_repeat_ngram_size: int = 0
    """Block n-grams: no run of this many tokens occurs twice; 0 blocks none."""
    stop: Sequence[str | int] = ()
    """Stop string that ends the text, besides the end token; may be repeated."""
    n: int = 1
    """Number of texts to generate for each prompt."""
    seed: int = 0
    """Random seed of sampling."""
    num_beams: int = 1
    """Number of beams of beam search; 1 is no beam search."""
    length_penalty: float = 0.6
    """Length penalty of beam search; above 0 favors longer texts."""
    prefill_chunk: int = 512
    """Prompt tokens that a prefill step reads at once."""
    batch_tokens: int = 8192
    """Tokens in a batch of prompts and their texts, at most."""
    compile: bool = False
    """Compile each decoding step: faster on a GPU, after seconds (most GPT and Llama models) or minutes."""

    def __post_init__(self) -> None:
        for name in ("max_new_tokens", "n", "num_beams", "prefill_chunk", "batch_tokens"):
            self._require_whole(name, 1)
        for name in ("min_new_tokens", "no_repeat_ngram_size"):
            self._require_whole(name, 0)
        self._require_number("temperature")
        divides = self.temperature == 0 or self.temperature >= COLDEST
        self._require("temperature", divides, f"0 or at least {COLDEST}: below that, logits overflow")
        self._require_number("repetition_penalty", above=True)
        if self.top_k is not None:
            self._require_whole("top_k", 1)
        for name, p in (("top_p", self.top_p), ("min_p", self.min_p)):
            if p is not None:
                self._require_number(name, above=True)
                self._require(name, p <= 1, "a probability of at most 1")
        if self.temperature == 0:
            self._require_sampling()
        self._require_stop()
        self._require("seed", isinstance(self.seed, Integral), "a whole number")
        self._require("compile", isinstance(self.compile, bool), "true or false")
        penalty: object = self.length_penalty
        self._require("length_penalty", isinstance(penalty, Real) and math.isfinite(penalty), "a number")
        most = self.max_new_tokens
        self._require("min_new_tokens", self.min_new_tokens <= most, f"at most {self._name('max_new_tokens')}, {most}")
        if self.num_beams > 1:
            self._require("num_beams", self.temperature == 0, "1 with a temperature: beam search does not sample")
            unpenalized = self.repetition_penalty == 1
            self._require("repetition_penalty", unpenalized, "1 with a beam, whose scores are probabilities")
            self._require("stop", not self.stop_texts, "no texts with a beam, which ranks whole ones")
            self._require("n", self.n <= self.num_beams, f"at most {self._name('num_beams')}, {self.num_beams}")

    def _require_sampling(self) -> None:
        """Raise on sampling settings, which greedy decoding and beam search would silently ignore."""
        for name in ("top_k", "top_p", "min_p"):
            sampling = f"a {self._name('temperature')} above 0 with it: greedy decoding does not sample"
            self._require(name, getattr(self, name) is None, sampling)
        several = f"a {self._name('temperature')} above 0 or {self._name('num_beams')} with it"
        self._require("n", self.n == 1 or self.num_beams > 1, f"{several}: greedy decoding has one text")

    def _require_stop(self) -> None:
        kinds = isinstance(self.stop, Sequence) and not isinstance(self.stop, str)
        kinds = kinds and all(isinstance(stop, str | Integral) for stop in self.stop)
        self._require("stop", kinds, "a list of texts and token ids")
        self._require("stop", all(self.stop_texts) and all(id >= 0 for id in self.stop_ids), "no empty text")

    def check_vocabulary(self, vocab: int) -> None:
        """Raise on settings that reach beyond a model's vocabulary."""
        self._require("top_k", self.top_k is None or self.top_k <= vocab, f"at most {vocab}, the vocabulary")
        self._require("stop", all(id < vocab for id in self.stop_ids), f"token ids below {vocab}, the vocabulary")

    def _require(self, name: str, holds: bool, wanted: str) -> None:
        if not holds:
            raise DecodingError(f"{self._name(name)} is {getattr(self, name)!r}, wanted {wanted}")

    def _name(self, field: str) -> str:
        """What a setting is called in an error."""
        return field

    def _require_whole(self, name: str, least: int) -> None:
        value: object = getattr(self, name)
        fits = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least
        self._require(name, fits, f"a whole number, at least {least}")

    def _require_number(self, name: str, above: bool = False) -> None:
        value: object = getattr(self, name)
        fits = isinstance(value, Real) and math.isfinite(value) and float(value) >= 0 and not (above and value == 0)
        self._require(name, fits, f"a number {'above' if above else 'of at least'} 0")

    @property
    def stop_texts(self) -> tuple[str, ...]:
        """The texts that end a text."""
        return tuple(stop for stop in self.stop if isinstance(stop, str))

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The tokens that end a text."""
        return tuple(stop for stop in self.stop if not isinstance(stop, str))


def require_known_settings(settings: Iterable[str], config: type = GenerationConfig, what: str = "generation") -> None:
    """Raise on a name that is not a field of a config, with the nearest ones."""
    known = [field.name for field in fields(config)]
    for name in settings:
        if name not in known:
            raise DecodingError(f"there is no {what} setting {name!r}; {did_you_mean(name, known)}")
