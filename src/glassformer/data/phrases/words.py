"""The words of the phrase book: English beside Spanish, with every form that no rule would give.

English nouns of persons say no gender; where nothing else in the sentence tells it, Spanish takes the masculine.
"""

from typing import Literal, NamedTuple

Gender = Literal["m", "f"]


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
    after: tuple[str, str]
    auxiliary: tuple[str, ...]


def _nouns(*rows: str) -> tuple[Noun, ...]:
    """Nouns from rows of five words: English, its plural, Spanish, its plural, gender; a dash for what is missing."""
    nouns = []
    for row in rows:
        one, many, uno, muchos, gender = row.replace("-", "").split(" ")
        nouns.append(Noun(one, many, uno, muchos, "f" if gender == "f" else "m"))
    return tuple(nouns)


def _adjectives(*rows: str) -> tuple[Adjective, ...]:
    """Adjectives from rows: English, masculine singular, and where they follow no rule the comparative and plural."""
    adjectives = []
    for row in rows:
        english, one, *rest = row.split(" ")
        comparative = next((form for form in rest if form.endswith("er")), f"more {english}")
        if one.endswith("o"):
            forms = (one, f"{one[:-1]}a", f"{one}s", f"{one[:-1]}as")
        else:
            many = next((form for form in rest if form.endswith("es")), f"{one}s" if one.endswith("e") else f"{one}es")
            forms = (one, one, many, many)
        adjectives.append(Adjective(english, comparative, forms))
    return tuple(adjectives)


_PRESENT = {"ar": "o as a amos an", "er": "o es e emos en", "ir": "o es e imos en"}
_PRETERITE = {"ar": "é aste ó amos aron", "er": "í iste ió imos ieron", "ir": "í iste ió imos ieron"}
_BE = ("am", "are", "is", "are", "are")


def _verb(
    english: str,
    infinitive: str,
    present: str = "",
    preterite: str = "",
    after: str = " ",
    auxiliary: tuple[str, ...] = (),
) -> Verb:
    """A verb from its three English forms; Spanish persons are given where they leave the rule."""
    base, third, past = english.split(" ")
    stem, ending = infinitive[:-2], infinitive[-2:]
    now = present.split() or [stem + end for end in _PRESENT.get(ending, "").split()]
    then = preterite.split() or [stem + end for end in _PRETERITE.get(ending, "").split()]
    before_english, _, before_spanish = after.partition(" ")
    return Verb(base, third, past, infinitive, tuple(now), tuple(then), (before_english, before_spanish), auxiliary)


# People. Those who act and those who are acted on are kept apart, so that nobody visits himself.
MOTHER, FATHER, SISTER, BROTHER, PARENTS = _nouns(
    "mother - madre - f",
    "father - padre - m",
    "sister sisters hermana hermanas f",
    "brother brothers hermano hermanos m",
    "- parents - padres m",
)
ELDERS = _nouns("grandmother - abuela - f", "grandfather - abuelo - m", "uncle - tío - m", "aunt - tía - f")
CHILDREN = _nouns("son sons hijo hijos m", "daughter daughters hija hijas f")
BOY, GIRL, MAN, WOMAN, CHILD = ACTORS = _nouns(
    "boy boys chico chicos m",
    "girl girls chica chicas f",
    "man men hombre hombres m",
    "woman women mujer mujeres f",
    "child children niño niños m",
)
TEACHER, DOCTOR, STUDENT, NEIGHBOR, FRIEND = OTHERS = _nouns(
    "teacher teachers profesor profesores m",
    "doctor doctors médico médicos m",
    "student students estudiante estudiantes m",
    "neighbor neighbors vecino vecinos m",
    "friend friends amigo amigos m",
)
DOG, CAT, HORSE, BIRD = ANIMALS = _nouns(
    "dog dogs perro perros m",
    "cat cats gato gatos m",
    "horse horses caballo caballos m",
    "bird birds pájaro pájaros m",
)
PROFESSIONS = (  # one English form for each number, and the Spanish forms of an adjective: no article in Spanish
    ("a teacher", "teachers", ("profesor", "profesora", "profesores", "profesoras")),
    ("a doctor", "doctors", ("médico", "médica", "médicos", "médicas")),
    ("a student", "students", ("estudiante", "estudiante", "estudiantes", "estudiantes")),
    ("a nurse", "nurses", ("enfermero", "enfermera", "enfermeros", "enfermeras")),
)

# Things, by what one does with them.
APPLE, ORANGE, EGG = FOODS = _nouns(
    "apple apples manzana manzanas f",
    "orange oranges naranja naranjas f",
    "egg eggs huevo huevos m",
)
RICE, FISH, MEAT, SOUP, CHICKEN = DISHES = _nouns(
    "rice - arroz - m",
    "fish - pescado - m",
    "meat - carne - f",
    "soup - sopa - f",
    "chicken - pollo - m",
)
BREAD, CHEESE, FRUIT = PROVISIONS = _nouns("bread - pan - m", "cheese - queso - m", "fruit - fruta - f")
WATER, MILK, COFFEE, TEA, JUICE, WINE = DRINKS = _nouns(
    "water - agua - f",
    "milk - leche - f",
    "coffee - café - m",
    "tea - té - m",
    "juice - jugo - m",
    "wine - vino - m",
)
COATS = _nouns(
    "shirt shirts camisa camisas f",
    "coat coats abrigo abrigos m",
    "hat hats sombrero sombreros m",
)
DRESSES = _nouns("dress dresses vestido vestidos m", "skirt skirts falda faldas f")
CLOTHES = (*COATS, *DRESSES)
BAG, KEY, PENCIL, WATCH, UMBRELLA = BELONGINGS = _nouns(
    "bag bags bolsa bolsas f",
    "key keys llave llaves f",
    "pencil pencils lápiz lápices m",
    "watch watches reloj relojes m",
    "umbrella umbrellas paraguas paraguas m",
)
TABLE, CHAIR, COMPUTER = FURNITURE = _nouns(
    "table tables mesa mesas f",
    "chair chairs silla sillas f",
    "computer computers computadora computadoras f",
)
FLOWERS = _nouns("flower flowers flor flores f")
DOOR, WINDOW, BOX = OPENINGS = _nouns(
    "door doors puerta puertas f", "window windows ventana ventanas f", "box boxes caja cajas f"
)
CARRIAGES = _nouns("car cars coche coches m", "bicycle bicycles bicicleta bicicletas f")
TRAIN, BUS = LINES = _nouns("train trains tren trenes m", "bus buses autobús autobuses m")
BOOK, LETTER, POEM = WRITINGS = _nouns(
    "book books libro libros m", "letter letters carta cartas f", "poem poems poema poemas m"
)
PRESS = _nouns("newspaper newspapers periódico periódicos m")

# Places; those of AT take `at` in English, all others `in`.
HOUSE, HOTEL = HOUSES = _nouns("house houses casa casas f", "hotel hotels hotel hoteles m")
MUSEUM, CHURCH, LIBRARY, BANK, SHOP, RESTAURANT = SIGHTS = _nouns(
    "museum museums museo museos m",
    "church churches iglesia iglesias f",
    "library libraries biblioteca bibliotecas f",
    "bank banks banco bancos m",
    "shop shops tienda tiendas f",
    "restaurant restaurants restaurante restaurantes m",
)
KITCHEN, GARDEN = ROOMS = _nouns("kitchen - cocina - f", "garden gardens jardín jardines m")
PARK, BEACH = GROUNDS = _nouns("park parks parque parques m", "beach beaches playa playas f")
SCHOOL, HOSPITAL, OFFICE = OFFICES = _nouns(
    "school schools escuela escuelas f", "hospital hospitals hospital hospitales m", "office offices oficina oficinas f"
)
STATION, MARKET = STOPS = _nouns("station - estación - f", "market - mercado - m")
AT = {"station", "market", "office", "beach"}
CITIES = (("Madrid", "Madrid"), ("London", "Londres"), ("Paris", "París"), ("Lima", "Lima"))
DAYS = (
    ("Monday", "lunes"),
    ("Tuesday", "martes"),
    ("Wednesday", "miércoles"),
    ("Thursday", "jueves"),
    ("Friday", "viernes"),
    ("Saturday", "sábado"),
    ("Sunday", "domingo"),
)
LANGUAGES = (("Spanish", "español"), ("English", "inglés"))
NAMES: tuple[tuple[str, Gender], ...] = (("Ana", "f"), ("Luis", "m"), ("Carmen", "f"), ("Pedro", "m"))

# Adjectives that stand after the noun and mean the same there; those before it (good, bad, first) are left out.
RED, BLACK, WHITE, BLUE, GREEN, YELLOW = COLORS = _adjectives(
    "red rojo", "black negro", "white blanco", "blue azul", "green verde", "yellow amarillo"
)
NEW, OLD, BIG, SMALL, PRETTY, EXPENSIVE, CHEAP = _adjectives(
    "new nuevo newer",
    "old viejo older",
    "big grande bigger",
    "small pequeño smaller",
    "pretty bonito prettier",
    "expensive caro",
    "cheap barato cheaper",
)
INTERESTING, BORING, DIFFICULT, LONG, SHORT = OF_WRITINGS = _adjectives(
    "interesting interesante", "boring aburrido", "difficult difícil", "long largo longer", "short corto shorter"
)
FRESH, HOT, COLD = _adjectives("fresh fresco", "hot caliente", "cold frío")
OF_PEOPLE = _adjectives(
    "tall alto taller",
    "young joven younger jóvenes",
    "strong fuerte stronger",
    "intelligent inteligente",
    "kind amable kinder",
)
STATES = _adjectives(
    "tired cansado",
    "sick enfermo",
    "happy contento",
    "sad triste",
    "busy ocupado",
    "ready listo",
    "alone solo",
)
CLEANNESS = _adjectives("clean limpio", "dirty sucio")
OPENNESS = _adjectives("open abierto", "closed cerrado")
HUNGER = (  # English has the state, Spanish has the noun; `very` becomes `much`, which agrees with the noun
    ("hungry", "hambre", "mucha"),
    ("thirsty", "sed", "mucha"),
    ("cold", "frío", "mucho"),
    ("hot", "calor", "mucho"),
    ("sleepy", "sueño", "mucho"),
    ("afraid", "miedo", "mucho"),
)

# Verbs.
EAT = _verb("eat eats ate", "comer")
DRINK = _verb("drink drinks drank", "beber")
BUY = _verb("buy buys bought", "comprar")
SELL = _verb("sell sells sold", "vender")
BRING = _verb(
    "bring brings brought", "traer", "traigo traes trae traemos traen", "traje trajiste trajo trajimos trajeron"
)
ORDER = _verb("order orders ordered", "pedir", "pido pides pide pedimos piden", "pedí pediste pidió pedimos pidieron")
READ = _verb("read reads read", "leer", preterite="leí leíste leyó leímos leyeron")
WRITE = _verb("write writes wrote", "escribir")
FIND = _verb("find finds found", "encontrar", "encuentro encuentras encuentra encontramos encuentran")
LOSE = _verb("lose loses lost", "perder", "pierdo pierdes pierde perdemos pierden")
LOOK_FOR = _verb("look looks looked", "buscar", preterite="busqué buscaste buscó buscamos buscaron", after="for ")
WEAR = _verb("wear wears wore", "llevar")
WASH = _verb("wash washes washed", "lavar")
OPEN = _verb("open opens opened", "abrir")
CLOSE = _verb("close closes closed", "cerrar", "cierro cierras cierra cerramos cierran")
SEE = _verb("see sees saw", "ver", "veo ves ve vemos ven", "vi viste vio vimos vieron")
VISIT = _verb("visit visits visited", "visitar")
HELP = _verb("help helps helped", "ayudar")
CALL = _verb("call calls called", "llamar")
WAIT_FOR = _verb("wait waits waited", "esperar", after="for ")
KNOW = _verb("know knows knew", "conocer", "conozco conoces conoce conocemos conocen")
TAKE = _verb("take takes took", "tomar")
GO_TO = _verb("go goes went", "ir", "voy vas va vamos van", "fui fuiste fue fuimos fueron", "to a")
ARRIVE_AT = _verb("arrive arrives arrived", "llegar", preterite="llegué llegaste llegó llegamos llegaron", after="at a")
RETURN_FROM = _verb("return returns returned", "volver", "vuelvo vuelves vuelve volvemos vuelven", after="from de")
LEAVE = _verb("leave leaves left", "salir", "salgo sales sale salimos salen")
WORK = _verb("work works worked", "trabajar")
STUDY = _verb("study studies studied", "estudiar")
LIVE = _verb("live lives lived", "vivir")
RUN = _verb("run runs ran", "correr")
PLAY = _verb("play plays played", "jugar", "juego juegas juega jugamos juegan", "jugué jugaste jugó jugamos jugaron")
SLEEP = _verb(
    "sleep sleeps slept", "dormir", "duermo duermes duerme dormimos duermen", "dormí dormiste durmió dormimos durmieron"
)
SPEAK = _verb("speak speaks spoke", "hablar")
GIVE = _verb("give gives gave", "dar", "doy das da damos dan", "di diste dio dimos dieron")
HAVE = _verb("have has had", "tener", "tengo tienes tiene tenemos tienen", "tuve tuviste tuvo tuvimos tuvieron")
WANT = _verb(
    "want wants wanted", "querer", "quiero quieres quiere queremos quieren", "quise quisiste quiso quisimos quisieron"
)
NEED = _verb("need needs needed", "necesitar")
LIKE = _verb("like likes liked", "gustar")
CAN = _verb(
    "can can could",
    "poder",
    "puedo puedes puede podemos pueden",
    "pude pudiste pudo pudimos pudieron",
    auxiliary=("can",) * 5,
)
COST = _verb("cost costs cost", "costar", "cuesto cuestas cuesta costamos cuestan")
RAIN = _verb("rain rains rained", "llover", "lluevo llueves llueve llovemos llueven")
BE_KIND = _verb(  # what one is
    "be is was", "ser", "soy eres es somos son", "fui fuiste fue fuimos fueron", auxiliary=_BE
)
BE_STATE = _verb(  # how or where one is
    "be is was",
    "estar",
    "estoy estás está estamos están",
    "estuve estuviste estuvo estuvimos estuvieron",
    auxiliary=_BE,
)
BE_HAVING = HAVE._replace(base="be", third="is", past="was", auxiliary=_BE)  # hungry, twenty years old: tener
BE_WEATHER = _verb(  # it is cold: hace frío
    "be is was", "hacer", "hago haces hace hacemos hacen", "hice hiciste hizo hicimos hicieron", auxiliary=_BE
)
