"""What the sentences of the phrase book are about: things that one eats, reads, sells, visits, wants to do."""

from collections.abc import Sequence

from glassformer.data.phrases import words as word
from glassformer.data.phrases.grammar import CLITICS, Phrase, inside, joined, noun_phrase, noun_phrases, to_do, together
from glassformer.data.phrases.words import Noun


def happening_at(nouns: Sequence[Noun], determiners: str = "the") -> list[Phrase]:
    """Places where something happens: in the park, at the station."""
    return [inside(place, noun) for noun in nouns for place in noun_phrases([noun], determiners)]


def beside(prepositions: Sequence[tuple[str, str]], places: Sequence[Phrase]) -> list[Phrase]:
    """Places by what is next to them: near the park, behind the station."""
    return [
        Phrase(f"{english} {place.english}", joined(spanish, place.spanish))
        for english, spanish in prepositions
        for place in places
    ]


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


# Adjectives that fit many things.
PAINTED = (*word.COLORS, word.NEW, word.OLD)
SCENIC = (word.NEW, word.OLD, word.BIG, word.SMALL, word.PRETTY)

# Food and drink.
_MEALS = (
    (word.BREAD, word.CHEESE),
    (word.MEAT, word.RICE),
    (word.FISH, word.RICE),
    (word.CHICKEN, word.RICE),
    (word.CHEESE, word.FRUIT),
    (word.SOUP, word.BREAD),
)
EATABLE = [
    *noun_phrases(word.FOODS, "the this that", "- the these"),
    *noun_phrases((*word.DISHES, *word.PROVISIONS), "- the this"),
    *noun_phrases((word.FISH, *word.PROVISIONS), "- the", adjectives=[word.FRESH]),
    *noun_phrases(word.FOODS, many="- the", adjectives=[word.FRESH]),
    *(together(noun_phrase(one, ""), noun_phrase(other, "")) for one, other in _MEALS),
]
ORDERED = [*noun_phrases(word.DISHES, "- the this"), *noun_phrases([word.EGG], many="- the these")]
DRINKABLE = [
    *noun_phrases(word.DRINKS, "- the this that"),
    *noun_phrases((word.WATER, word.MILK, word.COFFEE, word.TEA), "- the this", adjectives=[word.HOT]),
    *noun_phrases((word.WATER, word.MILK, word.TEA, word.JUICE, word.WINE), "- the this", adjectives=[word.COLD]),
]

# Things to read, to carry, to buy, to wear, to open, to ride.
READABLE = [
    *noun_phrases((*word.WRITINGS, *word.PRESS), "the this that my your", "the these my"),
    *noun_phrases(word.WRITINGS, "the this", "the", word.OF_WRITINGS),
    *noun_phrases(word.PRESS, "the that", "the", (word.INTERESTING, word.BORING, word.NEW, word.OLD)),
]
WRITABLE = [
    *noun_phrases(word.WRITINGS, "the this that", "the these those"),
    *noun_phrases(word.WRITINGS, "the this", "the", (word.INTERESTING, word.LONG, word.SHORT)),
]
CARRIED = [
    *noun_phrases(word.BELONGINGS, "the my your", "the my your"),
    *noun_phrases(word.BELONGINGS, "the my", adjectives=word.COLORS),
]
_BLOOMING = (word.RED, word.WHITE, word.YELLOW)
GOODS = (*word.CLOTHES, *word.FURNITURE, *word.CARRIAGES)
SOLD = [
    *noun_phrases((*GOODS, *word.FLOWERS), "the this that", "the these those"),
    *noun_phrases(GOODS, "the", adjectives=PAINTED),
    *noun_phrases(word.FLOWERS, many="the", adjectives=_BLOOMING),
]
COUNTED = [
    *noun_phrases((*GOODS, *word.FLOWERS, *word.BELONGINGS), "a", "two three four many"),
    *noun_phrases((*GOODS, *word.BELONGINGS), "a", "", PAINTED),
    *noun_phrases(GOODS, many="two", adjectives=word.COLORS),
    *noun_phrases(word.FLOWERS, "a", "two three many", _BLOOMING),
]
SERVINGS = [
    *noun_phrases(word.FOODS, "a", "two three four five many"),
    *noun_phrases(word.FOODS, "", "two", [word.FRESH]),
]
PAGES = [
    *noun_phrases(word.WRITINGS, "a", "two three four many"),
    *noun_phrases(word.WRITINGS, "a", "two", word.OF_WRITINGS),
]
WASHED = [
    *noun_phrases((*word.CLOTHES, *word.CARRIAGES), "the my your", "the my your"),
    *noun_phrases((*word.CLOTHES, *word.CARRIAGES), "the", "the", word.COLORS),
]
OPENED = [
    *noun_phrases(word.OPENINGS, "the this that", "the these those"),
    *noun_phrases(word.OPENINGS, "the", "the", (*word.COLORS, word.BIG, word.SMALL)),
]
RIDDEN = [
    *noun_phrases(word.LINES, "the this that"),
    *noun_phrases((word.TRAIN, word.BUS), "the", adjectives=word.COLORS),
]
LOOKS = (word.OLD, word.BIG, word.SMALL, word.BLACK, word.WHITE)
_LIVELY = (word.DOG, word.CAT, word.HORSE, *word.CARRIAGES)
HELD = [
    *noun_phrases(_LIVELY, "a", adjectives=LOOKS),
    *noun_phrases([word.HOUSE], "a", adjectives=(*SCENIC, word.WHITE)),
    *noun_phrases((word.SISTER, word.BROTHER, *word.CHILDREN, *word.ANIMALS, *word.PRESS), "a"),
    *noun_phrases((*word.BELONGINGS, *word.WRITINGS), "a the my your", "the my your"),
]
HELD_MANY = [
    *noun_phrases((word.SISTER, word.BROTHER, *word.CHILDREN), many="two three four five"),
    *noun_phrases((*word.ANIMALS, *word.WRITINGS, *word.BELONGINGS), many="two three four five six ten many"),
    *noun_phrases(_LIVELY, many="two three", adjectives=LOOKS),
]
TOKENS = (
    *noun_phrases((*word.WRITINGS, word.BAG, word.KEY, word.WATCH), "the a this"),
    *noun_phrases(word.FLOWERS, many="the these two"),
)


def worn(clothes: Sequence[Noun]) -> list[Phrase]:
    """What one person wears."""
    return [*noun_phrases(clothes, "the my this that"), *noun_phrases(clothes, "the my a", adjectives=PAINTED)]


# Places.
SITES = (*word.SIGHTS, *word.GROUNDS, *word.OFFICES, *word.STOPS)
CITY = [Phrase(*city) for city in word.CITIES]
SEEN = [
    *noun_phrases((*word.SIGHTS, *word.GROUNDS), "the this that", "the these those"),
    *noun_phrases(word.SIGHTS, "the this", adjectives=SCENIC),
    *noun_phrases(word.GROUNDS, "the this", adjectives=(word.BIG, word.SMALL, word.PRETTY)),
    *CITY,
]
REACHED = noun_phrases((*SITES, word.HOUSE, word.HOTEL), "the this")
WORKPLACES = happening_at((*word.OFFICES, *word.SIGHTS, word.HOTEL, *word.STOPS), "the this that")
LODGINGS = [*happening_at(word.HOUSES, "the this that our"), *beside([("in", "en")], CITY)]
STUDIES = happening_at((word.SCHOOL, word.LIBRARY, word.HOUSE, *word.ROOMS), "the this our")
TABLES = happening_at((word.RESTAURANT, *word.ROOMS, *word.GROUNDS, *word.OFFICES), "the this")
OUTSIDE = happening_at((*word.GROUNDS, word.GARDEN), "the this that")
NEAR, BEHIND = ("near", "cerca de"), ("behind", "detrás de")
NEXT_TO, IN_FRONT_OF = ("next to", "al lado de"), ("in front of", "delante de")
DWELLINGS = [
    *beside([("in", "en")], CITY),
    *beside([("in", "en")], noun_phrases(word.HOUSES, "a this that", adjectives=SCENIC)),
    *beside([NEAR, BEHIND, NEXT_TO], noun_phrases(SITES, "the")),
]
TONGUES = [Phrase(*tongue, close=True) for tongue in word.LANGUAGES]


def company(persons: Sequence[Phrase]) -> list[Phrase]:
    """With whom something is done."""
    return beside([("with", "con")], persons)


def deeds(persons: Sequence[Phrase]) -> list[Phrase]:
    """What one may want, have or be able to do, some of it to or with these persons."""
    done = (
        (word.EAT, noun_phrases((*word.DISHES, *word.PROVISIONS), "-")),
        (word.DRINK, noun_phrases(word.DRINKS, "-")),
        (word.READ, noun_phrases((*word.WRITINGS, *word.PRESS), "the this")),
        (word.WRITE, noun_phrases(word.WRITINGS, "a the")),
        (word.BUY, noun_phrases((*GOODS, *word.BELONGINGS), "a the")),
        (word.SELL, noun_phrases(word.CARRIAGES, "the this")),
        (word.WASH, noun_phrases(word.CLOTHES, "the my", "the")),
        (word.OPEN, noun_phrases(word.OPENINGS, "the", "the")),
        (word.CLOSE, noun_phrases(word.OPENINGS, "the", "the")),
        (word.TAKE, noun_phrases(word.LINES, "the this")),
        (word.VISIT, [*noun_phrases(word.SIGHTS, "the this"), *CITY]),
        (word.GO_TO, noun_phrases(SITES, "the")),
        (word.STUDY, TONGUES),
        (word.WORK, happening_at((*word.OFFICES, *word.SIGHTS))),
        (word.SEE, persons),
        (word.HELP, persons),
        (word.CALL, persons),
        (word.SPEAK, company(persons)),
    )
    return [to_do(verb, thing) for verb, things in done for thing in things]


def pastimes(persons: Sequence[Phrase]) -> list[Phrase]:
    """What one may like to do, some of it with these persons."""
    done = (
        (word.EAT, noun_phrases((*word.DISHES, *word.PROVISIONS), "-")),
        (word.DRINK, noun_phrases(word.DRINKS, "-")),
        (word.READ, noun_phrases((*word.WRITINGS, *word.PRESS), many="-")),
        (word.WRITE, noun_phrases(word.WRITINGS, many="-")),
        (word.BUY, noun_phrases((*word.CLOTHES, *word.FLOWERS), many="-")),
        (word.VISIT, noun_phrases((word.MUSEUM, word.CHURCH, word.LIBRARY), many="-")),
        (word.GO_TO, noun_phrases((*word.SIGHTS, *word.GROUNDS), "the")),
        (word.STUDY, TONGUES),
        (word.SPEAK, TONGUES),
        (word.RUN, OUTSIDE),
        (word.PLAY, OUTSIDE),
        (word.SPEAK, company(persons)),
        (word.WORK, company(persons)),
    )
    alone = (word.READ, word.WRITE, word.RUN, word.STUDY, word.SLEEP)
    return [*map(to_do, alone), *(to_do(verb, thing) for verb, things in done for thing in things)]
