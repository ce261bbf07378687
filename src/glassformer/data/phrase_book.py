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
from glassformer.data.phrases.grammar import SentencePair
from glassformer.data.phrases.states import state_templates
from glassformer.data.phrases.times import time_templates


@cache
def phrase_templates() -> dict[str, Sequence[SentencePair]]:
    """Every kind of sentence by name, each with all its sentences; the plain courtesies stand apart."""
    return {**action_templates(), **state_templates(), **time_templates(), **courtesy_templates()}


def phrase_book_size() -> int:
    """How many distinct pairs there are."""
    return len(courtesies()) + sum(map(len, phrase_templates().values()))


def phrase_book(count: int | None = None, seed: int = 0) -> list[SentencePair]:
    """Distinct pairs in a random order fixed by the seed: all, or `count` drawn evenly from the kinds of sentence.

    The plain courtesies are always among them.
    """
    fixed, size = courtesies(), phrase_book_size()
    count = size if count is None else count
    if not len(fixed) <= count <= size:
        raise ValueError(f"count is {count}; the phrase book gives from {len(fixed)} to {size} pairs")
    generator = random.Random(seed)
    pairs = list(fixed)
    templates = sorted(phrase_templates().values(), key=len)
    for place, template in enumerate(templates):  # from the smallest, so that the others share what it cannot give
        share = (count - len(pairs)) // (len(templates) - place)
        pairs += [template[i] for i in generator.sample(range(len(template)), min(share, len(template)))]
    generator.shuffle(pairs)
    return pairs


def split_phrase_book(train: int, held_out: int, seed: int = 0) -> tuple[list[SentencePair], list[SentencePair]]:
    """Pairs to learn from and pairs to be tested on: no sentence in common, no word that is not learned.

    The plain courtesies are learned.
    """
    pairs = phrase_book(train + held_out, seed)
    left = Counter(word for pair in pairs for word in _words(pair))
    fixed = set(courtesies())
    kept: list[SentencePair] = []
    tested: list[SentencePair] = []
    for pair in pairs:
        known = pair not in fixed and all(left[word] > 1 for word in _words(pair))
        if known and len(tested) < held_out:
            left.subtract(_words(pair))
            tested.append(pair)
        else:
            kept.append(pair)
    if len(tested) < held_out:
        raise ValueError(f"only {len(tested)} of {held_out} held-out pairs have all their words in {train} others")
    return kept, tested


def _words(pair: SentencePair) -> set[tuple[int, str]]:
    """The words of both sides, each with its side."""
    return {(side, word) for side, sentence in enumerate(pair) for word in re.findall(r"[\w']+", sentence)}
