"""Answers to questions about a context: the best span by an encoder, and what an encoder-decoder reads to write one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.data.padded_batches import SpanBatches
from glassformer.equations.softmax import softmax
from glassformer.equations.spans import span_logits, span_scores
from glassformer.inference.prepare import inference_mode
from glassformer.layers.model import Model
from glassformer.models.encoder import Encoder
from glassformer.text.questions import Window, encode_question
from glassformer.text.tokenizer import Tokenizer

MOST_TOKENS = 30  # of an answer
WINDOWS_AT_ONCE = 128
Asked = tuple[str, str]  # a question and its context
Pass = Callable[[Iterator[list[int]]], Iterator[list[int]]]


@dataclass(frozen=True)
class Answer:
    """An answer, its probability, and its characters in the context: the first, and the one after the last.

    An answer that a model writes need not be in the context; then `start` and `end` are None.
    """

    answer: str
    probability: float
    start: int | None
    end: int | None


def question_prompt(question: str, context: str) -> str:
    """A question and its context as one text, which an encoder-decoder reads (Raffel et al., 2020)."""
    return f"question: {question.strip()} context: {context.strip()}"


def longest_input(model: Model, tokenizer: Tokenizer) -> int | None:
    """The most tokens that a model reads at once: of its context, and of what it was trained on."""
    sizes = (model.config.context, tokenizer.use.max_length)
    return min((size for size in sizes if size is not None), default=None)


def span_answers(
    model: Encoder, tokenizer: Tokenizer, asked: Sequence[Asked], batch: int = WINDOWS_AT_ONCE, progress: Pass = iter
) -> list[Answer]:
    """The best span for each question: over all windows of its context, the one with the highest probability.

    The probability is that of the start times that of the end, among the tokens of the context and the first token,
    which stands for no answer in this window, as in Hugging Face's pipeline. A span has at least one visible character.
    """
    longest, types = longest_input(model, tokenizer), model.config.token_types
    windows: list[tuple[int, Window]] = []
    for at, (question, context) in enumerate(asked):
        windows += [(at, window) for window in encode_question(tokenizer, question, context, longest, types)]
    best: list[Answer | None] = [None] * len(asked)
    order = sorted(range(len(windows)), key=lambda number: len(windows[number][1].ids))
    groups = [order[at : at + batch] for at in range(0, len(order), batch)]
    for numbers in progress(iter(groups)):
        chosen = [windows[number] for number in numbers]
        found = _best_spans(model, tokenizer, [(asked[at][1], window) for at, window in chosen])
        for (at, window), span in zip(chosen, found, strict=True):
            before = best[at]
            if span is not None and (before is None or span[-1] > before.probability):
                best[at] = _answer(asked[at][1], window, *span)
    return [each or Answer("", 0.0, None, None) for each in best]


def _best_spans(
    model: Encoder, tokenizer: Tokenizer, parts: Sequence[tuple[str, Window]]
) -> list[tuple[int, int, float] | None]:
    """First and last position and probability of the best visible span of each window, or None if it is all blank."""
    windows = [window for _, window in parts]
    batches = span_batches(tokenizer, windows, [(0, 0)] * len(windows), len(windows))
    device = next(model.parameters()).device
    (batch,) = batches.once()
    inputs = [batch[name].to(device) for name in ("ids", "attention_mask", "token_types")]
    with inference_mode(model):
        logits = model(*inputs).float().cpu()
    inside = context_mask(windows, logits.shape[-1])
    table = span_scores(logits, MOST_TOKENS, inside).masked_fill(blank_spans(parts, logits.shape[-1]), -torch.inf)
    score, at = table.flatten(1).max(-1)
    spans = torch.stack([at // logits.shape[-1], at % logits.shape[-1]], -1)
    allowed = inside.clone()
    allowed[:, 0] = True
    probabilities = softmax(span_logits(logits.transpose(-2, -1), allowed))
    p = probabilities.gather(-1, spans[..., None]).squeeze(-1).prod(-1)
    found = zip(spans.tolist(), p.tolist(), score.isfinite().tolist(), strict=True)
    return [(first, last, each) if visible else None for (first, last), each, visible in found]


def blank_spans(parts: Sequence[tuple[str, Window]], length: int) -> Tensor:
    """Which spans [windows, start, end] of a context hold no visible character, such as line breaks alone."""
    visible = torch.zeros(len(parts), length + 1, dtype=torch.long)  # one position more, as counts before it are taken
    for row, (context, window) in enumerate(parts):
        for number, (start, end) in enumerate(window.offsets, window.first + 1):
            visible[row, number] = any(one.isprintable() and not one.isspace() for one in context[start:end])
    before = visible.cumsum(-1)
    return before[:, None, 1:] == before[:, :-1, None]


def span_batches(
    tokenizer: Tokenizer, windows: Sequence[Window], spans: Sequence[tuple[int, int]], batch: int, *shard: int
) -> SpanBatches:
    """Batches of windows with the positions of their answers; `shard` is the seed, the rank and the world size."""
    ids, types = [window.ids for window in windows], [window.token_types for window in windows]
    return SpanBatches(ids, types, spans, batch, tokenizer.required("pad"), *(shard or (0,)))


def context_mask(windows: Sequence[Window], length: int) -> Tensor:
    """Which positions [windows, length] are tokens of the context."""
    at = torch.arange(length)
    first = torch.tensor([window.first for window in windows])[:, None]
    size = torch.tensor([len(window.offsets) for window in windows])[:, None]
    return (at >= first) & (at < first + size)


def _answer(context: str, window: Window, first: int, last: int, probability: float) -> Answer:
    """The characters of a span without white space around them."""
    start, end = window.characters(first, last)
    text = context[start:end]
    start += len(text) - len(text.lstrip())
    answer = text.strip()
    return Answer(answer, probability, start, start + len(answer))
