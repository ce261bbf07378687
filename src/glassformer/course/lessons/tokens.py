"""Tokens, embeddings and one-hot vectors."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.algebra import linear
from glassformer.equations.embedding import embed, scale_embedding, unembed
from glassformer.equations.information import one_hot
from glassformer.equations.masks import padding_mask
from glassformer.equations.matrices import transpose
from glassformer.equations.similarity import inner_product
from glassformer.equations.softmax import softmax

VOCABULARY = ("<pad>", "<start>", "<end>", "you", "are", "welcome", "de", "nada")


class TokensWalk(Walk):
    """Text becomes ids, ids become rows of an embedding table, and the same table turns vectors into words again."""

    @step(
        "From text to ids",
        like="A coat check: every coat gets a numbered ticket, and the number says nothing about the coat.",
    )
    def from_text_to_ids(self) -> None:
        """Text is split into tokens, and each token has an id, its number in the vocabulary. Some tokens are not
        words: one starts a sentence, one ends it, and one pads short sentences.
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
        read = [[VOCABULARY[i] for i in row] for row in self.ids.tolist()]
        self.claim("the ids read back as the same tokens", read == self.sentences)

    @step("Rows of a table", like="A dictionary in which every word's explanation is a row of numbers.")
    def rows_of_a_table(self) -> None:
        """The embedding table has a row for each token. To embed is to pick rows: a lookup, no arithmetic at all. The
        rows are random at first and are learned like any weight.
        """
        self.vectors = self.tensor(
            [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.1, 0.2], [-0.3, 0.5], [0.4, -0.3], [0.1, 0.4], [0.2, 0.6]]
        )
        self.rows = embed(self.vectors, self.ids)
        self.show(self.rows, rows=[word for words in self.sentences for word in words])
        self.claim("every row is the table's row of that id", bool((self.rows == self.vectors[self.ids]).all()))

    @step("The same as a product", like="Ringing one bell out of a row of bells: only that house wakes up.")
    def same_as_a_product(self) -> None:
        """A one-hot vector, zeros with a single one, times the table gives the same row. This is why the gradient of
        a table is simple: each row gets the gradients of the positions that looked it up, and no others.
        """
        hot = one_hot(self.ids[0], len(self.vectors), torch.float64)
        picked = linear(hot, self.vectors)
        self.show(hot, rows=self.sentences[0], columns=VOCABULARY)
        self.show(picked, (1, 0), rows=self.sentences[0])
        self.claim("lookup and product agree to the last digit", torch.equal(picked, self.rows[0]))
        first = embed(self.vectors, self.ids[0])
        found = self.back(first, torch.ones_like(first))
        self.show_gradient(found, self.vectors, "gradient of the table, first sentence", rows=VOCABULARY)
        self.claim(
            "each row's gradient counts how often it was looked up, zero where it was not",
            found[self.vectors][:, 0].tolist() == [float((self.ids[0] == i).sum()) for i in range(len(self.vectors))],
        )
        columns, x = self.given("embedding-onehot-column").tensors("W_e", "x")
        self.say("A source writes embeddings as columns instead of rows; transposed, it is the same.")
        self.beside("embedding-onehot-column", embedding=linear(x, transpose(columns)))

    @step(
        "No token attends to padding",
        like="Empty chairs at a round table: they keep the spacing, and nobody asks them for an opinion.",
    )
    def no_token_attends_to_padding(self) -> None:
        """Sequences in a batch must have the same length, so short ones are padded. A padding mask takes the padding
        out of attention; the start token is a real token and stays.
        """
        mask = padding_mask(self.ids != VOCABULARY.index("<pad>"), dtype=torch.float64)
        self.show(mask, rows=("first", "second"), columns=[str(i) for i in range(self.ids.shape[1])])
        blocked = mask.reshape(self.ids.shape).isinf()
        self.claim("exactly the padding is masked", torch.equal(blocked, self.ids == VOCABULARY.index("<pad>")))
        self.claim("the start token is not masked", not blocked[self.ids == VOCABULARY.index("<start>")].any())

    @step(
        "The table read backward: tied weights", like="The dictionary used the other way: from the meaning to the word."
    )
    def table_read_backward(self) -> None:
        """To choose a word, compare the last hidden state with every row of the same table: the inner products are the
        logits. Using one table for both saves a matrix as large as the table and keeps both ends in one language.
        """
        E, h = self.given("weight-tying-logits").tensors("E", "h_t")
        logits = unembed(h, E)
        probabilities = softmax(logits)
        self.show(logits, (0,))
        self.show(probabilities)
        self.beside("weight-tying-logits", logits=logits, probabilities=probabilities)
        self.same("each logit is the inner product with that token's row", logits, inner_product(h, E))
        scaled = scale_embedding(self.rows[0])
        self.show(scaled, (1, 0), rows=self.sentences[0])
        self.say(
            "On the way in, the original Transformer multiplies embeddings by the square root of their width, before "
            "positions are added."
        )

    def quiz(self) -> None:
        """Questions on it."""
        one, grid = torch.tensor([2]), self.tensor([[0.5, 1.0], [0.0, -1.0], [2.5, 0.25]])
        self.ask(
            "A table has the rows "
            + ", ".join(f"({number(a)}, {number(b)})" for a, b in grid)
            + f". What is the first number of the embedding of id {int(one)}?",
            lambda: linear(one_hot(one, len(grid), grid.dtype), grid),
            "Ids count from zero.",
            cell=(0, 0),
        )
        self.ask(
            f"A vocabulary of {len(VOCABULARY)} and embeddings of width {self.vectors.shape[1]}: what is the shape of "
            "the table's gradient?",
            lambda: tuple(self.vectors.shape),
            "How many rows does the table have, and how wide are they?",
        )
