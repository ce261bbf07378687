"""How people and things are in the phrase book: what, where, whose, how old, how much, at what time."""

from collections.abc import Iterator, Sequence
from itertools import product

from glassformer.data.phrases import objects as thing
from glassformer.data.phrases import subjects as who
from glassformer.data.phrases import words as word
from glassformer.data.phrases.actions import Template
from glassformer.data.phrases.grammar import (
    COUNTS,
    NO_OBJECT,
    ONE,
    PRONOUNS,
    WE,
    Clauses,
    Frame,
    Phrase,
    SentencePair,
    agreeing,
    clause,
    noun_phrase,
    noun_phrases,
    owned,
    sentence,
)
from glassformer.data.phrases.words import Adjective, Noun, Verb

Trait = tuple[str, str, Sequence[str]]  # English of one, English of many, and the four Spanish forms

LATELY = (*who.STATED, who.TODAY, who.ALWAYS)
IN, ON, UNDER = ("in", "en"), ("on", "en"), ("under", "debajo de")


def state_templates() -> dict[str, Template]:
    """Every kind of sentence that says how something is."""
    return {
        **_people_states(),
        **_thing_states(),
        **_place_states(),
        "there is": list(_there_is()),
        "compare people": list(_compare_people()),
        "compare things": list(_compare_things()),
    }


def _traits(adjectives: Sequence[Adjective], very: bool = False) -> list[Trait]:
    plain: list[Trait] = [(each.english, each.english, each.spanish) for each in adjectives]
    strong: list[Trait] = [
        (f"very {one}", f"very {many}", [f"muy {form}" for form in forms]) for one, many, forms in plain
    ]
    return [*plain, *strong] if very else plain


def _being(
    subjects: Sequence[Phrase], verb: Verb, traits: Sequence[Trait], frames: Sequence[Frame]
) -> Iterator[SentencePair]:
    """Subjects with what agrees with them: she is tired, ella está cansada."""
    for subject, (one, many, forms) in product(subjects, traits):
        trait = Phrase(many if subject.number >= WE else one, agreeing(forms, subject), close=True)
        yield from (clause(subject, verb, trait, frame) for frame in frames)


def _people_states() -> dict[str, Template]:
    workers = (*PRONOUNS, *who.NAMED, *who.PAIRS, *who.KIN, *who.ELDER[::2])
    moods, lonely = _traits(word.STATES[:5], very=True), _traits(word.STATES[5:])
    why = who.ASKING_WHY
    home = [Phrase(f"from {english}", f"de {spanish}") for english, spanish in word.CITIES]
    needs = [Phrase(english, spanish, close=True) for english, spanish, _ in word.HUNGER]
    strong = [Phrase(f"very {english}", f"{much} {spanish}", close=True) for english, spanish, much in word.HUNGER]
    kin = noun_phrases((word.FATHER, word.SISTER, word.BROTHER, *word.CHILDREN, *word.ELDERS), "your", "your")
    asked = [*who.ASKED, *who.OTHER_PAIRS, *kin, *who.CAST]
    how_old = Frame(asked=True, word=("how old", "cuántos años"))
    return {
        "professions": list(_being(workers, word.BE_KIND, word.PROFESSIONS, who.PLAIN)),
        "professions, questions": list(_being(who.ASKED, word.BE_KIND, word.PROFESSIONS, [who.QUESTION])),
        "qualities": list(_being(who.EVERYONE, word.BE_KIND, _traits(word.OF_PEOPLE, very=True), who.PLAIN)),
        "qualities, questions": list(
            _being(who.ASKED, word.BE_KIND, _traits(word.OF_PEOPLE, very=True), [who.QUESTION])
        ),
        "moods": list(_being(who.EVERYONE, word.BE_STATE, [*moods, *lonely], (*who.PLAIN, who.TODAY))),
        "moods, questions": [
            *_being(who.ASKED, word.BE_STATE, moods, [who.QUESTION, why]),
            *_being(who.ASKED, word.BE_STATE, lonely, [who.QUESTION]),
        ],
        "from": Clauses(who.EVERYONE, (word.BE_KIND,), home, who.PLAIN),
        "from, questions": [
            *Clauses(asked, (word.BE_KIND,), home, [who.QUESTION]),
            *Clauses(asked[1:], (word.BE_KIND,), [Phrase("from", "")], [Frame(asked=True, word=("where", "de dónde"))]),
        ],
        "hunger": Clauses(who.EVERYONE, (word.BE_HAVING,), [*needs, *strong], (*who.PLAIN, who.TODAY, who.ALWAYS)),
        "hunger, questions": Clauses(who.ASKED, (word.BE_HAVING,), [*needs, *strong], [who.QUESTION, why]),
        "age": list(_ages()),
        "how old": Clauses(asked, (word.BE_HAVING,), [NO_OBJECT], [how_old]),
    }


def _ages() -> Iterator[SentencePair]:
    """Ages that fit: children are young, parents are not."""
    years = [Phrase(f"{english} years old", f"{spanish} años") for english, spanish in COUNTS.items()]
    siblings = noun_phrases((word.SISTER, word.BROTHER, *word.CHILDREN), "my your our", "my your our")
    children = noun_phrases((word.BOY, word.GIRL, word.CHILD), "the this that", "the these those")
    parents = noun_phrases((word.MOTHER, word.FATHER, word.TEACHER, word.DOCTOR, word.NEIGHBOR), "my your our")
    yield from Clauses((*PRONOUNS, *who.NAMED, *siblings), (word.BE_HAVING,), years, who.PLAIN)
    yield from Clauses(children, (word.BE_HAVING,), years[:11], who.PLAIN)
    yield from Clauses(parents, (word.BE_HAVING,), years[12:], who.PLAIN)


def _pointed_at(nouns: Sequence[Noun]) -> list[Phrase]:
    return noun_phrases(nouns, "the this that", "the these those")


def _determined(nouns: Sequence[Noun]) -> list[Phrase]:
    return [*_pointed_at(nouns), *noun_phrases(nouns, "my your", "my your")]


def _thing_states() -> dict[str, Template]:
    priced = (*thing.PAINTED, word.PRETTY, word.EXPENSIVE, word.CHEAP)
    goods = (*thing.GOODS, *word.BELONGINGS)
    owners = [*who.NAMED, *noun_phrases((word.MOTHER, word.FATHER, *word.ELDERS, word.FRIEND), "my your")]
    owners += noun_phrases((word.TEACHER, word.DOCTOR), "the")
    belonging = noun_phrases((*word.CARRIAGES, *word.BELONGINGS, *word.COATS), "the", "the")
    owned_things = [owned(owner, belongs) for owner in owners for belongs in belonging]
    cheap = (*word.CLOTHES, *word.BELONGINGS, word.BOOK)
    bought = [*_pointed_at((*goods, word.BOOK)), *noun_phrases(goods, "the", "the", word.COLORS)]
    prices = [Phrase(f"{english} euros", f"{spanish} euros") for english, spanish in COUNTS.items()]
    how_much = Frame(asked=True, word=("how much", "cuánto"))
    return {
        "things are": list(_being(_determined(goods), word.BE_KIND, _traits(priced), who.STATED)),
        "books are": list(
            _being(_determined(word.WRITINGS), word.BE_KIND, _traits(word.OF_WRITINGS, very=True), who.STATED)
        ),
        "houses are": list(
            _being(_pointed_at((*word.HOUSES, *word.SIGHTS)), word.BE_KIND, _traits(thing.SCENIC, True), who.STATED)
        ),
        "animals are": list(_being(_determined(word.ANIMALS), word.BE_KIND, _traits(thing.LOOKS), who.STATED)),
        "clean": list(
            _being(_determined((*goods, word.HOUSE, word.WINDOW)), word.BE_STATE, _traits(word.CLEANNESS), LATELY)
        ),
        "open": list(
            _being(_pointed_at((*word.OPENINGS, *word.SIGHTS)), word.BE_STATE, _traits(word.OPENNESS), LATELY)
        ),
        "hot": list(_being(_served(), word.BE_STATE, _traits((word.HOT, word.COLD), very=True), who.STATED)),
        "owned": list(_being(owned_things[::2], word.BE_KIND, _traits((word.NEW, word.OLD, *word.COLORS)), who.STATED)),
        "owned, seen": Clauses(PRONOUNS, (word.SEE, word.LOOK_FOR, word.FIND), owned_things[1::2], who.BRIEFLY),
        "price": Clauses(_pointed_at(cheap), (word.COST,), prices[3:], [Frame()]),
        "how much": Clauses(bought, (word.COST,), [NO_OBJECT], [how_much]),
    }


def _served() -> list[Phrase]:
    warm = (word.SOUP, word.RICE, word.FISH, word.CHICKEN, word.WATER, word.MILK, word.COFFEE, word.TEA)
    return noun_phrases(warm, "the this that my your")


def _place_states() -> dict[str, Template]:
    rooms = thing.happening_at((*thing.SITES, *word.HOUSES, *word.ROOMS), "the this")
    cities = thing.beside([IN], thing.CITY)
    small = noun_phrases((*word.BELONGINGS, *word.WRITINGS, *word.PRESS), "the my your this", "the my your these")
    around = thing.beside([ON, UNDER], noun_phrases((word.TABLE, word.CHAIR), "the this that"))
    spots = [
        *around,
        *thing.beside([IN], noun_phrases((word.BOX, word.BAG), "the that")),
        *thing.beside([thing.BEHIND, thing.NEXT_TO], noun_phrases((word.DOOR, word.COMPUTER), "the that")),
    ]
    small = [each for each in small if "bag" not in each.english]
    animals = noun_phrases(word.ANIMALS, "the my your our", "the my these")
    pets = noun_phrases((word.DOG, word.CAT, word.BIRD), "the my your our", "the my these")
    where = Frame(asked=True, word=who.WHERE)
    sought = [*small, *_determined(thing.GOODS), *_pointed_at(thing.SITES), *animals, *who.ASKED, *who.KIN]
    how = Frame(asked=True, word=("how", "cómo"))
    kin = (word.SISTER, word.BROTHER, *word.ELDERS, *word.CHILDREN, word.TEACHER, word.NEIGHBOR, word.FRIEND)
    greeted = [*who.ASKED[1:], *who.OTHER_PAIRS, *noun_phrases([word.FATHER, *kin], "your", "your")]
    return {
        "people at": Clauses(who.EVERYONE, (word.BE_STATE,), [*rooms, *cities], who.PLAIN),
        "people at, questions": Clauses(who.ASKED, (word.BE_STATE,), [*rooms, *cities], [who.QUESTION]),
        "things at": Clauses(small, (word.BE_STATE,), spots, who.STATED),
        "animals at": [
            *Clauses(animals, (word.BE_STATE,), thing.OUTSIDE, who.STATED),
            *Clauses(pets, (word.BE_STATE,), around, who.STATED),
        ],
        "sites near": list(_sites_near()),
        "where is": Clauses(_unique(sought), (word.BE_STATE,), [NO_OBJECT], [where]),
        "how is": Clauses(greeted, (word.BE_STATE,), [NO_OBJECT], [how]),
    }


def _unique(phrases: Sequence[Phrase]) -> list[Phrase]:
    return list(dict.fromkeys(phrases))


def _sites_near() -> Iterator[SentencePair]:
    """Where one site is as seen from another."""
    sides = (thing.NEAR, thing.BEHIND, thing.NEXT_TO, thing.IN_FRONT_OF)
    for site, other in product((*thing.SITES, word.HOTEL), repeat=2):
        if site is not other:
            spots = thing.beside(sides, noun_phrases([other], "the"))
            yield from Clauses(noun_phrases([site], "the this"), (word.BE_STATE,), spots, who.STATED)


def _there_is() -> Iterator[SentencePair]:
    """What there is somewhere, how much of it, and whether there is any."""
    rooms = thing.happening_at((*word.ROOMS, word.HOUSE, word.LIBRARY, *word.OFFICES))
    larders = thing.happening_at((word.KITCHEN, word.HOUSE, word.RESTAURANT, word.MARKET, word.SHOP, word.HOTEL))
    near = thing.beside([thing.NEAR, thing.NEXT_TO], noun_phrases((*word.GROUNDS, *word.STOPS), "the"))
    grounds = thing.happening_at((*word.GROUNDS, word.GARDEN))
    crowds = thing.happening_at((*word.GROUNDS, *word.SIGHTS, *word.OFFICES, *word.STOPS))
    for nouns, places in (
        ((*word.FURNITURE, *word.WRITINGS, *word.FLOWERS), rooms),
        (word.FOODS, larders),
        (word.ANIMALS, grounds),
        ((*word.ACTORS, word.TEACHER, word.DOCTOR, word.STUDENT), crowds),
    ):
        for noun, place in product(nouns, places):
            yield from _there_are(noun, place, "two three four five six seven eight nine ten eleven twelve many")
    for noun, place in product(word.SIGHTS, near):
        yield from _there_are(noun, place, "two three many")
    for drink, place in product((*word.DRINKS, *word.DISHES, *word.PROVISIONS), larders):
        yield from _there_is_some(noun_phrase(drink, ""), place)


def _there_are(noun: Noun, place: Phrase, counts: str) -> Iterator[SentencePair]:
    one, none = noun_phrase(noun, "a"), noun_phrase(noun, "", plural=True)
    yield sentence(f"there is {one.english} {place.english}", f"hay {one.spanish} {place.spanish}")
    yield sentence(f"is there {one.english} {place.english}", f"hay {one.spanish} {place.spanish}", asked=True)
    yield sentence(f"there are no {none.english} {place.english}", f"no hay {none.spanish} {place.spanish}")
    for many in noun_phrases([noun], many=counts):
        yield sentence(f"there are {many.english} {place.english}", f"hay {many.spanish} {place.spanish}")
    how_many = agreeing(("", "", "cuántos", "cuántas"), none)
    yield sentence(
        f"how many {none.english} are there {place.english}", f"{how_many} {none.spanish} hay {place.spanish}", True
    )


def _there_is_some(mass: Phrase, place: Phrase) -> Iterator[SentencePair]:
    some = f"hay {mass.spanish} {place.spanish}"
    yield sentence(f"there is {mass.english} {place.english}", some)
    yield sentence(f"there is no {mass.english} {place.english}", f"no {some}")
    yield sentence(f"is there {mass.english} {place.english}", some, asked=True)


def _compared(subject: Phrase, adjective: Adjective, other: Phrase) -> Iterator[SentencePair]:
    more = Phrase(
        f"{adjective.comparative} than {other.english}",
        f"más {agreeing(adjective.spanish, subject)} que {other.spanish}",
    )
    yield from (clause(subject, word.BE_KIND, more, frame) for frame in who.STATED)


def _compare_people() -> Iterator[SentencePair]:
    for subject, other in product((*who.NAMED, *who.KIN, *who.CAST), (*who.ELDER[::2], *who.OTHER[::2])):
        for adjective in word.OF_PEOPLE[:4]:
            yield from _compared(subject, adjective, other)


def _compare_things() -> Iterator[SentencePair]:
    valued = (word.NEW, word.OLD, word.PRETTY, word.EXPENSIVE, word.CHEAP)
    for nouns, adjectives in (
        (word.CLOTHES, valued),
        ((*word.CARRIAGES, word.COMPUTER), valued),
        ((word.BAG, word.WATCH, word.UMBRELLA), valued),
        (word.WRITINGS, word.OF_WRITINGS),
        (word.HOUSES, (word.BIG, word.SMALL, *valued)),
        (word.SIGHTS, (word.BIG, word.SMALL, word.NEW, word.OLD)),
    ):
        mine, yours = ("the this", "that") if nouns is word.SIGHTS else ("the this my", "that your")
        firsts, seconds = noun_phrases(nouns, mine, "these"), noun_phrases(nouns, yours, "those")
        for subject, other, adjective in product(firsts, seconds, adjectives):
            if (subject.number == ONE) == (other.number == ONE):
                yield from _compared(subject, adjective, other)
