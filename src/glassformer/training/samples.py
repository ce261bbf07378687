"""A sample of what a model does, logged with each validation: a continuation, a translation, a label, a filled mask."""

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from glassformer.data.batches import IGNORE, Batch
from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import generate
from glassformer.equations.sampling import greedy
from glassformer.inference.prepare import inference_mode
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.model import Model
from glassformer.training.device import Device
from glassformer.training.recipe import Recipe
from glassformer.training.task import TaskData

PROMPT, CONTINUATION, SHORTEST = 8, 40, 8  # tokens
STEPS_PER_TOKEN = 5  # steps of training on a GPU for each token of a sample
CONTEXT = 12  # tokens shown before a mask, and after it
LONGEST = 80  # characters of a text that is shown
ARROW = " → "


def sample_tokens(recipe: Recipe, device: Device) -> int:
    """The most tokens that a sample generates.

    A GPU takes nearly as long for a token as for a step of a small model, so that samples are shorter there where
    validations are frequent.
    """
    if not device.asynchronous:
        return CONTINUATION
    return min(CONTINUATION, max(SHORTEST, recipe.evaluate_every // STEPS_PER_TOKEN))


@dataclass(frozen=True)
class Sample:
    """What a model does with the first validation example of a run, as one text."""

    data: TaskData
    max_new_tokens: int = CONTINUATION

    def __call__(self, model: Model) -> str | None:
        """The sample, or None for a model that has nothing to show; the same weights give the same one."""
        if isinstance(model, EncoderDecoder):
            return self._translation(model)
        if isinstance(model, CausalLM):
            return self._continuation(model)
        if "targets" in self._example:
            return self._filled(model)
        if "token_types" in self._example:
            return self._span(model)
        return self._label(model) if "labels" in self._example and self.data.labels else None

    @cached_property
    def _example(self) -> Batch:
        """The first row of the validation data."""
        return {name: part[:1] for name, part in next(self.data.validation.once()).items()}

    def _text(self, ids: Tensor) -> str:
        return self.data.required_tokenizer().decode(ids.tolist())

    def _read(self, name: str) -> Tensor:
        """The ids of the example without padding."""
        ids, mask = self._example[name][0], self._example.get("attention_mask")
        return ids if mask is None else ids[mask[0].bool()]

    def _continuation(self, model: Model) -> str:
        prompt = self._text(self._read("ids")[:PROMPT])
        # The draws depend on the prompt alone.
        config = GenerationConfig(max_new_tokens=self.max_new_tokens, temperature=0.8)
        (found,) = generate(model, self.data.required_tokenizer(), [prompt], config)
        return f"{prompt}{ARROW}{found.text}"

    def _translation(self, model: Model) -> str:
        source = self._text(self._read("source"))
        config = GenerationConfig(max_new_tokens=self.max_new_tokens)
        (found,) = generate(model, self.data.required_tokenizer(), [source], config)
        return f"{source}{ARROW}{found.text}"

    def _label(self, model: Model) -> str:
        guess, wanted = int(self._guesses(model, "attention_mask")[0]), int(self._example["labels"][0])
        names = self.data.labels or ()
        verdict = "right" if guess == wanted else f"wanted {names[wanted]}"
        text = self._text(self._read("ids"))
        return f"{text[:LONGEST]}{'…' if len(text) > LONGEST else ''}{ARROW}{names[guess]} ({verdict})"

    def _span(self, model: Model) -> str:
        """The start and the end that are most likely by themselves, in the first question with its context."""
        first, last = self._guesses(model, "attention_mask", "token_types")[0].tolist()
        wanted, ids = self._example["labels"][0].tolist(), self._read("ids")
        found, right = self._text(ids[first : last + 1]).strip(), self._text(ids[wanted[0] : wanted[1] + 1]).strip()
        verdict = "right" if [first, last] == wanted else f"wanted {right}"
        question = self._text(ids[self._example["token_types"][0, : len(ids)] == 0]).strip()
        return f"{question[:LONGEST]}{ARROW}{found[:LONGEST]} ({verdict})"

    def _filled(self, model: Model) -> str | None:
        targets = self._example["targets"][0]
        masked = (targets != IGNORE).nonzero().flatten().tolist()
        if not masked:
            return None
        at, ids = masked[0], self._example["ids"][0]
        guess, token = int(self._guesses(model)[0, at]), self.data.required_tokenizer().token
        verdict = "right" if guess == int(targets[at]) else f"wanted {token(int(targets[at])).strip()}"
        before, after = self._text(ids[max(at - CONTEXT, 0) : at]), self._text(ids[at + 1 : at + 1 + CONTEXT])
        return f"{before} [{token(guess).strip()}: {verdict}] {after}"

    def _guesses(self, model: Model, *more: str) -> Tensor:
        """The most likely classes or tokens of the example."""
        device = next(model.parameters()).device
        with inference_mode(model):
            return greedy(model(*(self._example[name].to(device) for name in ("ids", *more)))).cpu()
