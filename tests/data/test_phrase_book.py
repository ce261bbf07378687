"""The phrase book says what a Spanish teacher would, always the same, and keeps its tests apart from its lessons."""

import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import pytest

from glassformer.data.phrase_book import courtesies, phrase_book, phrase_book_size, phrase_templates, split_phrase_book
from glassformer.data.phrases import words as lexicon
from glassformer.data.phrases.grammar import joined, noun_phrases
from tests.data.phrase_book_pairs import CONJUGATIONS, PAIRS

WRITTEN = dict(line.split(" | ") for line in PAIRS.strip().splitlines())
DRAWN = 20_000
NOUNS = {noun for row in lexicon.NOUNS.values() for noun in row}
ADJECTIVES = {adjective for row in lexicon.ADJECTIVES.values() for adjective in row}
VERBS = list(lexicon.VERBS.values())
PERSONS = {"I": 0, "You": 1, "He": 2, "She": 2, "We": 3, "They": 4, "You all": 4}


class Book(NamedTuple):
    """What one pass over every sentence finds."""

    total: int
    english: int
    spanish: int
    found: dict[str, str]
    kinds: dict[str, set[str]]
    drawn: dict[str, int]


@cache
def whole() -> Book:
    drawn = {english for english, _ in phrase_book(DRAWN)}
    english, spanish = ({hash(pair[side]) for pair in courtesies()} for side in (0, 1))
    found = {pair[0]: pair[1] for pair in courtesies() if pair[0] in WRITTEN}
    kinds: dict[str, set[str]] = {}
    counts: Counter[str] = Counter()
    for name, template in phrase_templates().items():
        kinds[name] = set()
        for one, other in template:
            english.add(hash(one))
            spanish.add(hash(other))
            counts[name] += one in drawn
            if one in WRITTEN:
                found[one] = other
                kinds[name].add(one)
    return Book(phrase_book_size(), len(english), len(spanish), found, kinds, dict(counts))


@cache
def sample() -> list[tuple[str, str]]:
    return phrase_book(DRAWN, seed=7)


def spanish_words(sentence: str) -> list[str]:
    return re.findall(r"\w+", sentence.lower())


def test_the_pairs_written_by_hand_come_out_as_written() -> None:
    assert len(WRITTEN) >= 250
    assert {english: whole().found.get(english) for english in WRITTEN} == WRITTEN


def test_every_kind_of_sentence_has_a_pair_written_by_hand() -> None:
    assert {name for name, found in whole().kinds.items() if not found} == set()


def test_every_sentence_has_one_translation_and_no_two_share_it() -> None:
    assert whole().total >= 300_000
    assert whole().english == whole().spanish == whole().total


def test_every_kind_of_sentence_is_drawn_alike() -> None:
    sizes = {name: len(template) for name, template in phrase_templates().items()}
    fair = DRAWN // (len(sizes) + 1)
    assert {name for name, size in sizes.items() if whole().drawn[name] < min(size, fair)} == set()
    assert max(whole().drawn.values()) <= 2 * fair


@pytest.mark.parametrize("row", CONJUGATIONS.replace("\\\n", "").strip().splitlines())
def test_verbs_are_conjugated(row: str) -> None:
    infinitive, present, preterite = re.split("[:;] ", row)
    verbs = [verb for verb in VERBS if verb.infinitive == infinitive]
    assert verbs
    for verb in verbs:
        assert (verb.present, verb.preterite) == (tuple(present.split()), tuple(preterite.split()))


def test_every_verb_is_among_those_conjugated_by_hand() -> None:
    assert {verb.infinitive for verb in VERBS} == set(re.findall(r"^(\w+):", CONJUGATIONS, re.MULTILINE))


def test_a_drawn_book_is_distinct_and_has_every_courtesy() -> None:
    pairs = phrase_book(DRAWN)
    assert len(pairs) == len(set(pairs)) == DRAWN
    assert len({english for english, _ in pairs}) == len({spanish for _, spanish in pairs}) == DRAWN
    assert set(courtesies()) <= set(pairs)
    assert {("You are welcome.", "De nada."), ("You are welcome", "De nada")} <= set(pairs)


def test_the_seed_decides() -> None:
    assert phrase_book(2_000, seed=3) == phrase_book(2_000, seed=3)
    assert set(phrase_book(2_000, seed=3)) != set(phrase_book(2_000, seed=4))


def test_no_more_is_asked_than_there_is() -> None:
    assert len(phrase_book(len(courtesies()))) == len(courtesies())
    for count in (len(courtesies()) - 1, phrase_book_size() + 1):
        with pytest.raises(ValueError, match=f"count is {count}"):
            phrase_book(count)


def test_many_pairs_are_drawn_fast() -> None:
    start = time.perf_counter()
    assert len(set(phrase_book(200_000))) == 200_000
    assert time.perf_counter() - start < 20


def test_sentences_are_short_and_their_words_few() -> None:
    lengths = [len(english.split()) for english, _ in sample()]
    assert max(lengths) <= 14
    assert 5 <= sum(lengths) / len(lengths) <= 7
    english, spanish = ({word for pair in sample() for word in spanish_words(pair[side])} for side in (0, 1))
    assert 250 <= len(english) <= 450
    assert len(spanish) <= 850


def test_sentences_are_well_set() -> None:
    for pair in sample():
        for text in pair:
            assert text == " ".join(text.split())
            assert text.lstrip("¿¡")[0].isupper()
        english, spanish = pair
        assert english.isascii()
        assert english.endswith("?") == (spanish.startswith("¿") and spanish.endswith("?"))
        assert english.endswith("!") == (spanish.startswith("¡") and spanish.endswith("!"))
        assert english.endswith(".") == spanish.endswith(".")
        assert ("¿" in spanish) == ("?" in spanish)


def test_prepositions_and_articles_contract() -> None:
    assert joined("a", "el parque") == "al parque"
    assert joined("cerca de", "el parque") == "cerca del parque"
    assert (joined("a", "él"), joined("con", "el profesor")) == ("a él", "con el profesor")
    assert [spanish for _, spanish in sample() if re.search(r"\b(a|de) el\b", spanish, re.IGNORECASE)] == []


def test_water_is_feminine_behind_its_masculine_article() -> None:
    said = noun_phrases("water", "the a this", described="cold")
    assert [phrase.spanish for phrase in said] == ["el agua fría", "un agua fría", "esta agua fría"]


Kind = tuple[str, bool]  # gender, and whether there are many


def noun_kinds() -> dict[str, Kind]:
    kinds = {noun.spanish_plural: (noun.gender, True) for noun in NOUNS}
    kinds |= {noun.spanish: (noun.gender, False) for noun in NOUNS}
    return {form: kind for form, kind in kinds.items() if form not in ("", "paraguas")}  # one or many, all the same


def kinds_of(rows: Iterable[Sequence[str]]) -> dict[str, set[Kind]]:
    """What each form can go with, from rows of four: masculine and feminine, one and many."""
    kinds: dict[str, set[Kind]] = {}
    for row in rows:
        for form, kind in zip(row, (("m", False), ("f", False), ("m", True), ("f", True)), strict=True):
            kinds.setdefault(form, set()).add(kind)
    return kinds


DETERMINERS = """
el la los las
un una unos unas
mi mi mis mis
tu tu tus tus
su su sus sus
nuestro nuestra nuestros nuestras
este esta estos estas
ese esa esos esas
mucho mucha muchos muchas
cuánto cuánta cuántos cuántas
al - - -
del - - -
"""


def test_determiners_nouns_and_adjectives_agree() -> None:
    nouns = noun_kinds()
    determiners = kinds_of(row.split() for row in DETERMINERS.strip().splitlines())
    adjectives = kinds_of(each.spanish for each in ADJECTIVES)
    fixed, before, after = {spanish for _, spanish in courtesies()}, 0, 0
    for spanish in {spanish for _, spanish in sample()} - fixed:
        for left, right in pairwise(re.split(r"[ ,.?]+", spanish.strip("¿").lower())):
            if left in determiners and right in nouns and (left, right) not in (("el", "agua"), ("del", "agua")):
                assert nouns[right] in determiners[left], spanish
                before += 1
            if left in nouns and right in adjectives:
                assert nouns[left] in adjectives[right], spanish
                after += 1
    assert before > 10_000
    assert after > 1_000


def test_what_is_said_of_a_thing_agrees_with_it() -> None:
    nouns, adjectives, checked = noun_kinds(), kinds_of(each.spanish for each in ADJECTIVES), 0
    said = re.compile(r"¿?(?:hoy )?\w+ (\w+)(?: no| siempre)* (?:es|son|está|están) (?:muy |más )?(\w+)")
    for _, spanish in sample():
        found = said.match(spanish.lower())
        if found and found[1] in nouns and found[2] in adjectives:
            assert nouns[found[1]] in adjectives[found[2]], spanish
            checked += 1
    assert checked > 500


def test_verbs_agree_with_their_pronouns() -> None:
    forms: dict[str, set[int]] = {}
    for verb in VERBS:
        for tense in (verb.present, verb.preterite):
            for person, form in enumerate(tense):
                forms.setdefault(form, set()).add(person)
    fixed, checked = set(courtesies()), 0
    for english, spanish in sample():
        pronoun = re.match(r"(You all|I|You|He|She|We|They) ", english)
        if pronoun is None or (english, spanish) in fixed or " like" in english or "," in english:
            continue
        heard = [word for word in spanish_words(spanish) if word in forms]
        assert PERSONS[pronoun[1]] in forms[heard[0]], (english, spanish)
        kept = {"He": "él", "She": "ella", "You all": "ustedes"}.get(pronoun[1])
        assert {"él", "ella", "ustedes"} & set(spanish_words(spanish)) == ({kept} if kept else set())
        checked += 1
    assert checked > DRAWN / 5


@pytest.mark.parametrize(("train", "held_out", "seed"), [(2_000, 200, 0), (20_000, 1_000, 1), (50_000, 2_000, 2)])
def test_held_out_sentences_are_new_and_their_words_are_not(train: int, held_out: int, seed: int) -> None:
    learned, tested = split_phrase_book(train, held_out, seed)
    assert (len(learned), len(tested)) == (train, held_out)
    assert set(courtesies()) <= set(learned)
    for side in (0, 1):
        assert not {pair[side] for pair in learned} & {pair[side] for pair in tested}
        known = {word for pair in learned for word in re.findall(r"\w+", pair[side])}
        assert {word for pair in tested for word in re.findall(r"\w+", pair[side])} <= known
    assert (learned, tested) == split_phrase_book(train, held_out, seed)


def test_a_split_that_cannot_be_made_says_so() -> None:
    with pytest.raises(ValueError, match="validation pairs have all their words"):
        split_phrase_book(len(courtesies()), 200)
