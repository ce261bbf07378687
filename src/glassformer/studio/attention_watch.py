"""Attention maps of one fixed text while a model is trained."""

import inspect
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from torch import Tensor

from glassformer.data.batches import IGNORE
from glassformer.errors import GlassformerError
from glassformer.inference.prepare import inference_mode
from glassformer.interface import LoadedModel
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.models.dalle import DALLE
from glassformer.models.encoder import Encoder
from glassformer.probes.names import Names
from glassformer.probes.readout import attention_maps
from glassformer.recording import Tape
from glassformer.studio.training_events import AttentionEvent, WatchedAttention

if TYPE_CHECKING:
    from glassformer.training.run import Run

TOKENS, HEADS, MODULES = 16, 8, 12  # at most, of a text, of a module and of a model
DECIMALS = 3


class AttentionWatch:
    """The attention of a run's model on one text: the text given, or the first validation example, cut short.

    A text that the model's tokenizer cannot read, or a source without its target, gives way to the example.
    """

    def __init__(self, run: "Run", text: str | None, second: str | None) -> None:
        self.model, self.names = run.model, Names(run.model, Tape()).modules
        self.inputs: dict[str, Tensor] = {}
        if isinstance(run.model, CausalLM | EncoderDecoder | Encoder) and not isinstance(run.model, DALLE):
            given = _given(run, text, second) or _first_example(run)
            self.inputs = {name: value[:1, :TOKENS] for name, value in given.items()}
        token = str if run.tokenizer is None else run.tokenizer.token
        self.tokens = {n: [token(id) for id in ids[0].tolist()] for n, ids in self.inputs.items()}

    @property
    def ready(self) -> bool:
        """Whether the model has attention to watch."""
        return bool(self.inputs)

    def maps(self, step: int) -> AttentionEvent:
        """The attention weights after a step."""
        device = next(self.model.parameters()).device
        with inference_mode(self.model):
            found = attention_maps(self.model, {name: value.to(device) for name, value in self.inputs.items()})
        return AttentionEvent(step, [self._map(name, weights) for name, weights in list(found.items())[:MODULES]])

    def _map(self, name: str, weights: Tensor) -> WatchedAttention:
        """The weights of one module: a decoder's queries are target tokens, and its cross-attention's keys the source.

        An encoder and a decoder-only model read one text.
        """
        decodes = name.startswith("decoder")
        sources = ("target" if decodes else "source", "source" if "cross" in name or not decodes else "target")
        queries, keys = (self.tokens.get(source, self.tokens.get("ids", [])) for source in sources)
        rounded = weights[0, :HEADS].double().cpu().mul(10**DECIMALS).round().div(10**DECIMALS)
        return WatchedAttention(self.names.get(name, name), rounded.tolist(), queries, keys)


def _given(run: "Run", text: str | None, second: str | None) -> Mapping[str, Tensor]:
    if run.tokenizer is None or not text or (second is None and isinstance(run.model, EncoderDecoder)):
        return {}
    with suppress(GlassformerError):
        values = LoadedModel(run.model, run.tokenizer, run.labels).inputs(text, second).values
        found = {name: value for name, value in values.items() if isinstance(value, Tensor)}
        unknown = any(run.tokenizer.count_unknown(ids.flatten().tolist()) for ids in found.values())
        return {} if unknown else found
    return {}


def _first_example(run: "Run") -> Mapping[str, Tensor]:
    """The first row of the validation data without padding, by the names of the model's arguments."""
    batch = {name: part[:1] for name, part in next(run.data.validation.once()).items()}
    names = list(zip(inspect.signature(run.model.forward).parameters, run.objective.inputs, strict=False))
    found = {argument: batch[name] for argument, name in names if name != "attention_mask"}
    for argument, name in names:
        if name == "target":  # a target has no mask of its own, but no loss where it is padded
            found[argument] = batch[name][:, : int((batch[run.objective.targets] != IGNORE).sum())]
        elif "attention_mask" in batch and argument in found:
            found[argument] = batch[name][:, : int(batch["attention_mask"].sum())]
    return found
