"""A model drawn as columns of boxes, with the shape of the tensor on each arrow, and gradients on the way back."""

from dataclasses import dataclass

from glassformer.charts import svg_picture, svg_text

BOX = (172, 34)  # width and height in pixels
ARROW, GAP, MARGIN = 38, 96, 20
HEAD = 5  # half the width of an arrow's head
LETTER = 6.6  # width of a letter in pixels, roughly


@dataclass(frozen=True)
class Column:
    """Boxes below each other: what goes in, each box with the shape of what it reads, and what comes out."""

    first: str
    boxes: tuple[tuple[str, str], ...]
    last: tuple[str, str]
    gradients: tuple[str, ...] = ()  # on the way back, from the first box to the output; none if it is not drawn

    @property
    def height(self) -> int:
        """Its height in pixels."""
        return len(self.boxes) * (BOX[1] + ARROW) + ARROW + 2 * MARGIN


@dataclass(frozen=True)
class Blueprint:
    """Columns side by side; `reads` names the box of the second that reads the output of the first."""

    title: str
    columns: tuple[Column, ...]
    reads: str = ""


def blueprint_svg(plan: Blueprint) -> str:
    """A model as an SVG picture that needs nothing beside it."""
    pitch = BOX[0] + GAP
    height = max(column.height for column in plan.columns) + 2 * MARGIN
    parts = [svg_text(MARGIN, 16, plan.title, "start", "legend")]
    for index, column in enumerate(plan.columns):
        parts += _column(column, MARGIN + GAP / 2 + index * pitch + BOX[0] / 2, 2 * MARGIN)
    if plan.reads:
        parts += _across(plan)
    return svg_picture(2 * MARGIN + len(plan.columns) * pitch, height, plan.title, parts)


def _column(column: Column, middle: float, top: float) -> list[str]:
    parts, y = [svg_text(middle, top + MARGIN - 6, column.first, "middle")], top + MARGIN
    for index, (shape, name) in enumerate(column.boxes):
        parts += _link(middle, y, shape, column.gradients[index : index + 1])
        y += ARROW
        parts.append(
            f'<rect class="box" x="{middle - BOX[0] / 2:.1f}" y="{y:.1f}" width="{BOX[0]}" height="{BOX[1]}" rx="5"/>'
        )
        parts.append(svg_text(middle, y + BOX[1] / 2 + 4, name, "middle"))
        y += BOX[1]
    shape, name = column.last
    parts += _link(middle, y, shape, column.gradients[len(column.boxes) :])
    return [*parts, svg_text(middle, y + ARROW + 14, name, "middle")]


def _link(middle: float, y: float, shape: str, gradient: tuple[str, ...]) -> list[str]:
    """An arrow down with its shape; where there is a gradient, a dashed arrow up beside it."""
    shift = 14 if gradient else 0
    parts = [_arrow(middle - shift, y + 2, middle - shift, y + ARROW - 2)]
    side, anchor = (-8, "end") if gradient else (8, "start")
    parts.append(svg_text(middle - shift + side, y + ARROW / 2 + 4, shape, anchor))
    if gradient:
        parts.append(_arrow(middle + shift, y + ARROW - 2, middle + shift, y + 2, "back"))
        parts.append(svg_text(middle + shift + 8, y + ARROW / 2 + 4, gradient[0], "start"))
    return parts


def _arrow(x1: float, y1: float, x2: float, y2: float, kind: str = "forward") -> str:
    up = -1 if y2 < y1 else 1
    head = f"M {x2 - HEAD:.1f} {y2 - up * 7:.1f} L {x2:.1f} {y2:.1f} L {x2 + HEAD:.1f} {y2 - up * 7:.1f}"
    return f'<path class="flow {kind}" d="M {x1:.1f} {y1:.1f} L {x2:.1f} {y2:.1f}"/><path class="flow" d="{head}"/>'


def _across(plan: Blueprint) -> list[str]:
    """The arrow from the end of the first column into the box of the second that reads it."""
    first, second = plan.columns[:2]
    row = [name for _, name in second.boxes].index(plan.reads)
    left = MARGIN + GAP / 2 + BOX[0] / 2
    right = left + GAP + BOX[0] / 2
    y = 3 * MARGIN + row * (BOX[1] + ARROW) + ARROW + BOX[1] / 2
    down = 2 * MARGIN + first.height - MARGIN + 10
    start = left + LETTER * len(first.last[1]) / 2 + 8
    bend = right - GAP / 2
    line = f"M {start:.1f} {down:.1f} L {bend:.1f} {down:.1f} L {bend:.1f} {y:.1f} L {right - 2:.1f} {y:.1f}"
    head = f"M {right - 9:.1f} {y - HEAD:.1f} L {right - 2:.1f} {y:.1f} L {right - 9:.1f} {y + HEAD:.1f}"
    return [f'<path class="flow forward" d="{line}"/><path class="flow" d="{head}"/>']
