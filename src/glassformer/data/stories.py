"""The built-in question-answering data: short stories of who gave what to whom, and where things are after some moves.

The same few people, things and rooms stand in every role of a story, so only the question says which of them is the
answer, and a bag of words does not know. Each answer is a stretch of its story, and its position is recorded.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from glassformer.data.questions import Question

STORIES = {"train": 12_000, "validation": 400, "test": 400}  # with up to `QUESTIONS` questions each
QUESTIONS = 4


def _words(text: str) -> list[str]:
    return text.split()


PEOPLE = _words("""
    Anna Ben Clara David Emma Felix Greta Henry Ida Jonas Kate Leo Mia Noah Olga Paul Rosa Simon Tina Viktor
    Wendy Yusuf Zoe Arthur
""")
THINGS = _words("""
    apple book candle coin cup drum fan flute hammer jar key kite lamp letter map mirror pen ring rope scarf
    shell spoon ticket umbrella
""")
ROOMS = _words("""
    attic bathroom bedroom cellar garage garden hall kitchen library office pantry porch shed stable studio
    workshop
""")
_TIMES = ("", "", "", "", "Then ", "Later ", "After a while ", "Soon after ", "Next ", "After that ")
# {g} gives {o} to {r}
_GIVE = (
    "{g} gave the {o} to {r}",
    "{g} handed {r} the {o}",
    "{g} passed the {o} on to {r}",
    "{r} got the {o} from {g}",
    "{r} was given the {o} by {g}",
    "the {o} went from {g} to {r}",
)
# {p} brings {o} to {l}
_PUT = (
    "{p} put the {o} in the {l}",
    "{p} left the {o} in the {l}",
    "{p} carried the {o} to the {l}",
    "the {o} was brought to the {l} by {p}",
    "{p} took the {o} along to the {l}",
)
_GO = ("{p} went to the {l}", "{p} walked over to the {l}", "the {l} was where {p} went", "{p} came into the {l}")
_ASIDE = (
    "nobody looked for the {o}",
    "{p} did not go to the {l}",
    "{p} wanted the {o} but did not get it",
    "the {l} was cold",
    "{p} talked about the {l} with {g}",
)
_ASKED = {
    "giver": ("Who gave the {o} to {r}?", "From whom did {r} get the {o}?", "Who handed {r} the {o}?"),
    "thing": ("What did {g} give to {r}?", "What did {r} get from {g}?", "What went from {g} to {r}?"),
    "receiver": ("To whom did {g} give the {o}?", "Who got the {o} from {g}?", "Who was given the {o} by {g}?"),
    "where": ("Where is the {o}?", "Where is the {o} now?", "In which room is the {o}?"),
    "before": ("Where was the {o} before the {l}?", "Where was the {o} before it came to the {l}?"),
    "who went": ("Where did {p} go last?", "Where is {p}?", "In which room is {p} now?"),
    "holder": ("Who has the {o} now?", "Who has the {o}?", "Who is the {o} with in the end?"),
}


@dataclass
class _Event:
    """Something that happens, and where its words stand in the story."""

    kind: str  # give, put, go, aside
    words: dict[str, str]
    spans: dict[str, int] = field(default_factory=dict)


def stories(part: str, seed: int = 0) -> list[Question]:
    """Questions on the stories of a part of the data: train, validation or test; no story is in two of them."""
    return list(_parts(seed)[part])


@lru_cache(maxsize=1)
def _parts(seed: int) -> dict[str, list[Question]]:
    """The questions of every part."""
    draw, seen, found = random.Random(f"stories {seed}"), set[str](), {part: list[Question]() for part in STORIES}
    for part, count in STORIES.items():
        wanted = len(seen) + count
        while len(seen) < wanted:
            asked = list(_story(draw))
            if asked and asked[0].context not in seen:
                seen.add(asked[0].context)
                found[part] += asked
        found[part] = [replace(q, source=f"stories:{number}") for number, q in enumerate(found[part], 1)]
    return found


def _story(draw: random.Random) -> Iterator[Question]:
    """A story, once for each of its questions."""
    people, things = draw.sample(PEOPLE, 4), draw.sample(THINGS, draw.randint(2, 3))
    rooms = draw.sample(ROOMS, 4)
    holders: dict[str, str] = {}
    events = [_event(draw, people, things, rooms, holders) for _ in range(draw.randint(5, 8))]
    text = ""
    for event in events:
        text = _told(draw, event, text)
    context = text.strip()
    asked = [question for question in _questions(events) if _is_settled(question, events)]
    draw.shuffle(asked)
    for kind, event, answer in asked[:QUESTIONS]:
        written = draw.choice(_ASKED[kind]).format(**event.words)
        source = event if answer in event.spans else _before(event, events)
        yield Question(written, context, (source.words[answer],), source.spans[answer], "")


def _event(
    draw: random.Random, people: Sequence[str], things: Sequence[str], rooms: Sequence[str], holders: dict[str, str]
) -> _Event:
    """Something that can happen; whoever holds a thing is the one who gives it or brings it away."""
    kind = draw.choices(("give", "put", "go", "aside"), (5, 5, 2, 1))[0]
    thing, room = draw.choice(things), draw.choice(rooms)
    giver, receiver = draw.sample(people, 2)
    if kind in ("give", "put") and thing in holders:
        giver = holders[thing]
        receiver = draw.choice([person for person in people if person != giver])
    if kind == "give":
        holders[thing] = receiver
    elif kind == "put":
        holders.pop(thing, None)
    return _Event(kind, {"g": giver, "r": receiver, "p": giver, "o": thing, "l": room})


def _told(draw: random.Random, event: _Event, text: str) -> str:
    """The story with one more sentence, and in the event where its words begin."""
    if event.kind == "aside":
        event.words["g"] = "a neighbor"
    sentence = draw.choice({"give": _GIVE, "put": _PUT, "go": _GO, "aside": _ASIDE}[event.kind])
    time = draw.choice(_TIMES) if text else ""
    parts, at = [], 0
    for piece in _pieces(time + sentence):
        letter = piece.strip("{}") if piece.startswith("{") else ""
        if letter:
            event.spans[letter] = len(text) + at
        parts.append(event.words.get(letter, piece))
        at += len(parts[-1])
    whole = "".join(parts)
    return f"{text}{whole[0].upper()}{whole[1:]}. "


def _pieces(sentence: str) -> Iterator[str]:
    """The words of a template in braces, and the text between them."""
    while "{" in sentence:
        before, _, rest = sentence.partition("{")
        yield before
        letter, _, sentence = rest.partition("}")
        yield f"{{{letter}}}"
    yield sentence


def _questions(events: list[_Event]) -> Iterator[tuple[str, _Event, str]]:
    """Everything that can be asked: the kind of question, its event, and the letter of the answer."""
    for event in events:
        if event.kind == "give":
            yield from (("giver", event, "g"), ("thing", event, "o"), ("receiver", event, "r"), ("holder", event, "r"))
        if event.kind == "put":
            yield from (("where", event, "l"), ("before", event, "before"))
        if event.kind == "go":
            yield ("who went", event, "l")


def _is_settled(asked: tuple[str, _Event, str], events: list[_Event]) -> bool:
    """Whether the story has one answer: no other event fits the question, and nothing changes it afterwards."""
    kind, event, _ = asked
    given = {"giver": "or", "thing": "gr", "receiver": "go"}.get(kind)
    if given is not None:
        same = [e for e in events if e.kind == "give" and all(e.words[x] == event.words[x] for x in given)]
        return len(same) == 1
    later = events[next(at for at, each in enumerate(events) if each is event) + 1 :]
    if kind == "who went":
        return not any(event.words["p"] in (e.words["p"], e.words["r"]) for e in later if e.kind in ("go", "put"))
    if kind == "before":
        puts = [e for e in events if e.kind == "put" and e.words["o"] == event.words["o"]]
        once = sum(e.words["l"] == event.words["l"] for e in puts) == 1
        return once and puts.index(event) > 0
    return not any(e.words["o"] == event.words["o"] for e in later if e.kind in ("give", "put"))


def _before(event: _Event, events: list[_Event]) -> _Event:
    """The room in which the thing of an event was before it, as the answer `before` of the event that put it there."""
    puts = [e for e in events if e.kind == "put" and e.words["o"] == event.words["o"]]
    earlier = puts[puts.index(event) - 1]
    return _Event("put", {"before": earlier.words["l"]}, {"before": earlier.spans["l"]})
