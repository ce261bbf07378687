"""The words of the phrase book: English beside Spanish, with every form that no rule would give.

The tables are read once. A row of nouns or adjectives has a name, by which all its words can be asked for; it may also
list words and rows from above it. English nouns of persons have no gender; where nothing else in the sentence tells
it, Spanish takes the masculine.
"""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeVar

SentencePair = tuple[str, str]
Gender = Literal["m", "f"]
Word = TypeVar("Word")


class Noun(NamedTuple):
    """A noun in both languages and both numbers; a number it does not have is empty."""

    english: str
    english_plural: str
    spanish: str
    spanish_plural: str
    gender: Gender


class Adjective(NamedTuple):
    """An adjective, its English comparative, and its Spanish forms: masculine, feminine, then both in the plural."""

    english: str
    comparative: str
    spanish: tuple[str, str, str, str]


class Verb(NamedTuple):
    """A verb in both languages; its Spanish persons are I, you, he or she, we, they.

    `after` is the preposition between verb and object in each language, `auxiliary` the English forms of a verb that
    takes `not` and questions without `do`.
    """

    base: str
    third: str
    past: str
    infinitive: str
    present: tuple[str, ...]
    preterite: tuple[str, ...]
    after: SentencePair
    auxiliary: tuple[str, ...]


# English, its plural, Spanish, its plural, gender; a dash for what is missing. Those who act and those who are acted on
# are kept apart, so that nobody visits himself.
_NOUNS = """
kin: mother - madre - f, father - padre - m, sister sisters hermana hermanas f, brother brothers hermano hermanos m,
    - parents - padres m
elders: grandmother - abuela - f, grandfather - abuelo - m, uncle - tío - m, aunt - tía - f
offspring: son sons hijo hijos m, daughter daughters hija hijas f
actors: boy boys chico chicos m, girl girls chica chicas f, man men hombre hombres m, woman women mujer mujeres f,
    child children niño niños m
others: teacher teachers profesor profesores m, doctor doctors médico médicos m,
    student students estudiante estudiantes m, neighbor neighbors vecino vecinos m, friend friends amigo amigos m
animals: dog dogs perro perros m, cat cats gato gatos m, horse horses caballo caballos m, bird birds pájaro pájaros m
foods: apple apples manzana manzanas f, orange oranges naranja naranjas f, egg eggs huevo huevos m
dishes: rice - arroz - m, fish - pescado - m, meat - carne - f, soup - sopa - f, chicken - pollo - m
provisions: bread - pan - m, cheese - queso - m, fruit - fruta - f
drinks: water - agua - f, milk - leche - f, coffee - café - m, tea - té - m, juice - jugo - m, wine - vino - m
coats: shirt shirts camisa camisas f, coat coats abrigo abrigos m, hat hats sombrero sombreros m
dresses: dress dresses vestido vestidos m, skirt skirts falda faldas f
belongings: bag bags bolsa bolsas f, key keys llave llaves f, pencil pencils lápiz lápices m,
    watch watches reloj relojes m, umbrella umbrellas paraguas paraguas m
furniture: table tables mesa mesas f, chair chairs silla sillas f, computer computers computadora computadoras f
flowers: flower flowers flor flores f
openings: door doors puerta puertas f, window windows ventana ventanas f, box boxes caja cajas f
carriages: car cars coche coches m, bicycle bicycles bicicleta bicicletas f
lines: train trains tren trenes m, bus buses autobús autobuses m
writings: book books libro libros m, letter letters carta cartas f, poem poems poema poemas m
press: newspaper newspapers periódico periódicos m
houses: house houses casa casas f, hotel hotels hotel hoteles m
sights: museum museums museo museos m, church churches iglesia iglesias f, library libraries biblioteca bibliotecas f,
    bank banks banco bancos m, shop shops tienda tiendas f, restaurant restaurants restaurante restaurantes m
rooms: kitchen - cocina - f, garden gardens jardín jardines m
grounds: park parks parque parques m, beach beaches playa playas f
offices: school schools escuela escuelas f, hospital hospitals hospital hospitales m,
    office offices oficina oficinas f
stops: station - estación - f, market - mercado - m
clothes: coats, dresses
goods: clothes, furniture, carriages
sites: sights, grounds, offices, stops
"""
# English, Spanish, and where they follow no rule the comparative and the plural. All stand after the noun and mean the
# same there; those that stand before it (good, bad, first) are left out.
_ADJECTIVES = """
colors: red rojo, black negro, white blanco, blue azul, green verde, yellow amarillo
general: new nuevo newer, old viejo older, big grande bigger, small pequeño smaller, pretty bonito prettier,
    expensive caro, cheap barato cheaper, fresh fresco, hot caliente, cold frío
literary: interesting interesante, boring aburrido, difficult difícil, long largo longer, short corto shorter
personal: tall alto taller, young joven younger jóvenes, strong fuerte stronger, intelligent inteligente,
    kind amable kinder
moods: tired cansado, sick enfermo, happy contento, sad triste, busy ocupado
states: ready listo, alone solo, clean limpio, dirty sucio, open abierto, closed cerrado
painted: colors, new, old
scenic: new, old, big, small, pretty
looks: old, big, small, black, white
"""
# Three English forms, the infinitive, the present and the preterite where they leave the rule, the prepositions between
# verb and object. The Spanish for `be` depends: on what one is, how or where one is, what one feels or how old one is,
# and the weather.
_VERBS = """
eat eats ate | comer; drink drinks drank | beber; buy buys bought | comprar; sell sells sold | vender
write writes wrote | escribir; wear wears wore | llevar; wash washes washed | lavar; open opens opened | abrir
visit visits visited | visitar; help helps helped | ayudar; call calls called | llamar; take takes took | tomar
work works worked | trabajar; study studies studied | estudiar; live lives lived | vivir; run runs ran | correr
speak speaks spoke | hablar; need needs needed | necesitar; like likes liked | gustar
bring brings brought | traer | traigo traes trae traemos traen | traje trajiste trajo trajimos trajeron
order orders ordered | pedir | pido pides pide pedimos piden | pedí pediste pidió pedimos pidieron
read reads read | leer | | leí leíste leyó leímos leyeron
find finds found | encontrar | encuentro encuentras encuentra encontramos encuentran
lose loses lost | perder | pierdo pierdes pierde perdemos pierden
look looks looked | buscar | | busqué buscaste buscó buscamos buscaron | for
close closes closed | cerrar | cierro cierras cierra cerramos cierran
see sees saw | ver | veo ves ve vemos ven | vi viste vio vimos vieron
wait waits waited | esperar | | | for
know knows knew | conocer | conozco conoces conoce conocemos conocen
go goes went | ir | voy vas va vamos van | fui fuiste fue fuimos fueron | to a
arrive arrives arrived | llegar | | llegué llegaste llegó llegamos llegaron | at a
return returns returned | volver | vuelvo vuelves vuelve volvemos vuelven | | from de
leave leaves left | salir | salgo sales sale salimos salen
play plays played | jugar | juego juegas juega jugamos juegan | jugué jugaste jugó jugamos jugaron
sleep sleeps slept | dormir | duermo duermes duerme dormimos duermen | dormí dormiste durmió dormimos durmieron
give gives gave | dar | doy das da damos dan | di diste dio dimos dieron
have has had | tener | tengo tienes tiene tenemos tienen | tuve tuviste tuvo tuvimos tuvieron
want wants wanted | querer | quiero quieres quiere queremos quieren | quise quisiste quiso quisimos quisieron
can can could | poder | puedo puedes puede podemos pueden | pude pudiste pudo pudimos pudieron
cost costs cost | costar | cuesto cuestas cuesta costamos cuestan
rain rains rained | llover | lluevo llueves llueve llovemos llueven
be is was | ser | soy eres es somos son | fui fuiste fue fuimos fueron
be is was | estar | estoy estás está estamos están | estuve estuviste estuvo estuvimos estuvieron
be is was | tener | tengo tienes tiene tenemos tienen | tuve tuviste tuvo tuvimos tuvieron
be is was | hacer | hago haces hace hacemos hacen | hice hiciste hizo hicimos hicieron
"""
_PRESENT = {"ar": "o as a amos an", "er": "o es e emos en", "ir": "o es e imos en"}
_PRETERITE = {"ar": "é aste ó amos aron", "er": "í iste ió imos ieron", "ir": "í iste ió imos ieron"}
_AUXILIARIES = {"be": ("am", "are", "is", "are", "are"), "can": ("can",) * 5}


def _noun(row: str) -> Noun:
    one, many, uno, muchos, gender = row.replace("-", "").split(" ")
    return Noun(one, many, uno, muchos, "f" if gender == "f" else "m")


def _adjective(row: str) -> Adjective:
    english, one, *rest = row.split(" ")
    comparative = next((form for form in rest if form.endswith("er")), f"more {english}")
    if one.endswith("o"):
        return Adjective(english, comparative, (one, f"{one[:-1]}a", f"{one}s", f"{one[:-1]}as"))
    many = next((form for form in rest if form.endswith("es")), f"{one}s" if one.endswith("e") else f"{one}es")
    return Adjective(english, comparative, (one, one, many, many))


def _verb(row: str) -> Verb:
    english, infinitive, present, preterite, after = (part.strip() for part in f"{row} | | | ".split("|")[:5])
    base, third, past = english.split(" ")
    stem, ending = infinitive[:-2], infinitive[-2:]
    now = present.split() or [stem + end for end in _PRESENT.get(ending, "").split()]
    then = preterite.split() or [stem + end for end in _PRETERITE.get(ending, "").split()]
    to, _, a = after.partition(" ")
    return Verb(base, third, past, infinitive, tuple(now), tuple(then), (to, a), _AUXILIARIES.get(base, ()))


def _grouped(table: str, word: Callable[[str], Word]) -> dict[str, tuple[Word, ...]]:
    """The words of a table: each under its English, and the words of a row under the name of the row."""
    groups: dict[str, tuple[Word, ...]] = {}
    for row in re.split(r"\n(?=\S)", table.strip()):  # an indented line goes on with the row above it
        name, _, entries = row.partition(":")
        members: list[Word] = []
        for entry in re.split(r",\s+", entries.strip()):
            found = groups[entry] if " " not in entry else (word(entry),)
            members += found
            groups.setdefault(entry.removeprefix("- ").split(" ")[0], found)
        groups[name] = tuple(members)
    return groups


NOUNS, ADJECTIVES = _grouped(_NOUNS, _noun), _grouped(_ADJECTIVES, _adjective)
VERBS = {  # by the English base and, where it has one, its preposition; forms of `be` by the Spanish infinitive
    "_".join(filter(None, (verb.base, verb.infinitive if verb.base == "be" else verb.after[0]))): verb
    for verb in map(_verb, re.split(r"[;\n] *", _VERBS.strip()))
}


def nouns(names: str) -> list[Noun]:
    """The nouns of these names, of words and of rows."""
    return [noun for name in names.split() for noun in NOUNS[name]]


def adjectives(names: str) -> list[Adjective]:
    """The adjectives of these names, of words and of rows; a dash is an adjective without letters."""
    none = (Adjective("", "", ("", "", "", "")),)
    return [adjective for name in names.split() for adjective in (none if name == "-" else ADJECTIVES[name])]


def verbs(names: str) -> tuple[Verb, ...]:
    """The verbs of these names."""
    return tuple(VERBS[name] for name in names.split())


def pairs(text: str) -> list[SentencePair]:
    """The pairs of a text that says `English = Spanish; English = Spanish`."""
    return [
        (english, spanish) for english, spanish in re.findall(r"([^;=]+) = ([^;=]+)(?:; ?|$)", " ".join(text.split()))
    ]


AT = {"station", "market", "office", "beach"}  # places that take `at` in English; all others take `in`
NAMES: tuple[tuple[str, Gender], ...] = (("Ana", "f"), ("Luis", "m"), ("Carmen", "f"), ("Pedro", "m"))
CITIES = pairs("Madrid = Madrid; London = Londres; Paris = París; Lima = Lima")
LANGUAGES = pairs("Spanish = español; English = inglés")
DAYS = pairs("""Monday = lunes; Tuesday = martes; Wednesday = miércoles; Thursday = jueves; Friday = viernes;
    Saturday = sábado; Sunday = domingo""")
COUNTS = pairs("""two = dos; three = tres; four = cuatro; five = cinco; six = seis; seven = siete; eight = ocho;
    nine = nueve; ten = diez; eleven = once; twelve = doce; twenty = veinte; thirty = treinta; forty = cuarenta;
    fifty = cincuenta""")
# English has the state, Spanish has the noun; `very` becomes `much`, which agrees with the noun.
HUNGER = pairs("hungry = hambre; thirsty = sed; cold = frío; hot = calor; sleepy = sueño; afraid = miedo")
VERY_HUNGRY = pairs("""very hungry = mucha hambre; very thirsty = mucha sed; very cold = mucho frío;
    very hot = mucho calor; very sleepy = mucho sueño; very afraid = mucho miedo""")
PROFESSIONS = (  # one English form for each number, and the Spanish forms of an adjective: no article in Spanish
    ("a teacher", "teachers", ("profesor", "profesora", "profesores", "profesoras")),
    ("a doctor", "doctors", ("médico", "médica", "médicos", "médicas")),
    ("a student", "students", ("estudiante", "estudiante", "estudiantes", "estudiantes")),
    ("a nurse", "nurses", ("enfermero", "enfermera", "enfermeros", "enfermeras")),
)
