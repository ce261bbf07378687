"""The chart of a law is whole, and draws the runs, a curve for each size, and what is predicted."""

import re
from xml.etree import ElementTree

from glassformer.planning.fit import FinishedRun, fit
from glassformer.planning.law_chart import law_chart
from tests.planning.test_fit import LAW, SIZES, sweep


def test_runs_curves_and_predictions_are_drawn_within_the_picture() -> None:
    found = fit(sweep(LAW, noise=0.003), samples=20)
    picture = law_chart(found, [(1.4e7, 2e7)], [FinishedRun(parameters=1.4e7, tokens=2e7, loss=7.9)])
    root = ElementTree.fromstring(picture)
    named = [path.get("data-name") for path in root.iter() if path.get("data-name")]
    assert named == [f"{size:,.0f} parameters" for size in SIZES] + ["interval"]
    width, height = (float(root.get(name) or 0) for name in ("width", "height"))
    circles = [each for each in root.iter() if each.tag.endswith("circle")]
    assert len(circles) == 16 + 1 + 1
    assert all(0 < float(c.get("cx") or 0) < width and 0 < float(c.get("cy") or 0) < height for c in circles)
    assert "FLOPs of training" in picture and not re.search(r"nan|inf[^a-z]", picture)


def test_a_law_of_compute_has_points_alone() -> None:
    runs = [FinishedRun(parameters=N, tokens=20 * N, loss=1.7 + 300 / N**0.3) for N in (1e5, 2e5, 4e5, 1e6, 3e6, 1e7)]
    picture = law_chart(fit(runs, samples=5))
    assert picture.count("<circle") == len(runs) and "data-name" not in picture
