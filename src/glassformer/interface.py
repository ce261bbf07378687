"""`gf.load`: a model with its tokenizer and labels, ready to generate, translate, classify, embed, trace and save."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Literal, overload

import torch
from torch import Tensor

import glassformer.views.attention
import glassformer.views.html  # noqa: F401 - once read, Jupyter shows traces and attention maps
from glassformer.asking.classification import Classification, classify
from glassformer.asking.embedding import embed
from glassformer.asking.filling import fill
from glassformer.asking.reading import device_of, max_length
from glassformer.checkpoints.huggingface import HFModel
from glassformer.checkpoints.load import load as load_checkpoint
from glassformer.checkpoints.save import Format, save
from glassformer.decoding.chat import chat_prompt, with_reply_ends
from glassformer.decoding.completion import Completion
from glassformer.decoding.config import GenerationConfig, require_known_settings
from glassformer.decoding.generate import TextChunk, encode_prompts, generate, stream, stream_ids, translate
from glassformer.errors import CheckpointError, ConfigError, DecodingError, ModelError, PathError, require_type
from glassformer.inference.prepare import can_convert, for_inference
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder, right_padded
from glassformer.layers.model import Model
from glassformer.models.causal_classifier import CausalClassifier
from glassformer.models.encoder import Encoder
from glassformer.probes.inputs import ModelInputs, TextModel, Tokens
from glassformer.probes.loss_targets import LossTarget
from glassformer.probes.trace import Trace, trace
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.device import choose_device

Texts = list[str] | tuple[str, ...]


class LoadedModel(TextModel):
    """A model with its tokenizer and labels, and the methods to use them on text.

    Generation settings are those of `GenerationConfig`, as keywords or as `config`. The weights are in memory once:
    `generate`, `stream` and `translate` convert them for inference at their first call. Asking for `.model` or a trace
    afterwards reads the folder again. Once `.model` or a trace has been returned, the model is no longer converted, so
    that generation reflects any training.
    """

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer | None = None,
        labels: Sequence[str] | None = None,
        hf_model: HFModel | None = None,
        left_out: tuple[str, ...] = (),
    ) -> None:
        self.tokenizer, self.hf_model, self.left_out = tokenizer, hf_model, left_out
        self.labels = None if labels is None else tuple(labels)
        self._name = type(model).__name__
        self._model = model
        self._quantized = self._converted = False
        self._reload: Callable[[], Model] | None = None  # set while no one else holds the model

    def __repr__(self) -> str:
        return f"<LoadedModel {type(self._model).__name__}: {self._name}>"

    @property
    def name(self) -> str:
        """The path it was loaded from, or the class of the model."""
        return self._name

    @property
    def model(self) -> Model:
        """The model itself, to train, probe or change."""
        model, self._reload = self._plain(), None
        return model

    @property
    def max_length(self) -> int | None:
        """The longest input of the model in tokens, or None if there is no limit."""
        return max_length(self._model)

    def _plain(self) -> Model:
        """The model with its weights as stored, read again if they have been converted."""
        if self._converted and self._reload is not None:
            self._model, self._converted = self._reload(), False
        return self._model

    def _prepare(self) -> Model:
        """The model to generate with: its inference form, in place of the stored one, while no one else holds it."""
        if self._reload is not None and not self._converted and can_convert(self._model):
            self._model, self._converted = for_inference(self._model, "packed", copy=False), True
        return self._model

    @overload
    def generate(self, prompts: str, config: GenerationConfig | None = None, **settings: object) -> Completion: ...
    @overload
    def generate(
        self, prompts: Texts, config: GenerationConfig | None = None, **settings: object
    ) -> list[Completion]: ...
    def generate(
        self, prompts: str | Texts, config: GenerationConfig | None = None, **settings: object
    ) -> Completion | list[Completion]:
        """Continue a prompt, or several: one completion for a text, a list of them for a list, `n` for each prompt."""
        config, tokenizer = _generation_config(config, settings), self.required_tokenizer()
        if isinstance(prompts, str) and config.n > 1:
            raise DecodingError(f"n is {config.n}, wanted 1 for a single prompt: pass a list, and get a list")
        found = generate(self._prepare(), tokenizer, _texts(prompts), config)
        return found[0] if isinstance(prompts, str) else found

    def stream(self, prompt: str, config: GenerationConfig | None = None, **settings: object) -> Iterator[TextChunk]:
        """Continue a prompt and yield each chunk of text as soon as it is final."""
        config, tokenizer = _generation_config(config, settings), self.required_tokenizer()
        require_type(DecodingError, "prompt", prompt, str, "one text")
        return stream(self._prepare(), tokenizer, prompt, config)

    def chat(self, messages: object, config: GenerationConfig | None = None, **settings: object) -> Completion:
        """The reply to a conversation: a list of messages such as {"role": "user", "content": "Hi"}, or one text.

        Roles are system, user and assistant. The oldest turns are left out where the model's context is too short.
        """
        config, tokenizer = _generation_config(config, settings), self.required_tokenizer()
        prompt = chat_prompt(self._model, tokenizer, _messages(messages), config)
        return generate(self._prepare(), tokenizer, [prompt.ids], with_reply_ends(tokenizer, config))[0]

    def stream_chat(
        self, messages: object, config: GenerationConfig | None = None, **settings: object
    ) -> tuple[int, Iterator[TextChunk]]:
        """The reply to a conversation in chunks, and the number of messages that the context has no room for."""
        config, tokenizer = _generation_config(config, settings), self.required_tokenizer()
        prompt = chat_prompt(self._model, tokenizer, _messages(messages), config)
        chunks = stream_ids(self._prepare(), tokenizer, prompt.ids, with_reply_ends(tokenizer, config))
        return prompt.dropped, chunks

    @overload
    def translate(self, texts: str, config: GenerationConfig | None = None, **settings: object) -> str: ...
    @overload
    def translate(self, texts: Texts, config: GenerationConfig | None = None, **settings: object) -> list[str]: ...
    def translate(
        self, texts: str | Texts, config: GenerationConfig | None = None, **settings: object
    ) -> str | list[str]:
        """Translate a sentence, or several in their order."""
        config, tokenizer = _generation_config(config, settings), self.required_tokenizer()
        found = translate(self._prepare(), tokenizer, _texts(texts), config=config)
        return found[0] if isinstance(texts, str) else found

    @overload
    def classify(self, texts: str) -> Classification: ...
    @overload
    def classify(self, texts: Texts) -> list[Classification]: ...
    def classify(self, texts: str | Texts) -> Classification | list[Classification]:
        """Classify a text, or several: the label of each and the probabilities of all labels."""
        found = classify(self._plain(), self.required_tokenizer(), self.labels, _texts(texts), self._name)
        return found[0] if isinstance(texts, str) else found

    def embed(self, texts: str | Texts) -> Tensor:
        """Sentence vectors [texts, dim], or [dim] for a single text: what the head of an encoder pools.

        Where no head pools, it is the mean of the last hidden states, in a translator of those of its encoder.
        """
        found = embed(self._plain(), self.required_tokenizer(), _texts(texts))
        return found[0] if isinstance(texts, str) else found

    @overload
    def fill(self, texts: str, top_k: int = 5) -> list[Classification]: ...
    @overload
    def fill(self, texts: Texts, top_k: int = 5) -> list[list[Classification]]: ...
    def fill(self, texts: str | Texts, top_k: int = 5) -> list[Classification] | list[list[Classification]]:
        """The most likely tokens for each mask in a text such as "the [MASK] sat", or in several texts."""
        model, tokenizer = self._plain(), self.required_tokenizer()
        found = [fill(model, tokenizer, text, top_k) for text in _texts(texts)]
        return found[0] if isinstance(texts, str) else found

    def trace(
        self,
        text: Tokens,
        second: Tokens | None = None,
        backward: str | LossTarget | None = None,
        *,
        layer: int | None = None,
        head: int | None = None,
        token: int | None = None,
        equation: str = "*",
        limit: int | None = None,
    ) -> Trace:
        """Trace one forward pass on a text or token ids: what `gf.trace` returns, labeled with the tokens.

        `second` is the target of a translator, which is its own translation if left out, or the second text of a pair.
        """
        run = self.inputs(text, second)
        selection = {"layer": layer, "head": head, "token": token, "equation": equation}
        found = trace(run.model, run.values, backward, **selection, limit=limit)  # pyright: ignore[reportArgumentType]
        return found.labeled(**run.tokens)

    def inputs(self, text: Tokens, second: Tokens | None = None) -> ModelInputs:
        """A text, or token ids, as arguments of the model: what `gf.trace` and the probes run it on."""
        model = self._plain()
        if isinstance(model, EncoderDecoder):
            rows = {"source": [self._ids(text)], "target": [self._target(text, second)]}
        elif isinstance(model, CausalLM | Encoder | CausalClassifier):
            rows = {"ids": [self._ids(text), *([] if second is None else [self._ids(second)])]}
        else:
            raise ModelError(f"{type(model).__name__} does not read text: trace it with gf.trace(model, inputs)")
        inputs: dict[str, object] = {}
        for name, lines in rows.items():
            inputs[name], real = right_padded(lines, device_of(model))
            if len(lines) > 1:
                inputs["attention_mask"] = real
        named = str if self.tokenizer is None else self.tokenizer.token
        return ModelInputs(self.model, inputs, {name: [named(id) for id in rows[name][0]] for name in rows})

    def save(self, folder: Path | str, format: Format = "auto") -> None:
        """Save the model with its tokenizer and labels, as `gf.save` does."""
        if self._quantized:
            raise CheckpointError(f"{self._name}: quantized weights cannot be saved: load it without quantization")
        require_type(PathError, "folder", folder, (str, Path), "the path of a folder")
        save(self._plain(), folder, self.tokenizer, self.labels, format, self.hf_model)

    def required_tokenizer(self) -> Tokenizer:
        """The tokenizer, or an error where the model came without one."""
        if self.tokenizer is None:
            raise PathError(f"{self._name}: has no tokenizer, so it cannot read or write text")
        return self.tokenizer

    def _ids(self, text: Tokens) -> list[int]:
        """Token ids of a text as the model reads it, or the ids given."""
        if isinstance(text, str):
            text = encode_prompts(self._model, self.required_tokenizer(), [text])[0]
        if not isinstance(text, Sequence) or not all(isinstance(id, int) for id in text):
            raise ModelError(f"text is of the type {type(text).__name__}, wanted a text or a list of token ids")
        if not text:
            raise ModelError("the text is empty, wanted at least one token")
        return list(text)

    def _target(self, text: Tokens, second: Tokens | None) -> list[int]:
        """The decoder input of a translator: the start token, then the target given, or else its own translation."""
        if second is not None and not isinstance(second, str):
            return [0 if self.tokenizer is None else self.tokenizer.decoder_start, *self._ids(second)]
        tokenizer = self.required_tokenizer()
        if second is not None:
            return [tokenizer.decoder_start, *tokenizer.encode_targets([second])[0]]
        source = text if isinstance(text, str) else tokenizer.decode(text)
        (written,) = generate(self._model, tokenizer, source)
        return [tokenizer.decoder_start, *(written.ids[:-1] if written.finish_reason == "stop" else written.ids)]


def load(
    path: Path | str,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    step: int | None = None,
    quantization: Literal["int8", "int4"] | None = None,
    adapter: Path | str | None = None,
) -> LoadedModel:
    """Load a model from a run folder, a Hugging Face folder or a single file; nothing in it is executed.

    Weights keep the dtype they are stored in unless `dtype` gives another. An unfinished run gives its best checkpoint,
    or else its latest; `step` chooses a checkpoint of any run. `quantization` rounds the weights, for inference only.
    `adapter` is the folder of a LoRA adapter, as PEFT saves it, to merge into the model; a folder that holds only an
    adapter is loaded with the base model that it names.
    """
    require_type(PathError, "path", path, (str, Path), "the path of a folder or a file")
    require_type(PathError, "adapter", adapter, (str, Path, NoneType), "the path of a folder")
    require_type(PathError, "step", step, (int, NoneType), "a whole number")
    require_type(ConfigError, "dtype", dtype, (torch.dtype, NoneType), "a torch.dtype such as torch.float32")
    require_type(ConfigError, "device", device, (str, torch.device), "cpu, cuda or cuda:1")
    if isinstance(device, str):
        device = choose_device(device, "float32", "no").device
    found = load_checkpoint(path, device, dtype, step, adapter)
    if quantization is not None:
        found = replace(found, model=for_inference(found.model, quantization, copy=False))
    loaded = LoadedModel(found.model, found.tokenizer, found.labels, found.hf_model, found.left_out)
    loaded._name, loaded._quantized = str(path), quantization is not None
    loaded._reload = None if quantization else lambda: load_checkpoint(path, device, dtype, step, adapter).model
    return loaded


def _generation_config(config: GenerationConfig | None, settings: dict[str, object]) -> GenerationConfig:
    """A config with the settings that are given as keywords replaced."""
    require_known_settings(settings)
    require_type(DecodingError, "config", config, (GenerationConfig, NoneType), "a GenerationConfig")
    return replace(config or GenerationConfig(), **settings)  # pyright: ignore[reportArgumentType] - checks itself


def _messages(messages: object) -> object:
    """A conversation, or the one that a single text of the user begins."""
    return [{"role": "user", "content": messages}] if isinstance(messages, str) else messages


def _texts(texts: str | Texts) -> list[str]:
    """The texts as a list, if they are texts."""
    found = list(texts) if isinstance(texts, list | tuple) else [texts]
    if wrong := [type(text).__name__ for text in found if not isinstance(text, str)]:
        raise ModelError(f"a text is of the type {wrong[0]}, wanted a text or a list of texts")
    return found
