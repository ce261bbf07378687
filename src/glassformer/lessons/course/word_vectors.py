"""Word vectors and analogies."""

from glassformer.arithmetic import number
from glassformer.equations.similarity import analogy, cosine_similarity, inner_product, nearest_by_cosine
from glassformer.lessons.walk import Walk, step

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
    """A word as a row of numbers: neighbours are words of like meaning, and some relations are arrows."""

    @step("A word is a place", like="A colour as so much red, green and blue: nearby numbers, similar colours.")
    def word_is_a_place(self) -> None:
        """Give each word a row of numbers. Here the four numbers have names, so that one can see what they mean; in a
        trained model nobody names them, and there are hundreds.
        """
        self.words, self.vectors = list(VECTORS), self.tensor(list(VECTORS.values()))
        self.table(("word", *FEATURES), [(word, *row) for word, row in zip(self.words, self.vectors, strict=True)])

    @step("Neighbours", like="Asking a stranger who their friends are tells you a good deal about them.")
    def neighbours(self) -> None:
        """Similar words point in similar directions. Ask for the words whose cosine with a word is largest."""
        self.apple = self.vectors[self.words.index("apple")]
        order, cosines = nearest_by_cosine(self.apple, self.vectors, 3)
        self.show(cosines, columns=[self.words[i] for i in order])
        self.say(f"Nearest to apple: {', '.join(self.words[i] for i in order)}.")
        self.claim("a word is nearest to itself", self.words[int(order[0])] == "apple")
        self.claim("then comes the other fruit", self.words[int(order[1])] == "pear")

    @step(
        "Arrows",
        like="Directions in a city laid out in blocks: two east and one north means the same from any corner.",
    )
    def arrows(self) -> None:
        """What leads from man to king also leads from woman to queen: subtract, add, and look who is nearest to where
        one lands. The words of the question themselves are left out, as is the custom, since they are always near.
        """
        man, king, woman = (self.vectors[self.words.index(word)] for word in ("man", "king", "woman"))
        landed = analogy(man, king, woman)
        self.show(landed, (0,), (1,), columns=FEATURES)
        others = [word for word in self.words if word not in ("man", "king", "woman")]
        rest = self.tensor([VECTORS[word] for word in others])
        order, cosines = nearest_by_cosine(landed, rest, 3)
        self.show(cosines, columns=[others[i] for i in order])
        self.claim("queen is nearest", others[int(order[0])] == "queen")

    @step("Length and direction", like="A loud voice is heard further, but it does not say more.")
    def length_and_direction(self) -> None:
        """A frequent word may have a longer vector. The inner product counts that, the cosine does not."""
        louder = 3 * self.vectors[self.words.index("pear")]
        plain, loud = (
            inner_product(self.apple, self.vectors[self.words.index("pear")]),
            inner_product(self.apple, louder),
        )
        self.show(plain)
        self.show(loud)
        same = cosine_similarity(self.apple, louder)
        self.show(same)
        self.same(
            "the cosine is the same for both",
            same,
            cosine_similarity(self.apple, self.vectors[self.words.index("pear")]),
        )

    @step("Neighbours from a large corpus", like="A ranking is believable only if it is in order.")
    def neighbours_from_a_large_corpus(self) -> None:
        """A source lists the neighbours of the word airplane with their similarities. They are cosines, not
        percentages, and they fall from word to word as they must.
        """
        given, answer = self.given("airplane-neighbours"), self.worked("airplane-neighbours")
        self.table(
            ("word", "cosine"), zip(given.get("words", list[str]), answer.get("similarity", list[float]), strict=True)
        )
        self.claim("they are in order", answer.get("sorted_descending", bool))
        self.claim("each can be a cosine", answer.get("within_minus1_and_1", bool))

    def quiz(self) -> None:
        """Questions on it."""
        a, b, c = self.tensor([1.0, 2.0]), self.tensor([4.0, 3.0]), self.tensor([0.0, 1.0])
        self.ask(
            f"a = ({number(a[0])}, {number(a[1])}), b = ({number(b[0])}, {number(b[1])}), c = ({number(c[0])}, "
            f"{number(c[1])}): "
            "what is the first entry of what stands to c as b to a?",
            lambda: analogy(a, b, c),
            "b less a, plus c.",
            cell=(0,),
        )
        self.ask(
            "What is the cosine of king and queen in the table?",
            lambda: cosine_similarity(self.vectors[self.words.index("king")], self.vectors[self.words.index("queen")]),
            "The inner product divided by both lengths.",
        )
