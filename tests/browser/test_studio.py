"""The frame of Studio in a real browser: views, the address, errors in words, and nothing from outside."""

from tests.browser.conftest import OpenPage, small_model


def test_a_text_is_run_and_a_step_is_shown_at_its_address(studio: OpenPage) -> None:
    model = small_model("gpt")
    page = studio(model, "#/step/layers.0.attention.weights/0,0,2,1?text=I%20love%20AI")
    page.wait_for_function("document.querySelector('main').textContent.includes('=')")
    assert page.title() == "Step · Glassformer Studio"
