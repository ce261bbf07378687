"""Prompts in, texts out: whole, or piece by piece as they are written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress

from glassformer.decoding.beam import Search, run_search
from glassformer.decoding.compiled import CompiledSearch, CompiledSession
from glassformer.decoding.session import (
    LanguageModel,
    Prompts,
    Session,
    Translator,
    Writes,
    at_rest,
    context_of,
    require_writer,
)
from glassformer.decoding.settings import Decoding
from glassformer.decoding.written import Draft, Finish, Written
from glassformer.errors import DecodingError
from glassformer.layers.model import Model
from glassformer.text.tokenizer import Tokenizer

LIKELIEST = Decoding()


@dataclass(frozen=True)
class Piece:
    """A piece of one of the texts that are being written; the last one says why the text ended."""

    number: int
    text: str
    finish: Finish | None


def generate(
    model: Model, tokenizer: Tokenizer, prompts: str | Sequence[str], how: Decoding = LIKELIEST
) -> list[Written]:
    """Write on from prompts, `how.n` texts for each, in their order; for a translator a prompt is a source.

    Where a source says nothing, so does its translation.
    """
    texts = [prompts] if isinstance(prompts, str) else list(prompts)
    says = [_says_something(model, text) for text in texts]
    rows = encode_prompts(model, tokenizer, list(compress(texts, says)))
    written = iter(write_all(model, tokenizer, rows, how))
    return [next(written) if something else Written("", [], [], "stop") for something in says for _ in range(how.n)]


def stream(model: Model, tokenizer: Tokenizer, prompt: str, how: Decoding = LIKELIEST) -> Iterator[Piece]:
    """Write on from a prompt and hand out every piece as soon as it is certain."""
    if how.beam > 1:
        raise DecodingError(f"beam is {how.beam}, wanted 1 to stream: a beam knows its best text only at the end")
    writer = require_writer(model)
    if not _says_something(model, prompt):
        yield from (Piece(number, "", "stop") for number in range(how.n))
        return
    drafts, session = _begin(writer, tokenizer, encode_prompts(model, tokenizer, [prompt]), how)
    told: set[int] = set()
    for _ in _write_drafts(drafts, session):
        for number, draft in enumerate(drafts):
            piece = draft.fresh()
            if number not in told and (piece or draft.finish):
                told |= {number} if draft.finish else set()
                yield Piece(number, piece, draft.finish)


def _says_something(model: Model, prompt: str) -> bool:
    """Whether there is something to write for a prompt: a translator writes nothing for a blank source."""
    return not isinstance(model, Translator) or bool(prompt.strip())


def write_all(model: Model, tokenizer: Tokenizer, prompts: Prompts, how: Decoding) -> list[Written]:
    """The same from token ids: batched by tokens, alike lengths together, results in the order of the prompts."""
    writer = require_writer(model)
    found: list[list[Written]] = [[] for _ in prompts]
    for batch in batches_by_tokens(prompts, how):
        part = [prompts[i] for i in batch]
        if how.beam > 1:
            written = _search(writer, tokenizer, part, how)
        else:
            drafts, session = _begin(writer, tokenizer, part, how)
            for _ in _write_drafts(drafts, session):
                pass
            done = [draft.done() for draft in drafts]
            written = [done[place : place + how.n] for place in range(0, len(done), how.n)]
        for i, texts in zip(batch, written, strict=True):
            found[i] = texts
    return [text for texts in found for text in texts]


def batches_by_tokens(prompts: Prompts, how: Decoding) -> Iterator[list[int]]:
    """Which prompts to write together: those of like length, as many as keep a batch within its tokens."""
    order = sorted(range(len(prompts)), key=lambda i: (len(prompts[i]), i))
    batch: list[int] = []
    for i in order:
        rows = (len(batch) + 1) * max(how.n, how.beam)
        if batch and rows * (len(prompts[i]) + how.limit) > how.batch_tokens:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def first_token(model: Writes, tokenizer: Tokenizer) -> int:
    """What a decoder's input begins with; a language model goes on from its prompt, and needs none."""
    return tokenizer.decoder_start if isinstance(model, Translator) else 0


def begin_draft(model: Writes, tokenizer: Tokenizer, prompt: Sequence[int], how: Decoding) -> Draft:
    """An empty draft behind a prompt, which is checked."""
    _check(model, [prompt], how)
    return Draft(tokenizer, prompt, _ends(tokenizer, how), how.stop_texts, *_most(model, prompt, how))


def encode_prompts(model: Model, tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """The ids of texts as a model reads them: prompts for a language model, whole inputs for any other."""
    return (tokenizer.encode_prompts if isinstance(model, LanguageModel) else tokenizer.encode_inputs)(texts)


def _most(model: Writes, prompt: Sequence[int], how: Decoding) -> tuple[int, Finish]:
    """How many tokens can follow a prompt, and what ends them there."""
    context = context_of(model)
    taken = 1 if isinstance(model, Translator) else len(prompt)
    if context is not None and len(prompt) > context:
        raise DecodingError(f"the prompt has {len(prompt)} tokens, wanted at most {context}, the model's context")
    left = how.limit if context is None else context - taken
    return (how.limit, "length") if how.limit <= left else (left, "context")


def _within(how: Decoding, room: Sequence[tuple[int, Finish]]) -> Decoding:
    """The same settings with a limit that some prompt can reach, for what is laid out goes by it."""
    limit = max(1, *(most for most, _ in room))
    return replace(how, limit=limit, minimum=min(how.minimum, limit))


def _ends(tokenizer: Tokenizer, how: Decoding) -> frozenset[int]:
    return tokenizer.ends | frozenset(how.stop_ids)


def _check(model: Writes, prompts: Prompts, how: Decoding) -> None:
    vocab = model.config.vocab
    how.check_vocabulary(vocab)
    highest = max((id for row in prompts for id in row), default=0)
    if highest >= vocab:
        raise DecodingError(f"the tokenizer gives the id {highest}, wanted ids below {vocab}, the model's vocabulary")


def _begin(model: Writes, tokenizer: Tokenizer, prompts: Prompts, how: Decoding) -> tuple[list[Draft], Session]:
    """Read the prompts, and lay out an empty draft for every text."""
    _check(model, prompts, how)
    ends = _ends(tokenizer, how)
    room = [_most(model, row, how) for row in prompts]
    how = _within(how, room)
    before: list[Sequence[int]] = [() if isinstance(model, Translator) else row for row in prompts]
    drafts = [
        Draft(tokenizer, before[i], ends, how.stop_texts, *room[i]) for i in range(len(prompts)) for _ in range(how.n)
    ]
    width = 1 if isinstance(model, Translator) else max(map(len, prompts))
    slots = width + max(1, *(most for most, _ in room))
    make = CompiledSession if how.compiled else Session
    with at_rest(model):
        unused = tokenizer.unused_ids(model.config.vocab)
        return drafts, make(model, prompts, slots, how, sorted(ends), first_token(model, tokenizer), unused)


def _write_drafts(drafts: Sequence[Draft], session: Session) -> Iterator[None]:
    """Token by token until every draft is finished; between two tokens the caller may look."""
    rows = list(range(len(drafts)))
    while live := [i for i in rows if drafts[i].finish is None]:
        with at_rest(session.model):
            if session.keep([place for place, i in enumerate(rows) if drafts[i].finish is None]):
                rows = live
            tokens, log_probabilities = session.burst()
        for some, theirs in zip(tokens, log_probabilities, strict=True):
            for i, token, log_probability in zip(rows, some, theirs, strict=True):
                drafts[i].add(token, log_probability)
            yield
    if not drafts or all(not draft.ids for draft in drafts):
        yield  # texts that ended before their first token are told of too


def _search(model: Writes, tokenizer: Tokenizer, prompts: Prompts, how: Decoding) -> list[list[Written]]:
    """The best texts of a beam search."""
    _check(model, prompts, how)
    ends = _ends(tokenizer, how)
    room = [_most(model, row, how) for row in prompts]
    how = _within(how, room)
    written: list[list[Written]] = []
    with at_rest(model):
        most = [tokens for tokens, _ in room]
        make = CompiledSearch if how.compiled else Search
        unused = tokenizer.unused_ids(model.config.vocab)
        search = make(model, prompts, most, how, sorted(ends), first_token(model, tokenizer), unused)
        found = run_search(search, most)
    for i, hypotheses in enumerate(found):
        if len(hypotheses) < how.n:
            there_are = f"there are {len(hypotheses)} texts of up to {most[i]} tokens for a prompt, wanted {how.n}"
            raise DecodingError(f"{there_are}: ask for fewer or for longer ones")
        before = () if isinstance(model, Translator) else prompts[i]
        drafts = [Draft(tokenizer, before, ends, how.stop_texts, *room[i]) for _ in hypotheses]
        for draft, hypothesis in zip(drafts, hypotheses, strict=True):
            for token, log_probability in zip(hypothesis.ids, hypothesis.log_probabilities, strict=True):
                draft.add(token, log_probability)
        written.append([draft.done() for draft in drafts])
    return written
