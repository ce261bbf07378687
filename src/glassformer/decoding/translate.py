"""Source sentences in, target sentences out, the likeliest token at every step."""

from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.equations.sampling import greedy
from glassformer.models.seq2seq import Seq2Seq
from glassformer.models.t5 import T5
from glassformer.recording import unchecked
from glassformer.text.tokenizer import Tokenizer


@torch.no_grad()
def translate(model: Seq2Seq | T5, tokenizer: Tokenizer, texts: Sequence[str], limit: int = 64) -> list[str]:
    """Translate sentences together; padding never changes a result, so the batch does not matter."""
    rows = tokenizer.encode_batch(texts)
    width = max((len(row) for row in rows), default=0) or 1
    source = torch.full((len(rows), width), tokenizer.pad or 0)
    keep = torch.zeros_like(source, dtype=torch.bool)
    for i, row in enumerate(rows):
        source[i, : len(row)] = torch.tensor(row, dtype=torch.long)
        keep[i, : max(len(row), 1)] = True
    with unchecked():
        return [tokenizer.decode(ids) for ids in _write(model, tokenizer, source, keep, limit)]


def _write(model: Seq2Seq | T5, tokenizer: Tokenizer, source: Tensor, keep: Tensor, limit: int) -> list[list[int]]:
    """Token by token until every sentence has ended or the limit is reached."""
    memory = model.encode(source, keep)
    target = torch.full((len(source), 1), tokenizer.start or 0)
    ended = torch.zeros(len(source), dtype=torch.bool)
    while target.shape[1] <= limit and not ended.all():
        scores = model.decode(target, memory, keep)[:, -1]
        chosen = greedy(scores).masked_fill(ended, tokenizer.pad or 0)
        ended |= chosen == tokenizer.end
        target = torch.cat([target, chosen[:, None]], 1)
    stop = {tokenizer.end, tokenizer.pad}
    return [_until(row[1:], stop) for row in target.tolist()]


def _until(ids: list[int], stop: set[int | None]) -> list[int]:
    end = next((i for i, token in enumerate(ids) if token in stop), len(ids))
    return ids[:end]
