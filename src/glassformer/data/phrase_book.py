"""The built-in translation data: correct English-Spanish pairs from a small grammar.

Sentences keep their capitals and marks. A question without a question word, a dropped pronoun, `your` said to several:
each has one Spanish side, so the translation is a function of the English sentence, and no two sentences share a side.
"""

import random
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

from glassformer.data.phrases.actions import action_templates
from glassformer.data.phrases.courtesy import courtesies, courtesy_templates
from glassformer.data.phrases.states import state_templates
from glassformer.data.phrases.words import SentencePair


@cache
def phrase_templates() -> dict[str, Sequence[SentencePair]]:
    """Every kind of sentence by name, each with all its sentences; the plain courtesies stand apart."""
    return {**action_templates(), **state_templates(), **courtesy_templates()}


def phrase_book_size() -> int:
    """How many distinct pairs there are."""
    return len(courtesies()) + sum(map(len, phrase_templates().values()))


def phrase_book(count: int | None = None, seed: int = 0) -> list[SentencePair]:
    """Distinct pairs in a random order given by the seed: all, or `count` drawn evenly from the kinds of sentence.

    The plain courtesies are always among them.
    """
    fixed, size = courtesies(), phrase_book_size()
    count = size if count is None else count
    if not len(fixed) <= count <= size:
        raise ValueError(f"count is {count}; the phrase book gives from {len(fixed)} to {size} pairs")
    generator = random.Random(seed)
    pairs = list(fixed)
    templates = sorted(phrase_templates().values(), key=len)
    for number, template in enumerate(templates):  # from the smallest, so that the others make up for it
        quota = (count - len(pairs)) // (len(templates) - number)
        pairs += [template[i] for i in generator.sample(range(len(template)), min(quota, len(template)))]
    generator.shuffle(pairs)
    return pairs


def split_phrase_book(train: int, validation: int, seed: int = 0) -> tuple[list[SentencePair], list[SentencePair]]:
    """Training and validation pairs: no sentence in common, and no validation word that is not in the training pairs.

    The plain courtesies are training pairs.
    """
    pairs = phrase_book(train + validation, seed)
    left = Counter(word for pair in pairs for word in _words(pair))
    fixed = set(courtesies())
    kept: list[SentencePair] = []
    apart: list[SentencePair] = []
    for pair in pairs:
        known = pair not in fixed and all(left[word] > 1 for word in _words(pair))
        if known and len(apart) < validation:
            left.subtract(_words(pair))
            apart.append(pair)
        else:
            kept.append(pair)
    if len(apart) < validation:
        raise ValueError(f"only {len(apart)} of {validation} validation pairs have all their words in {train} others")
    return kept, apart


def _words(pair: SentencePair) -> set[tuple[int, str]]:
    """The words of both sides, each with its side."""
    return {(side, word) for side, sentence in enumerate(pair) for word in re.findall(r"[\w']+", sentence)}
