"""`gf.load`: a model with its tokenizer and labels, to generate, translate, answer, classify, embed, trace and save."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Literal, overload

import numpy as np
import torch
from torch import Tensor

from glassformer.asking.answering import answer
from glassformer.asking.arguments import (
    Candidates,
    Pictures,
    Texts,
    as_messages,
    as_texts,
    drawing_config,
    generation_config,
    listed,
)
from glassformer.asking.classification import Classification, classify
from glassformer.asking.embedding import embed
from glassformer.asking.filling import fill
from glassformer.asking.forward_inputs import forward_inputs
from glassformer.asking.picture_classification import classify_images
from glassformer.asking.picture_inputs import pixel_values, read_pixels
from glassformer.asking.reading import kind_of_input, max_length, require_summarizer
from glassformer.asking.retrieval import Picture
from glassformer.asking.similar import nearest_candidates, own_vectors
from glassformer.asking.zero_shot import TEMPLATE, classify_pictures, embed_pairs, require_clip
from glassformer.checkpoints.huggingface import HFModel
from glassformer.checkpoints.load import load as load_checkpoint
from glassformer.checkpoints.save import Format, save
from glassformer.checkpoints.vectors import Neighbor, WordVectors
from glassformer.data.captions import Pictures as PictureArray
from glassformer.decoding.answers import Answer
from glassformer.decoding.chat import chat_prompt, with_reply_ends
from glassformer.decoding.completion import Completion
from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.drawing import DrawingConfig, Steps, best_first, draw, no_progress, similarity_to_prompt
from glassformer.decoding.generate import TextChunk, encode_prompts, generate, stream, stream_ids, translate
from glassformer.errors import CheckpointError, ConfigError, DecodingError, ModelError, PathError, require_type
from glassformer.inference.prepare import can_convert, for_inference
from glassformer.layers.image_classifier import ImageClassifier
from glassformer.layers.model import Model
from glassformer.models.clip import CLIP
from glassformer.probes.inputs import ModelInputs, TextModel, Tokens
from glassformer.probes.loss_targets import LossTarget
from glassformer.probes.readout import attention_maps
from glassformer.probes.trace import Trace, trace
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.device import choose_device
from glassformer.views.picture_attention import picture_attention_page


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
        config, tokenizer = generation_config(config, settings), self.required_tokenizer()
        if isinstance(prompts, str) and config.n > 1:
            raise DecodingError(f"n is {config.n}, wanted 1 for a single prompt: pass a list, and get a list")
        found = generate(self._prepare(), tokenizer, as_texts(prompts), config)
        return found[0] if isinstance(prompts, str) else found

    def stream(self, prompt: str, config: GenerationConfig | None = None, **settings: object) -> Iterator[TextChunk]:
        """Continue a prompt and yield each chunk of text as soon as it is final."""
        config, tokenizer = generation_config(config, settings), self.required_tokenizer()
        require_type(DecodingError, "prompt", prompt, str, "one text")
        return stream(self._prepare(), tokenizer, prompt, config)

    def chat(self, messages: object, config: GenerationConfig | None = None, **settings: object) -> Completion:
        """The reply to a conversation: a list of messages such as {"role": "user", "content": "Hi"}, or one text.

        Roles are system, user and assistant. The oldest turns are left out where the model's context is too short.
        """
        config, tokenizer = generation_config(config, settings), self.required_tokenizer()
        prompt = chat_prompt(self._model, tokenizer, as_messages(messages), config)
        return generate(self._prepare(), tokenizer, [prompt.ids], with_reply_ends(tokenizer, config))[0]

    def stream_chat(
        self, messages: object, config: GenerationConfig | None = None, **settings: object
    ) -> tuple[int, Iterator[TextChunk]]:
        """The reply to a conversation in chunks, and the number of messages that the context has no room for."""
        config, tokenizer = generation_config(config, settings), self.required_tokenizer()
        prompt = chat_prompt(self._model, tokenizer, as_messages(messages), config)
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
        config, tokenizer = generation_config(config, settings), self.required_tokenizer()
        found = translate(self._prepare(), tokenizer, as_texts(texts), config=config)
        return found[0] if isinstance(texts, str) else found

    @overload
    def summarize(self, texts: str, config: GenerationConfig | None = None, **settings: object) -> str: ...
    @overload
    def summarize(self, texts: Texts, config: GenerationConfig | None = None, **settings: object) -> list[str]: ...
    def summarize(
        self, texts: str | Texts, config: GenerationConfig | None = None, **settings: object
    ) -> str | list[str]:
        """Summarize a document, or several in their order; the same as `translate` by a model trained on summaries."""
        require_summarizer(self._model)
        return self.translate(texts, config, **settings)

    @overload
    def answer(self, questions: str, context: str) -> Answer: ...
    @overload
    def answer(self, questions: Texts, context: str | Texts) -> list[Answer]: ...
    def answer(self, questions: str | Texts, context: str | Texts) -> Answer | list[Answer]:
        """Answer a question about a context, or several, each about its own context or all about one.

        An encoder with a span head finds the answer in the context; an encoder-decoder writes it.
        """
        asked, contexts = as_texts(questions), as_texts(context)
        contexts = contexts * len(asked) if isinstance(context, str) else contexts
        if len(contexts) != len(asked):
            raise ModelError(f"there are {len(asked)} questions and {len(contexts)} contexts, wanted as many, or one")
        pairs = list(zip(asked, contexts, strict=True))
        found = answer(self._plain(), self.required_tokenizer(), pairs, generate)
        return found[0] if isinstance(questions, str) else found

    @overload
    def classify(
        self, texts: str | Picture, labels: Sequence[str] | None = None, template: str = TEMPLATE
    ) -> Classification: ...
    @overload
    def classify(
        self, texts: Texts | Pictures, labels: Sequence[str] | None = None, template: str = TEMPLATE
    ) -> list[Classification]: ...
    def classify(
        self, texts: str | Texts | Picture | Pictures, labels: Sequence[str] | None = None, template: str = TEMPLATE
    ) -> Classification | list[Classification]:
        """Classify a text, or several: the label of each and the probabilities of all labels.

        A model that reads pictures takes paths, arrays of bytes or tensors of pixel values. A CLIP classifies pictures,
        given as paths or arrays, by any `labels`: those whose text, made by the `template`,
        is nearest (zero-shot classification).
        """
        items = listed(texts)
        if labels is None and isinstance(self._model, ImageClassifier):
            found = classify_images(self._model, self.labels, items, self._name)
            return found if isinstance(texts, list | tuple) else found[0]
        if labels is not None or isinstance(self._model, CLIP):
            found = self._classify_pictures(items, labels, template)
        else:
            found = classify(self._plain(), self.required_tokenizer(), self.labels, as_texts(items), self._name)
        return found if isinstance(texts, list | tuple) else found[0]

    def _classify_pictures(
        self, pictures: list[str | Picture], labels: Sequence[str] | None, template: str
    ) -> list[Classification]:
        model = require_clip(self._plain(), "classify pictures by any labels")
        if labels is None or isinstance(labels, str):
            raise ModelError('labels are missing, wanted a list such as ["cat", "dog"] to choose from')
        given = [Path(each) if isinstance(each, str) else each for each in pictures]
        return classify_pictures(model, self.required_tokenizer(), given, labels, template)

    def picture_attention(self, picture: str | Path | np.ndarray) -> str:
        """An HTML page that shows on a picture where each head of each layer looks: from the class token, if any."""
        model = self._plain()
        if not isinstance(model, ImageClassifier):
            raise ModelError(f"attention maps are drawn of image classifiers like a ViT, not of {type(model).__name__}")
        pixels = read_pixels(model, picture)
        maps = attention_maps(model, {"pixel_values": pixel_values(model, pixels)})
        title = "attention" if isinstance(picture, np.ndarray) else str(picture)
        return picture_attention_page(title, pixels, maps)  # pyright: ignore[reportArgumentType] - read as bytes

    def embed(self, texts: str | Texts | Picture | Pictures) -> Tensor:
        """Sentence vectors [texts, dim], or [dim] for a single text: what the head of an encoder pools.

        Where no head pools, it is the mean of the last hidden states, in a translator of those of its encoder, and by
        word vectors the mean of those of its words. A CLIP embeds texts, and pictures given as a Path or as an array.
        """
        items = listed(texts)
        if any(isinstance(item, Path | np.ndarray) for item in items):
            model = require_clip(self._plain(), "embed pictures")
            read = any(isinstance(item, str) for item in items)
            found = embed_pairs(model, self.required_tokenizer() if read else None, items)
        else:
            found = embed(self._plain(), self.required_tokenizer(), as_texts(items))
        return found if isinstance(texts, list | tuple) else found[0]

    def similar(self, query: str | Picture, candidates: Candidates | None = None, top_k: int = 10) -> list[Neighbor]:
        """The nearest words or candidates with their cosines; candidates may be pictures where the model is a CLIP."""
        require_type(ModelError, "query", query, (str, Path, np.ndarray), "one text or picture")
        if candidates is None:
            return self.vectors().similar(str(query), top_k)
        return nearest_candidates(self.embed, query, listed(candidates), top_k)

    def analogy(self, word: str, minus: str, plus: str, top_k: int = 10) -> list[Neighbor]:
        """Complete "king is to man as … is to woman" with word vectors: `analogy("king", "man", "woman")`."""
        return self.vectors().analogy(word, minus, plus, top_k)

    def vectors(self) -> WordVectors:
        """The word vectors of a model trained by skip-gram, as `gf.load_vectors` reads them from a file."""
        return own_vectors(self._plain(), self.required_tokenizer())

    @overload
    def fill(self, texts: str, top_k: int = 5) -> list[Classification]: ...
    @overload
    def fill(self, texts: Texts, top_k: int = 5) -> list[list[Classification]]: ...
    def fill(self, texts: str | Texts, top_k: int = 5) -> list[Classification] | list[list[Classification]]:
        """The most likely tokens for each mask in a text such as "the [MASK] sat", or in several texts."""
        model, tokenizer = self._plain(), self.required_tokenizer()
        found = [fill(model, tokenizer, text, top_k) for text in as_texts(texts)]
        return found[0] if isinstance(texts, str) else found

    @overload
    def draw(
        self,
        prompts: str,
        config: DrawingConfig | None = None,
        rerank: "LoadedModel | None" = None,
        progress: Steps = no_progress,
        **settings: object,
    ) -> PictureArray: ...
    @overload
    def draw(
        self,
        prompts: Texts,
        config: DrawingConfig | None = None,
        rerank: "LoadedModel | None" = None,
        progress: Steps = no_progress,
        **settings: object,
    ) -> list[PictureArray]: ...
    def draw(
        self,
        prompts: str | Texts,
        config: DrawingConfig | None = None,
        rerank: "LoadedModel | None" = None,
        progress: Steps = no_progress,
        **settings: object,
    ) -> PictureArray | list[PictureArray]:
        """Draw pictures of a prompt, [n, height, width, channels] of unsigned bytes, or such an array for each prompt.

        Settings are those of `DrawingConfig`: n, guidance, temperature, top_k, top_p, seed. With a CLIP to `rerank`
        them by, the pictures that fit the prompt best come first. `progress` gets the steps done and all steps.
        """
        config, texts = drawing_config(config, settings), as_texts(prompts)
        pixels = draw(self._prepare(), self.required_tokenizer(), texts, config, progress)
        found = list(pixels.reshape(len(texts), config.n, *pixels.shape[1:]))
        if rerank is not None:
            require_type(DecodingError, "rerank", rerank, LoadedModel, "a CLIP that gf.load returned")
            judge = rerank.model, rerank.required_tokenizer()
            scored = [similarity_to_prompt(*judge, text, each) for text, each in zip(texts, found, strict=True)]
            found = [each[best_first(scores)] for each, scores in zip(found, scored, strict=True)]
        return found[0] if isinstance(prompts, str) else found

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
        """A text, token ids or the path of a picture as arguments of the model, for `gf.trace` and the probes."""
        functions = (self._encoded, self._translated)
        values, tokens = forward_inputs(self._plain(), self.tokenizer, text, second, *functions)
        return ModelInputs(self.model, values, tokens)

    def _encoded(self, text: str) -> list[int]:
        """Token ids of a text as the model reads it."""
        return encode_prompts(self._model, self.required_tokenizer(), [text])[0]

    def _translated(self, text: str) -> list[int]:
        """Token ids of the model's own translation, without the end token."""
        (written,) = generate(self._model, self.required_tokenizer(), text)
        return written.ids[:-1] if written.finish_reason == "stop" else written.ids

    def save(self, folder: Path | str, format: Format = "auto") -> None:
        """Save the model with its tokenizer and labels, as `gf.save` does."""
        if self._quantized:
            raise CheckpointError(f"{self._name}: quantized weights cannot be saved: load it without quantization")
        require_type(PathError, "folder", folder, (str, Path), "the path of a folder")
        save(self._plain(), folder, self.tokenizer, self.labels, format, self.hf_model)

    def required_tokenizer(self) -> Tokenizer:
        """The tokenizer, or an error where the model came without one."""
        if self.tokenizer is None:
            reads = f"reads {kind} and " if (kind := kind_of_input(self._model)) else ""
            raise PathError(f"{self._name}: {reads}has no tokenizer, so it cannot read or write text")
        return self.tokenizer


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
