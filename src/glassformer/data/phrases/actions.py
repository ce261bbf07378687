"""What people and animals do in the phrase book: verbs with subjects and objects that make sense together."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from glassformer.data.phrases import objects as thing
from glassformer.data.phrases import subjects as who
from glassformer.data.phrases import words as word
from glassformer.data.phrases.grammar import (
    HE,
    LISTENER,
    NO_OBJECT,
    ONE,
    PRONOUNS,
    SEVERAL,
    SHE,
    SPEAKER,
    WHO,
    Clauses,
    Frame,
    Phrase,
    SentencePair,
    as_persons,
    chained,
    liking,
    noun_phrase,
    noun_phrases,
    sentence,
    to_do,
)
from glassformer.data.phrases.words import Verb

Template = Sequence[SentencePair]


class Family(NamedTuple):
    """Verbs that share their objects, and how one states and asks what they say."""

    name: str
    verbs: tuple[Verb, ...]
    things: Sequence[Phrase]
    frames: Sequence[Frame] = who.ONCE
    asking: Sequence[Frame] = who.SEARCHING
    people: Sequence[Phrase] = who.FOLK


FAMILIES = (
    Family("food", (word.EAT, word.BUY, word.BRING), thing.EATABLE, who.OFTEN, who.WONDERING),
    Family("dishes", (word.ORDER,), thing.ORDERED, who.OFTEN),
    Family("drinks", (word.DRINK, word.ORDER), thing.DRINKABLE, who.OFTEN, people=who.ADULTS),
    Family("reading", (word.READ,), thing.READABLE, who.OFTEN),
    Family("writing", (word.WRITE,), thing.WRITABLE),
    Family("belongings", (word.FIND, word.LOOK_FOR), thing.CARRIED),
    Family("goods", (word.BUY, word.SELL), thing.SOLD),
    Family("washing", (word.WASH,), thing.WASHED),
    Family("openings", (word.OPEN, word.CLOSE), thing.OPENED, asking=who.WONDERING),
    Family("riding", (word.TAKE, word.WAIT_FOR), thing.RIDDEN, who.OFTEN),
    Family("sights", (word.SEE, word.VISIT), thing.SEEN, asking=who.TIMING),
    Family("going", (word.GO_TO, word.ARRIVE_AT, word.RETURN_FROM), thing.REACHED, who.OFTEN, who.TIMING),
    Family("working", (word.WORK,), thing.WORKPLACES, who.OFTEN, who.WONDERING, who.ADULTS),
    Family("studying", (word.STUDY,), thing.STUDIES, who.OFTEN, who.WONDERING),
    Family("dining", (word.EAT,), thing.TABLES, who.OFTEN, who.WONDERING),
    Family("staying", (word.SLEEP,), thing.LODGINGS, who.OFTEN, who.WONDERING),
    Family("playing", (word.PLAY, word.RUN), thing.OUTSIDE, who.OFTEN, who.WONDERING),
    Family("languages", (word.SPEAK, word.STUDY), thing.TONGUES, who.OFTEN, who.ASKING),
)
WANT_TO, NEED_TO = word.WANT._replace(after=("to", "")), word.NEED._replace(after=("to", ""))
HAVE_TO, LIKE_TO = word.HAVE._replace(after=("to", "que")), word.LIKE._replace(after=("to", ""))


def action_templates() -> dict[str, Template]:
    """Every kind of sentence in which somebody does something."""
    return {
        **_family_templates(),
        **_people_templates(),
        **_wish_templates(),
        **_liking_templates(),
        **_animal_templates(),
        "wear": Clauses((SPEAKER, LISTENER, *who.WOMEN), (word.WEAR,), thing.worn(word.CLOTHES), who.BRIEFLY),
        "wear, men": Clauses(who.MEN, (word.WEAR,), thing.worn(word.COATS), who.BRIEFLY),
        "lose": Clauses((*PRONOUNS, *who.FOLK[::3]), (word.LOSE,), thing.CARRIED, who.LOSING),
        "lose, questions": Clauses(who.ASKED, (word.LOSE,), thing.CARRIED, who.LOST),
        "live": Clauses(who.EVERYONE, (word.LIVE,), thing.DWELLINGS, (*who.PLAIN, who.COMING)),
        "count goods": Clauses((*PRONOUNS, *who.FOLK[::6]), (word.BUY, word.SELL), thing.COUNTED, who.GLADLY[::2]),
        "count food": Clauses((*PRONOUNS, *who.FOLK[1::4]), (word.EAT, word.BUY), thing.SERVINGS, who.GLADLY),
        "count pages": Clauses((*PRONOUNS, *who.FOLK[2::4]), (word.READ, word.WRITE), thing.PAGES, who.GLADLY),
        "own": list(_own()),
        "who": [pair for family in FAMILIES for pair in Clauses([WHO], family.verbs, family.things[::3], _UNTIMED)],
        "what": list(_what()),
        "where": list(_where()),
        "requests": list(_requests()),
    }


_LIKED = (*word.FOODS, *thing.GOODS, *word.FLOWERS, *word.ANIMALS, *word.WRITINGS, *word.PRESS)
_UNTIMED = (Frame(), Frame("past"), Frame("future"))


def _family_templates() -> dict[str, Template]:
    templates: dict[str, Template] = {}
    for place, (name, verbs, things, frames, asking, everyone) in enumerate(FAMILIES):
        people = everyone[place % 3 :: 3]  # a third of them: variety enough, and the whole book can still be listed
        templates[f"{name}, pronouns"] = Clauses(PRONOUNS, verbs, things, frames)
        templates[f"{name}, people"] = Clauses(people, verbs, things, who.BRIEFLY)
        templates[f"{name}, questions"] = Clauses(who.ASKED, verbs, things, asking)
    return templates


def _people_templates() -> dict[str, Template]:
    """What one does to, with and for other people."""
    meeting = (word.SEE, word.HELP, word.CALL, word.VISIT, word.WAIT_FOR, word.LOOK_FOR)
    joining = (word.SPEAK, word.WORK, word.PLAY)
    near, far = [*who.NAMED, *who.KIN, *who.CAST], [*who.ELDER[::2], *who.OTHER[::2]]
    giving = (word.GIVE, word.BRING)
    known = [*who.MET, *thing.CITY, *noun_phrases(thing.SITES, "the this that")]
    return {
        "meet, pronouns": Clauses(PRONOUNS, meeting, who.ANYONE, who.ONCE),
        "meet, people": Clauses(who.ACTING, meeting, who.MET[::2], who.BRIEFLY),
        "meet, questions": Clauses(who.ASKED, meeting, who.MET, who.WONDERING),
        "company, pronouns": Clauses(PRONOUNS, joining, thing.company(near), who.OFTEN),
        "company, people": Clauses(who.ACTING, joining, thing.company(far), who.BRIEFLY),
        "company, questions": Clauses(who.ASKED, joining, thing.company(far), who.SEARCHING),
        "give, pronouns": Clauses(PRONOUNS, giving, thing.given(thing.TOKENS, near[::2]), who.BRIEFLY),
        "give, people": Clauses(who.ACTING[::2], giving, thing.given(thing.TOKENS[::2], far[::2]), who.BRIEFLY),
        "give, questions": Clauses(who.ASKED, giving, thing.given(thing.TOKENS[::2], far[1::2]), who.WONDERING),
        "know": Clauses(PRONOUNS, (word.KNOW,), [*as_persons(near), *known], who.PLAIN),
        "know, questions": Clauses(who.ASKED, (word.KNOW,), known, [who.QUESTION]),
    }


def _wish_templates() -> dict[str, Template]:
    """What one has, wants and needs, and what one wants, has, needs or is able to do."""
    wishing = (WANT_TO, NEED_TO, HAVE_TO)
    wanted = [*thing.SOLD[::2], *thing.COUNTED[::3], *thing.DRINKABLE]
    subjects = (*PRONOUNS, *who.FOLK[3::4])
    some, others = thing.deeds(who.MET[::3]), thing.deeds(who.MET[1::3])
    return {
        "have": Clauses(subjects, (word.HAVE,), thing.HELD, who.PLAIN),
        "have many": Clauses(who.EVERYONE, (word.HAVE,), thing.HELD_MANY, [Frame()]),
        "have, questions": Clauses(who.ASKED, (word.HAVE,), [*thing.HELD, *thing.HELD_MANY], [who.QUESTION]),
        "want": Clauses(subjects, (word.WANT, word.NEED), wanted, who.PLAIN),
        "want, questions": Clauses(who.ASKED, (word.WANT, word.NEED), wanted, (who.QUESTION, who.ASKING_WHY)),
        "wish, pronouns": Clauses(PRONOUNS, wishing, some, who.PLANNED),
        "wish, people": Clauses(who.ACTING[::2], wishing, others[::2], who.PLANNED),
        "wish, questions": Clauses(who.ASKED, wishing, some, (who.QUESTION, who.ASKING_WHY)),
        "can": Clauses((*PRONOUNS, *who.ACTING[1::3]), (word.CAN,), others, who.PLANNED),
        "can, questions": Clauses(who.ASKED, (word.CAN,), some, [who.QUESTION]),
    }


def _liking_templates() -> dict[str, Template]:
    """What one likes: things in general, with an article in Spanish only, and things in particular."""
    general = [
        *(_general(noun_phrase(noun, "the", plural=True)) for noun in _LIKED),
        *(_general(noun_phrase(noun, "the")) for noun in (*word.DISHES, *word.PROVISIONS, *word.DRINKS)),
        *map(_general, noun_phrases(thing.GOODS, many="the", adjectives=thing.PAINTED)),
    ]
    special = [
        *noun_phrases(thing.GOODS, "the", adjectives=thing.PAINTED),
        *noun_phrases((*thing.GOODS, *word.WRITINGS, word.HOUSE), "this that your", "these those your"),
    ]
    doing = thing.pastimes(who.MET[2::3])
    return {
        "like in general": Clauses(who.EVERYONE, (word.LIKE,), general, who.PLAIN, liking),
        "like in general, questions": Clauses(who.ASKED, (word.LIKE,), general, [who.QUESTION], liking),
        "like": Clauses(who.EVERYONE, (word.LIKE,), special, who.PLAIN, liking),
        "like, questions": Clauses(who.ASKED, (word.LIKE,), special, [who.QUESTION], liking),
        "like to": Clauses((*PRONOUNS, *who.ACTING[::2]), (LIKE_TO,), doing, who.PLAIN, liking),
        "like to, questions": Clauses(who.ASKED, (LIKE_TO,), doing, [who.QUESTION], liking),
    }


def _general(phrase: Phrase) -> Phrase:
    return phrase._replace(english=phrase.english.removeprefix("the "))


def _animal_templates() -> dict[str, Template]:
    """What animals do: none of them reads."""
    walkers = noun_phrases((word.DOG, word.CAT, word.HORSE), "the my your our this that", "the my these")
    hunters = noun_phrases((word.DOG, word.CAT), "the my your our this that", "the my our these")
    grazers = noun_phrases((word.HORSE, word.BIRD), "the my your our this that", "the my our these")
    meat = noun_phrases((word.FISH, word.MEAT, word.CHICKEN), "- the")
    fruit = [*noun_phrases((word.APPLE, word.ORANGE), "the", "- the"), *noun_phrases((word.BREAD, word.FRUIT), "- the")]
    water, milk = (noun_phrases([drink], "- the my this") for drink in (word.WATER, word.MILK))
    return {
        "animals move": Clauses(walkers, (word.RUN, word.PLAY, word.SLEEP), thing.OUTSIDE, who.BRIEFLY),
        "animals eat meat": Clauses(hunters, (word.EAT,), meat, who.OFTEN),
        "animals eat fruit": Clauses(grazers, (word.EAT,), fruit, who.BRIEFLY),
        "animals drink milk": Clauses(hunters, (word.DRINK,), milk, who.BRIEFLY),
        "animals drink water": Clauses((*hunters, *grazers), (word.DRINK,), water, who.BRIEFLY),
    }


def _own() -> Iterator[SentencePair]:
    """What people do with what is theirs: `his` and `her`, both `su`, go back to the subject."""
    for subject in (HE, SHE, SEVERAL, *who.ACTING[::2]):
        plural = subject.number > ONE
        clothes = word.CLOTHES if subject.gender == "f" else word.COATS
        whose = "their" if plural else ("her" if subject.gender == "f" else "his")
        colors = (None, *word.COLORS[:4])
        lost, washed = noun_phrases(word.BELONGINGS, whose, whose, colors), noun_phrases(clothes, whose, whose, colors)
        worn = noun_phrases(clothes, "" if plural else whose, whose if plural else "", colors)
        people = as_persons(noun_phrases((*word.ELDERS, *word.CHILDREN, word.NEIGHBOR, word.FRIEND), whose, whose))
        yield from Clauses([subject], (word.FIND, word.LOOK_FOR), lost, who.BRIEFLY)
        yield from Clauses([subject], (word.WASH,), washed, who.BRIEFLY)
        yield from Clauses([subject], (word.WEAR,), worn, who.BRIEFLY)
        yield from Clauses([subject], (word.VISIT, word.CALL, word.HELP), people, who.BRIEFLY)


def _what() -> Iterator[SentencePair]:
    """Questions for the object: what does Ana eat?"""
    verbs = (word.EAT, word.DRINK, word.ORDER, word.BUY, word.SELL, word.READ, word.WRITE, word.STUDY)
    wishes = [chained(wish, verb) for wish in (WANT_TO, NEED_TO, HAVE_TO) for verb in verbs]
    frames = tuple(frame._replace(word=who.WHAT) for frame in who.ASKING)
    subjects = (*who.ASKED, *who.CAST)
    yield from Clauses(subjects, verbs, [NO_OBJECT], frames)
    yield from Clauses(subjects, wishes, [NO_OBJECT], frames[:1])


def _where() -> Iterator[SentencePair]:
    """Questions for the place: where does Ana work?"""
    verbs = (word.WORK, word.STUDY, word.EAT, word.SLEEP, word.PLAY, word.RUN)
    wishes = [chained(wish, verb) for wish in (WANT_TO, HAVE_TO) for verb in (*verbs, word.LIVE)]
    frames = tuple(frame._replace(word=who.WHERE) for frame in who.ASKING)
    subjects = (*who.ASKED, *who.CAST)
    yield from Clauses(subjects, verbs, [NO_OBJECT], frames)
    yield from Clauses(subjects, (word.LIVE,), [NO_OBJECT], frames[::2])
    yield from Clauses(subjects, wishes, [NO_OBJECT], frames[:1])


def _requests() -> Iterator[SentencePair]:
    """What one asks a friend to do: the Spanish command to tú is the form of he and she in these verbs."""
    asked = (
        (word.OPEN, thing.OPENED),
        (word.CLOSE, thing.OPENED),
        (word.WASH, thing.WASHED),
        (word.READ, thing.READABLE),
        (word.BRING, [*thing.CARRIED, *thing.EATABLE, *thing.DRINKABLE]),
        (word.HELP, who.MET),
        (word.CALL, who.MET),
        (word.WAIT_FOR, [*thing.RIDDEN, *who.MET]),
    )
    for verb, things in asked:
        for each in things:
            english, spanish = to_do(verb, each)[:2]
            command = f"{verb.present[2]}{spanish.removeprefix(verb.infinitive)}"
            yield sentence(f"{english}, please", f"{command}, por favor")
            yield sentence(f"please {english}", f"por favor, {command}")
