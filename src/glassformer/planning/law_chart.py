"""A chart of a fitted scaling law: loss against compute, with the runs, fitted curves and predictions."""

from collections.abc import Sequence

from glassformer.charts import (
    BOTTOM,
    MARGIN_LEFT,
    MARGIN_RIGHT,
    TOP,
    WIDTH,
    Curve,
    Scale,
    svg_curve,
    svg_grid,
    svg_legend,
    svg_picture,
    svg_text,
)
from glassformer.equations.scaling import training_flops
from glassformer.planning.fit import FinishedRun, Fit

HEIGHT, POINTS = 360, 40
FEWEST_TICKS = 3  # on the axis of losses, which is often short


def law_chart(
    fit: Fit, predicted: Sequence[tuple[float, float]] = (), measured: Sequence[FinishedRun] = (), title: str = ""
) -> str:
    """An SVG picture of the runs, a fitted curve for each size, and predicted losses of other runs.

    `predicted` has parameters and tokens: each gets a line for its interval and a dot for its loss. `measured` are runs
    that the law was not fitted to.
    """
    intervals = [(training_flops(*size), fit.predict(*size)) for size in predicted]
    spots = [Curve("runs", "one", [(run.flops, run.loss) for run in fit.runs])]
    spots += [Curve("predicted", "two", [(x, at.value) for x, at in intervals])] if intervals else []
    spots += [Curve("measured", "three", [(run.flops, run.loss) for run in measured])] if measured else []
    lines = [Curve(f"{size:,.0f} parameters", "one", _along(fit, size)) for size in _sizes(fit)]
    lines += [Curve("interval", "two", [(x, at.low), (x, at.high)]) for x, at in intervals]
    xs = [x for curve in [*spots, *lines] for x, _ in curve.points]
    ys = [y for curve in [*spots, *lines] for _, y in curve.points]
    across = Scale(min(xs) / 1.3, max(xs) * 1.3, MARGIN_LEFT, WIDTH - MARGIN_RIGHT, logarithmic=True)
    upwards = Scale(min(ys) / 1.02, max(ys) * 1.02, TOP + HEIGHT, TOP, logarithmic=True)
    parts = _axes(across, upwards)
    parts += [part for curve in lines for part in svg_curve(curve, across, upwards)]
    parts += [part for curve in spots for part in svg_curve(curve, across, upwards, joined=False)]
    parts += svg_legend(spots, WIDTH - MARGIN_RIGHT, TOP - 12)
    name = title or f"Loss against compute, {fit.words}"
    parts.append(svg_text(MARGIN_LEFT, TOP - 12, name, "start", "title"))
    return svg_picture(WIDTH, TOP + HEIGHT + BOTTOM, name, parts)


def _sizes(fit: Fit) -> list[float]:
    """The sizes to draw a curve for; a law of compute has a single curve."""
    return [] if fit.law == "compute" else sorted({run.parameters for run in fit.runs})


def _along(fit: Fit, size: float) -> list[tuple[float, float]]:
    """The fitted loss of one size from the least to the most data of its runs."""
    tokens = sorted(run.tokens for run in fit.runs if run.parameters == size)
    ratio = tokens[-1] / tokens[0]
    steps = [tokens[0] * ratio ** (k / POINTS) for k in range(POINTS + 1)] if ratio > 1 else tokens[:1]
    runs = [FinishedRun(parameters=size, tokens=each, loss=fit.curve(size, each)) for each in steps]
    return [(run.flops, run.loss) for run in runs]


def _axes(across: Scale, upwards: Scale) -> list[str]:
    parts = []
    for tick in across.ticks():
        x = across.pixel(tick)
        parts += [svg_grid(x, upwards.start, x, upwards.end)]
        parts += [svg_text(x, upwards.start + 16, f"{tick:.0e}".replace("e+", "e"), "middle", "step")]
    plain = Scale(upwards.low, upwards.high, upwards.start, upwards.end)
    ticks = upwards.ticks() if len(upwards.ticks()) >= FEWEST_TICKS else plain.ticks()
    for tick in ticks:
        y = upwards.pixel(tick)
        parts += [
            svg_grid(across.start, y, across.end, y),
            svg_text(across.start - 6, y + 4, f"{tick:.4g}", "end", "value"),
        ]
    parts.append(svg_text((across.start + across.end) / 2, upwards.start + 33, "FLOPs of training, 6ND", "middle"))
    return parts
