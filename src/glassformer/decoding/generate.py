"""Text generation: prompts in, texts out, whole or streamed, and translation by encoder-decoder models."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import cast

from glassformer.decoding.beam import BeamSearch, run_search
from glassformer.decoding.beam_listener import BeamListener
from glassformer.decoding.completion import Completion, Finish, PartialText
from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.loop import DecodeLoop, Prompts, begin_text, encode_prompts, special_tokens
from glassformer.errors import DecodingError, require_type
from glassformer.inference.prepare import Generator, inference_mode, require_generator, require_source_reader
from glassformer.layers.model import Model
from glassformer.text.tokenizer import Tokenizer

GREEDY = GenerationConfig()


@dataclass(frozen=True)
class TextChunk:
    """New text of one of the texts in a stream; the last chunk of a text has its finish reason."""

    index: int
    text: str
    finish_reason: Finish | None


def generate(
    model: Model, tokenizer: Tokenizer, prompts: str | Sequence[str] | Prompts, config: GenerationConfig = GREEDY
) -> list[Completion]:
    """Continue prompts, with `config.n` texts for each, in their order; an encoder-decoder model translates them.

    The translation of a blank source is empty. Prompts may also be given as token ids.
    """
    require_generator(model)
    require_type(DecodingError, "tokenizer", tokenizer, Tokenizer, "the tokenizer of the model")
    require_type(DecodingError, "config", config, GenerationConfig, "a GenerationConfig")
    texts = [prompts] if isinstance(prompts, str) else list(prompts) if isinstance(prompts, Sequence) else [prompts]
    if texts and all(isinstance(ids, list) and all(isinstance(id, int) for id in ids) for ids in texts):
        return write_all(model, tokenizer, cast(Prompts, texts), config)
    for text in texts:
        if not isinstance(text, str):
            raise DecodingError(f"a prompt is of the type {type(text).__name__}, wanted a text or a list of texts")
    texts = cast(list[str], texts)
    has_output = [_has_output(model, text) for text in texts]
    rows = encode_prompts(model, tokenizer, list(compress(texts, has_output)))
    completions = iter(write_all(model, tokenizer, rows, config))
    blank = Completion("", [], [], "stop")
    return [next(completions) if wanted else blank for wanted in has_output for _ in range(config.n)]


def stream(model: Model, tokenizer: Tokenizer, prompt: str, config: GenerationConfig = GREEDY) -> Iterator[TextChunk]:
    """Continue a prompt and yield new text as soon as it is certain."""
    _require_no_beams(config)
    require_generator(model)
    if not _has_output(model, prompt):
        return (TextChunk(index, "", "stop") for index in range(config.n))
    return stream_ids(model, tokenizer, encode_prompts(model, tokenizer, [prompt])[0], config)


def stream_ids(
    model: Model, tokenizer: Tokenizer, prompt: Sequence[int], config: GenerationConfig = GREEDY
) -> Iterator[TextChunk]:
    """The same for a prompt given as token ids."""
    _require_no_beams(config)
    texts, loop = _begin_loop(require_generator(model), tokenizer, [prompt], config)
    finished: set[int] = set()
    for _ in _run_loop(texts, loop):
        for index, text in enumerate(texts):
            new = text.new_text()
            if index not in finished and (new or text.finish_reason):
                finished |= {index} if text.finish_reason else set()
                yield TextChunk(index, new, text.finish_reason)


def _require_no_beams(config: GenerationConfig) -> None:
    if config.num_beams > 1:
        raise DecodingError(
            f"num_beams is {config.num_beams}, wanted 1 to stream: beam search knows its best text only at the end"
        )


def translate(
    model: Model,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    max_new_tokens: int = 64,
    *,
    num_beams: int = 1,
    length_penalty: float = 0.6,
    batch_tokens: int = 8192,
    config: GenerationConfig | None = None,
) -> list[str]:
    """Translate sentences, in their order; each translation depends on its own sentence alone.

    A `config` replaces the four settings before it.
    """
    require_source_reader(model, "translate")
    config = config or GenerationConfig(
        max_new_tokens=max_new_tokens, num_beams=num_beams, length_penalty=length_penalty, batch_tokens=batch_tokens
    )
    if config.n > 1:
        raise DecodingError(f"n is {config.n}, wanted 1: translate returns one text each; `generate` returns several")
    return [completion.text for completion in generate(model, tokenizer, texts, config)]


def listen(
    model: Model, tokenizer: Tokenizer, prompt: str, config: GenerationConfig, listener: BeamListener
) -> list[Completion]:
    """The best texts of a beam search for one prompt, `config.n` of them; a listener hears of every step.

    They are those of `generate`, also for a single beam, which is greedy decoding.
    """
    if not _has_output(model, prompt):
        return [Completion("", [], [], "stop")] * config.n
    rows = encode_prompts(model, tokenizer, [prompt])
    texts = _search(require_generator(model), tokenizer, rows, replace(config, compile=False), listener)
    return [text.done() for text in texts]


def _has_output(model: Model, prompt: str) -> bool:
    """Whether there is something to generate: the translation of a blank source is empty."""
    return not model.reads_source or bool(prompt.strip())


def write_all(model: Model, tokenizer: Tokenizer, prompts: Prompts, config: GenerationConfig) -> list[Completion]:
    """Completions of prompts given as token ids, in their order; batched by tokens, similar lengths together."""
    generator = require_generator(model)
    found: list[list[Completion]] = [[] for _ in prompts]
    for batch in batches_by_tokens(prompts, config):
        rows = [prompts[i] for i in batch]
        if config.num_beams > 1:
            texts = _search(generator, tokenizer, rows, config)
        else:
            texts, loop = _begin_loop(generator, tokenizer, rows, config)
            for _ in _run_loop(texts, loop):
                pass
        for row, i in enumerate(batch):
            found[i] = [text.done() for text in texts[row * config.n : (row + 1) * config.n]]
    return [completion for completions in found for completion in completions]


def batches_by_tokens(prompts: Prompts, config: GenerationConfig) -> Iterator[list[int]]:
    """Indices of prompts to generate together: similar lengths, as many as fit into `batch_tokens`."""
    batch: list[int] = []
    for i in sorted(range(len(prompts)), key=lambda i: (len(prompts[i]), i)):
        rows = (len(batch) + 1) * max(config.n, config.num_beams)
        if batch and rows * (len(prompts[i]) + config.max_new_tokens) > config.batch_tokens:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _begin(
    model: Generator, tokenizer: Tokenizer, prompts: Prompts, config: GenerationConfig, slides: bool
) -> tuple[list[PartialText], GenerationConfig]:
    """Empty texts, `config.n` for each prompt, and the settings with a limit that some text can reach."""
    if config.compile and config.no_repeat_ngram_size:
        why = "no_repeat_ngram_size compares with all tokens before, which have no fixed shape"
        warnings.warn(f"decoding runs without compile: {why}", stacklevel=4)
        config = replace(config, compile=False)
    texts = [begin_text(model, tokenizer, row, config, slides) for row in prompts for _ in range(config.n)]
    limit = max(1, *(text.max_tokens for text in texts))
    return texts, replace(config, max_new_tokens=limit, min_new_tokens=min(config.min_new_tokens, limit))


def _begin_loop(
    model: Generator, tokenizer: Tokenizer, prompts: Prompts, config: GenerationConfig
) -> tuple[list[PartialText], DecodeLoop]:
    texts, config = _begin(model, tokenizer, prompts, config, slides=not model.reads_source)
    with inference_mode(model):
        return texts, DecodeLoop(model, prompts, config, special_tokens(model, tokenizer, config))


def _run_loop(texts: Sequence[PartialText], loop: DecodeLoop) -> Iterator[None]:
    """Generate until every text is finished; yields after each token."""
    rows, modules = list(range(len(texts))), list(loop.model.modules())
    while live := [i for i in rows if texts[i].finish_reason is None]:
        with inference_mode(loop.model, modules):
            if loop.compact([row for row, i in enumerate(rows) if texts[i].finish_reason is None]):
                rows = live
            tokens, log_probabilities = loop.next_tokens()
        for step, theirs in zip(tokens, log_probabilities, strict=True):
            for i, token, log_probability in zip(rows, step, theirs, strict=True):
                texts[i].add(token, log_probability)
            yield
    if all(not text.ids for text in texts):
        yield  # texts that ended before their first token are reported too


def _search(
    model: Generator,
    tokenizer: Tokenizer,
    prompts: Prompts,
    config: GenerationConfig,
    listener: BeamListener | None = None,
) -> list[PartialText]:
    """The best texts of a beam search, `config.n` for each prompt."""
    texts, config = _begin(model, tokenizer, prompts, config, slides=False)
    limits = [text.max_tokens for text in texts[:: config.n]]
    with inference_mode(model):
        search = BeamSearch(model, prompts, limits, config, special_tokens(model, tokenizer, config), listener)
        found = run_search(search, limits)
    for i, hypotheses in enumerate(found):
        if len(hypotheses) < config.n:
            there_are = f"there are {len(hypotheses)} texts of up to {limits[i]} tokens for a prompt, wanted {config.n}"
            raise DecodingError(f"{there_are}: ask for fewer or for longer ones")
        for text, hypothesis in zip(texts[i * config.n :], hypotheses, strict=False):
            for token, log_probability in zip(hypothesis.ids, hypothesis.log_probabilities, strict=True):
                text.add(token, log_probability)
    return texts
