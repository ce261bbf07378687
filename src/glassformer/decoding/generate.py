"""Prompts in, texts out: whole, or piece by piece as they are written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress

from glassformer.decoding.beam import BeamSearch, run_search
from glassformer.decoding.compiled import CompiledSearch, CompiledSession
from glassformer.decoding.completion import Completion, Finish, PartialText
from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.loop import (
    DecodeLoop,
    Generator,
    Prompts,
    inference_mode,
    require_generator,
)
from glassformer.errors import DecodingError
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.model import Model
from glassformer.text.tokenizer import Tokenizer

GREEDY = GenerationConfig()


@dataclass(frozen=True)
class TextChunk:
    """A piece of one of the texts that are being written; the last one says why the text ended."""

    index: int
    text: str
    finish_reason: Finish | None


def generate(
    model: Model, tokenizer: Tokenizer, prompts: str | Sequence[str], config: GenerationConfig = GREEDY
) -> list[Completion]:
    """Write on from prompts, `how.n` texts for each, in their order; for a translator a prompt is a source.

    Where a source says nothing, so does its translation.
    """
    texts = [prompts] if isinstance(prompts, str) else list(prompts)
    says = [_says_something(model, text) for text in texts]
    rows = encode_prompts(model, tokenizer, list(compress(texts, says)))
    written = iter(write_all(model, tokenizer, rows, config))
    return [
        next(written) if something else Completion("", [], [], "stop") for something in says for _ in range(config.n)
    ]


def stream(model: Model, tokenizer: Tokenizer, prompt: str, config: GenerationConfig = GREEDY) -> Iterator[TextChunk]:
    """Write on from a prompt and hand out every piece as soon as it is certain."""
    if config.num_beams > 1:
        raise DecodingError(
            f"num_beams is {config.num_beams}, wanted 1 to stream: a beam knows its best text only at the end"
        )
    writer = require_generator(model)
    if not _says_something(model, prompt):
        yield from (TextChunk(number, "", "stop") for number in range(config.n))
        return
    drafts, session = _begin(writer, tokenizer, encode_prompts(model, tokenizer, [prompt]), config)
    told: set[int] = set()
    for _ in _write_drafts(drafts, session):
        for number, draft in enumerate(drafts):
            piece = draft.new_text()
            if number not in told and (piece or draft.finish_reason):
                told |= {number} if draft.finish_reason else set()
                yield TextChunk(number, piece, draft.finish_reason)


def _says_something(model: Model, prompt: str) -> bool:
    """Whether there is something to write for a prompt: a translator writes nothing for a blank source."""
    return not isinstance(model, EncoderDecoder) or bool(prompt.strip())


def write_all(model: Model, tokenizer: Tokenizer, prompts: Prompts, config: GenerationConfig) -> list[Completion]:
    """The same from token ids: batched by tokens, alike lengths together, results in the order of the prompts."""
    writer = require_generator(model)
    found: list[list[Completion]] = [[] for _ in prompts]
    for batch in batches_by_tokens(prompts, config):
        part = [prompts[i] for i in batch]
        if config.num_beams > 1:
            written = _search(writer, tokenizer, part, config)
        else:
            drafts, session = _begin(writer, tokenizer, part, config)
            for _ in _write_drafts(drafts, session):
                pass
            done = [draft.done() for draft in drafts]
            written = [done[place : place + config.n] for place in range(0, len(done), config.n)]
        for i, texts in zip(batch, written, strict=True):
            found[i] = texts
    return [text for texts in found for text in texts]


def batches_by_tokens(prompts: Prompts, config: GenerationConfig) -> Iterator[list[int]]:
    """Which prompts to write together: those of like length, as many as keep a batch within its tokens."""
    order = sorted(range(len(prompts)), key=lambda i: (len(prompts[i]), i))
    batch: list[int] = []
    for i in order:
        rows = (len(batch) + 1) * max(config.n, config.num_beams)
        if batch and rows * (len(prompts[i]) + config.max_new_tokens) > config.batch_tokens:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def first_token(model: Generator, tokenizer: Tokenizer) -> int:
    """What a decoder's input begins with; a language model goes on from its prompt, and needs none."""
    return tokenizer.decoder_start if isinstance(model, EncoderDecoder) else 0


def begin_draft(model: Generator, tokenizer: Tokenizer, prompt: Sequence[int], config: GenerationConfig) -> PartialText:
    """An empty draft behind a prompt, which is checked."""
    _check(model, [prompt], config)
    return PartialText(tokenizer, prompt, _ends(tokenizer, config), config.stop_texts, *_most(model, prompt, config))


def encode_prompts(model: Model, tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """The ids of texts as a model reads them: prompts for a language model, whole inputs for any other."""
    return (tokenizer.encode_prompts if isinstance(model, CausalLM) else tokenizer.encode_inputs)(texts)


def _most(model: Generator, prompt: Sequence[int], config: GenerationConfig) -> tuple[int, Finish]:
    """How many tokens can follow a prompt, and what ends them there."""
    context = model.max_length
    taken = 1 if isinstance(model, EncoderDecoder) else len(prompt)
    if context is not None and len(prompt) > context:
        raise DecodingError(f"the prompt has {len(prompt)} tokens, wanted at most {context}, the model's context")
    left = config.max_new_tokens if context is None else context - taken
    return (config.max_new_tokens, "length") if config.max_new_tokens <= left else (left, "context")


def _within(config: GenerationConfig, room: Sequence[tuple[int, Finish]]) -> GenerationConfig:
    """The same settings with a limit that some prompt can reach, for what is laid out goes by it."""
    limit = max(1, *(most for most, _ in room))
    return replace(config, max_new_tokens=limit, min_new_tokens=min(config.min_new_tokens, limit))


def _ends(tokenizer: Tokenizer, config: GenerationConfig) -> frozenset[int]:
    return tokenizer.ends | frozenset(config.stop_ids)


def _check(model: Generator, prompts: Prompts, config: GenerationConfig) -> None:
    vocab = model.config.vocab
    config.check_vocabulary(vocab)
    highest = max((id for row in prompts for id in row), default=0)
    if highest >= vocab:
        raise DecodingError(f"the tokenizer gives the id {highest}, wanted ids below {vocab}, the model's vocabulary")


def _begin(
    model: Generator, tokenizer: Tokenizer, prompts: Prompts, config: GenerationConfig
) -> tuple[list[PartialText], DecodeLoop]:
    """Read the prompts, and lay out an empty draft for every text."""
    _check(model, prompts, config)
    ends = _ends(tokenizer, config)
    room = [_most(model, row, config) for row in prompts]
    config = _within(config, room)
    before: list[Sequence[int]] = [() if isinstance(model, EncoderDecoder) else row for row in prompts]
    drafts = [
        PartialText(tokenizer, before[i], ends, config.stop_texts, *room[i])
        for i in range(len(prompts))
        for _ in range(config.n)
    ]
    width = 1 if isinstance(model, EncoderDecoder) else max(map(len, prompts))
    slots = width + max(1, *(most for most, _ in room))
    make = CompiledSession if config.compile else DecodeLoop
    with inference_mode(model):
        unused = tokenizer.unused_ids(model.config.vocab)
        return drafts, make(model, prompts, slots, config, sorted(ends), first_token(model, tokenizer), unused)


def _write_drafts(drafts: Sequence[PartialText], session: DecodeLoop) -> Iterator[None]:
    """Token by token until every draft is finished; between two tokens the caller may look."""
    rows = list(range(len(drafts)))
    while live := [i for i in rows if drafts[i].finish_reason is None]:
        with inference_mode(session.model):
            if session.compact([place for place, i in enumerate(rows) if drafts[i].finish_reason is None]):
                rows = live
            tokens, log_probabilities = session.next_tokens()
        for some, theirs in zip(tokens, log_probabilities, strict=True):
            for i, token, log_probability in zip(rows, some, theirs, strict=True):
                drafts[i].add(token, log_probability)
            yield
    if not drafts or all(not draft.ids for draft in drafts):
        yield  # texts that ended before their first token are told of too


def _search(
    model: Generator, tokenizer: Tokenizer, prompts: Prompts, config: GenerationConfig
) -> list[list[Completion]]:
    """The best texts of a beam search."""
    _check(model, prompts, config)
    ends = _ends(tokenizer, config)
    room = [_most(model, row, config) for row in prompts]
    config = _within(config, room)
    written: list[list[Completion]] = []
    with inference_mode(model):
        most = [tokens for tokens, _ in room]
        make = CompiledSearch if config.compile else BeamSearch
        unused = tokenizer.unused_ids(model.config.vocab)
        search = make(model, prompts, most, config, sorted(ends), first_token(model, tokenizer), unused)
        found = run_search(search, most)
    for i, hypotheses in enumerate(found):
        if len(hypotheses) < config.n:
            there_are = f"there are {len(hypotheses)} texts of up to {most[i]} tokens for a prompt, wanted {config.n}"
            raise DecodingError(f"{there_are}: ask for fewer or for longer ones")
        before = () if isinstance(model, EncoderDecoder) else prompts[i]
        drafts = [PartialText(tokenizer, before, ends, config.stop_texts, *room[i]) for _ in hypotheses]
        for draft, hypothesis in zip(drafts, hypotheses, strict=True):
            for token, log_probability in zip(hypothesis.ids, hypothesis.log_probabilities, strict=True):
                draft.add(token, log_probability)
        written.append([draft.done() for draft in drafts])
    return written
