"""What if in a real browser: changes give the numbers of `probes.patch`, live in the address, and can be undone."""

import json
from urllib.parse import quote

import torch

from glassformer.interface import LoadedModel
from glassformer.probes import on_head, patch
from tests.browser.conftest import OpenPage, small_model

TEXT, MODULE = "I love AI", "layers.0.attention"
HEAD_OFF = [{"kind": "head", "module": MODULE, "head": 1}]
RUN = f"text={quote(TEXT)}&backward=next&token=8"  # the last


def spread_model(name: str) -> LoadedModel:
    """A model whose predictions differ from one another."""
    found = small_model(name)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in found.model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator))
    return found


def rows(page: object, column: str) -> list[tuple[str, str]]:
    """The rows of the comparison by rank in a column: id and probability."""
    return page.evaluate(
        """column => [...document.querySelectorAll(".compared tbody tr")].map((row) => {
          const cell = row.querySelector(`.${column}`);
          const [rank, shown] = [cell.querySelector("small"), cell.querySelector(".compared-number")];
          return [Number(rank.textContent.slice(1)), Number(row.dataset.id), shown.textContent];
        }).sort((a, b) => a[0] - b[0]).filter(([rank]) => rank <= 8).map(([, id, text]) => [id, text])""",
        column,
    )


def expected(logits: torch.Tensor) -> list[list[object]]:
    """The eight most likely ids after the last token, with their probabilities as the page writes them."""
    likely = torch.softmax(logits[0, -1].float(), -1).topk(8)
    shown = [f"{100 * p:.{1 if p > 0.0995 else 2}f} %" for p in likely.values.tolist()]
    return [list(pair) for pair in zip(likely.indices.tolist(), shown, strict=True)]


def changes_of(page: object) -> list[dict[str, object]]:
    return json.loads(page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('changes') ?? '[]'"))


def settled(page: object, count: int) -> None:
    """Wait until the list has so many changes and the comparison is of that run."""
    page.wait_for_function(
        """count => document.querySelectorAll('.changes li').length === count
          && document.getElementById('status').textContent.endsWith(' steps')""",  # what it says once the run is there
        arg=count,
    )
    page.wait_for_selector(".compared tbody tr")
    page.wait_for_load_state("networkidle")


def test_a_head_switched_off_gives_the_top_8_of_patch_and_undo_the_old_bits(studio: OpenPage) -> None:
    model = spread_model("gpt")
    base = model.trace(TEXT)
    ablated = patch(base, {f"{MODULE}.outputs": on_head(1, torch.zeros_like)})
    page = studio(model, f"#/whatif/{MODULE}.weights/0,1,2,1?{RUN}")
    settled(page, 0)
    before = rows(page, "before")
    assert before == rows(page, "after") == expected(base.output)
    page.get_by_role("button", name=f"Switch off head 1 of {MODULE}").first.click()
    settled(page, 1)
    page.wait_for_function("() => !document.querySelector('.compared-lead').textContent.includes('Nothing')")
    assert changes_of(page) == HEAD_OFF
    assert rows(page, "after") == expected(ablated) != before and rows(page, "before")[:1] == before[:1]

    page.reload()
    page.wait_for_selector("body[data-ready=yes]")
    settled(page, 1)
    assert changes_of(page) == HEAD_OFF and f"{MODULE}.weights/0%2C1%2C2%2C1" in page.url
    assert rows(page, "after") == expected(ablated)

    numbers = """async (text) => {
      const { ServerSource } = await import("glassformer/source.js");
      const source = await ServerSource.start({ text, backward: "next" });
      return [...await source.slice({ step: source.run.output, leading: [0], top: 0, left: 0, height: 1, width: 8 })];
    }"""
    page.get_by_role("button", name="Undo the last").click()
    settled(page, 0)
    page.wait_for_function("() => document.querySelector('.compared-lead').textContent.includes('Nothing is changed')")
    assert rows(page, "after") == before and "changes=" not in page.url
    assert page.evaluate(numbers, TEXT) == base.output[0, 0, :8].tolist()
    page.go_back()
    settled(page, 1)


def test_each_kind_of_change_can_be_made_and_a_wrong_name_is_said(studio: OpenPage) -> None:
    page = studio(spread_model("gpt"), f"#/whatif/embedding/0,1,2?{RUN}")
    settled(page, 0)
    tabs = page.get_by_role("group", name="Kind of change")
    form = page.locator(".change-form")
    tabs.get_by_role("button", name="Layer or sublayer").click()
    form.get_by_label("Module").select_option("layers.1.feed_forward")
    form.get_by_role("button", name="Switch off").click()
    settled(page, 1)
    tabs.get_by_role("button", name="Token").click()
    form.get_by_label("Token", exact=True).select_option("0")
    form.get_by_role("button", name="Switch off").click()
    settled(page, 2)
    tabs.get_by_role("button", name="Number").click()
    form.get_by_label("New number").fill("0.5")
    form.get_by_role("button", name="Replace").click()
    settled(page, 3)
    tabs.get_by_role("button", name="From another text").click()
    form.get_by_label("Other text").fill("AI love I")
    form.get_by_role("button", name="Take from it").click()
    settled(page, 4)
    assert [each["kind"] for each in changes_of(page)] == ["module", "token", "cell", "patch"]
    page.get_by_role("button", name="Clear all").click()
    settled(page, 0)
    form.get_by_label("Step").fill("embeding")
    form.get_by_role("button", name="Take from it").click()
    page.wait_for_function("() => document.getElementById('status').textContent === 'No step is called “embeding”.'")
    assert changes_of(page) == []


def test_every_head_is_switched_off_in_turn(studio: OpenPage) -> None:
    page = studio(spread_model("gpt"), f"#/whatif?{RUN}")
    settled(page, 0)
    page.get_by_role("button", name="Switch off every head in turn").click()
    page.wait_for_function("() => document.querySelectorAll('.heads tbody tr').length === 4")
    kl = [float(text) for text in page.locator(".heads tbody tr td:nth-of-type(1)").all_text_contents()]
    assert kl == sorted(kl, reverse=True) and kl[0] > 0
    page.locator(".heads tbody button").first.click()
    settled(page, 1)


def test_what_is_seen_can_be_copied_and_explained(studio: OpenPage) -> None:
    model = spread_model("gpt")
    page = studio(model, f"#/step/{MODULE}.weights/0,1,2,1?{RUN}", permissions=["clipboard-read", "clipboard-write"])
    found = model.trace(TEXT)
    page.locator(".copy-menu summary").click()

    def copied(name: str) -> str:
        page.locator(".copy-menu").get_by_role("button", name=name, exact=True).click()
        page.wait_for_function(
            "name => document.getElementById('status').textContent.startsWith(`Copied: ${name}`)", arg=name
        )
        return page.evaluate("navigator.clipboard.readText()")

    assert copied("Arithmetic") == found.cell(f"{MODULE}.weights", 1, 2, 1)
    assert r"\frac{" in copied("LaTeX")
    assert f"print(run.cell('{MODULE}.weights', 0, 1, 2, 1))" in copied("Python")
    page.locator("#copy-part").select_option("whole")
    assert "np.array([" in copied("NumPy") and "," in copied("CSV")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    help_ = page.get_by_role("dialog")
    assert help_.is_visible() and "is softmax" in help_.text_content()
    assert (
        "softmax.py:" in help_.text_content()
        and help_.get_by_role("link", name="Lesson: softmax").get_attribute("href") == "/lessons/softmax"
    )
    page.keyboard.press("Escape")
    assert not help_.is_visible()


def test_it_opens_where_the_model_is_least_sure_and_the_first_suggestion_changes_something(studio: OpenPage) -> None:
    model = spread_model("gpt")
    likely = torch.softmax(model.trace(TEXT).output[0], -1)
    flattest = 1 + int(torch.special.entr(likely[1:]).sum(-1).argmax())
    page = studio(model, f"#/whatif?text={quote(TEXT)}")
    settled(page, 0)
    assert page.locator("#whatif-position").input_value() == str(flattest)
    assert "least sure" in page.locator(".compared-where").text_content()
    page.locator(".change-quick button").first.click()
    settled(page, 1)
    page.wait_for_function("() => !document.querySelector('.compared-lead').textContent.includes('Nothing')")
    assert page.locator("#whatif-position").input_value() == str(flattest)
    assert page.locator(".compared .up, .compared .down").filter(has_text="▲").count() > 0


def test_nan_is_typed_as_a_number_and_the_first_bad_step_is_named(studio: OpenPage) -> None:
    page = studio(small_model("gpt"), f"#/whatif/embedding/0,1,2?text={quote(TEXT)}")
    settled(page, 0)
    page.get_by_role("button", name="Number", exact=True).click()
    page.get_by_label("New number").fill("one")
    page.get_by_role("button", name="Replace").click()
    page.wait_for_function("() => document.getElementById('status').textContent.includes('not a number')")
    for typed, change in (("NaN", "NaN"), ("−∞", "-Infinity")):
        page.get_by_label("New number").fill(typed)
        page.get_by_role("button", name="Replace").click()
        page.wait_for_selector(".whatif-all .run-bad:not([hidden])")
        page.wait_for_function("() => document.querySelectorAll('.changes li').length === 1")
        assert changes_of(page)[0]["value"] == change
        if typed == "NaN":
            page.wait_for_function(
                "() => document.querySelector('.compared-lead').textContent.includes('no prediction')"
            )
        assert "first bad step is embedding" in page.locator(".run-bad").text_content()
        page.get_by_role("button", name="Clear all").click()
        settled(page, 0)
        page.wait_for_selector(".whatif-all .run-bad[hidden]", state="attached")
