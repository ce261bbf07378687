"""Sentences with a pronoun and two nouns it could stand for, from a small grammar; one word decides which.

After Winograd (1972) and Levesque et al. (2012): “the dog did not cross the river because it was too tired”, or wide.
Each frame is also told the other way around, so that neither the order of the nouns nor the deciding word alone tells.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

PRONOUN = "it"
_THINGS = ["bag", "barrel", "basket", "box", "case", "chest", "crate", "drawer", "jar", "pot", "sack", "trunk"]
_ANIMALS = ["bear", "cat", "dog", "eagle", "fox", "hawk", "lion", "lynx", "owl", "snake", "tiger", "wolf"]
_PLACES = ["bridge", "canal", "field", "lake", "river", "road", "street", "valley"]
HELD_OUT = 0.2  # fraction of the pairs of nouns


@dataclass(frozen=True)
class PronounFrame:
    """A sentence and its reversal, the nouns that fit, and the words that point to the one or to the other."""

    forward: str
    reversal: str
    nouns: tuple[Sequence[str], Sequence[str]]
    first: Sequence[str]
    second: Sequence[str]


FRAMES = (
    PronounFrame(
        "the {x} does not fit into the {y} because it is too {why}",
        "the {y} can not hold the {x} because it is too {why}",
        (_THINGS, _THINGS),
        ["big", "large", "tall", "wide"],
        ["little", "narrow", "small", "tiny"],
    ),
    PronounFrame(
        "the {x} caught the {y} because it was {why}",
        "the {y} was caught by the {x} because it was {why}",
        (_ANIMALS, _ANIMALS),
        ["fast", "hungry", "quick", "young"],
        ["lame", "old", "slow", "tired"],
    ),
    PronounFrame(
        "the {x} broke the {y} because it was {why}",
        "the {y} was broken by the {x} because it was {why}",
        (_THINGS, _THINGS),
        ["hard", "heavy", "solid", "strong"],
        ["fragile", "old", "thin", "weak"],
    ),
    PronounFrame(
        "the {x} did not cross the {y} because it was too {why}",
        "the {y} was not crossed by the {x} because it was too {why}",
        (_ANIMALS, _PLACES),
        ["lazy", "scared", "tired", "weak"],
        ["deep", "icy", "long", "wide"],
    ),
)


@dataclass(frozen=True)
class PronounSentence:
    """The words of a sentence, and the positions of its pronoun, of the noun it stands for, and of the other noun."""

    words: tuple[str, ...]
    pronoun: int
    antecedent: int
    other: int

    @property
    def answer(self) -> str:
        """The noun that the pronoun stands for."""
        return self.words[self.antecedent]


def pronoun_sentences(
    frames: Sequence[PronounFrame] = FRAMES, seed: int = 0
) -> tuple[list[PronounSentence], list[PronounSentence]]:
    """All sentences, shuffled: those to train on, and those with pairs of nouns that are in no training sentence."""
    draw = random.Random(seed)
    pairs = sorted({_pair(x, y) for frame in frames for x, y in product(*frame.nouns) if x != y})
    held_out = set(draw.sample(pairs, round(HELD_OUT * len(pairs))))
    found = [(x, y, sentence) for frame in frames for x, y, sentence in _sentences(frame)]
    draw.shuffle(found)
    train = [sentence for x, y, sentence in found if _pair(x, y) not in held_out]
    return train, [sentence for x, y, sentence in found if _pair(x, y) in held_out]


def minimal_pairs(sentences: Sequence[PronounSentence]) -> Iterator[tuple[PronounSentence, PronounSentence]]:
    """Pairs of sentences that differ in their last word only, and in what the pronoun stands for."""
    alike: dict[tuple[str, ...], list[PronounSentence]] = {}
    for sentence in sentences:
        alike.setdefault(sentence.words[:-1], []).append(sentence)
    for group in alike.values():
        yield from ((a, b) for a, b in combinations(group, 2) if a.answer != b.answer)


def words_of(frames: Sequence[PronounFrame] = FRAMES) -> list[str]:
    """Every word of the sentences, in a fixed order."""
    return sorted({word for frame in frames for _, _, sentence in _sentences(frame) for word in sentence.words})


def _pair(x: str, y: str) -> tuple[str, str]:
    return (x, y) if x < y else (y, x)


def _sentences(frame: PronounFrame) -> Iterator[tuple[str, str, PronounSentence]]:
    for x, y in product(*frame.nouns):
        for form in (frame.forward, frame.reversal) if x != y else ():
            for answer, reasons in ((x, frame.first), (y, frame.second)):
                for why in reasons:
                    words = tuple(form.format(x=x, y=y, why=why).split())
                    other = y if answer == x else x
                    pronoun = max(at for at, word in enumerate(words) if word == PRONOUN)
                    yield x, y, PronounSentence(words, pronoun, words.index(answer), words.index(other))
