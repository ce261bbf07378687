"""Courtesies: fixed pairs to learn by heart, plain and addressed to someone."""

from collections.abc import Sequence

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


def courtesies() -> list[SentencePair]:
    """The plain courtesies; what is said comes with and without its full stop, as people type it."""
    return [
        *((f"{english}.", f"{spanish}.") for english, spanish in _SAID),
        *_SAID,
        *((f"{english}!", f"¡{spanish}!") for english, spanish in _EXCLAIMED),
        *((f"{english}?", f"¿{spanish}?") for english, spanish in _ASKED),
    ]


def courtesy_templates() -> dict[str, Sequence[SentencePair]]:
    """Courtesies addressed to someone; the questions, which say tú, are not addressed to a sir or a madam."""
    return {
        "courtesies": [
            *((f"{said}, {to}.", f"{dicho}, {a}.") for said, dicho in _SAID for to, a in _ADDRESSED),
            *((f"{said}, {to}!", f"¡{dicho}, {a}!") for said, dicho in _EXCLAIMED for to, a in _ADDRESSED),
            *((f"{said}, {to}?", f"¿{dicho}, {a}?") for said, dicho in _ASKED for to, a in _FRIENDS),
        ],
        "names": [(f"My name is {name}.", f"Me llamo {name}.") for name, _ in NAMES],
    }
