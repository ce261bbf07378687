"""Tokens, embeddings and one-hot rows."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.algebra import linear, transpose
from glassformer.equations.embedding import look_up, one_hot, scale_embedding, unembed
from glassformer.equations.masks import padding_mask
from glassformer.equations.probability import softmax
from glassformer.lessons.walk import Walk

VOCABULARY = ("<pad>", "<start>", "<end>", "you", "are", "welcome", "de", "nada")


def walk_tokens(walk: Walk) -> None:
    """Text becomes ids, ids become rows of a table, and the same table turns rows into words again."""
    walk.step(
        "From text to ids",
        "Text is cut into tokens, and each token has a number in the vocabulary. Some tokens are not words: one to begin "
        "with, one to end with, and one to fill up short sentences.",
        like="A cloakroom: every coat gets a numbered ticket, and the number says nothing about the coat.",
    )
    sentences = [["<start>", "you", "are", "welcome", "<end>"], ["<start>", "de", "nada", "<end>", "<pad>"]]
    ids = torch.tensor([[VOCABULARY.index(word) for word in words] for words in sentences])
    walk.table(("", *map(str, range(ids.shape[1]))), [(f"sentence {i}", *words) for i, words in enumerate(sentences)])
    walk.table(("", *map(str, range(ids.shape[1]))), [(f"ids {i}", *row.tolist()) for i, row in enumerate(ids)])

    walk.step(
        "Rows of a table",
        "The embedding table has a row for each token. To embed is to pick rows: a look-up, no arithmetic at all. The "
        "rows begin at random and are learned like any weight.",
        like="A dictionary in which every word's explanation is a row of numbers.",
    )
    table = walk.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.1, 0.2], [-0.3, 0.5], [0.4, -0.3], [0.1, 0.4], [0.2, 0.6]])
    rows = look_up(table, ids)
    walk.show(rows, rows=[word for words in sentences for word in words])
    walk.claim("every row is the table's row of that id", bool((rows == table[ids]).all()))

    walk.step(
        "The same as a product",
        "A row of zeros with a single one, times the table, gives the same row. This is why the gradient of a table is "
        "simple: only rows that were looked up are told anything.",
        like="Ringing one bell out of a row of bells: only that house wakes up.",
    )
    hot = one_hot(ids[0], len(table), torch.float64)
    picked = linear(hot, table)
    walk.show(hot, rows=sentences[0], columns=VOCABULARY)
    walk.show(picked, (1, 0), rows=sentences[0])
    walk.claim("look-up and product agree to the last digit", torch.equal(picked, rows[0]))
    found = walk.back(rows, torch.ones_like(rows))
    walk.show_gradient(found, table, "gradient of the table", rows=VOCABULARY)
    walk.claim("each row's gradient counts how often it was looked up",
               found[table][:, 0].tolist() == [float((ids == i).sum()) for i in range(len(table))])
    columns, x = walk.given("embedding-onehot-column").tensors("W_e", "x")
    walk.say("A source writes the same with columns instead of rows; transposed, it is the same.")
    walk.beside("embedding-onehot-column", embedding=linear(x, transpose(columns)))

    walk.step(
        "Fillers are seen by nobody",
        "Sentences in a batch must be equally long, so short ones are filled up. A mask takes the fillers out of every "
        "sum; the start token is a real token and stays.",
        like="Empty chairs at a round table: they keep the spacing, and nobody asks them for an opinion.",
    )
    mask = padding_mask(ids != VOCABULARY.index("<pad>"), dtype=torch.float64)
    walk.show(mask, rows=("first", "second"), columns=map(str, range(ids.shape[1])))
    answer = walk.worked("start-token-mask-claim")
    walk.claim("the start token is not masked", not answer["start_is_masked"])

    walk.step(
        "The table read backward",
        "To choose a word, compare the last row with every row of the same table: the inner products are the scores. "
        "Using one table for both saves a matrix and keeps both ends in one language.",
        like="The dictionary used the other way: from the meaning to the word.",
    )
    E, h = walk.given("weight-tying-logits").tensors("E", "h_t")
    scores = unembed(h, E)
    shares = softmax(scores)
    walk.show(scores, (0,))
    walk.show(shares)
    walk.beside("weight-tying-logits", logits=scores, probabilities=shares)
    scaled = scale_embedding(rows[0])
    walk.show(scaled, (1, 0), rows=sentences[0])
    walk.say("Going in, the original model multiplies rows by the root of their width before positions are added.")

    one, grid = torch.tensor([2]), walk.tensor([[0.5, 1.0], [0.0, -1.0], [2.5, 0.25]])
    walk.ask("A table has the rows " + ", ".join(f"({number(a)}, {number(b)})" for a, b in grid) +
             f". What is the first number of the row of id {int(one)}?", lambda: look_up(grid, one), "Count from zero.", cell=(0, 0))
    walk.ask(f"A vocabulary of {len(VOCABULARY)} and rows of {table.shape[1]} numbers: what shape has the table's gradient?",
             lambda: tuple(table.shape), "The shape of the table.")
