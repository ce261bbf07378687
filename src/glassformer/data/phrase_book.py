"""The built-in translation data: correct English-Spanish pairs from a small grammar.

Sentences keep their capitals and marks. A question without a question word, a dropped pronoun, `your` said to several:
each has one Spanish side, so the translation is a function of the English sentence, and no two sentences share a side.
"""

import random
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

from glassformer.data.phrases.actions import action_templates
from glassformer.data.phrases.states import state_templates
from glassformer.data.phrases.words import NAMES, SentencePair, pairs

_SAID = pairs("""
    You are welcome = De nada; Thank you = Gracias; Thank you very much = Muchas gracias; Good morning = Buenos días;
    Good afternoon = Buenas tardes; Good night = Buenas noches; Hello = Hola; Goodbye = Adiós;
    See you tomorrow = Hasta mañana; See you later = Hasta luego; See you soon = Hasta pronto;
    Nice to meet you = Mucho gusto; I am sorry = Lo siento; Excuse me = Perdón; Of course = Por supuesto;
    No problem = No hay problema; Yes, please = Sí, por favor; No, thank you = No, gracias;
    Very well, thank you = Muy bien, gracias; It does not matter = No importa; I do not understand = No entiendo;
    I do not know = No lo sé
""")
_EXCLAIMED = pairs("""
    Good luck = Buena suerte; Congratulations = Felicidades; Happy birthday = Feliz cumpleaños;
    Have a good trip = Buen viaje
""")
_ASKED = pairs("""
    How are you = Cómo estás; What is your name = Cómo te llamas; Where are you from = De dónde eres;
    What time is it = Qué hora es; Can you help me = Puedes ayudarme
""")
_FRIENDS = [*((name, name) for name, _ in NAMES), ("my friend", "amigo mío")]
_ADDRESSED = [*_FRIENDS[:-1], *pairs("sir = señor; madam = señora"), _FRIENDS[-1]]


@cache
def phrase_templates() -> dict[str, Sequence[SentencePair]]:
    """Every kind of sentence by name, each with all its sentences; the plain courtesies are not among them."""
    return {**action_templates(), **state_templates(), **_courtesy_templates()}


def courtesies() -> list[SentencePair]:
    """The plain courtesies; what is said comes with and without its full stop, as people type it."""
    return [
        *((f"{english}.", f"{spanish}.") for english, spanish in _SAID),
        *_SAID,
        *((f"{english}!", f"¡{spanish}!") for english, spanish in _EXCLAIMED),
        *((f"{english}?", f"¿{spanish}?") for english, spanish in _ASKED),
    ]


def phrase_book_size() -> int:
    """The number of distinct pairs."""
    return len(courtesies()) + sum(map(len, phrase_templates().values()))


def _courtesy_templates() -> dict[str, Sequence[SentencePair]]:
    """Courtesies addressed to someone; the questions, which say tú, are not addressed to a sir or a madam."""
    return {
        "courtesies": [
            *((f"{said}, {to}.", f"{dicho}, {a}.") for said, dicho in _SAID for to, a in _ADDRESSED),
            *((f"{said}, {to}!", f"¡{dicho}, {a}!") for said, dicho in _EXCLAIMED for to, a in _ADDRESSED),
            *((f"{said}, {to}?", f"¿{dicho}, {a}?") for said, dicho in _ASKED for to, a in _FRIENDS),
        ],
        "names": [(f"My name is {name}.", f"Me llamo {name}.") for name, _ in NAMES],
    }


def phrase_book(count: int | None = None, seed: int = 0) -> list[SentencePair]:
    """Distinct pairs in a random order given by the seed: all, or `count` drawn evenly from the kinds of sentence.

    The plain courtesies are always among them.
    """
    fixed, size = courtesies(), phrase_book_size()
    count = size if count is None else count
    if not len(fixed) <= count <= size:
        raise ValueError(f"count is {count}; the phrase book gives from {len(fixed)} to {size} pairs")
    generator = random.Random(seed)
    drawn = list(fixed)
    templates = sorted(phrase_templates().values(), key=len)
    for number, template in enumerate(templates):  # from the smallest, so that the others make up for it
        quota = (count - len(drawn)) // (len(templates) - number)
        drawn += [template[i] for i in generator.sample(range(len(template)), min(quota, len(template)))]
    generator.shuffle(drawn)
    return drawn


def split_phrase_book(train: int, validation: int, seed: int = 0) -> tuple[list[SentencePair], list[SentencePair]]:
    """Training and validation pairs: no sentence in common, and no validation word that is not in the training pairs.

    The plain courtesies are training pairs.
    """
    drawn = phrase_book(train + validation, seed)
    left = Counter(word for pair in drawn for word in _words(pair))
    fixed = set(courtesies())
    kept: list[SentencePair] = []
    apart: list[SentencePair] = []
    for pair in drawn:
        known = pair not in fixed and all(left[word] > 1 for word in _words(pair))
        if known and len(apart) < validation:
            left.subtract(_words(pair))
            apart.append(pair)
        else:
            kept.append(pair)
    if len(apart) < validation:
        raise ValueError(f"only {len(apart)} of {validation} validation pairs have all their words in {train} others")
    return kept, apart


def _words(pair: SentencePair) -> set[tuple[int, str]]:
    """The words of both sides, each with its side."""
    return {(side, word) for side, sentence in enumerate(pair) for word in re.findall(r"[\w']+", sentence)}
