"""Who the sentences of the phrase book are about, and the ways in which a clause can be put."""

from glassformer.data.phrases.grammar import (
    HE,
    PRONOUNS,
    SHE,
    Frame,
    Phrase,
    as_persons,
    noun_phrases,
    phrases,
    together,
)
from glassformer.data.phrases.words import NAMES, pairs

# A statement about the past names its time: without it, English `read` and Spanish `hablamos` would be present as well.
QUESTION, PAST_QUESTION, FUTURE_QUESTION = ASKING = [
    Frame(tense, asked=True) for tense in ("present", "past", "future")
]
PLAIN = (Frame(), Frame(denied=True))
STATED = (*PLAIN, QUESTION)
ALWAYS, *_ = FREQUENT = [
    Frame(adverb=adverb) for adverb in pairs("always = siempre; never = nunca; sometimes = a veces")
]
EVERY_DAY, *_ = _HABITS = [
    Frame(habit=habit)
    for habit in pairs("""every day = todos los días; on Sundays = los domingos; in the morning = por la mañana;
        at night = por la noche""")
]
TODAY = Frame(time=("today", "hoy"))
DONE_YESTERDAY, *_ = DONE = [
    Frame("past", time=time)
    for time in pairs("""yesterday = ayer; last week = la semana pasada; last night = anoche;
        last Saturday = el sábado pasado""")
]
_, NOT_DONE_LAST_WEEK = NOT_DONE = [frame._replace(denied=True) for frame in DONE[:2]]
COMING, NOT_COMING = Frame("future"), Frame("future", denied=True)
COMING_TOMORROW, *_ = SOON = [
    Frame("future", time=time)
    for time in pairs("tomorrow = mañana; tonight = esta noche; next week = la próxima semana")
]
PLANNED = (*PLAIN, *(frame._replace(tense="present") for frame in SOON[:2]))
GLADLY = (Frame(), *DONE, COMING, *SOON)  # nothing denied: nobody says that he did not buy two hats
LOSING = (*FREQUENT, *DONE, *NOT_DONE)  # what is lost is lost already, or time and again
SEASONS = (*DONE, *NOT_DONE, COMING, *SOON, NOT_COMING)
ONCE = (*PLAIN, *SEASONS)
OFTEN = (*PLAIN, *FREQUENT, *_HABITS, *SEASONS)
BRIEFLY = (*PLAIN, DONE_YESTERDAY, NOT_DONE_LAST_WEEK, COMING, COMING_TOMORROW)

WHY, WHEN, WHERE, WHAT = pairs("why = por qué; when = cuándo; where = dónde; what = qué")
TIMING = (*ASKING, *(frame._replace(word=WHEN) for frame in ASKING[1:]))
ASKING_WHY = QUESTION._replace(word=WHY)
WONDERING = (*TIMING, ASKING_WHY)
SEARCHING = (*WONDERING, *(frame._replace(word=WHERE) for frame in ASKING[1:]))
LOST = (PAST_QUESTION, PAST_QUESTION._replace(word=WHEN), PAST_QUESTION._replace(word=WHERE))

ANA, LUIS, CARMEN, PEDRO = NAMED = tuple(Phrase(name, name, gender=gender) for name, gender in NAMES)
ANA_AND_LUIS, *OTHER_PAIRS = PAIRS = together(ANA, LUIS), together(ANA, CARMEN), together(LUIS, PEDRO)
KIN = noun_phrases("mother father sister brother parents", "my your", "my our")
CAST = noun_phrases("actors", "the", "the")
ELDER = noun_phrases("elders offspring", "my your our")
OTHER = phrases("""teacher doctor | the my your | the; student | the this that | the these those
    neighbor friend | my your our | my our""")
ACTING = (*NAMED, *PAIRS, *KIN, *CAST)
FOLK = (*ACTING, *ELDER[::4], *OTHER[::3])
ADULTS = [subject for subject in FOLK if subject not in noun_phrases("boy girl child", "the", "the")]
MEN, WOMEN = (
    [subject for subject in (HE, SHE, *FOLK) if not subject.plural and subject.gender == gender] for gender in "mf"
)
ASKED = (
    *(pronoun for pronoun in PRONOUNS if pronoun.english not in ("I", "we")),
    *NAMED,
    ANA_AND_LUIS,
    *noun_phrases("mother parents", "your", "your"),
)
EVERYONE = (*PRONOUNS, *FOLK)

# Those that people who act meet: nobody among them acts, so that no mother visits herself.
MET = as_persons((*ELDER, *OTHER))
ANYONE = as_persons((*NAMED, *KIN, *CAST, *ELDER, *OTHER))
