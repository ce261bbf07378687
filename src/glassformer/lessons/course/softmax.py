"""Softmax and cross-entropy: mat, hat, bat or rat?"""

import math

from glassformer.arithmetic import number
from glassformer.equations.algebra import line, linear, scale
from glassformer.equations.losses import cross_entropy, perplexity
from glassformer.equations.optimizers import gradient_descent
from glassformer.equations.probability import (
    cross_entropy_between,
    entropy,
    kl_divergence,
    log_softmax,
    softmax,
    softmax_jacobian,
)
from glassformer.lessons.walk import Walk

WORDS = ("mat", "hat", "bat", "rat")


def walk_softmax(walk: Walk) -> None:
    """Scores become shares, a share becomes a surprise, and the surprise says how the scores should change."""
    walk.step(
        "Scores become shares",
        "A network ends in scores of any size and sign. Softmax raises e to each and divides by the sum, so that the "
        "best score gets most, none gets less than nothing, and all shares sum to one.",
        like="A pie cut by applause: louder clapping earns a larger piece, but there is only one pie.",
    )
    x = walk.given("softmax-2-1-02").tensor("x")
    p = softmax(x)
    walk.show(p, (0,))
    walk.beside("softmax-2-1-02", softmax=p, sum=p.sum())
    walk.claim("the order is kept", p.argsort().tolist() == x.argsort().tolist())

    walk.step(
        "Only differences count",
        "Add the same number to every score and nothing changes; that is why the largest can be taken off first, so "
        "that e is never raised to anything huge. Multiply every score, and the winner takes more.",
        like="A race is decided by the gaps between runners, not by the hour it starts; stretch the gaps and the "
        "photograph of the finish gets clearer.",
    )
    given = walk.given("softmax-invariances")
    z = given.tensor("z")
    shifted = softmax(line(z, 1.0, given.get("shift", float)))
    sharper = softmax(scale(z, given.get("scale", float)))
    walk.table(("", *(f"score {number(s)}" for s in z)), [("as it is", *softmax(z)), ("shifted", *shifted), ("scaled", *sharper)])
    walk.beside("softmax-invariances", base=softmax(z), shifted=shifted, scaled=sharper)

    walk.step(
        "Surprise",
        "The cat sat on the … Four words to choose from, and the right one is known. The loss is minus the logarithm of "
        "the share that the right word got: little if it got much, a lot if it got little.",
        like="Being told that the sun rose surprises nobody; being told that it did not would fill the papers.",
    )
    y, good = walk.given("cross-entropy-good").tensors("y", "p")
    bad = walk.given("cross-entropy-bad").tensor("p")
    well, badly = cross_entropy_between(y, good), cross_entropy_between(y, bad)
    walk.show(well)
    walk.show(badly)
    walk.beside("cross-entropy-good", loss=well)
    walk.beside("cross-entropy-bad", loss=badly)

    walk.step(
        "What the scores are told",
        "The way back is as simple as it gets: with respect to the scores, the gradient is the shares less the truth. "
        "The right word is told to rise by what it lacks, each wrong one to fall by what it has. Together they cancel.",
        like="A teacher hands back marks: so much too little here, so much too much there, and the sum is square.",
    )
    logits = bad.log()
    loss = cross_entropy(logits, y)
    found = walk.back(loss)
    walk.show(loss)
    walk.show_gradient(found, logits, "∂L/∂z", columns=WORDS)
    walk.beside("gradient-p-minus-y", gradient=found[logits])
    walk.claim("the gradient sums to zero", abs(float(found[logits].sum())) < 1e-12)
    jacobian = softmax_jacobian(good)
    walk.show(jacobian, (0, 0), (0, 1), rows=WORDS, columns=WORDS)
    walk.claim("each row of the Jacobian sums to zero", float(jacobian.sum(-1).abs().max()) < 1e-12)

    walk.step(
        "One step, taken rightly",
        "The step goes to the scores, and the shares are computed anew. One source subtracts the step from the shares "
        "themselves; shares are not what the gradient was for.",
        like="Turn the tap, not the puddle.",
    )
    rate = walk.given("probabilities-after-update").get("alpha", float)
    new = gradient_descent(logits, found[logits], rate)
    after, less = softmax(new), cross_entropy(new, y)
    walk.show(new, (0,), (3,), columns=WORDS)
    walk.show(after, (0,), columns=WORDS)
    walk.beside("probabilities-after-update", Z_new=new, p_new=after, loss_new=less)
    walk.claim(f"the loss falls from {number(loss)} to {number(less)}", less < loss)

    walk.step(
        "Two thousand steps",
        "The same step again and again. The right word's share climbs fast at first and then ever more slowly, since "
        "the gradient shrinks as the share nears one. In print the run starts from the shares as if they were scores.",
        like="Filling a bottle: the nearer the rim, the gentler the tap.",
    )
    first, last = walk.worked("softmax-gd-iteration-0"), walk.worked("softmax-gd-final")
    walk.table(("share of", *WORDS), [
        ("before the first step", *first["probabilities"]),
        ("after the last step", *last["probabilities"]),
    ])
    walk.beside("softmax-gd-final", probabilities=last["probabilities"])

    walk.step(
        "From scores to weights",
        "Scores are not parameters; the matrix that made them is. Its gradient is each input times each entry of shares "
        "less truth.",
        like="The blame for a wrong total goes to each price in proportion to how many were bought.",
    )
    h, p, y = walk.given("weight-update-symbol").tensors("h", "p", "y")
    W = (h[:, None] * p.log()) / (h @ h)
    scores = linear(h, W)
    back = walk.back(cross_entropy(scores, y))
    walk.show_gradient(back, W, "∂L/∂W", columns=WORDS)
    walk.beside("weight-update-symbol", dW=back[W])

    walk.step(
        "What the number means",
        "Cross-entropy is what believing q costs while p is true. Part of it nobody could save, the entropy of p; the "
        "rest, the divergence, is the price of the wrong belief. Its exponential, the perplexity, says among how many "
        "equally likely words the model seems to choose.",
        like="A taxi fare: part is the distance, which every driver must charge, and part is the detour.",
    )
    p, q = walk.given("cross-entropy-extra-bits-claim").tensors("p", "q")
    both, own, extra = cross_entropy_between(p, q), entropy(p), kl_divergence(p, q)
    walk.table(("in nats", ""), [("cross-entropy", both), ("entropy", own), ("divergence", extra)])
    walk.claim("cross-entropy is entropy and divergence together", math.isclose(both, own + extra))
    right = walk.given("perplexity-example").tensor("token_probabilities")
    among = perplexity(right.log())
    walk.show(among)
    walk.beside("perplexity-example", perplexity=among)

    two = walk.tensor([1.0, 0.0])
    walk.ask(f"Scores {number(two[0])} and {number(two[1])}: what share has the first?", lambda: softmax(two),
             "e divided by e plus one.", cell=(0,))
    walk.ask("If the right word has that share, what is the loss?", lambda: cross_entropy(two, walk.tensor([1.0, 0.0])),
             "Minus the natural logarithm of the share.")
    walk.ask("And what is the gradient of the first score?", lambda: line(softmax(two), 1.0, -1.0),
             "The share less the truth, which is one.", cell=(0,))
    even = walk.tensor([1.0] * 8)
    walk.ask(f"What is the perplexity of a model that thinks {len(even)} words equally likely?",
             lambda: perplexity(log_softmax(even)), "Among how many does it choose?")
