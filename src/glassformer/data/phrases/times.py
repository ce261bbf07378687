"""When things happen in the phrase book, and in what weather."""

from collections.abc import Iterator, Sequence

from glassformer.data.phrases import objects as thing
from glassformer.data.phrases import subjects as who
from glassformer.data.phrases import words as word
from glassformer.data.phrases.actions import Template
from glassformer.data.phrases.grammar import (
    COUNTS,
    NO_OBJECT,
    PRONOUNS,
    Clauses,
    Frame,
    Phrase,
    SentencePair,
    noun_phrases,
    sentence,
    spaced,
)


def time_templates() -> dict[str, Template]:
    """Every kind of sentence about the clock, the calendar and the weather."""
    return {**_hour_templates(), **_weather_templates()}


def _hours() -> list[SentencePair]:
    """The hours of the clock, whole, half and quarter, as they stand after `it is` and `at`."""
    numbers = [("one", "la una"), *((english, f"las {spanish}") for english, spanish in list(COUNTS.items())[:11])]
    return [
        hour
        for english, spanish in numbers
        for hour in (
            (f"{english} o'clock", spanish),
            (f"half past {english}", f"{spanish} y media"),
            (f"a quarter past {english}", f"{spanish} y cuarto"),
            (f"a quarter to {english}", f"{spanish} menos cuarto"),
        )
    ]


def _hour_templates() -> dict[str, Template]:
    at = [Phrase(f"at {english}", f"a {spanish}") for english, spanish in _hours()]
    lines, doors = noun_phrases(word.LINES, "the this that"), noun_phrases((*word.SIGHTS, word.MARKET), "the this that")
    arrive, leave, back = (verb._replace(after=("", "")) for verb in (word.ARRIVE_AT, word.LEAVE, word.RETURN_FROM))
    daily = (word.EAT, word.STUDY, word.WORK, arrive, leave, back)
    what_time = [frame._replace(word=("what time", "a qué hora")) for frame in (who.QUESTION, who.FUTURE_QUESTION)]
    whole = (Frame(), who.EVERY_DAY, who.COMING, who.COMING_TOMORROW)
    days = [Frame("future", time=(f"on {english}", f"el {spanish}")) for english, spanish in word.DAYS]
    days += [Frame("past", time=(f"last {english}", f"el {spanish} pasado")) for english, spanish in word.DAYS[:5]]
    today = (Phrase("today", "hoy"), Phrase("tomorrow", "mañana"))
    return {
        "clock": list(_clock()),
        "timetables": [
            *Clauses(lines, (leave, arrive), at, whole),
            *Clauses(doors, (word.OPEN, word.CLOSE), at, whole),
        ],
        "what time": [
            *Clauses(lines, (leave, arrive), [NO_OBJECT], what_time),
            *Clauses(doors, (word.OPEN, word.CLOSE), [NO_OBJECT], what_time),
            *Clauses((*who.ASKED, *who.CAST), daily, [NO_OBJECT], what_time),
        ],
        "daily hours": Clauses((*PRONOUNS, *who.FOLK[::4]), daily, at[::3], whole),
        "weekdays": Clauses(PRONOUNS, (word.GO_TO,), noun_phrases(thing.SITES, "the that"), days),
        "dates": Clauses(today, (word.BE_KIND,), [Phrase(*day) for day in word.DAYS], who.STATED),
    }


def _clock() -> Iterator[SentencePair]:
    """What time it is, with the part of the day where it can be told."""
    parts = {("in the morning", "de la mañana"): range(5, 12), ("in the afternoon", "de la tarde"): range(1, 8)}
    parts[("at night", "de la noche")] = range(9, 12)
    for place, (english, spanish) in enumerate(_hours()):
        is_ = "es" if spanish.startswith("la una") else "son"
        yield sentence(f"it is {english}", f"{is_} {spanish}")
        for (part, parte), hours in parts.items():
            if place // 4 + 1 in hours:
                yield sentence(f"it is {english} {part}", f"{is_} {spanish} {parte}")


def _weather_templates() -> dict[str, Template]:
    """The weather: what it is in English, Spanish makes."""
    it = Phrase("it", "")
    places = [
        NO_OBJECT,
        *thing.beside([("in", "en")], thing.CITY),
        *thing.happening_at((*word.GROUNDS, word.GARDEN)),
    ]
    sky = (("cold", "frío"), ("hot", "calor"), ("windy", "viento"), ("sunny", "sol"))
    felt = [*sky, *((f"very {english}", f"mucho {spanish}") for english, spanish in sky)]
    seasons = (*who.FREQUENT, *who.DONE, *who.NOT_DONE, who.COMING, *who.SOON, who.NOT_COMING)

    def somewhere(pairs: Sequence[SentencePair]) -> list[Phrase]:
        return [
            Phrase(spaced(english, place.english), spaced(spanish, place.spanish))
            for english, spanish in pairs
            for place in places
        ]

    return {
        "weather": Clauses([it], (word.BE_WEATHER,), somewhere(felt), (*who.STATED, who.TODAY, *who.SOON)),
        "rain": [
            *Clauses([it], (word.BE_STATE,), somewhere([("raining", "lloviendo")]), (*who.STATED, who.TODAY)),
            *Clauses([it], (word.RAIN,), places, seasons),
        ],
    }
