"""Which similarity to use, and when."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.similarity import cosine_similarity, euclidean_distance, inner_product, nearest, normalize

MEASURES = ("inner product", "cosine", "distance")


class ChoosingAMeasureWalk(Walk):
    """Cosine for what something is about, distance for how much of it, inner product where strength should count."""

    @step(
        "Cat, dog and airplane",
        like="Asking three judges who is more alike: here they agree, so nobody notices that they judge by "
        "different rules.",
    )
    def cat_dog_airplane(self) -> None:
        """Cat and dog are the vectors of one source; the airplane is ours, large where they are small. All three
        measures find the cat closer to the dog.
        """
        self.cat, self.dog = self.given("cosine-similarity-cat-dog").tensors("cat", "dog")
        self.plane = self.tensor([0.1, 0.2, 0.9])
        others = torch.stack([self.dog, self.plane])
        found = (
            inner_product(self.cat, others),
            cosine_similarity(self.cat, others),
            euclidean_distance(self.cat, others),
        )
        self.table(
            ("of the cat with", *MEASURES),
            [("dog", *(values[0] for values in found)), ("airplane", *(values[1] for values in found))],
        )
        self.show(found[1], (0,), (1,), columns=("dog", "airplane"))
        self.less("the cosine with the airplane is smaller", found[1][1], found[1][0])
        self.less("so is the inner product", found[0][1], found[0][0])
        self.less("and the distance is larger", found[2][0], found[2][1])

    @step(
        "Direction: what a text is about",
        like="Two recipes for the same cake, one for four and one for forty.",
    )
    def direction(self) -> None:
        """Count words, and a long article about cats lies far from a short note about cats, simply because it is long.
        The distance puts the note nearer to a short note about airplanes. The cosine ignores length and finds the
        topic. For meaning and topics take the cosine.
        """
        texts = self.tensor([[20.0, 10.0, 0.0], [0.0, 1.0, 2.0]])
        note = self.tensor([2.0, 1.0, 0.0])
        names = ("long article on cats", "short note on airplanes")
        near, alike = euclidean_distance(note, texts), cosine_similarity(note, texts)
        self.show(near, (0,), (1,))
        self.show(alike, (0,), (1,))
        self.table(("short note on cats, with", "distance", "cosine"), zip(names, near, alike, strict=True))
        self.claim("by distance the airplanes are nearer", near.argmin() == 1)
        self.claim("by cosine the other text on cats is", alike.argmax() == 0)
        self.same("which points in exactly the same direction", alike[0], 1.0)

    @step(
        "Distance: how much of it",
        like="The same street by day and by night: for a map they are one place, for a burglar two.",
    )
    def distance(self) -> None:
        """Where the amount itself matters, the cosine is blind. A picture and the same picture at a fifth of its
        brightness have a cosine of one. The distance tells them apart, and finds an exact match. For measurements,
        pixel values and duplicates take the distance.
        """
        bright = self.tensor([0.9, 0.5, 0.7])
        dark, copy = bright / 5, bright.clone()
        pictures = torch.stack([dark, copy])
        alike, apart = cosine_similarity(bright, pictures), euclidean_distance(bright, pictures)
        self.show(apart, (0,), (1,), columns=("dark", "copy"))
        self.same("the cosine takes both for the same picture", alike, 1.0)
        self.same("the distance finds the copy", apart[1], 0.0)
        self.less("and sees the dark one as another", 0.5, apart[0])

    @step(
        "Inner product: strength counts",
        like="Among advisers of the same opinion you follow the one who is sure.",
    )
    def strength_counts(self) -> None:
        """The inner product multiplies agreement by length. In attention that is wanted: a key can be long to be heard
        by every query that agrees at all. By cosine another key may win. Take it where vectors were learned for it, as
        in attention, in output layers and in recommenders.
        """
        query = self.tensor([1.0, 1.0])
        keys = self.tensor([[0.6, 0.5], [2.0, 0.8]])
        best, _ = nearest(query, keys)
        products, angles = inner_product(query, keys), cosine_similarity(query, keys)
        self.show(products, (0,), (1,))
        self.table(("key", "inner product", "cosine"), [(i, products[i], angles[i]) for i in range(len(keys))])
        self.claim("the longer key wins by inner product", int(best[0]) == 1)
        self.claim("and the better aligned one by cosine", int(angles.argmax()) == 0)

    @step(
        "Of equal length they agree",
        like="On a dial all hands have one length, so angle and distance between their tips tell the same time.",
    )
    def of_equal_length_they_agree(self) -> None:
        """Normalize the vectors first, and the choice does not matter: all three measures rank alike. Many vector
        databases do just that. If length is noise, normalize; if it carries something, choose by what it carries.
        """
        unit = normalize(torch.stack([self.dog, self.plane, self.tensor([0.2, 0.9, 0.1])]))
        query = normalize(self.cat)
        self.show(unit)
        by = (inner_product(query, unit), cosine_similarity(query, unit), -euclidean_distance(query, unit))
        orders = [values.argsort(descending=True).tolist() for values in by]
        self.table(
            ("length of the vectors", "take"),
            [
                ("noise, such as the length of a text", "cosine"),
                ("the amount itself, such as brightness", "distance"),
                ("learned strength, such as in attention", "inner product"),
                ("equal", "any: they rank alike"),
            ],
        )
        self.claim("all three measures give one order", orders[0] == orders[1] == orders[2])

    def quiz(self) -> None:
        """Questions on it."""
        a, b = self.tensor([1.0, 2.0]), self.tensor([3.0, 6.0])
        pair = f"({number(a[0])}, {number(a[1])}) and ({number(b[0])}, {number(b[1])})"
        self.ask(f"What is the cosine of {pair}?", lambda: cosine_similarity(a, b), "One is a multiple of the other.")
        self.ask(
            f"What is the distance of {pair}?", lambda: euclidean_distance(a, b), "The differences are two and four."
        )
        self.ask(
            f"And the inner product of {pair}?", lambda: inner_product(a, b), "Multiply entry by entry and add up."
        )
