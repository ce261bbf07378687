"""The glossary of the field's words: whole, in order, and pointing at what exists."""

import re

from glassformer.course.registry import lessons
from glassformer.views.concepts import concepts
from glassformer.views.reference import entries

# Words that a reader of the field looks up first.
WANTED = {
    *("token", "logit", "embedding", "encoder", "decoder", "attention head", "residual stream", "KV cache", "prefill"),
    *(
        "fine-tuning",
        "pretraining",
        "perplexity",
        "beam search",
        "label smoothing",
        "teacher forcing",
        "epoch",
        "batch",
    ),
    *("learning rate", "gradient", "loss", "softmax", "dropout", "weight decay", "checkpoint", "prompt", "temperature"),
}


def test_the_words_one_looks_up_first_are_there() -> None:
    names = [concept.name for concept in concepts()]
    assert len(names) == len(set(names)) >= 40
    assert set(names) >= WANTED
    assert names == sorted(names, key=str.casefold)


def test_every_meaning_is_a_sentence_and_explains_by_other_words() -> None:
    for concept in concepts():
        assert concept.meaning.endswith("."), concept.name
        assert not re.match(rf"(an?|the) {re.escape(concept.name)}\b", concept.meaning, re.IGNORECASE), concept.name


def test_every_lesson_and_equation_named_exists() -> None:
    known = {entry.name for entry in entries()}
    assert {name for concept in concepts() for name in concept.lessons} <= set(lessons())
    assert {name for concept in concepts() for name in concept.equations} <= known
