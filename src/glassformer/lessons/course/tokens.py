"""Tokens, embeddings and one-hot rows."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.algebra import linear, transpose
from glassformer.equations.embedding import look_up, one_hot, scale_embedding, unembed
from glassformer.equations.masks import padding_mask
from glassformer.equations.probability import softmax
from glassformer.lessons.walk import Walk, step

VOCABULARY = ("<pad>", "<start>", "<end>", "you", "are", "welcome", "de", "nada")


class TokensWalk(Walk):
    """Text becomes ids, ids become rows of a table, and the same table turns rows into words again."""

    @step(
        "From text to ids",
        like="A cloakroom: every coat gets a numbered ticket, and the number says nothing about the coat.",
    )
    def from_text_to_ids(self) -> None:
        """Text is cut into tokens, and each token has a number in the vocabulary. Some tokens are not words: one to
        begin with, one to end with, and one to fill up short sentences.
        """
        self.sentences = [["<start>", "you", "are", "welcome", "<end>"], ["<start>", "de", "nada", "<end>", "<pad>"]]
        self.ids = torch.tensor([[VOCABULARY.index(word) for word in words] for words in self.sentences])
        self.table(
            ("", *map(str, range(self.ids.shape[1]))),
            [(f"sentence {i}", *words) for i, words in enumerate(self.sentences)],
        )
        self.table(
            ("", *map(str, range(self.ids.shape[1]))), [(f"ids {i}", *row.tolist()) for i, row in enumerate(self.ids)]
        )

    @step("Rows of a table", like="A dictionary in which every word's explanation is a row of numbers.")
    def rows_of_a_table(self) -> None:
        """The embedding table has a row for each token. To embed is to pick rows: a look-up, no arithmetic at all. The
        rows begin at random and are learned like any weight.
        """
        self.vectors = self.tensor(
            [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.1, 0.2], [-0.3, 0.5], [0.4, -0.3], [0.1, 0.4], [0.2, 0.6]]
        )
        self.rows = look_up(self.vectors, self.ids)
        self.show(self.rows, rows=[word for words in self.sentences for word in words])
        self.claim("every row is the table's row of that id", bool((self.rows == self.vectors[self.ids]).all()))

    @step("The same as a product", like="Ringing one bell out of a row of bells: only that house wakes up.")
    def same_as_a_product(self) -> None:
        """A row of zeros with a single one, times the table, gives the same row. This is why the gradient of a table
        is simple: only rows that were looked up are told anything.
        """
        hot = one_hot(self.ids[0], len(self.vectors), torch.float64)
        picked = linear(hot, self.vectors)
        self.show(hot, rows=self.sentences[0], columns=VOCABULARY)
        self.show(picked, (1, 0), rows=self.sentences[0])
        self.claim("look-up and product agree to the last digit", torch.equal(picked, self.rows[0]))
        found = self.back(self.rows, torch.ones_like(self.rows))
        self.show_gradient(found, self.vectors, "gradient of the table", rows=VOCABULARY)
        self.claim(
            "each row's gradient counts how often it was looked up",
            found[self.vectors][:, 0].tolist() == [float((self.ids == i).sum()) for i in range(len(self.vectors))],
        )
        columns, x = self.given("embedding-onehot-column").tensors("W_e", "x")
        self.say("A source writes the same with columns instead of rows; transposed, it is the same.")
        self.beside("embedding-onehot-column", embedding=linear(x, transpose(columns)))

    @step(
        "Fillers are seen by nobody",
        like="Empty chairs at a round table: they keep the spacing, and nobody asks them for an opinion.",
    )
    def fillers_are_seen_by_nobody(self) -> None:
        """Sentences in a batch must be equally long, so short ones are filled up. A mask takes the fillers out of
        every sum; the start token is a real token and stays.
        """
        mask = padding_mask(self.ids != VOCABULARY.index("<pad>"), dtype=torch.float64)
        self.show(mask, rows=("first", "second"), columns=[str(i) for i in range(self.ids.shape[1])])
        answer = self.worked("start-token-mask-claim")
        self.claim("the start token is not masked", not answer.get("start_is_masked", bool))

    @step("The table read backward", like="The dictionary used the other way: from the meaning to the word.")
    def table_read_backward(self) -> None:
        """To choose a word, compare the last row with every row of the same table: the inner products are the scores.
        Using one table for both saves a matrix and keeps both ends in one language.
        """
        E, h = self.given("weight-tying-logits").tensors("E", "h_t")
        scores = unembed(h, E)
        shares = softmax(scores)
        self.show(scores, (0,))
        self.show(shares)
        self.beside("weight-tying-logits", logits=scores, probabilities=shares)
        scaled = scale_embedding(self.rows[0])
        self.show(scaled, (1, 0), rows=self.sentences[0])
        self.say("Going in, the original model multiplies rows by the root of their width before positions are added.")

    def quiz(self) -> None:
        """Questions on it."""
        one, grid = torch.tensor([2]), self.tensor([[0.5, 1.0], [0.0, -1.0], [2.5, 0.25]])
        self.ask(
            "A table has the rows "
            + ", ".join(f"({number(a)}, {number(b)})" for a, b in grid)
            + f". What is the first number of the row of id {int(one)}?",
            lambda: look_up(grid, one),
            "Count from zero.",
            cell=(0, 0),
        )
        self.ask(
            f"A vocabulary of {len(VOCABULARY)} and rows of {self.vectors.shape[1]} numbers: what shape has "
            "the table's gradient?",
            lambda: tuple(self.vectors.shape),
            "The shape of the table.",
        )
