"""Courtesies: fixed pairs that are learned by heart, plain and said to somebody."""

from collections.abc import Sequence

from glassformer.data.phrases.grammar import SentencePair
from glassformer.data.phrases.words import NAMES

_SAID = (
    ("You are welcome", "De nada"),
    ("Thank you", "Gracias"),
    ("Thank you very much", "Muchas gracias"),
    ("Good morning", "Buenos días"),
    ("Good afternoon", "Buenas tardes"),
    ("Good night", "Buenas noches"),
    ("Hello", "Hola"),
    ("Goodbye", "Adiós"),
    ("See you tomorrow", "Hasta mañana"),
    ("See you later", "Hasta luego"),
    ("See you soon", "Hasta pronto"),
    ("Nice to meet you", "Mucho gusto"),
    ("I am sorry", "Lo siento"),
    ("Excuse me", "Perdón"),
    ("Of course", "Por supuesto"),
    ("No problem", "No hay problema"),
    ("Yes, please", "Sí, por favor"),
    ("No, thank you", "No, gracias"),
    ("Very well, thank you", "Muy bien, gracias"),
    ("It does not matter", "No importa"),
    ("I do not understand", "No entiendo"),
    ("I do not know", "No lo sé"),
)
_EXCLAIMED = (
    ("Good luck", "Buena suerte"),
    ("Congratulations", "Felicidades"),
    ("Happy birthday", "Feliz cumpleaños"),
    ("Have a good trip", "Buen viaje"),
)
_ASKED = (
    ("How are you", "Cómo estás"),
    ("What is your name", "Cómo te llamas"),
    ("Where are you from", "De dónde eres"),
    ("What time is it", "Qué hora es"),
    ("Can you help me", "Puedes ayudarme"),
)
_ADDRESSED = (*((name, name) for name, _ in NAMES), ("sir", "señor"), ("madam", "señora"), ("my friend", "amigo mío"))


def courtesies() -> list[SentencePair]:
    """The plain courtesies; what is said comes with and without its full stop, as people type it."""
    stopped = [(f"{english}.", f"{spanish}.") for english, spanish in _SAID]
    return [
        *stopped,
        *_SAID,
        *((f"{english}!", f"¡{spanish}!") for english, spanish in _EXCLAIMED),
        *((f"{english}?", f"¿{spanish}?") for english, spanish in _ASKED),
    ]


def courtesy_templates() -> dict[str, Sequence[SentencePair]]:
    """Courtesies said to somebody; the questions, which say tú, to no sir and no madam."""
    friends = (*_ADDRESSED[: len(NAMES)], _ADDRESSED[-1])
    return {
        "courtesies": [
            *((f"{said}, {to}.", f"{dicho}, {a}.") for said, dicho in _SAID for to, a in _ADDRESSED),
            *((f"{said}, {to}!", f"¡{dicho}, {a}!") for said, dicho in _EXCLAIMED for to, a in _ADDRESSED),
            *((f"{said}, {to}?", f"¿{dicho}, {a}?") for said, dicho in _ASKED for to, a in friends),
        ],
        "names": [(f"My name is {name}.", f"Me llamo {name}.") for name, _ in NAMES],
    }
