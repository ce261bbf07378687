"""The output layer and the loss: rows become words."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.algebra import line, linear, scale
from glassformer.equations.embedding import unembed
from glassformer.equations.losses import cross_entropy, label_smoothing
from glassformer.equations.probability import softmax
from glassformer.equations.sampling import greedy
from glassformer.lessons.walk import Walk
from glassformer.models.build import build
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.recording import plain, unchecked

PHRASES = ("<pad>", "<start>", "<end>", "you", "are", "welcome", "thank", "good", "morning", "de", "nada", "gracias", "buenos", "días")
PAIRS = (("you are welcome", "de nada"), ("thank you", "gracias"), ("good morning", "buenos días"))


def walk_output_layer(walk: Walk) -> None:
    """A score for every word of the vocabulary, a choice, a loss; and a small model that learns “de nada”."""
    walk.step(
        "A score for every word",
        "The last rows meet a matrix as wide as the vocabulary: one score for each word at each place. Softmax makes "
        "shares of the scores.",
        like="A roll call: every word of the language is asked how well it would fit here.",
    )
    sizes = walk.given("output-layer-shape")
    tokens, dim, vocab = (sizes.get(name, int) for name in ("tokens", "d_model", "vocabulary"))
    wide = unembed(torch.zeros(tokens, dim, dtype=torch.float64), torch.zeros(vocab, dim, dtype=torch.float64))
    walk.beside("output-layer-shape", logits_shape=list(wide.shape), weights=vocab * dim)
    h = walk.tensor([[1.0, 0.5, -0.5, 2.0], [0.2, -1.0, 1.5, 0.3]])
    W = walk.tensor([[0.1, 0.9, -0.4], [0.3, -0.2, 0.8], [-0.6, 0.4, 1.1], [0.2, 0.7, -0.3]])
    scores = linear(h, W)
    shares = softmax(scores)
    walk.show(scores, (0, 1), columns=("gracias", "de", "nada"))
    walk.show(shares, (0, 1), columns=("gracias", "de", "nada"))

    walk.step(
        "Choose and join",
        "The simplest choice is the word with the largest share, place by place; the words are then joined.",
        like="The loudest hand goes up first, and the teacher writes down the answer.",
    )
    chosen = greedy(scores)
    words = [("gracias", "de", "nada")[i] for i in chosen]
    walk.show(chosen)
    walk.claim("the largest share wins", bool((chosen == shares.argmax(-1)).all()))
    walk.say(f"Joined: {' '.join(words)}.")

    walk.step(
        "The loss of a sentence",
        "The right words are known while training. The loss is the mean surprise at them; its gradient at the scores is "
        "shares less truth, divided by the number of places.",
        like="Reading a detective story for the second time: how surprised are you at each page?",
    )
    right = torch.tensor([1, 2])
    loss = cross_entropy(scores, right)
    found = walk.back(loss)
    walk.show(loss)
    walk.show_gradient(found, scores, "∂L/∂scores", columns=("gracias", "de", "nada"))
    walk.show_gradient(found, W, "∂L/∂W", columns=("gracias", "de", "nada"))
    walk.claim("the gradient of the matrix has its shape", found[W].shape == W.shape)
    soft = label_smoothing(torch.eye(3, dtype=torch.float64)[right], 0.1)
    walk.show(soft, (0, 1), columns=("gracias", "de", "nada"))
    walk.say("Smoothing the targets a little keeps a model from becoming surer than it has reason to be.")

    walk.step(
        "Teacher forcing",
        "While training, the decoder reads the right words shifted by one, whatever it would have written itself. All "
        "places are learned in one pass.",
        like="A driving lesson in which the teacher turns the wheel back onto the road after every mistake.",
    )
    walk.table(("decoder reads", "decoder should say"), [("<start>", "de"), ("de", "nada"), ("nada", "<end>")])

    walk.step(
        "A small model learns it",
        "A translator with one layer each way, trained on three phrases. Its forward pass is the equations of the "
        "lessons before; watch the loss.",
        like="A phrase book for a weekend trip: three phrases, learned by heart.",
    )
    encode = lambda text: [PHRASES.index(word) for word in text.split()]  # noqa: E731 - one line
    source = torch.tensor([encode(a) + [2] + [0] * (3 - len(a.split())) for a, _ in PAIRS])
    target = torch.tensor([[1, *encode(b), 2] + [0] * (2 - len(b.split())) for _, b in PAIRS])
    model = build(Seq2SeqConfig(vocab=len(PHRASES), context=8, dim=16, layers=1, heads=2, hidden=32), seed=0)
    optimizer, losses = torch.optim.Adam(model.parameters(), 0.03), []
    for _ in range(30):
        with plain(), unchecked():
            guess = model(source, target[:, :-1], source != 0)
            value = cross_entropy(guess, target[:, 1:], ignore=0)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    walk.plot("loss", {"loss": (range(len(losses)), losses)})
    written = torch.tensor([[1]])
    with torch.no_grad():
        while written.shape[1] < 5 and int(written[0, -1]) != 2:
            last = model(source[:1], written)[:, -1:]
            written = torch.cat([written, greedy(last)], 1)
        final = softmax(model(source[:1], target[:1, :2])[0])
    walk.show(final, rows=("after <start>", "after de"), columns=PHRASES)
    text = " ".join(PHRASES[int(i)] for i in written[0, 1:-1])
    walk.say(f"you are welcome → {text}")
    walk.claim("it says de nada", text == "de nada")

    share = walk.tensor([[0.0, 0.0, 0.0, 0.0]])
    walk.ask(f"A model gives {share.shape[1]} words equal scores. What is its loss at any of them?",
             lambda: cross_entropy(share, torch.tensor([0])), "Minus the logarithm of one quarter.")
    walk.ask(f"The gradient of the score of a right word with share {number(shares[0, 1])}, one of two places?",
             lambda: scale(line(softmax(scores), 1.0, -1.0), 1 / len(scores)),
             "Share less one, divided by the number of places.", cell=(0, 1))
    rows, width, words_known = 5, 512, 30000
    walk.ask(f"{rows} tokens, width {width}, {words_known} words: what shape have the scores?",
             lambda: (rows, words_known), "A row for each token, a column for each word.")
