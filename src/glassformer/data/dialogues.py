"""The built-in conversations: short ones from a small grammar, whose last reply needs what was said before.

Names told before, counting, choices by their order, corrections and follow-up questions: the last message of the user
alone never tells the reply.
"""

import random
from collections.abc import Callable, Iterator
from itertools import cycle

from glassformer.data.conversations import ASSISTANT, USER, Conversation

CONVERSATIONS = 12_000


def _listed(words: str) -> list[str]:
    return words.split()


_NAMES = _listed(
    "Anna Ben Carla David Emma Felix Grace Hugo Iris Jonas Karen Leo Maria Nora Oscar Paula Rosa Simon Tina Victor"
)
_CITIES = _listed(
    "Athens Berlin Cairo Dublin Geneva Havana Lima London Madrid Oslo Paris Prague Quito Rome Tokyo Vienna"
)
_JOBS = _listed("baker carpenter cook dentist doctor driver farmer gardener lawyer painter pilot singer teacher writer")
_THINGS = ("apples books chairs coins cups eggs keys lamps lemons pens plates shoes").split()  # noqa: SIM905 - easier to read than a list of quoted words
_FOODS = _listed(
    "beer bread butter cake cheese coffee fish fruit honey juice lemonade milk nuts pasta rice salad soup "
    "sugar tea water"
)
_ANIMALS = ("bird cat cow dog goat horse mouse rabbit sheep snake").split()  # noqa: SIM905 - easier to read than a list of quoted words
_COLORS = ("black blue brown gray green orange pink red white yellow").split()  # noqa: SIM905 - easier to read than a list of quoted words
_RELATIVES = ("aunt brother cousin father friend mother neighbor sister uncle").split()  # noqa: SIM905 - easier to read than a list of quoted words
_WORDS = _listed(
    "bridge candle cloud door flower forest garden island ladder lake mirror moon mountain river star stone"
)
_NUMBERS = _listed(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
)
_FEWEST = 2  # things, which are in the plural
_ORDER = ("first", "second", "third")
Turns = list[tuple[str, str]]  # what the user says, and the reply


def dialogues(count: int = CONVERSATIONS, seed: int = 0) -> Iterator[Conversation]:
    """Different conversations, the same for the same seed; of the kinds with few of them all there are."""
    draw, seen = random.Random(seed), set[str]()
    for kind in cycle(_KINDS):
        turns = kind(draw)
        if repr(turns) not in seen:
            seen.add(repr(turns))
            number = len(seen)
            messages = [(role, text) for turn in turns for role, text in zip((USER, ASSISTANT), turn, strict=True)]
            yield Conversation(tuple({"role": role, "content": text} for role, text in messages), f"dialogues:{number}")
            if number == count:
                return


def _names(draw: random.Random) -> Turns:
    (mine, theirs), relative = draw.sample(_NAMES, 2), draw.choice(_RELATIVES)
    told = [
        (f"Hi, my name is {mine}.", f"Hello {mine}, nice to meet you."),
        (f"My {relative} is called {theirs}.", f"Say hello to {theirs} from me."),
    ]
    asked = [
        ("What is my name?", f"Your name is {mine}."),
        (f"What is my {relative} called?", f"Your {relative} is called {theirs}."),
    ]
    draw.shuffle(told)
    return [*told, *draw.sample(asked, draw.choice((1, 2)))]


def _counting(draw: random.Random) -> Turns:
    things, count = draw.choice(_THINGS), draw.randint(5, 12)
    turns = [(f"I have {_NUMBERS[count]} {things}.", f"So you have {_NUMBERS[count]} {things}.")]
    for _ in range(draw.choice((1, 2))):
        change = draw.randint(1, 3)
        gives = count - change >= _FEWEST and draw.choice((True, False))
        count += -change if gives else change
        said = f"I give away {_NUMBERS[change]}." if gives else f"I buy {_NUMBERS[change]} more."
        turns.append((said, f"Now you have {_NUMBERS[count]} {things}."))
    return turns


def _choice(draw: random.Random) -> Turns:
    one, other = draw.sample(_FOODS, 2)
    answers = [
        ("The first one, please.", f"I bring you {one}."),
        ("The second one, please.", f"I bring you {other}."),
        ("Both, please.", f"I bring you {one} and {other}."),
        (f"Anything but {one}.", f"I bring you {other}."),
        (f"Anything but {other}.", f"I bring you {one}."),
    ]
    return [(f"There is {one} and {other}.", "Which one would you like?"), draw.choice(answers)]


def _correction(draw: random.Random) -> Turns:
    animal, (first, then) = draw.choice(_ANIMALS), draw.sample(_COLORS, 2)
    corrected = [(f"Sorry, I meant {then}.", f"A {then} {animal}, then.")] if draw.choice((True, False)) else []
    color = then if corrected else first
    asked = (f"What color is my {animal}?", f"Your {animal} is {color}.")
    return [(f"I have a {first} {animal}.", f"A {first} {animal}, how nice."), *corrected, asked]


def _follow_up(draw: random.Random) -> Turns:
    people = draw.sample(_NAMES, 2)
    facts = list(zip(people, draw.sample(_CITIES, 2), draw.sample(_JOBS, 2), strict=True))
    told = [(f"{name} is a {job} and lives in {city}.", f"I see, {name} is a {job}.") for name, city, job in facts]
    asks_city = draw.choice((True, False))
    draw.shuffle(facts)
    replies = [f"{name} lives in {city}." if asks_city else f"{name} is a {job}." for name, city, job in facts]
    (first, *_), (second, *_) = facts
    question = f"Where does {first} live?" if asks_city else f"What does {first} do?"
    return [*told, (question, replies[0]), (f"And {second}?", replies[1])]


def _memory(draw: random.Random) -> Turns:
    words, asked = draw.sample(_WORDS, 3), draw.sample(range(3), draw.choice((1, 2)))
    questions = [f"Which word was {_ORDER[asked[0]]}?", *(f"And the {_ORDER[at]}?" for at in asked[1:])]
    replies = [f"The {_ORDER[at]} word was {words[at]}." for at in asked]
    told = (f"Remember {words[0]}, {words[1]} and {words[2]}.", "I will remember these three words.")
    return [told, *zip(questions, replies, strict=True)]


_KINDS: tuple[Callable[[random.Random], Turns], ...] = (
    _names,
    _counting,
    _choice,
    _correction,
    _follow_up,
    _memory,
)
