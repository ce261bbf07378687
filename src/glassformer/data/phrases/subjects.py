"""Who the sentences of the phrase book are about, and the ways in which a clause can be put."""

from glassformer.data.phrases import words as word
from glassformer.data.phrases.grammar import HE, PRONOUNS, SHE, WE, Frame, Phrase, as_persons, noun_phrases, together

# A statement about the past names its time: without it, English `read` and Spanish `hablamos` would be present as well.
QUESTION = Frame(asked=True)
PLAIN = (Frame(), Frame(denied=True))
STATED = (*PLAIN, QUESTION)
ALWAYS = Frame(adverb=("always", "siempre"))
FREQUENT = (ALWAYS, Frame(adverb=("never", "nunca")), Frame(adverb=("sometimes", "a veces")))
EVERY_DAY = Frame(habit=("every day", "todos los días"))
USUAL = (
    *PLAIN,
    *FREQUENT,
    EVERY_DAY,
    Frame(habit=("on Sundays", "los domingos")),
    Frame(habit=("in the morning", "por la mañana")),
    Frame(habit=("at night", "por la noche")),
)
TODAY = Frame(time=("today", "hoy"))
YESTERDAY, LAST_WEEK = ("yesterday", "ayer"), ("last week", "la semana pasada")
TOMORROW, TONIGHT, NEXT_WEEK = ("tomorrow", "mañana"), ("tonight", "esta noche"), ("next week", "la próxima semana")
DONE_YESTERDAY, NOT_DONE_LAST_WEEK = Frame("past", time=YESTERDAY), Frame("past", denied=True, time=LAST_WEEK)
DONE = (
    DONE_YESTERDAY,
    Frame("past", time=LAST_WEEK),
    Frame("past", time=("last night", "anoche")),
    Frame("past", time=("last Saturday", "el sábado pasado")),
)
NOT_DONE = (Frame("past", denied=True, time=YESTERDAY), NOT_DONE_LAST_WEEK)
COMING, COMING_TOMORROW, NOT_COMING = Frame("future"), Frame("future", time=TOMORROW), Frame("future", denied=True)
SOON = (COMING_TOMORROW, Frame("future", time=TONIGHT), Frame("future", time=NEXT_WEEK))
PLANNED = (*PLAIN, Frame(time=TOMORROW), Frame(time=TONIGHT))
GLADLY = (Frame(), *DONE, COMING, *SOON)  # nothing denied: nobody says that he did not buy two hats
LOSING = (*FREQUENT, *DONE, *NOT_DONE)  # what is lost is lost already, or time and again
ONCE = (*PLAIN, *DONE, *NOT_DONE, COMING, *SOON, NOT_COMING)
OFTEN = (*USUAL, *DONE, *NOT_DONE, COMING, *SOON, NOT_COMING)
BRIEFLY = (*PLAIN, DONE_YESTERDAY, NOT_DONE_LAST_WEEK, COMING, COMING_TOMORROW)

WHY, WHEN, WHERE, WHAT = ("why", "por qué"), ("when", "cuándo"), ("where", "dónde"), ("what", "qué")
PAST_QUESTION, FUTURE_QUESTION = Frame("past", asked=True), Frame("future", asked=True)
ASKING = (QUESTION, PAST_QUESTION, FUTURE_QUESTION)
TIMING = (*ASKING, PAST_QUESTION._replace(word=WHEN), FUTURE_QUESTION._replace(word=WHEN))
ASKING_WHY = QUESTION._replace(word=WHY)
WONDERING = (*TIMING, ASKING_WHY)
SEARCHING = (*WONDERING, PAST_QUESTION._replace(word=WHERE), FUTURE_QUESTION._replace(word=WHERE))
LOST = (PAST_QUESTION, PAST_QUESTION._replace(word=WHEN), PAST_QUESTION._replace(word=WHERE))

ANA, LUIS, CARMEN, PEDRO = NAMED = tuple(Phrase(name, name, gender=gender) for name, gender in word.NAMES)
ANA_AND_LUIS, *OTHER_PAIRS = PAIRS = together(ANA, LUIS), together(ANA, CARMEN), together(LUIS, PEDRO)
KIN = noun_phrases((word.MOTHER, word.FATHER, word.SISTER, word.BROTHER, word.PARENTS), "my your", "my our")
CAST = noun_phrases(word.ACTORS, "the", "the")
ELDER = noun_phrases((*word.ELDERS, *word.CHILDREN), "my your our")
OTHER = [
    *noun_phrases((word.TEACHER, word.DOCTOR), "the my your", "the"),
    *noun_phrases([word.STUDENT], "the this that", "the these those"),
    *noun_phrases((word.NEIGHBOR, word.FRIEND), "my your our", "my our"),
]
ACTING = (*NAMED, *PAIRS, *KIN, *CAST)
FOLK = (*ACTING, *ELDER[::4], *OTHER[::3])
ADULTS = [subject for subject in FOLK if subject not in noun_phrases((word.BOY, word.GIRL, word.CHILD), "the", "the")]
MEN, WOMEN = (
    [subject for subject in (HE, SHE, *FOLK) if subject.number < WE and subject.gender == gender] for gender in "mf"
)
ASKED = (
    *(pronoun for pronoun in PRONOUNS if pronoun.english not in ("I", "we")),
    *NAMED,
    ANA_AND_LUIS,
    *noun_phrases((word.MOTHER, word.PARENTS), "your", "your"),
)
EVERYONE = (*PRONOUNS, *FOLK)

# Those that people who act meet: nobody among them acts, so that no mother visits herself.
MET = as_persons((*ELDER, *OTHER))
ANYONE = as_persons((*NAMED, *KIN, *CAST, *ELDER, *OTHER))
