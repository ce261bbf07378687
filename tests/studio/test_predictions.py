"""What a run reads and predicts, by the routes of the server: ids, settings, and words where there is nothing."""

from dataclasses import replace

import pytest
import torch
from starlette.testclient import TestClient

from glassformer.errors import ModelError
from glassformer.interface import LoadedModel
from glassformer.models.registry import build
from glassformer.studio.app import studio_app
from glassformer.studio.guard import TOKEN_HEADER, Access
from glassformer.studio.reading import reading
from glassformer.studio.run_inputs import run_inputs, token_ids
from glassformer.studio.sessions import Sessions
from tests.browser.conftest import small_model
from tests.models.zoo import ZOO


def client_of(loaded: LoadedModel) -> TestClient:
    sessions, access = Sessions(), Access(8765)
    sessions.add_model("model", loaded)
    headers = {TOKEN_HEADER: access.token}
    return TestClient(studio_app(sessions, access), base_url="http://127.0.0.1:8765", headers=headers)


def started(client: TestClient, **request: str) -> str:
    return client.post("/runs", json=request).json()["id"]


def ids_of(loaded: LoadedModel, *given: str | None) -> dict[str, list[int]]:
    values = run_inputs(loaded, *given).values
    return {name: value[0].tolist() for name, value in values.items() if isinstance(value, torch.Tensor)}


def test_a_run_reads_what_generate_reads_and_goes_on_with_written_ids() -> None:
    loaded = small_model("gpt")
    prompt = loaded.required_tokenizer().encode_prompts(["The cat"])[0]
    assert ids_of(loaded, "The cat", None, None) == {"ids": prompt}
    assert ids_of(loaded, "The cat", None, "5,17") == {"ids": [*prompt, 5, 17]}


def test_a_translator_begins_with_an_empty_target_where_ids_are_written() -> None:
    loaded = small_model("seq2seq")
    tokenizer = loaded.required_tokenizer()
    start, target = tokenizer.decoder_start, tokenizer.encode_targets(["on the mat"])[0]
    assert ids_of(loaded, "The cat", None, ",")["target"] == [start]
    assert ids_of(loaded, "The cat", None, "9")["target"] == [start, 9]
    assert ids_of(loaded, "The cat", "on the mat", "9")["target"] == [start, *target, 9]


def test_without_a_tokenizer_a_run_reads_ids() -> None:
    loaded = LoadedModel(build(ZOO["gpt"]).eval())
    assert reading(loaded).reads == "ids" and "no tokenizer" in reading(loaded).warnings[0]
    assert ids_of(loaded, "1 2, 3", None, "4") == {"ids": [1, 2, 3, 4]}
    with pytest.raises(ModelError, match="'a cat' is not a list of token ids"):
        token_ids("a cat")


def test_a_picture_is_a_number_and_never_a_path() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    config = replace(ZOO["vit"], image_size=8, channels=1, classes=10, image_mean=(0.5,), image_std=(0.5,))
    loaded = LoadedModel(build(config).eval())
    found = reading(loaded)
    assert (found.reads, found.patches, len(found.pictures)) == ("picture", 4, 10)
    assert [picture.label for picture in found.pictures] == [str(n) for n in range(10)]
    pixels = run_inputs(loaded, "3", None, None).values["pixel_values"]
    assert pixels.shape == (1, 1, 8, 8)
    for wrong in ("10", "-1", "/etc/passwd", "²"):
        with pytest.raises(ModelError, match="there is no picture"):
            run_inputs(loaded, wrong, None, None)


def test_an_encoder_writes_no_tokens() -> None:
    with pytest.raises(ModelError, match="writes no tokens"):
        run_inputs(small_model("encoder-classifier"), "a cat", None, "3")


def test_a_prediction_says_what_each_setting_removes() -> None:
    loaded = small_model("gpt")
    client = client_of(loaded)
    run = started(client, text="The cat sat")
    found = client.get(f"/runs/{run}/predictions", params={"temperature": 0.5, "top_k": 3}).json()
    exact = torch.softmax(loaded.trace("The cat sat").output[0, -1].double() / 0.5, -1)
    kept = [each for each in found["candidates"] if not each["removed_by"]]
    whole = sum(float(exact[each["id"]]) for each in kept)
    assert [each["probability"] for each in kept] == pytest.approx([float(exact[e["id"]]) / whole for e in kept])
    assert {each["removed_by"] for each in found["candidates"][3:]} == {"top_k"}
    heat, cut, last = found["steps"]
    assert (heat["equation"], cut["equation"], last["equation"]) == ("temperature", "top_k", "softmax")
    assert cut["left"] == 3 and cut["removed"] == found["vocab"] - 3 and cut["mass"] == pytest.approx(1 - whole)
    assert "/ 0.5 =" in heat["arithmetic"]


def test_wrong_settings_are_said_in_words() -> None:
    client = client_of(small_model("gpt"))
    run = started(client, text="The cat sat")
    for query, words in (({"top_p": 2}, "top_p is 2"), ({"position": 99}, "no position 99"), ({"count": 0}, "count")):
        answer = client.get(f"/runs/{run}/predictions", params=query)
        assert answer.status_code == 400 and words in answer.json()["error"]


def test_what_has_no_prediction_or_no_lens_is_said_and_is_no_error() -> None:
    tokenizer = small_model("gpt").required_tokenizer()
    client = client_of(LoadedModel(build(replace(ZOO["lstm"], vocab=tokenizer.vocab_size)).eval(), tokenizer))
    run = started(client, text="The cat sat")
    assert len(client.get(f"/runs/{run}/predictions").json()["candidates"]) == 8
    found = client.get(f"/runs/{run}/lens")
    assert found.status_code == 200 and "there is no stream" in found.json()["problem"]


def test_the_lens_names_the_steps_it_reads() -> None:
    client = client_of(small_model("gpt"))
    run = started(client, text="The cat sat", backward="next")
    found = client.get(f"/runs/{run}/lens", params={"start": 1, "stop": 3, "count": 2}).json()
    assert found["steps"] == ["positions.sum", "layers.0.feed_forward_residual", "layers.1.feed_forward_residual"]
    assert [[len(best) for best in row] for row in found["cells"]] == [[2, 2]] * 3


def test_the_map_writes_nan_as_javascript_does() -> None:
    loaded = small_model("gpt")
    with torch.no_grad():
        loaded.model.stack.blocks[0].feed_forward.up.weight[0, 0] = torch.nan
    client = client_of(loaded)
    found = client.get(f"/runs/{started(client, text='The cat sat')}/map").json()
    norms = [box["norm"] for box in found["stacks"][0]["layers"][0]["boxes"]]
    assert norms[-1] == "NaN" and isinstance(norms[0], float)
