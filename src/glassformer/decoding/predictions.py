"""What a run predicts: the most likely tokens at a position, and which tokens each sampling setting removes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.sampling import Sampler, SpecialTokens, filtered, next_token, random_numbers, without_ids
from glassformer.equations.sampling import greedy
from glassformer.equations.softmax import softmax
from glassformer.errors import DecodingError, NonFiniteError
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.image_classifier import ImageClassifier
from glassformer.models.causal_classifier import CausalClassifier
from glassformer.models.encoder import Encoder
from glassformer.probes.readout import logits_by_depth
from glassformer.probes.trace import Trace
from glassformer.recording import Tape
from glassformer.steps import Step
from glassformer.text.tokenizer import Tokenizer

Target: TypeAlias = Literal["next", "mask", "label"]  # what logits are for: the token after, the token there, a class
AS_GIVEN = GenerationConfig(temperature=1.0)  # the model's own distribution


class NoPredictionError(DecodingError):
    """A model has no logits of tokens or labels."""


def logits_for(model: nn.Module) -> Target:
    """What the logits of a model are for; raises where it has none."""
    head = vars(model.config).get("head", "classifier") if isinstance(model, ImageClassifier | Encoder) else ""
    if isinstance(model, CausalLM | EncoderDecoder):
        return "next"
    if isinstance(model, CausalClassifier) or head == "classifier":
        return "label"
    if head == "masked":
        return "mask"
    raise NoPredictionError(f"{type(model).__name__} gives no logits of tokens or labels, so there is no prediction")


@dataclass(frozen=True)
class PredictionCandidate:
    """A token or label that might come: its logit, its probability by the model, and that after all settings.

    `removed_by` is the sampling equation that removed it, or empty.
    """

    id: int
    text: str
    logit: float
    model_probability: float
    probability: float
    removed_by: str = ""


@dataclass(frozen=True)
class SamplingStep:
    """One equation between logits and the next token, as it ran, and the candidates that it removed.

    `removed` has the ids, the most likely first, and `mass` the probability that they had before.
    """

    step: Step
    left: int
    removed: tuple[int, ...]
    mass: float


@dataclass(frozen=True)
class Prediction:
    """What a run says at a position; `greedy` is the most likely id, and `sampled` the one drawn with the settings.

    `actual` is the token that follows in the text, and `rank` counts the tokens that are more likely.
    """

    target: Target
    position: int | None
    candidates: list[PredictionCandidate]
    steps: list[SamplingStep]
    vocab: int
    greedy: int
    sampled: int
    actual: PredictionCandidate | None = None
    rank: int | None = None


@dataclass(frozen=True)
class Predictor:
    """The predictions of one run, in the words of its tokenizer or its labels."""

    trace: Trace
    tokenizer: Tokenizer | None = None
    labels: Sequence[str] | None = None

    @property
    def target(self) -> Target:
        """What the logits of the model are for."""
        return logits_for(self.trace.model)

    @property
    def logits(self) -> Tensor:
        """The logits of the first text, [positions, vocab]; a classifier has one row."""
        target, output = self.target, self.trace.output
        dimensions = 2 if target == "label" else 3
        if not isinstance(output, Tensor) or output.dim() != dimensions:
            raise NoPredictionError("the model gives something other than logits, so there is no prediction")
        return output.detach()[:1] if target == "label" else output.detach()[0]

    @property
    def ids(self) -> list[int]:
        """The token ids that stand at the positions of the logits; none of a classifier."""
        name = "target" if isinstance(self.trace.model, EncoderDecoder) else "ids"
        ids = self.trace.inputs.get(name)
        return [] if self.target == "label" or not isinstance(ids, Tensor) else ids[0].tolist()

    @property
    def positions(self) -> list[int]:
        """The positions that have a prediction to show: the masks of a masked language model, or all."""
        mask = None if self.tokenizer is None else self.tokenizer.mask
        masks = [at for at, id in enumerate(self.ids) if id == mask] if self.target == "mask" else []
        return masks or list(range(len(self.ids)))

    def text(self, id: int) -> str:
        """A token or a label as text; its number where that is all there is."""
        if self.target == "label":
            return str(id) if self.labels is None else self.labels[id]
        if self.tokenizer is None or id >= self.tokenizer.vocab_size or id in self._unused:
            return str(id)
        return self.tokenizer.token(id)

    @property
    def _unused(self) -> tuple[int, ...]:
        if self.tokenizer is None or self.target == "label":
            return ()
        return tuple(self.tokenizer.unused_ids(self.logits.shape[-1]))

    def row(self, position: int | None = None) -> int:
        """The row of logits at a position, by default the last, or the first mask; raises where there is none."""
        row, logits = 0, self.logits
        if self.target != "label":
            row = self.positions[0 if self.target == "mask" else -1] if position is None else position
            if not 0 <= row < len(logits):
                raise DecodingError(f"there is no position {row}, wanted 0 to {len(logits) - 1}")
        if not (logits[row] < torch.inf).all():
            raise NonFiniteError("the logits are NaN or infinite here, so there is no prediction")
        return row

    def probabilities(self, position: int | None = None) -> Tensor:
        """The model's own distribution [vocab] at a position."""
        unused = torch.tensor(self._unused, dtype=torch.long, device=self.logits.device)
        return softmax(without_ids(fine(self.logits[self.row(position)]), unused))

    def at(
        self, position: int | None = None, config: GenerationConfig = AS_GIVEN, count: int = 8, written: int = 0
    ) -> Prediction:
        """The prediction at a position, by default the last, or the first mask.

        The pipeline is that of `generate`: the draw is the one it would make with the same seed, if the last `written`
        tokens are those it has written.
        """
        target, logits, row = self.target, self.logits, self.row(position)
        config.check_vocabulary(logits.shape[-1])
        sampler = Sampler(config, SpecialTokens(unused=self._unused), logits.device)
        found = _Row(fine(logits[row]), config, sampler, self.text)
        actual = self.ids[row + 1] if target == "next" and row + 1 < len(self.ids) else None
        return Prediction(
            target=target,
            position=None if target == "label" else row,
            candidates=[found.candidate(id) for id in found.order[:count].tolist()],
            steps=found.steps,
            vocab=logits.shape[-1],
            greedy=int(greedy(found.allowed)),
            sampled=int(next_token(found.allowed[None], config, self._number(config, written))),
            actual=None if actual is None else found.candidate(actual),
            rank=None if actual is None else int((found.order == actual).nonzero()[0, 0]),
        )

    def _number(self, config: GenerationConfig, written: int) -> Tensor:
        """The random number of the token after `written` ones, as `generate` draws it for the same prompt and seed."""
        model, inputs = self.trace.model, self.trace.inputs
        prompt = inputs["source"] if isinstance(model, EncoderDecoder) else inputs.get("ids")
        ids: list[int] = prompt[0].tolist() if isinstance(prompt, Tensor) else []
        if not isinstance(model, EncoderDecoder) and written:
            ids = ids[:-written]
        return random_numbers(ids, 0, replace(config, max_new_tokens=written + 1))[written:]

    def lens(self, count: int = 3, start: int = 0, stop: int | None = None) -> list[list[list[PredictionCandidate]]]:
        """The most likely candidates if each depth were the last, [depth][position], most likely first.

        `start` and `stop` choose positions. The last depth is what the model predicts. Where logits are not finite
        there are no candidates.
        """
        positions = None if self.target == "label" else slice(start, stop)
        unused = torch.tensor(self._unused, dtype=torch.long, device=self.logits.device)
        rows: list[list[list[PredictionCandidate]]] = []
        for output in logits_by_depth(self.trace, positions):
            logits = without_ids(fine(output[:1] if positions is None else output[0]), unused)
            best = logits.topk(min(count, logits.shape[-1]))
            likely = (best.values - logits.logsumexp(-1, keepdim=True)).exp()
            found = zip(best.indices.tolist(), best.values.tolist(), likely.tolist(), strict=True)
            fine_rows = (logits < torch.inf).all(-1).tolist()
            rows.append([self._candidates(*row) if good else [] for row, good in zip(found, fine_rows, strict=True)])
        return rows

    def _candidates(self, ids: list[int], logits: list[float], probabilities: list[float]) -> list[PredictionCandidate]:
        found = zip(ids, logits, probabilities, strict=True)
        return [PredictionCandidate(id, self.text(id), logit, p, p) for id, logit, p in found]


class _Row:
    """The logits of one position on their way to the next token: every equation that a setting asks for, as it ran."""

    def __init__(self, logits: Tensor, config: GenerationConfig, sampler: Sampler, text: Callable[[int], str]) -> None:
        self.logits, self.text = logits, text
        with torch.no_grad(), Tape() as tape:
            self.allowed = sampler.allowed(logits, 0)
            if config.temperature == 0:
                next_token(self.allowed, config)
            else:
                softmax(filtered(self.allowed, config))
        self.order = self.allowed.argsort(descending=True, stable=True)  # among equals the first, as greedy decoding
        self.model_probabilities = softmax(self.allowed)
        self.steps = [self._sampling_step(step) for step in tape.steps]
        self.removed_by = {id: each.step.equation.name for each in self.steps for id in each.removed}
        if config.temperature == 0:
            self.probabilities = torch.zeros_like(logits)
            self.probabilities[self.order[0]] = 1
        else:
            self.probabilities = tape.steps[-1].output

    def _sampling_step(self, step: Step) -> SamplingStep:
        before, after = step.inputs["z"], step.output
        assert isinstance(before, Tensor)
        if after.shape != before.shape or step.equation is softmax:
            return SamplingStep(step, int((before > -torch.inf).sum()), (), 0.0)
        gone = (before > -torch.inf) & (after == -torch.inf)
        mass = float(softmax(before)[gone].sum())
        return SamplingStep(step, int((after > -torch.inf).sum()), tuple(self.order[gone[self.order]].tolist()), mass)

    def candidate(self, id: int) -> PredictionCandidate:
        """One candidate with its numbers."""
        logit, model, sampling = (float(row[id]) for row in (self.logits, self.model_probabilities, self.probabilities))
        return PredictionCandidate(id, self.text(id), logit, model, sampling, self.removed_by.get(id, ""))


def fine(logits: Tensor) -> Tensor:
    """Logits in float32 or finer, as decoding reads them."""
    return logits if logits.dtype == torch.float64 else logits.float()
