"""Word vectors and analogies."""

from glassformer.arithmetic import number
from glassformer.equations.similarity import analogy, cosine_similarity, inner_product, nearest_by_cosine
from glassformer.lessons.walk import Walk

FEATURES = ("royal", "male", "female", "fruit")
VECTORS = {
    "king": (0.9, 0.8, 0.1, 0.0),
    "queen": (0.9, 0.1, 0.8, 0.0),
    "man": (0.1, 0.9, 0.1, 0.0),
    "woman": (0.1, 0.1, 0.9, 0.0),
    "prince": (0.7, 0.8, 0.2, 0.1),
    "apple": (0.0, 0.1, 0.1, 0.9),
    "pear": (0.1, 0.0, 0.1, 0.8),
}


def walk_word_vectors(walk: Walk) -> None:
    """A word as a row of numbers: neighbours are words of like meaning, and some relations are arrows."""
    walk.step(
        "A word is a place",
        "Give each word a row of numbers. Here the four numbers have names, so that one can see what they mean; in a "
        "trained model nobody names them, and there are hundreds.",
        like="A colour as so much red, green and blue: nearby numbers, similar colours.",
    )
    words, table = list(VECTORS), walk.tensor(list(VECTORS.values()))
    walk.table(("word", *FEATURES), [(word, *row) for word, row in zip(words, table, strict=True)])

    walk.step(
        "Neighbours",
        "Similar words point in similar directions. Ask for the words whose cosine with a word is largest.",
        like="Asking a stranger who their friends are tells you a good deal about them.",
    )
    apple = table[words.index("apple")]
    order, cosines = nearest_by_cosine(apple, table, 3)
    walk.show(cosines, columns=[words[i] for i in order])
    walk.say(f"Nearest to apple: {', '.join(words[i] for i in order)}.")
    walk.claim("a word is nearest to itself", words[int(order[0])] == "apple")
    walk.claim("then comes the other fruit", words[int(order[1])] == "pear")

    walk.step(
        "Arrows",
        "What leads from man to king also leads from woman to queen: subtract, add, and look who is nearest to where "
        "one lands. The words of the question themselves are left out, as is the custom, since they are always near.",
        like="Directions in a city laid out in blocks: two east and one north means the same from any corner.",
    )
    man, king, woman = (table[words.index(word)] for word in ("man", "king", "woman"))
    landed = analogy(man, king, woman)
    walk.show(landed, (0,), (1,), columns=FEATURES)
    others = [word for word in words if word not in ("man", "king", "woman")]
    rest = walk.tensor([VECTORS[word] for word in others])
    order, cosines = nearest_by_cosine(landed, rest, 3)
    walk.show(cosines, columns=[others[i] for i in order])
    walk.claim("queen is nearest", others[int(order[0])] == "queen")

    walk.step(
        "Length and direction",
        "A frequent word may have a longer vector. The inner product counts that, the cosine does not.",
        like="A loud voice is heard further, but it does not say more.",
    )
    louder = 3 * table[words.index("pear")]
    plain, loud = inner_product(apple, table[words.index("pear")]), inner_product(apple, louder)
    walk.show(plain)
    walk.show(loud)
    same = cosine_similarity(apple, louder)
    walk.show(same)
    walk.claim("the cosine is the same for both", abs(float(same - cosine_similarity(apple, table[words.index("pear")]))) < 1e-12)

    walk.step(
        "Neighbours from a large corpus",
        "A source lists the neighbours of the word airplane with their similarities. They are cosines, not percentages, "
        "and they fall from word to word as they must.",
        like="A ranking is believable only if it is in order.",
    )
    given, answer = walk.given("airplane-neighbours"), walk.worked("airplane-neighbours")
    walk.table(("word", "cosine"), zip(given.get("words", list[str]), answer["similarity"], strict=True))
    walk.claim("they are in order", bool(answer["sorted_descending"]))
    walk.claim("each can be a cosine", bool(answer["within_minus1_and_1"]))

    a, b, c = walk.tensor([1.0, 2.0]), walk.tensor([4.0, 3.0]), walk.tensor([0.0, 1.0])
    walk.ask(
        f"a = ({number(a[0])}, {number(a[1])}), b = ({number(b[0])}, {number(b[1])}), c = ({number(c[0])}, {number(c[1])}): "
        "what is the first entry of what stands to c as b to a?",
        lambda: analogy(a, b, c), "b less a, plus c.", cell=(0,),
    )
    walk.ask("What is the cosine of king and queen in the table?",
             lambda: cosine_similarity(table[words.index("king")], table[words.index("queen")]),
             "The inner product divided by both lengths.")
