"""What the sentences of the phrase book are about: things that one eats, reads, sells, visits, wants to do."""

from collections.abc import Sequence

from glassformer.data.phrases import grammar
from glassformer.data.phrases.grammar import Phrase, beside, happening_at, joined, noun_phrases, phrases
from glassformer.data.phrases.words import CITIES, LANGUAGES, pairs, verbs


def given(things: Sequence[Phrase], receivers: Sequence[Phrase]) -> list[Phrase]:
    """What is given and to whom; Spanish announces the receiver before the verb."""
    return [
        Phrase(f"{thing} to {to.english}", f"{cosa} {joined('a', to.spanish)}", clitic=grammar.CLITICS[to.number])
        for thing, cosa, *_ in things
        for to in receivers
    ]


# Food and drink.
_MEALS = ("bread cheese", "meat rice", "fish rice", "chicken rice", "cheese fruit", "soup bread")
EATABLE = phrases("""
    foods | the this that | - the these; dishes provisions | - the this; fish provisions | - the | | fresh
    foods | | - the | fresh
""") + [grammar.together(*noun_phrases(meal, "-")) for meal in _MEALS]
ORDERED = phrases("dishes | - the this; egg | | - the these")
DRINKABLE = phrases("""
    drinks | - the this that; water milk coffee tea | - the this | | hot
    water milk tea juice wine | - the this | | cold
""")

# Things to read, to carry, to buy, to wear, to open, to ride.
READABLE = phrases("""
    writings press | the this that my your | the these my; writings | the this | the | literary
    press | the that | the | interesting boring new old
""")
WRITABLE = phrases("writings | the this that | the these those; writings | the this | the | interesting long short")
CARRIED = phrases("belongings | the my your | the my your; belongings | the my | | colors")
SOLD = phrases("""
    goods flowers | the this that | the these those; goods | the | | painted; flowers | | the | red white yellow
""")
COUNTED = phrases("""
    goods flowers belongings | a | two three four many; goods belongings | a | | painted; goods | | two | colors
    flowers | a | two three many | red white yellow
""")
SERVINGS = phrases("foods | a | two three four five many; foods | | two | fresh")
PAGES = phrases("writings | a | two three four many; writings | a | two | literary")
WASHED = phrases("clothes carriages | the my your | the my your; clothes carriages | the | the | colors")
OPENED = phrases("openings | the this that | the these those; openings | the | the | colors big small")
RIDDEN = phrases("lines | the this that; train bus | the | | colors")
HELD = phrases("""
    dog cat horse carriages | a | | looks; house | a | | scenic white; sister brother offspring animals press | a
    belongings writings | a the my your | the my your
""")
HELD_MANY = phrases("""
    sister brother offspring | | two three four five
    animals writings belongings | | two three four five six ten many; dog cat horse carriages | | two three | looks
""")
TOKENS = phrases("writings bag key watch | the a this; flowers | | the these two")


def worn(clothes: str) -> list[Phrase]:
    """What one person wears."""
    return phrases(f"{clothes} | the my this that; {clothes} | the my a | | painted")


# Places.
IN, ON, UNDER = pairs("in = en; on = en; under = debajo de")
NEAR, BEHIND, NEXT_TO, IN_FRONT_OF = pairs(
    "near = cerca de; behind = detrás de; next to = al lado de; in front of = delante de"
)
CITY = [Phrase(*city) for city in CITIES]
SEEN = (
    phrases("""
    sights grounds | the this that | the these those
    sights | the this | | scenic
    grounds | the this | | big small pretty
""")
    + CITY
)
REACHED = noun_phrases("sites house hotel", "the this")
WORKPLACES = happening_at("offices sights hotel stops", "the this that")
LODGINGS = [*happening_at("houses", "the this that our"), *beside([IN], CITY)]
STUDIES = happening_at("school library house rooms", "the this our")
TABLES = happening_at("restaurant rooms grounds offices", "the this")
OUTSIDE = happening_at("grounds garden", "the this that")
DWELLINGS = [
    *beside([IN], CITY),
    *beside([IN], noun_phrases("houses", "a this that", described="scenic")),
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
        ("read write run study sleep", [grammar.NO_OBJECT]),
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
    return [grammar.to_do(verb, thing) for names, things in rows for verb in verbs(names) for thing in things]
