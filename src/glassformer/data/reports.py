"""The built-in summarization data: short reports of an event, and the one sentence that says what happened.

A report gives its facts in any order, in several wordings, beside other names, days and places of the same kind, and it
takes back some of what it said: neither its first sentence nor the words it consists of say which facts are true.
"""

import random
from dataclasses import dataclass
from functools import lru_cache

REPORTS = {"train": 24_000, "validation": 500, "test": 500}
Report = tuple[str, str]  # the text and its summary


def _words(text: str) -> list[str]:
    return text.split()


PEOPLE = _words("""
    Adams Baker Carter Dixon Evans Foster Grant Harris Irving Jensen Keller Lopez Meyer Nolan Owens Porter Quinn
    Reyes Silva Turner Ulrich Vargas Weber Young
""")
TOWNS = _words("""
    Aldbury Brookton Crestwood Dunmore Eastfield Fairhaven Glenwood Hillcrest Kingsley Lakeside Millbrook
    Northgate Oakdale Pinehurst Riverton Stonebridge
""")
DAYS = _words("""
    Monday Tuesday Wednesday Thursday Friday Saturday Sunday
""")
_NUMBERS = _words("""
    two three four five six seven eight nine ten twelve twenty thirty
""")


@dataclass(frozen=True)
class _Kind:
    """A kind of event: its core sentences, its summary, and what may be the matter of it."""

    told: tuple[str, ...]
    summary: str
    matters: tuple[str, ...]


_KINDS = (
    _Kind(
        ("{who} opened the new {what}", "the new {what} was opened by {who}", "it was {who} who opened the new {what}"),
        "{who} opened the {what} in {town} on {day}.",
        ("library", "bridge", "school", "market", "museum", "station"),
    ),
    _Kind(
        ("{who} repaired the {what}", "the {what} was repaired by {who}", "repairs to the {what} were made by {who}"),
        "{who} repaired the {what} in {town} on {day}.",
        ("clock", "roof", "pump", "organ", "fountain", "road"),
    ),
    _Kind(
        ("{who} won the {what}", "the {what} was won by {who}", "first in the {what} was {who}"),
        "{who} won the {what} in {town} on {day}.",
        ("race", "regatta", "chess cup", "bake-off", "marathon", "quiz"),
    ),
    _Kind(
        ("{who} sold the {what}", "the {what} was sold by {who}", "the seller of the {what} was {who}"),
        "{who} sold the {what} in {town} on {day}.",
        ("farm", "mill", "boat", "painting", "orchard", "bakery"),
    ),
    _Kind(
        ("{who} found the lost {what}", "the lost {what} was found by {who}", "{who} came upon the lost {what}"),
        "{who} found the {what} in {town} on {day}.",
        ("ring", "dog", "diary", "statue", "bell", "map"),
    ),
)
# A fact as it is said; {town} and {day} are the true ones, {other} is one of the same kind that is not.
_WHERE = (
    "This took place in {town}",
    "All of it happened in {town}",
    "The scene was {town}, not {other}",
    "People in {town} saw it with their own eyes",
)
_WHEN = (
    "That was on {day}",
    "It happened on {day}",
    "The date was {day}, not {other}",
    "It had been planned for {other} and was moved to {day}",
)
_WRONG_WHERE = (
    "At first {other} was named as the town, but in fact it was {town}",
    "It was not in {other}, as the paper had it, but in {town}",
)
_WRONG_WHEN = (
    "Some said it was {other}; in fact it was {day}",
    "The paper wrote {other}, which was wrong: it was {day}",
)
_WRONG_WHO = (
    "It was not {other} who did it, as was first reported, but {who}",
    "The paper named {other}, but it was {who}",
)
_ASIDES = (
    "{person} from {place} could not come",
    "Last year {person} had tried the same in {place}",
    "{person} will visit {place} next {date}",
    "The weather in {place} was fine",
    "About {number} people watched",
    "{person} said nothing about it",
    "It rained on {date}",
    "The mayor of {place}, {person}, was pleased",
    "Nothing like it is planned in {place}",
)


def reports(part: str, seed: int = 0) -> list[Report]:
    """Reports with their summaries of a part of the data: train, validation or test; no report is in two of them."""
    first = sum(REPORTS[earlier] for earlier in list(REPORTS)[: list(REPORTS).index(part)])
    return _all(seed)[first : first + REPORTS[part]]


@lru_cache(maxsize=1)
def _all(seed: int) -> list[Report]:
    """The reports of all parts, each once."""
    found, draw = dict[str, str](), random.Random(f"reports {seed}")
    while len(found) < sum(REPORTS.values()):
        text, summary = _report(draw)
        found[text] = summary
    return list(found.items())


def _report(draw: random.Random) -> Report:
    kind = draw.choice(_KINDS)
    who, other_who, *people = draw.sample(PEOPLE, 4)
    town, other_town, *towns = draw.sample(TOWNS, 4)
    day, other_day, *dates = draw.sample(DAYS, 4)
    facts = {"who": who, "town": town, "day": day, "what": draw.choice(kind.matters)}
    core = draw.choice(kind.told).format(**facts)
    if draw.random() < 1 / 3:  # first reported wrongly
        core = draw.choice(kind.told).format(**{**facts, "who": other_who})
        later = [draw.choice(_WRONG_WHO).format(other=other_who, **facts)]
    else:
        later = []
    where, when = (
        draw.choice(wrong if draw.random() < 1 / 3 else right).format(other=other, **facts)
        for right, wrong, other in ((_WHERE, _WRONG_WHERE, other_town), (_WHEN, _WRONG_WHEN, other_day))
    )
    asides = [
        text.format(
            person=draw.choice(people), place=draw.choice(towns), date=draw.choice(dates), number=draw.choice(_NUMBERS)
        )
        for text in draw.sample(_ASIDES, draw.randint(1, 3))
    ]
    return _arranged(draw, core, [where, when, *later], asides), kind.summary.format(**facts)


def _arranged(draw: random.Random, core: str, facts: list[str], asides: list[str]) -> str:
    """A text in which every fact comes after the event that it is about, and remarks stand anywhere."""
    draw.shuffle(facts)
    sentences = [core, *facts]
    for aside in asides:
        sentences.insert(draw.randint(0, len(sentences)), aside)
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences)
