"""Arguments of the losses: targets of both kinds, every setting."""

from tests.equations.drawing import Draw


def label_smoothing(draw: Draw) -> dict[str, object]:
    """A distribution and a probability to spread."""
    return {"y": draw.distribution(*draw.lead(), draw.integer(1, 6)), "epsilon": draw.choose(0.0, 0.1, 0.9)}


def cross_entropy(draw: Draw) -> dict[str, object]:
    """Logits, and classes (some left out) or probabilities as targets."""
    batch, classes = draw.lead(), draw.integer(1, 6)
    settings: dict[str, object] = {
        "logits": draw.normal(*batch, classes),
        "label_smoothing": draw.choose(0.0, 0.1),
        "reduction": draw.choose("mean", "sum", "none"),
    }
    if draw.choose(True, False):
        return settings | {"targets": draw.distribution(*batch, classes)}
    targets, ignore = draw.below(classes, *batch), draw.choose(None, -100, 0)
    if ignore == -100:
        targets = targets.where(draw.flags(*batch), -100)
    return settings | {"targets": targets, "ignore_index": ignore}


def perplexity(draw: Draw) -> dict[str, object]:
    """Log-probabilities, and perhaps which of them count, at least one."""
    log_probs = -draw.positive(*draw.lead(), draw.integer(1, 6))
    mask = draw.flags(*log_probs.shape)
    mask.view(-1)[0] = True
    return {"log_probs": log_probs, "mask": mask if draw.choose(True, False) else None}


def bits_per_byte(draw: Draw) -> dict[str, object]:
    """A loss and a length."""
    return {"nats": draw.number(0, 1e4), "bytes": draw.integer(1, 10000)}
