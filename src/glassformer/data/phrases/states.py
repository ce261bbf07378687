"""How and where people and things are in the phrase book, when things happen, and in what weather."""

from collections.abc import Iterator, Sequence
from itertools import product

from glassformer.data.phrases import grammar, words
from glassformer.data.phrases import objects as thing
from glassformer.data.phrases import subjects as who
from glassformer.data.phrases.actions import Template
from glassformer.data.phrases.grammar import (
    NO_OBJECT,
    PRONOUNS,
    Clauses,
    Frame,
    Phrase,
    beside,
    happening_at,
    noun_phrases,
    phrases,
)
from glassformer.data.phrases.words import COUNTS, VERBS, SentencePair, adjectives, nouns, pairs, verbs

Trait = tuple[str, str, Sequence[str]]  # English of one, English of many, and the four Spanish forms

LATELY = (*who.STATED, who.TODAY, who.ALWAYS)


def state_templates() -> dict[str, Template]:
    """Every kind of sentence that says how, where or when something is."""
    return {
        **_people_states(),
        **_thing_states(),
        **_place_states(),
        "there is": list(_there_is()),
        "compare people": list(_compare_people()),
        "compare things": list(_compare_things()),
        **_hour_templates(),
        **_weather_templates(),
    }


def _traits(names: str, very: bool = False) -> list[Trait]:
    traits: list[Trait] = [(each.english, each.english, each.spanish) for each in adjectives(names)]
    if very:
        traits += [(f"very {one}", f"very {many}", [f"muy {form}" for form in forms]) for one, many, forms in traits]
    return traits


def _being(
    subjects: Sequence[Phrase], verb: str, traits: Sequence[Trait], frames: Sequence[Frame]
) -> list[SentencePair]:
    """Subjects with what agrees with them: she is tired, ella está cansada."""
    return [
        grammar.clause(subject, VERBS[verb], trait, frame)
        for subject, (one, many, forms) in product(subjects, traits)
        for trait in [Phrase(many if subject.plural else one, grammar.agreeing(forms, subject), close=True)]
        for frame in frames
    ]


def _people_states() -> dict[str, Template]:
    workers = (*PRONOUNS, *who.NAMED, *who.PAIRS, *who.KIN, *who.ELDER[::2])
    moods, lonely = _traits("moods", very=True), _traits("ready alone")
    why = who.ASKING_WHY
    home = [Phrase(f"from {english}", f"de {spanish}") for english, spanish in words.CITIES]
    needs = [Phrase(*need, close=True) for need in (*words.HUNGER, *words.VERY_HUNGRY)]
    kin = noun_phrases("father sister brother offspring elders", "your", "your")
    asked = [*who.ASKED, *who.OTHER_PAIRS, *kin, *who.CAST]
    how_old = Frame(asked=True, word=("how old", "cuántos años"))
    return {
        "professions": _being(workers, "be_ser", words.PROFESSIONS, who.PLAIN),
        "professions, questions": _being(who.ASKED, "be_ser", words.PROFESSIONS, [who.QUESTION]),
        "qualities": _being(who.EVERYONE, "be_ser", _traits("personal", very=True), who.PLAIN),
        "qualities, questions": _being(who.ASKED, "be_ser", _traits("personal", very=True), [who.QUESTION]),
        "moods": _being(who.EVERYONE, "be_estar", [*moods, *lonely], (*who.PLAIN, who.TODAY)),
        "moods, questions": [
            *_being(who.ASKED, "be_estar", moods, [who.QUESTION, why]),
            *_being(who.ASKED, "be_estar", lonely, [who.QUESTION]),
        ],
        "from": Clauses(who.EVERYONE, verbs("be_ser"), home, who.PLAIN),
        "from, questions": [
            *Clauses(asked, verbs("be_ser"), home, [who.QUESTION]),
            *Clauses(asked[1:], verbs("be_ser"), [Phrase("from", "")], [Frame(asked=True, word=("where", "de dónde"))]),
        ],
        "hunger": Clauses(who.EVERYONE, verbs("be_tener"), needs, (*who.PLAIN, who.TODAY, who.ALWAYS)),
        "hunger, questions": Clauses(who.ASKED, verbs("be_tener"), needs, [who.QUESTION, why]),
        "age": list(_ages()),
        "how old": Clauses(asked, verbs("be_tener"), [NO_OBJECT], [how_old]),
    }


def _ages() -> Iterator[SentencePair]:
    """Ages that fit: children are young, parents are not."""
    years = [Phrase(f"{english} years old", f"{spanish} años") for english, spanish in COUNTS]
    siblings = noun_phrases("sister brother offspring", "my your our", "my your our")
    children = noun_phrases("boy girl child", "the this that", "the these those")
    parents = noun_phrases("mother father teacher doctor neighbor", "my your our")
    yield from Clauses((*PRONOUNS, *who.NAMED, *siblings), verbs("be_tener"), years, who.PLAIN)
    yield from Clauses(children, verbs("be_tener"), years[:11], who.PLAIN)
    yield from Clauses(parents, verbs("be_tener"), years[12:], who.PLAIN)


def _pointed_at(names: str) -> list[Phrase]:
    return noun_phrases(names, "the this that", "the these those")


def _determined(names: str) -> list[Phrase]:
    return [*_pointed_at(names), *noun_phrases(names, "my your", "my your")]


def _thing_states() -> dict[str, Template]:
    owners = [*who.NAMED, *phrases("mother father elders friend | my your; teacher doctor | the")]
    belonging = noun_phrases("carriages belongings coats", "the", "the")
    owned_things = [grammar.owned(owner, belongs) for owner in owners for belongs in belonging]
    served = noun_phrases("soup rice fish chicken water milk coffee tea", "the this that my your")
    bought = [*_pointed_at("goods belongings book"), *noun_phrases("goods belongings", "the", "the", "colors")]
    prices = [Phrase(f"{english} euros", f"{spanish} euros") for english, spanish in COUNTS]
    how_much = Frame(asked=True, word=("how much", "cuánto"))
    return {
        "things are": _being(
            _determined("goods belongings"), "be_ser", _traits("painted pretty expensive cheap"), who.STATED
        ),
        "books are": _being(_determined("writings"), "be_ser", _traits("literary", very=True), who.STATED),
        "houses are": _being(_pointed_at("houses sights"), "be_ser", _traits("scenic", True), who.STATED),
        "animals are": _being(_determined("animals"), "be_ser", _traits("looks"), who.STATED),
        "clean": _being(_determined("goods belongings house window"), "be_estar", _traits("clean dirty"), LATELY),
        "open": _being(_pointed_at("openings sights"), "be_estar", _traits("open closed"), LATELY),
        "hot": _being(served, "be_estar", _traits("hot cold", very=True), who.STATED),
        "owned": _being(owned_things[::2], "be_ser", _traits("new old colors"), who.STATED),
        "owned, seen": Clauses(PRONOUNS, verbs("see look_for find"), owned_things[1::2], who.BRIEFLY),
        "price": Clauses(_pointed_at("clothes belongings book"), verbs("cost"), prices[3:], [Frame()]),
        "how much": Clauses(bought, verbs("cost"), [NO_OBJECT], [how_much]),
    }


def _place_states() -> dict[str, Template]:
    rooms = happening_at("sites houses rooms", "the this")
    cities = beside([thing.IN], thing.CITY)
    small = noun_phrases("key pencil watch umbrella writings press", "the my your this", "the my your these")
    around = beside([thing.ON, thing.UNDER], noun_phrases("table chair", "the this that"))
    spots = [
        *around,
        *beside([thing.IN], noun_phrases("box bag", "the that")),
        *beside([thing.BEHIND, thing.NEXT_TO], noun_phrases("door computer", "the that")),
    ]
    animals = noun_phrases("animals", "the my your our", "the my these")
    pets = noun_phrases("dog cat bird", "the my your our", "the my these")
    where = Frame(asked=True, word=who.WHERE)
    sought = [*small, *_determined("goods"), *_pointed_at("sites"), *animals, *who.ASKED, *who.KIN]
    how = Frame(asked=True, word=("how", "cómo"))
    kin = noun_phrases("father sister brother elders offspring teacher neighbor friend", "your", "your")
    greeted = [*who.ASKED[1:], *who.OTHER_PAIRS, *kin]
    return {
        "people at": Clauses(who.EVERYONE, verbs("be_estar"), [*rooms, *cities], who.PLAIN),
        "people at, questions": Clauses(who.ASKED, verbs("be_estar"), [*rooms, *cities], [who.QUESTION]),
        "things at": Clauses(small, verbs("be_estar"), spots, who.STATED),
        "animals at": [
            *Clauses(animals, verbs("be_estar"), thing.OUTSIDE, who.STATED),
            *Clauses(pets, verbs("be_estar"), around, who.STATED),
        ],
        "sites near": list(_sites_near()),
        "where is": Clauses(list(dict.fromkeys(sought)), verbs("be_estar"), [NO_OBJECT], [where]),
        "how is": Clauses(greeted, verbs("be_estar"), [NO_OBJECT], [how]),
    }


def _sites_near() -> Iterator[SentencePair]:
    """Where one site is as seen from another."""
    sides = (thing.NEAR, thing.BEHIND, thing.NEXT_TO, thing.IN_FRONT_OF)
    for site, other in product([noun.english for noun in nouns("sites hotel")], repeat=2):
        if site != other:
            spots = beside(sides, noun_phrases(other, "the"))
            yield from Clauses(noun_phrases(site, "the this"), verbs("be_estar"), spots, who.STATED)


def _there_is() -> Iterator[SentencePair]:
    """What there is somewhere, how much of it, and whether there is any."""
    to_twelve = " ".join(english for english, _ in COUNTS[:11]) + " many"
    larders = happening_at("kitchen house restaurant market shop hotel")
    near = beside([thing.NEAR, thing.NEXT_TO], noun_phrases("grounds stops", "the"))
    for names, places, counts in (
        ("furniture writings flowers", happening_at("rooms house library offices"), to_twelve),
        ("foods", larders, to_twelve),
        ("animals", happening_at("grounds garden"), to_twelve),
        ("actors teacher doctor student", happening_at("grounds sights offices stops"), to_twelve),
        ("sights", near, "two three many"),
    ):
        for noun, place in product(nouns(names), places):
            yield from _there_are(noun.english, place, counts)
    for mass, place in product(noun_phrases("drinks dishes provisions", "-"), larders):
        some = f"hay {mass.spanish} {place.spanish}"
        yield grammar.sentence(f"there is {mass.english} {place.english}", some)
        yield grammar.sentence(f"there is no {mass.english} {place.english}", f"no {some}")
        yield grammar.sentence(f"is there {mass.english} {place.english}", some, asked=True)


def _there_are(name: str, place: Phrase, counts: str) -> Iterator[SentencePair]:
    (one,), (none,) = noun_phrases(name, "a"), noun_phrases(name, many="-")
    here, there = place[:2]
    yield grammar.sentence(f"there is {one.english} {here}", f"hay {one.spanish} {there}")
    yield grammar.sentence(f"is there {one.english} {here}", f"hay {one.spanish} {there}", asked=True)
    yield grammar.sentence(f"there are no {none.english} {here}", f"no hay {none.spanish} {there}")
    for many in noun_phrases(name, many=counts):
        yield grammar.sentence(f"there are {many.english} {here}", f"hay {many.spanish} {there}")
    how_many = grammar.agreeing(("", "", "cuántos", "cuántas"), none)
    yield grammar.sentence(f"how many {none.english} are there {here}", f"{how_many} {none.spanish} hay {there}", True)


def _compared(subject: Phrase, adjective: words.Adjective, other: Phrase) -> Iterator[SentencePair]:
    than = f"más {grammar.agreeing(adjective.spanish, subject)} que {other.spanish}"
    more = Phrase(f"{adjective.comparative} than {other.english}", than)
    yield from (grammar.clause(subject, VERBS["be_ser"], more, frame) for frame in who.STATED)


def _compare_people() -> Iterator[SentencePair]:
    others = (*who.ELDER[::2], *who.OTHER[::2])
    for subject, other, adjective in product((*who.NAMED, *who.KIN, *who.CAST), others, adjectives("personal")[:4]):
        yield from _compared(subject, adjective, other)


def _compare_things() -> Iterator[SentencePair]:
    valued = "new old pretty expensive cheap"
    for names, compared in (
        ("clothes", valued),
        ("carriages computer", valued),
        ("bag watch umbrella", valued),
        ("writings", "literary"),
        ("houses", f"big small {valued}"),
        ("sights", "big small new old"),
    ):
        mine, yours = ("the this", "that") if names == "sights" else ("the this my", "that your")
        firsts, seconds = noun_phrases(names, mine, "these"), noun_phrases(names, yours, "those")
        for subject, other, adjective in product(firsts, seconds, adjectives(compared)):
            if subject.plural == other.plural:
                yield from _compared(subject, adjective, other)


def _hours() -> list[SentencePair]:
    """The hours of the clock, whole, half and quarter, as they stand after `it is` and `at`."""
    numbers = [("one", "la una"), *((english, f"las {spanish}") for english, spanish in COUNTS[:11])]
    forms = pairs("""{} o'clock = {}; half past {} = {} y media; a quarter past {} = {} y cuarto;
        a quarter to {} = {} menos cuarto""")
    return [(hour.format(one), hora.format(uno)) for one, uno in numbers for hour, hora in forms]


def _hour_templates() -> dict[str, Template]:
    at = [Phrase(f"at {english}", f"a {spanish}") for english, spanish in _hours()]
    lines, doors = noun_phrases("lines", "the this that"), noun_phrases("sights market", "the this that")
    arrive, leave, back = (verb._replace(after=("", "")) for verb in verbs("arrive_at leave return_from"))
    daily = (*verbs("eat study work"), arrive, leave, back)
    what_time = [frame._replace(word=("what time", "a qué hora")) for frame in (who.QUESTION, who.FUTURE_QUESTION)]
    whole = (Frame(), who.EVERY_DAY, who.COMING, who.COMING_TOMORROW)
    days = [Frame("future", time=(f"on {english}", f"el {spanish}")) for english, spanish in words.DAYS]
    days += [Frame("past", time=(f"last {english}", f"el {spanish} pasado")) for english, spanish in words.DAYS[:5]]
    today = (Phrase("today", "hoy"), Phrase("tomorrow", "mañana"))
    return {
        "clock": list(_clock()),
        "timetables": [*Clauses(lines, (leave, arrive), at, whole), *Clauses(doors, verbs("open close"), at, whole)],
        "what time": [
            *Clauses(lines, (leave, arrive), [NO_OBJECT], what_time),
            *Clauses(doors, verbs("open close"), [NO_OBJECT], what_time),
            *Clauses((*who.ASKED, *who.CAST), daily, [NO_OBJECT], what_time),
        ],
        "daily hours": Clauses((*PRONOUNS, *who.FOLK[::4]), daily, at[::3], whole),
        "weekdays": Clauses(PRONOUNS, verbs("go_to"), noun_phrases("sites", "the that"), days),
        "dates": Clauses(today, verbs("be_ser"), [Phrase(*day) for day in words.DAYS], who.STATED),
    }


def _clock() -> Iterator[SentencePair]:
    """What time it is, with the part of the day where it can be told."""
    parts = pairs("in the morning = de la mañana; in the afternoon = de la tarde; at night = de la noche")
    for number, (english, spanish) in enumerate(_hours()):
        is_ = "es" if spanish.startswith("la una") else "son"
        yield grammar.sentence(f"it is {english}", f"{is_} {spanish}")
        for (part, parte), hours in zip(parts, (range(5, 12), range(1, 8), range(9, 12)), strict=True):
            if number // 4 + 1 in hours:
                yield grammar.sentence(f"it is {english} {part}", f"{is_} {spanish} {parte}")


def _weather_templates() -> dict[str, Template]:
    """The weather: English says what it is, Spanish what it makes."""
    it = Phrase("it", "")
    places = [NO_OBJECT, *beside([thing.IN], thing.CITY), *happening_at("grounds garden")]
    sky = pairs("cold = frío; hot = calor; windy = viento; sunny = sol")
    felt = [*sky, *((f"very {english}", f"mucho {spanish}") for english, spanish in sky)]

    def somewhere(weather: Sequence[SentencePair]) -> list[Phrase]:
        return [
            Phrase(grammar.spaced(english, place.english), grammar.spaced(spanish, place.spanish))
            for (english, spanish), place in product(weather, places)
        ]

    return {
        "weather": Clauses([it], verbs("be_hacer"), somewhere(felt), (*who.STATED, who.TODAY, *who.SOON)),
        "rain": [
            *Clauses([it], verbs("be_estar"), somewhere([("raining", "lloviendo")]), (*who.STATED, who.TODAY)),
            *Clauses([it], verbs("rain"), places, (*who.FREQUENT, *who.SEASONS)),
        ],
    }
