"""Boxes and arrows of a lesson: every shape on its arrow, every line equally wide."""

from glassformer.course.boxes import draw, flow_column
from glassformer.course.page import Drawing, Page


def test_a_column_has_a_box_for_each_station_and_a_shape_on_each_arrow() -> None:
    lines = flow_column("ids", [("1×3", "embedding"), ("1×3×4", "a block")], ("1×3×10", "logits"))
    assert len({len(line) for line in lines}) == 1
    text = "\n".join(lines)
    order = [text.index(part) for part in ("ids", "1×3", "embedding", "1×3×4", "a block", "1×3×10", "logits")]
    assert order == sorted(order)
    assert text.count("┌") == text.count("└") == 2
    middle = len(lines[0]) // 2
    assert all(
        line[middle] in "│┴┬" for line in lines if "│ " in line[middle : middle + 2] or "┴" in line or "┬" in line
    )


def test_a_drawing_lands_on_the_page() -> None:
    page = Page("a step")
    draw(page, ["a", "b"])
    assert page.parts == [Drawing(("a", "b"))]
