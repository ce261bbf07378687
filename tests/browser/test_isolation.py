"""Studio asks nobody but its own server, says when that is gone, and goes on when it is back."""

from glassformer.studio.app import studio_app
from glassformer.studio.guard import Access
from glassformer.studio.serving import listen, served
from glassformer.studio.sessions import Sessions
from tests.browser.conftest import VIEWS, OpenPage, small_model

STATE = "layers.0.attention.weights/0,0,2,1?text=I%20love%20AI&backward=next"


def test_no_view_asks_anybody_else(studio: OpenPage) -> None:
    page = studio(small_model("gpt"))
    own, asked = page.url.split("/?")[0], []
    page.context.on("request", lambda request: asked.append(request.url))
    page.reload()
    for view in VIEWS:
        page.evaluate("state => { location.hash = state; }", f"#/{view}/{STATE}")
        page.wait_for_selector(f"main.{view}")
        page.wait_for_load_state("networkidle")
    assert len(asked) > len(VIEWS) and [url for url in asked if not url.startswith((own, "data:"))] == []


def test_a_wrong_token_is_said_on_the_page(chromium: object) -> None:
    sessions, listening = Sessions(), listen(0)
    sessions.add_model("model", small_model("gpt"))
    access = Access(listening.getsockname()[1])
    with served(studio_app(sessions, access), listening):
        page = chromium.new_page()
        page.goto(f"{access.address[:-3]}abc#/run?text=I%20love%20AI")
        page.wait_for_selector("#trouble:not([hidden])")
        assert "open the address" in page.text_content("#trouble")
        page.close()


def test_a_page_recovers_when_its_server_is_back(chromium: object) -> None:
    model, listening = small_model("gpt"), listen(0)
    access = Access(listening.getsockname()[1])

    def sessions() -> Sessions:
        found = Sessions()
        found.add_model("model", model)
        return found

    page = chromium.new_page()
    with served(studio_app(sessions(), access), listening):
        page.goto(f"{access.address}#/step/{STATE}")
        page.wait_for_selector("body[data-ready=yes]")
    page.evaluate("location.hash = '#/step/embedding/0,1,0?text=you%20are%20welcome'")
    page.wait_for_selector("#trouble:not([hidden])")
    assert "does not answer" in page.text_content("#trouble")
    with served(studio_app(sessions(), access), listen(access.port)):
        page.wait_for_selector("#trouble[hidden]", state="attached", timeout=10_000)
        page.wait_for_function("document.getElementById('status').textContent.includes('steps')")
    page.close()
