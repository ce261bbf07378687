"""Word vectors and analogies."""

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.similarity import analogy, cosine_similarity, inner_product, nearest_by_cosine

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


class WordVectorsWalk(Walk):
    """A word as a vector: its neighbors are words of similar meaning, and some relations are directions."""

    @step("A word is a vector", like="A color as amounts of red, green and blue: nearby numbers, similar colors.")
    def word_is_a_vector(self) -> None:
        """Give each word a vector. Here its four features have names, so that you can see what they mean; in a trained
        model nobody names them, and there are hundreds.
        """
        self.words, self.vectors = list(VECTORS), self.tensor(list(VECTORS.values()))
        self.table(("word", *FEATURES), [(word, *row) for word, row in zip(self.words, self.vectors, strict=True)])
        self.claim("each word has four features", self.vectors.shape == (len(self.words), 4))

    @step("Neighbors", like="Asking a stranger who their friends are tells you a good deal about them.")
    def neighbors(self) -> None:
        """Similar words point in similar directions. Ask for the words whose cosine with a word is largest."""
        self.apple = self.vectors[self.words.index("apple")]
        order, cosines = nearest_by_cosine(self.apple, self.vectors, 3)
        self.show(cosines, columns=[self.words[i] for i in order])
        self.say(f"Nearest to apple: {', '.join(self.words[i] for i in order)}.")
        self.claim("a word is nearest to itself", self.words[int(order[0])] == "apple")
        self.claim("then comes the other fruit", self.words[int(order[1])] == "pear")
        self.less("anything else points elsewhere", cosines[2], 0.5)

    @step(
        "Analogies",
        like="Directions in a city laid out in blocks: two east and one north means the same from any corner.",
    )
    def analogies(self) -> None:
        """The step from man to king also leads from woman to queen: subtract, add, and see which word is nearest to
        the result. The words of the question are left out, as is usual, since they tend to be near.
        """
        man, king, woman = (self.vectors[self.words.index(word)] for word in ("man", "king", "woman"))
        landed = analogy(man, king, woman)
        self.show(landed, (0,), (1,), columns=FEATURES)
        others = [word for word in self.words if word not in ("man", "king", "woman")]
        rest = self.tensor([VECTORS[word] for word in others])
        order, cosines = nearest_by_cosine(landed, rest, 3)
        self.show(cosines, columns=[others[i] for i in order])
        self.claim("queen is nearest", others[int(order[0])] == "queen")
        self.less("woman, a word of the question, is nearer than prince", cosines[1], cosine_similarity(landed, woman))

    @step("Length and direction", like="A loud voice carries farther, but it does not say more.")
    def length_and_direction(self) -> None:
        """Vectors differ in length as well as in direction. The inner product counts the length, the cosine does
        not.
        """
        louder = 3 * self.vectors[self.words.index("pear")]
        plain, loud = (
            inner_product(self.apple, self.vectors[self.words.index("pear")]),
            inner_product(self.apple, louder),
        )
        self.show(plain)
        self.show(loud)
        same = cosine_similarity(self.apple, louder)
        self.show(same)
        self.same("a vector three times as long has three times the inner product", loud, 3 * plain)
        self.same(
            "the cosine is the same for both",
            same,
            cosine_similarity(self.apple, self.vectors[self.words.index("pear")]),
        )

    @step("Neighbors from a large corpus", like="A ranking is believable only if it is in order.")
    def neighbors_from_a_large_corpus(self) -> None:
        """A source lists the neighbors of the word airplane with their similarities. The vectors behind the list are
        not at hand, so the numbers cannot be computed again here. What can be checked: they fall from word to word,
        and each can be a cosine.
        """
        given = self.given("airplane-neighbours")
        words, printed = given.get("words", list[str]), given.fact("similarity", list[float])
        self.table(("word", "cosine in print"), zip(words, printed, strict=True))
        self.claim("they fall from word to word", printed == sorted(printed, reverse=True))
        self.claim("each can be a cosine", all(-1 <= value <= 1 for value in printed))

    def quiz(self) -> None:
        """Questions on it."""
        a, b, c = self.tensor([1.0, 2.0]), self.tensor([4.0, 3.0]), self.tensor([0.0, 1.0])
        self.ask(
            f"a = ({number(a[0])}, {number(a[1])}), b = ({number(b[0])}, {number(b[1])}), c = ({number(c[0])}, "
            f"{number(c[1])}): "
            "a is to b as c is to d. What is the first entry of d?",
            lambda: analogy(a, b, c),
            "Take the step that leads from a to b, starting from c.",
            cell=(0,),
        )
        king, queen = (self.vectors[self.words.index(word)] for word in ("king", "queen"))
        self.ask(
            f"king is ({', '.join(map(number, king))}) and queen is ({', '.join(map(number, queen))}). What is their "
            "cosine?",
            lambda: cosine_similarity(king, queen),
            "The inner product divided by both lengths.",
        )
