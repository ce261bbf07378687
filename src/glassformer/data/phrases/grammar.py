"""How the phrase book builds a sentence in both languages at once: agreement, word order, contractions.

Spanish subject pronouns are left out where the verb tells them (I, you, we, they) and kept where it does not: él, ella,
ustedes. English `you` is always tú, `you all` always ustedes, so each English sentence has one Spanish side.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product, starmap
from math import prod
from typing import Literal, NamedTuple, overload

from glassformer.data.phrases import words
from glassformer.data.phrases.words import COUNTS, VERBS, Gender, SentencePair, Verb, adjectives, nouns, pairs

NOTHING = ("", "")
ME, YOU, ONE, WE, THEY = range(5)  # the persons of a verb; ONE is he, she, or a noun in the singular


class Phrase(NamedTuple):
    """A part of a sentence in both languages, and what the words around it must know to agree with it.

    A `person` as an object takes the Spanish preposition `a`; `clitic` is the pronoun that announces a receiver;
    what is `close` to its verb (tener miedo, beber leche) is not parted from it by the subject of a question.
    """

    english: str
    spanish: str
    number: int = ONE
    gender: Gender = "m"
    person: bool = False
    clitic: str = ""
    close: bool = False

    @property
    def plural(self) -> bool:
        """Whether it is in the plural."""
        return self.number >= WE


class Frame(NamedTuple):
    """How a clause is put: its tense, denied or asked, with which adverb, time and question word.

    `time` stands last in English and first in Spanish, `habit` last in both.
    """

    tense: Literal["present", "past", "future"] = "present"
    denied: bool = False
    asked: bool = False
    adverb: SentencePair = NOTHING
    time: SentencePair = NOTHING
    habit: SentencePair = NOTHING
    word: SentencePair = NOTHING


_DETERMINERS = {  # masculine and feminine in the singular and the plural
    **{english: [spanish] * 4 for english, spanish in [("-", ""), *COUNTS]},
    **{
        english: forms.split()
        for english, forms in pairs("""
            the = el la los las; a = un una - -; this = este esta - -; that = ese esa - -; these = - - estos estas;
            those = - - esos esas; many = - - muchos muchas; my = mi mi mis mis; your = tu tu tus tus;
            our = nuestro nuestra nuestros nuestras; his = su su sus sus; her = su su sus sus; their = su su sus sus
        """)
    },
}
CLITICS = ("me", "te", "le", "nos", "les")
GOING, BEING = VERBS["go_to"].present, VERBS["be_ser"].auxiliary
WHO = Phrase("who", "quién")
NO_OBJECT = Phrase("", "")
HE, SHE, SEVERAL = Phrase("he", "él"), Phrase("she", "ella", gender="f"), Phrase("they", "", THEY)
I_AND_YOU = (Phrase("I", "", ME), Phrase("you", "", YOU))
PRONOUNS = (*I_AND_YOU, HE, SHE, Phrase("we", "", WE), SEVERAL, Phrase("you all", "ustedes", THEY))


def spaced(*parts: str) -> str:
    """Parts set side by side with one space, the empty ones left out."""
    return " ".join(filter(None, parts))


def joined(preposition: str, spanish: str) -> str:
    """A Spanish preposition and what follows it: a + el = al, de + el = del."""
    if spanish.startswith("el ") and f" {preposition}".endswith((" a", " de")):
        return f"{preposition}l {spanish.removeprefix('el ')}"
    return spaced(preposition, spanish)


def agreeing(forms: Sequence[str], phrase: Phrase) -> str:
    """The one of four forms, masculine and feminine in the singular and the plural, that agrees with a phrase."""
    return forms[2 * phrase.plural + (phrase.gender == "f")]


def noun_phrases(names: str, one: str = "", many: str = "", described: str = "-") -> list[Phrase]:
    """Every noun with every determiner of its numbers and every adjective; a dash stands for none."""
    return [
        _noun_phrase(noun, determiner, plural, adjective)
        for noun in nouns(names)
        for plural, determiners in ((False, one), (True, many))
        if (noun.english_plural if plural else noun.english)
        for determiner in determiners.split()
        for adjective in adjectives(described or "-")
    ]


def phrases(rows: str) -> list[Phrase]:
    """The noun phrases of rows, divided by lines or semicolons: `nouns | singular | plural | adjectives`."""
    cells = ([cell.strip() for cell in row.split("|")] for row in re.split(r"[;\n]", rows.strip()))
    return [phrase for names, *rest in cells for phrase in noun_phrases(names, *rest)]


def _noun_phrase(noun: words.Noun, determiner: str, plural: bool, adjective: words.Adjective) -> Phrase:
    """A determiner, an adjective and a noun: `the red house`, `la casa roja`."""
    bare = Phrase("", "", THEY if plural else ONE, noun.gender, close=determiner == "-")
    name, nombre = (noun.english_plural, noun.spanish_plural) if plural else (noun.english, noun.spanish)
    article, english = agreeing(_DETERMINERS[determiner], bare), spaced(adjective.english, name)
    if nombre == "agua" and determiner in ("the", "a"):
        article = {"la": "el", "una": "un"}[article]  # before a stressed a, and feminine still: el agua fría
    an = determiner == "a" and english[0] in "aeiou"
    spanish = spaced(article, nombre, agreeing(adjective.spanish, bare))
    return bare._replace(english=spaced("an" if an else determiner.strip("-"), english), spanish=spanish)


def as_persons(phrases: Sequence[Phrase]) -> list[Phrase]:
    """The same phrases, known to be persons."""
    return [phrase._replace(person=True) for phrase in phrases]


def together(first: Phrase, second: Phrase) -> Phrase:
    """Two phrases as one plural; one masculine makes it masculine."""
    gender: Gender = "f" if first.gender == second.gender == "f" else "m"
    english, spanish = f"{first.english} and {second.english}", f"{first.spanish} y {second.spanish}"
    return Phrase(english, spanish, THEY, gender, close=first.close)


def happening_at(names: str, determiners: str = "the") -> list[Phrase]:
    """Places where something happens: in the park, at the station."""
    return [
        Phrase(f"{'at' if place.english.split()[-1] in words.AT else 'in'} {place.english}", f"en {place.spanish}")
        for place in noun_phrases(names, determiners)
    ]


def beside(prepositions: Sequence[SentencePair], places: Sequence[Phrase]) -> list[Phrase]:
    """Places by what is next to them: near the park, behind the station."""
    return [
        Phrase(f"{english} {place.english}", joined(spanish, place.spanish))
        for english, spanish in prepositions
        for place in places
    ]


def owned(owner: Phrase, thing: Phrase) -> Phrase:
    """A thing and whose it is: `Ana's car`, `el coche de Ana`."""
    english = f"{owner.english}'s {thing.english.removeprefix('the ')}"
    return thing._replace(english=english, spanish=f"{thing.spanish} {joined('de', owner.spanish)}")


def to_do(verb: Verb, thing: Phrase = NO_OBJECT) -> Phrase:
    """What one may want or have to do: `open the window`, `abrir la ventana`."""
    english = spaced(verb.base, verb.after[0] if thing.english else "", thing.english)
    return Phrase(english, spaced(verb.infinitive, _object(verb, thing)))


def chained(first: Verb, second: Verb) -> Verb:
    """Two verbs as one: want to eat, querer comer."""
    to, que = first.after
    english = f"{to} {second.base}"
    return first._replace(
        base=f"{first.base} {english}",
        third=f"{first.third} {english}",
        infinitive=spaced(first.infinitive, que, second.infinitive),
        present=tuple(spaced(form, que, second.infinitive) for form in first.present),
        after=second.after,
    )


def sentence(english: str, spanish: str, asked: bool = False) -> SentencePair:
    """A sentence with its capital and its marks in both languages."""
    english, spanish = english[0].upper() + english[1:], spanish[0].upper() + spanish[1:]
    return (f"{english}?", f"¿{spanish}?") if asked else (f"{english}.", f"{spanish}.")


def clause(subject: Phrase, verb: Verb, thing: Phrase, frame: Frame) -> SentencePair:
    """Who does what, in both languages."""
    english = _english(subject, verb, thing, frame)
    finite, what = _finite(subject, verb, frame), _to_you_all(subject, _object(verb, thing))
    if frame.word[1]:
        rest = (what, subject.spanish) if thing.close else (subject.spanish, what)
        spanish = spaced(frame.word[1], thing.clitic, finite, *rest)
    else:  # a question without a question word keeps the order of a statement: the marks tell it
        denial = "no" if frame.denied else ""
        start = spaced(frame.time[1], subject.spanish, frame.adverb[1], denial)
        spanish = spaced(start, thing.clitic, finite, what, frame.habit[1])
    return sentence(english, spanish, frame.asked or subject is WHO)


def liking(subject: Phrase, verb: Verb, thing: Phrase, frame: Frame) -> SentencePair:
    """Who likes what: in Spanish the thing is the subject, and it pleases the one who likes it."""
    liker = joined("a", subject.spanish).replace(" y ", " y a ") if subject.spanish else ""
    pleases = "gustan" if thing.number == THEY else "gusta"
    denial = "no" if frame.denied else ""
    spanish = spaced(liker, denial, CLITICS[subject.number], pleases, _to_you_all(subject, thing.spanish))
    return sentence(_english(subject, verb, thing, frame), spanish, frame.asked)


def _english(subject: Phrase, verb: Verb, thing: Phrase, frame: Frame) -> str:
    helper, main = _english_verb(subject, verb, frame)
    if frame.asked:
        start = spaced(frame.word[0], helper, subject.english, main)
    else:
        denied = f"{helper}not" if helper == "can" else f"{helper} not"
        start = spaced(subject.english, denied if frame.denied else helper, frame.adverb[0], main)
    return spaced(start, verb.after[0] if thing.english else "", thing.english, frame.time[0], frame.habit[0])


def _english_verb(subject: Phrase, verb: Verb, frame: Frame) -> tuple[str, str]:
    """The auxiliary, where one is needed, and the rest of an English verb."""
    if frame.tense == "future":
        return BEING[subject.number], f"going to {verb.base}"
    if verb.auxiliary:
        return verb.auxiliary[subject.number], ""
    third = subject.number == ONE
    if frame.denied or frame.asked:
        present = "does" if third else "do"
        return ("did" if frame.tense == "past" else present), verb.base
    present = verb.third if third else verb.base
    return "", (verb.past if frame.tense == "past" else present)


def _finite(subject: Phrase, verb: Verb, frame: Frame) -> str:
    if frame.tense == "future":
        return f"{GOING[subject.number]} a {verb.infinitive}"
    return (verb.preterite if frame.tense == "past" else verb.present)[subject.number]


def _object(verb: Verb, thing: Phrase) -> str:
    return joined(verb.after[1] or ("a" if thing.person else ""), thing.spanish) if thing.spanish else ""


def _to_you_all(subject: Phrase, spanish: str) -> str:
    """Where `you all` are spoken to, `your` is theirs: su, not tu."""
    return re.sub(r"\btu(s?)\b", r"su\1", spanish) if subject.spanish == "ustedes" else spanish


@dataclass(frozen=True)
class Clauses(Sequence[SentencePair]):
    """Every clause of some subjects, verbs, objects and frames, built only when asked for."""

    subjects: Sequence[Phrase]
    verbs: Sequence[Verb]
    things: Sequence[Phrase]
    frames: Sequence[Frame]
    build: Callable[[Phrase, Verb, Phrase, Frame], SentencePair] = clause

    def __len__(self) -> int:
        return prod(map(len, (self.subjects, self.verbs, self.things, self.frames)))

    @overload
    def __getitem__(self, index: int) -> SentencePair: ...
    @overload
    def __getitem__(self, index: slice) -> list[SentencePair]: ...
    def __getitem__(self, index: int | slice) -> SentencePair | list[SentencePair]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        rest, frame = divmod(range(len(self))[index], len(self.frames))
        rest, thing = divmod(rest, len(self.things))
        subject, verb = divmod(rest, len(self.verbs))
        return self.build(self.subjects[subject], self.verbs[verb], self.things[thing], self.frames[frame])

    def __iter__(self) -> Iterator[SentencePair]:
        return starmap(self.build, product(self.subjects, self.verbs, self.things, self.frames))
