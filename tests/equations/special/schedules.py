"""Arguments of the schedules."""

from tests.equations.drawing import Draw


def noam_learning_rate(draw: Draw) -> dict:
    return {"step": draw.integer(1, 1000), "dim": draw.integer(1, 512), "warmup": draw.integer(1, 500)}


def linear_warmup(draw: Draw) -> dict:
    return {"step": draw.integer(1, 100), "warmup": draw.integer(1, 50), "peak": draw.number(0.0, 1.0)}


inverse_square_root_schedule = linear_warmup


def schedule_progress(draw: Draw) -> dict:
    start = draw.integer(0, 50)
    return {"step": draw.integer(0, 200), "start": start, "end": start + draw.integer(1, 100)}


def linear_schedule(draw: Draw) -> dict:
    drawn = linear_warmup(draw)
    return drawn | {"total": drawn["warmup"] + draw.integer(1, 60), "floor": drawn["peak"] * draw.number(0.0, 1.0)}


cosine_schedule = linear_schedule


def warmup_stable_decay(draw: Draw) -> dict:
    drawn = linear_warmup(draw)
    stretches = {"stable": draw.integer(0, 50), "decay": draw.integer(1, 50)}
    return drawn | stretches | {"floor": drawn["peak"] * draw.number(0.0, 1.0)}


def ema_warmup(draw: Draw) -> dict:
    """A step before or after the decay is reached."""
    return {"step": draw.integer(1, 50), "decay": draw.number(0.0, 0.99)}
