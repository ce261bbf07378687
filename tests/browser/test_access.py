"""Every view for everybody: axe finds nothing in light and dark, at twice the size and on a narrow screen."""

import pytest

from tests.browser.conftest import VIEWS, OpenPage, small_model
from tests.house.source import ROOT

axe_playwright = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
STATE = "layers.0.attention.weights/0,0,2,1?text=I%20love%20AI&backward=next"
PICTURES = ROOT / "build" / "studio"  # of every view, kept after the tests
SCREENS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "twice the size": {"viewport": {"width": 640, "height": 400}, "device_scale_factor": 2},
    "narrow": {"viewport": {"width": 390, "height": 800}, "has_touch": True},
}


@pytest.mark.parametrize("screen", SCREENS)
def test_axe_finds_nothing_on_any_view(studio: OpenPage, screen: str) -> None:
    page = studio(small_model("gpt"), **SCREENS[screen])
    address = page.url.split("#")[0]
    for view in VIEWS:
        page.goto(f"{address}#/{view}/{STATE}")
        page.wait_for_timeout(500)
        found = axe_playwright.Axe().run(page).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], view
        if screen in ("light", "dark"):
            page.screenshot(path=PICTURES / f"{view}-{screen}.png")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{view} is too wide"
