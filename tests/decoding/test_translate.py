"""Translation: the same answer alone or together, an end at the end token or the limit."""

import pytest
import torch

from glassformer.decoding.translate import translate
from glassformer.models.build import build
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.text.learn_tokenizer import learn_tokenizer

TEXTS = ["one two three", "four five", "six seven eight nine ten", "two", ""]


@pytest.mark.parametrize("seed", range(3))
def test_neighbours_do_not_matter(seed: int) -> None:
    tokenizer = learn_tokenizer(TEXTS, "words", 40)
    model = build(Seq2SeqConfig(vocab=tokenizer.vocab, context=32, dim=16, layers=2, heads=2, hidden=32), seed).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # far from even scores
    together = translate(model, tokenizer, TEXTS, limit=12)
    assert together == [translate(model, tokenizer, [text], limit=12)[0] for text in TEXTS]
    assert translate(model, tokenizer, TEXTS[::-1], limit=12) == together[::-1]
    assert len(set(together)) > 1, "every sentence gets the same answer"
    assert translate(model, tokenizer, [], limit=12) == []


def test_it_writes_until_the_end_token_or_the_limit() -> None:
    tokenizer = learn_tokenizer(TEXTS, "words", 40)
    model = build(Seq2SeqConfig(vocab=tokenizer.vocab, context=32, dim=16, layers=1, heads=2, hidden=32)).eval()
    word = tokenizer.encode("two")[0]
    ends = iter([[word, word, tokenizer.end, word], [word, tokenizer.end, word, word]])
    written = torch.tensor([next(ends), next(ends)])

    def scripted(target: torch.Tensor, memory: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        step = target.shape[1] - 1
        return torch.nn.functional.one_hot(written[:, step : step + 1], tokenizer.vocab).float()

    model.decode = scripted
    assert translate(model, tokenizer, ["one", "four"]) == [tokenizer.decode([word, word]), tokenizer.decode([word])]
    assert translate(model, tokenizer, ["one", "four"], limit=1) == [tokenizer.decode([word])] * 2
