"""Pictures of Studio for the documents: every view in light and dark, made by the page itself.

    python -m tests.browser.screenshots docs/studio [--model FOLDER] [--all]

Without a model it uses the built-in translator, which is trained first where it is not kept from an earlier start.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import glassformer as gf
from glassformer.studio.app import studio_app
from glassformer.studio.first_model import FirstModel
from glassformer.studio.guard import Access
from glassformer.studio.serving import listen, served
from glassformer.studio.sessions import Sessions
from tests.browser.conftest import CHROMIUM

TEXT = quote("The cat is small.")
HEAD = "decoder.layers.0.cross_attention"
STATES = {
    "home": "home",
    "run": "run?backward=next",
    "map": "map?backward=next",
    "step": f"step/{HEAD}.scores/0,0,2,1?backward=next",
    "path": f"path/{HEAD}.scores/0,0,2,1",
    "attention": "attention?backward=next",
    "whatif": "whatif?backward=next",
    "translate": "translate",
    "learn": "learn?backward=next",
    "plan": "plan",
}
STOPS = 6
IN_README = ("step", "attention", "path", "translate")


@contextmanager
def running(model: gf.LoadedModel) -> Iterator[str]:
    """The address of a Studio with this model."""
    sessions, listening = Sessions(), listen(0)
    sessions.add_model("model", model)
    access = Access(listening.getsockname()[1])
    with served(studio_app(sessions, access, gf.plan), listening):
        yield access.address


def take(folder: Path, model: gf.LoadedModel, names: list[str], schemes: list[str]) -> None:
    """Write a picture of each view in each color scheme, and of each stop of the tour."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    with running(model) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for scheme in schemes:
            page = browser.new_page(color_scheme=scheme, viewport={"width": 1200, "height": 900})
            for name in names:
                state = STATES[name]
                page.goto("about:blank")
                page.goto(f"{address}#/{state}{'&' if '?' in state else '?'}text={TEXT}")
                page.wait_for_selector("body[data-ready=yes]")
                page.wait_for_load_state("networkidle")
                page.wait_for_timeout(500)
                page.screenshot(path=folder / f"{name}-{scheme}.png")
        take_tour(browser.new_page(viewport={"width": 1000, "height": 700}), address, folder)
        browser.close()


def take_tour(page: object, address: str, folder: Path) -> None:
    """Write a picture of each stop of the tour."""
    page.goto(f"{address}#/home?text={TEXT}")
    page.wait_for_selector("body[data-ready=yes]")
    page.get_by_role("button", name="Take the tour").click()
    for stop in range(1, STOPS + 1):
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(800)
        page.screenshot(path=folder / f"tour-{stop}.png")
        page.keyboard.press("ArrowRight")


def main() -> None:
    """Take the pictures of the documents, or with --all of every view in light and dark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--all", action="store_true")
    given = parser.parse_args()
    if given.model is None:
        first = FirstModel(say=print).start()
        first.wait()
        model = first.loaded()
    else:
        model = gf.load(given.model)
    names = list(STATES) if given.all else list(IN_README)
    take(given.folder, model, names, ["light", "dark"] if given.all else ["light"])


if __name__ == "__main__":
    main()
