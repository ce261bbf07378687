"""What people and animals do in the phrase book: verbs with subjects and objects that make sense together."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from glassformer.data.phrases import grammar
from glassformer.data.phrases import objects as thing
from glassformer.data.phrases import subjects as who
from glassformer.data.phrases.grammar import NO_OBJECT, PRONOUNS, WHO, Clauses, Frame, Phrase, noun_phrases, phrases
from glassformer.data.phrases.words import VERBS, SentencePair, verbs

Template = Sequence[SentencePair]


class Family(NamedTuple):
    """Verbs that share their objects, and how one states and asks what they say."""

    name: str
    verbs: str
    things: Sequence[Phrase]
    frames: Sequence[Frame] = who.ONCE
    asking: Sequence[Frame] = who.SEARCHING
    people: Sequence[Phrase] = who.FOLK


FAMILIES = (
    Family("food", "eat buy bring", thing.EATABLE, who.OFTEN, who.WONDERING),
    Family("dishes", "order", thing.ORDERED, who.OFTEN),
    Family("drinks", "drink order", thing.DRINKABLE, who.OFTEN, people=who.ADULTS),
    Family("reading", "read", thing.READABLE, who.OFTEN),
    Family("writing", "write", thing.WRITABLE),
    Family("belongings", "find look_for", thing.CARRIED),
    Family("goods", "buy sell", thing.SOLD),
    Family("washing", "wash", thing.WASHED),
    Family("openings", "open close", thing.OPENED, asking=who.WONDERING),
    Family("riding", "take wait_for", thing.RIDDEN, who.OFTEN),
    Family("sights", "see visit", thing.SEEN, asking=who.TIMING),
    Family("going", "go_to arrive_at return_from", thing.REACHED, who.OFTEN, who.TIMING),
    Family("working", "work", thing.WORKPLACES, who.OFTEN, who.WONDERING, who.ADULTS),
    Family("studying", "study", thing.STUDIES, who.OFTEN, who.WONDERING),
    Family("dining", "eat", thing.TABLES, who.OFTEN, who.WONDERING),
    Family("staying", "sleep", thing.LODGINGS, who.OFTEN, who.WONDERING),
    Family("playing", "play run", thing.OUTSIDE, who.OFTEN, who.WONDERING),
    Family("languages", "speak study", thing.TONGUES, who.OFTEN, who.ASKING),
)
WANT_TO, NEED_TO, LIKE_TO = (verb._replace(after=("to", "")) for verb in verbs("want need like"))
HAVE_TO = VERBS["have"]._replace(after=("to", "que"))


def action_templates() -> dict[str, Template]:
    """Every kind of sentence in which someone does something."""
    untimed = (Frame(), Frame("past"), Frame("future"))
    return {
        **_family_templates(),
        **_people_templates(),
        **_wish_templates(),
        **_liking_templates(),
        **_animal_templates(),
        "wear": Clauses((*grammar.I_AND_YOU, *who.WOMEN), verbs("wear"), thing.worn("clothes"), who.BRIEFLY),
        "wear, men": Clauses(who.MEN, verbs("wear"), thing.worn("coats"), who.BRIEFLY),
        "lose": Clauses((*PRONOUNS, *who.FOLK[::3]), verbs("lose"), thing.CARRIED, who.LOSING),
        "lose, questions": Clauses(who.ASKED, verbs("lose"), thing.CARRIED, who.LOST),
        "live": Clauses(who.EVERYONE, verbs("live"), thing.DWELLINGS, (*who.PLAIN, who.COMING)),
        "count goods": Clauses((*PRONOUNS, *who.FOLK[::6]), verbs("buy sell"), thing.COUNTED, who.GLADLY[::2]),
        "count food": Clauses((*PRONOUNS, *who.FOLK[1::4]), verbs("eat buy"), thing.SERVINGS, who.GLADLY),
        "count pages": Clauses((*PRONOUNS, *who.FOLK[2::4]), verbs("read write"), thing.PAGES, who.GLADLY),
        "own": list(_own()),
        "who": [pair for each in FAMILIES for pair in Clauses([WHO], verbs(each.verbs), each.things[::3], untimed)],
        **_object_questions(),
        "requests": list(_requests()),
    }


def _family_templates() -> dict[str, Template]:
    templates: dict[str, Template] = {}
    for number, (name, names, things, frames, asking, everyone) in enumerate(FAMILIES):
        doing = verbs(names)
        people = everyone[number % 3 :: 3]  # a third of them: variety enough, and the whole book can still be listed
        templates[f"{name}, pronouns"] = Clauses(PRONOUNS, doing, things, frames)
        templates[f"{name}, people"] = Clauses(people, doing, things, who.BRIEFLY)
        templates[f"{name}, questions"] = Clauses(who.ASKED, doing, things, asking)
    return templates


def _people_templates() -> dict[str, Template]:
    """What one does to, with and for other people."""
    meeting = verbs("see help call visit wait_for look_for")
    joining = verbs("speak work play")
    near, far = [*who.NAMED, *who.KIN, *who.CAST], [*who.ELDER[::2], *who.OTHER[::2]]
    giving = verbs("give bring")
    known = [*who.MET, *thing.CITY, *noun_phrases("sites", "the this that")]
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
        "know": Clauses(PRONOUNS, verbs("know"), [*grammar.as_persons(near), *known], who.PLAIN),
        "know, questions": Clauses(who.ASKED, verbs("know"), known, [who.QUESTION]),
    }


def _wish_templates() -> dict[str, Template]:
    """What one has, wants and needs, and what one wants, has, needs or is able to do."""
    wishing = (WANT_TO, NEED_TO, HAVE_TO)
    wanted = [*thing.SOLD[::2], *thing.COUNTED[::3], *thing.DRINKABLE]
    subjects = (*PRONOUNS, *who.FOLK[3::4])
    some, others = thing.deeds(who.MET[::3]), thing.deeds(who.MET[1::3])
    return {
        "have": Clauses(subjects, verbs("have"), thing.HELD, who.PLAIN),
        "have many": Clauses(who.EVERYONE, verbs("have"), thing.HELD_MANY, [Frame()]),
        "have, questions": Clauses(who.ASKED, verbs("have"), [*thing.HELD, *thing.HELD_MANY], [who.QUESTION]),
        "want": Clauses(subjects, verbs("want need"), wanted, who.PLAIN),
        "want, questions": Clauses(who.ASKED, verbs("want need"), wanted, (who.QUESTION, who.ASKING_WHY)),
        "wish, pronouns": Clauses(PRONOUNS, wishing, some, who.PLANNED),
        "wish, people": Clauses(who.ACTING[::2], wishing, others[::2], who.PLANNED),
        "wish, questions": Clauses(who.ASKED, wishing, some, (who.QUESTION, who.ASKING_WHY)),
        "can": Clauses((*PRONOUNS, *who.ACTING[1::3]), verbs("can"), others, who.PLANNED),
        "can, questions": Clauses(who.ASKED, verbs("can"), some, [who.QUESTION]),
    }


def _liking_templates() -> dict[str, Template]:
    """What one likes: things in general, with an article in Spanish only, and things in particular."""
    general = [
        phrase._replace(english=phrase.english.removeprefix("the "))
        for phrase in phrases("""
            foods goods flowers animals writings press | | the
            dishes provisions drinks | the
            goods | | the | painted
        """)
    ]
    special = phrases("goods | the | | painted; goods writings house | this that your | these those your")
    doing = thing.pastimes(who.MET[2::3])
    return {
        "like in general": Clauses(who.EVERYONE, verbs("like"), general, who.PLAIN, grammar.liking),
        "like in general, questions": Clauses(who.ASKED, verbs("like"), general, [who.QUESTION], grammar.liking),
        "like": Clauses(who.EVERYONE, verbs("like"), special, who.PLAIN, grammar.liking),
        "like, questions": Clauses(who.ASKED, verbs("like"), special, [who.QUESTION], grammar.liking),
        "like to": Clauses((*PRONOUNS, *who.ACTING[::2]), (LIKE_TO,), doing, who.PLAIN, grammar.liking),
        "like to, questions": Clauses(who.ASKED, (LIKE_TO,), doing, [who.QUESTION], grammar.liking),
    }


def _animal_templates() -> dict[str, Template]:
    """What animals do: none of them reads."""
    walkers = noun_phrases("dog cat horse", "the my your our this that", "the my these")
    hunters = noun_phrases("dog cat", "the my your our this that", "the my our these")
    grazers = noun_phrases("horse bird", "the my your our this that", "the my our these")
    meat = noun_phrases("fish meat chicken", "- the")
    fruit = phrases("apple orange | the | - the; bread fruit | - the")
    water, milk = (noun_phrases(drink, "- the my this") for drink in ("water", "milk"))
    return {
        "animals move": Clauses(walkers, verbs("run play sleep"), thing.OUTSIDE, who.BRIEFLY),
        "animals eat meat": Clauses(hunters, verbs("eat"), meat, who.OFTEN),
        "animals eat fruit": Clauses(grazers, verbs("eat"), fruit, who.BRIEFLY),
        "animals drink milk": Clauses(hunters, verbs("drink"), milk, who.BRIEFLY),
        "animals drink water": Clauses((*hunters, *grazers), verbs("drink"), water, who.BRIEFLY),
    }


def _own() -> Iterator[SentencePair]:
    """What people do with what is theirs: `his` and `her`, both `su`, go back to the subject."""
    for subject in (grammar.HE, grammar.SHE, grammar.SEVERAL, *who.ACTING[::2]):
        plural = subject.plural
        clothes = "clothes" if subject.gender == "f" else "coats"
        whose = "their" if plural else ("her" if subject.gender == "f" else "his")
        colors = "- red black white blue"
        lost, washed = noun_phrases("belongings", whose, whose, colors), noun_phrases(clothes, whose, whose, colors)
        worn = noun_phrases(clothes, "" if plural else whose, whose if plural else "", colors)
        people = grammar.as_persons(noun_phrases("elders offspring neighbor friend", whose, whose))
        yield from Clauses([subject], verbs("find look_for"), lost, who.BRIEFLY)
        yield from Clauses([subject], verbs("wash"), washed, who.BRIEFLY)
        yield from Clauses([subject], verbs("wear"), worn, who.BRIEFLY)
        yield from Clauses([subject], verbs("visit call help"), people, who.BRIEFLY)


def _object_questions() -> dict[str, Template]:
    """Questions for the object and for the place: what does Ana eat, where does she work?"""
    subjects = (*who.ASKED, *who.CAST)
    what, where = ([frame._replace(word=word) for frame in who.ASKING] for word in (who.WHAT, who.WHERE))
    using, being = verbs("eat drink order buy sell read write study"), verbs("work study eat sleep play run live")
    to_use = [grammar.chained(wish, verb) for wish in (WANT_TO, NEED_TO, HAVE_TO) for verb in using]
    to_be = [grammar.chained(wish, verb) for wish in (WANT_TO, HAVE_TO) for verb in being]
    return {
        "what": [*Clauses(subjects, using, [NO_OBJECT], what), *Clauses(subjects, to_use, [NO_OBJECT], what[:1])],
        "where": [
            *Clauses(subjects, being[:-1], [NO_OBJECT], where),
            *Clauses(subjects, being[-1:], [NO_OBJECT], where[::2]),
            *Clauses(subjects, to_be, [NO_OBJECT], where[:1]),
        ],
    }


def _requests() -> Iterator[SentencePair]:
    """What one asks a friend to do: the Spanish command to tú is the form of he and she in these verbs."""
    for names, things in (
        ("open close", thing.OPENED),
        ("wash", thing.WASHED),
        ("read", thing.READABLE),
        ("bring", [*thing.CARRIED, *thing.EATABLE, *thing.DRINKABLE]),
        ("help call", who.MET),
        ("wait_for", [*thing.RIDDEN, *who.MET]),
    ):
        for verb, each in product(verbs(names), things):
            english, spanish = grammar.to_do(verb, each)[:2]
            command = f"{verb.present[2]}{spanish.removeprefix(verb.infinitive)}"
            yield grammar.sentence(f"{english}, please", f"{command}, por favor")
            yield grammar.sentence(f"please {english}", f"por favor, {command}")
