"""What the sentences of the phrase book are about: things that one eats, reads, sells, visits, wants to do."""

from collections.abc import Sequence

from glassformer.data.phrases.grammar import (
    CLITICS,
    NO_OBJECT,
    Phrase,
    beside,
    happening_at,
    joined,
    noun_phrases,
    to_do,
    together,
)
from glassformer.data.phrases.words import CITIES, LANGUAGES, verbs


def given(things: Sequence[Phrase], receivers: Sequence[Phrase]) -> list[Phrase]:
    """What is given and to whom; Spanish announces the receiver before the verb."""
    return [
        Phrase(
            f"{thing.english} to {receiver.english}",
            f"{thing.spanish} {joined('a', receiver.spanish)}",
            clitic=CLITICS[receiver.number],
        )
        for thing in things
        for receiver in receivers
    ]


# Food and drink.
_MEALS = ("bread cheese", "meat rice", "fish rice", "chicken rice", "cheese fruit", "soup bread")
EATABLE = [
    *noun_phrases("foods", "the this that", "- the these"),
    *noun_phrases("dishes provisions", "- the this"),
    *noun_phrases("fish provisions", "- the", described="fresh"),
    *noun_phrases("foods", many="- the", described="fresh"),
    *(together(*noun_phrases(meal, "-")) for meal in _MEALS),
]
ORDERED = [*noun_phrases("dishes", "- the this"), *noun_phrases("egg", many="- the these")]
DRINKABLE = [
    *noun_phrases("drinks", "- the this that"),
    *noun_phrases("water milk coffee tea", "- the this", described="hot"),
    *noun_phrases("water milk tea juice wine", "- the this", described="cold"),
]

# Things to read, to carry, to buy, to wear, to open, to ride.
READABLE = [
    *noun_phrases("writings press", "the this that my your", "the these my"),
    *noun_phrases("writings", "the this", "the", "literary"),
    *noun_phrases("press", "the that", "the", "interesting boring new old"),
]
WRITABLE = [
    *noun_phrases("writings", "the this that", "the these those"),
    *noun_phrases("writings", "the this", "the", "interesting long short"),
]
CARRIED = [
    *noun_phrases("belongings", "the my your", "the my your"),
    *noun_phrases("belongings", "the my", described="colors"),
]
_BLOOMING = "red white yellow"
SOLD = [
    *noun_phrases("goods flowers", "the this that", "the these those"),
    *noun_phrases("goods", "the", described="painted"),
    *noun_phrases("flowers", many="the", described=_BLOOMING),
]
COUNTED = [
    *noun_phrases("goods flowers belongings", "a", "two three four many"),
    *noun_phrases("goods belongings", "a", "", "painted"),
    *noun_phrases("goods", many="two", described="colors"),
    *noun_phrases("flowers", "a", "two three many", _BLOOMING),
]
SERVINGS = [
    *noun_phrases("foods", "a", "two three four five many"),
    *noun_phrases("foods", "", "two", "fresh"),
]
PAGES = [
    *noun_phrases("writings", "a", "two three four many"),
    *noun_phrases("writings", "a", "two", "literary"),
]
WASHED = [
    *noun_phrases("clothes carriages", "the my your", "the my your"),
    *noun_phrases("clothes carriages", "the", "the", "colors"),
]
OPENED = [
    *noun_phrases("openings", "the this that", "the these those"),
    *noun_phrases("openings", "the", "the", "colors big small"),
]
RIDDEN = [
    *noun_phrases("lines", "the this that"),
    *noun_phrases("train bus", "the", described="colors"),
]
_LIVELY = "dog cat horse carriages"
HELD = [
    *noun_phrases(_LIVELY, "a", described="looks"),
    *noun_phrases("house", "a", described="scenic white"),
    *noun_phrases("sister brother offspring animals press", "a"),
    *noun_phrases("belongings writings", "a the my your", "the my your"),
]
HELD_MANY = [
    *noun_phrases("sister brother offspring", many="two three four five"),
    *noun_phrases("animals writings belongings", many="two three four five six ten many"),
    *noun_phrases(_LIVELY, many="two three", described="looks"),
]
TOKENS = (
    *noun_phrases("writings bag key watch", "the a this"),
    *noun_phrases("flowers", many="the these two"),
)


def worn(clothes: str) -> list[Phrase]:
    """What one person wears."""
    return [*noun_phrases(clothes, "the my this that"), *noun_phrases(clothes, "the my a", described="painted")]


# Places.
CITY = [Phrase(*city) for city in CITIES]
SEEN = [
    *noun_phrases("sights grounds", "the this that", "the these those"),
    *noun_phrases("sights", "the this", described="scenic"),
    *noun_phrases("grounds", "the this", described="big small pretty"),
    *CITY,
]
REACHED = noun_phrases("sites house hotel", "the this")
WORKPLACES = happening_at("offices sights hotel stops", "the this that")
LODGINGS = [*happening_at("houses", "the this that our"), *beside([("in", "en")], CITY)]
STUDIES = happening_at("school library house rooms", "the this our")
TABLES = happening_at("restaurant rooms grounds offices", "the this")
OUTSIDE = happening_at("grounds garden", "the this that")
NEAR, BEHIND = ("near", "cerca de"), ("behind", "detrás de")
NEXT_TO, IN_FRONT_OF = ("next to", "al lado de"), ("in front of", "delante de")
DWELLINGS = [
    *beside([("in", "en")], CITY),
    *beside([("in", "en")], noun_phrases("houses", "a this that", described="scenic")),
    *beside([NEAR, BEHIND, NEXT_TO], noun_phrases("sites", "the")),
]
TONGUES = [Phrase(*tongue, close=True) for tongue in LANGUAGES]


def company(persons: Sequence[Phrase]) -> list[Phrase]:
    """With whom something is done."""
    return beside([("with", "con")], persons)


def deeds(persons: Sequence[Phrase]) -> list[Phrase]:
    """What one may want, have or be able to do, some of it to or with these persons."""
    return _done(
        ("eat", noun_phrases("dishes provisions", "-")),
        ("drink", noun_phrases("drinks", "-")),
        ("read", noun_phrases("writings press", "the this")),
        ("write", noun_phrases("writings", "a the")),
        ("buy", noun_phrases("goods belongings", "a the")),
        ("sell", noun_phrases("carriages", "the this")),
        ("wash", noun_phrases("clothes", "the my", "the")),
        ("open close", noun_phrases("openings", "the", "the")),
        ("take", noun_phrases("lines", "the this")),
        ("visit", [*noun_phrases("sights", "the this"), *CITY]),
        ("go_to", noun_phrases("sites", "the")),
        ("study", TONGUES),
        ("work", happening_at("offices sights")),
        ("see help call", persons),
        ("speak", company(persons)),
    )


def pastimes(persons: Sequence[Phrase]) -> list[Phrase]:
    """What one may like to do, some of it with these persons."""
    return _done(
        ("read write run study sleep", [NO_OBJECT]),
        ("eat", noun_phrases("dishes provisions", "-")),
        ("drink", noun_phrases("drinks", "-")),
        ("read", noun_phrases("writings press", many="-")),
        ("write", noun_phrases("writings", many="-")),
        ("buy", noun_phrases("clothes flowers", many="-")),
        ("visit", noun_phrases("museum church library", many="-")),
        ("go_to", noun_phrases("sights grounds", "the")),
        ("study speak", TONGUES),
        ("run play", OUTSIDE),
        ("speak work", company(persons)),
    )


def _done(*rows: tuple[str, Sequence[Phrase]]) -> list[Phrase]:
    return [to_do(verb, thing) for names, things in rows for verb in verbs(names) for thing in things]
