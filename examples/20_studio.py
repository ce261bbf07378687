"""Studio from Python: serve a model on this machine, and ask what the page asks; `glassformer studio` does the same."""

import json
import urllib.parse
import urllib.request

import glassformer as gf
from glassformer.models.gpt import GPTConfig
from glassformer.studio.app import studio_app
from glassformer.studio.guard import TOKEN_HEADER, Access
from glassformer.studio.serving import listen, served
from glassformer.studio.sessions import Sessions
from glassformer.text.learn_tokenizer import learn_tokenizer

tokenizer = learn_tokenizer(["I love AI and AI loves me"], "words", 50)
model = gf.build(GPTConfig(vocab=tokenizer.vocab_size, context=16, dim=16, layers=2, heads=2), seed=0).eval()
sessions, listening = Sessions(), listen(0)
sessions.add_model("small", gf.LoadedModel(model, tokenizer))
access = Access(listening.getsockname()[1])


def ask(path: str, body: object = None, **query: object) -> dict[str, object]:
    """Ask the server as the page does, with the token of its address."""
    address = f"http://127.0.0.1:{access.port}{path}?{urllib.parse.urlencode(query)}"
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(address, data, {TOKEN_HEADER: access.token})) as answer:
        return json.load(answer)


with served(studio_app(sessions, access), listening):
    print("open", access.address.partition("?")[0], "with the token of this run")
    run = ask("/runs", {"text": "I love AI", "backward": "next"})
    print(len(run["data"]["steps"]), "steps, tokens", run["data"]["tokens"]["ids"])

    # One number, the arithmetic that made it, and what it was computed from.
    where = {"step": "layers.0.attention.scores", "index": "0,0,2,1"}
    cell = ask(f"/runs/{run['id']}/cell", **where)
    print(cell["text"])
    heaviest = cell["operands"][0]
    print("heaviest operand:", heaviest["source"], heaviest["index"], heaviest["value"])

    # The same number in Python.
    trace = sessions.model("small").trace("I love AI")
    assert trace.cell("layers.0.attention.scores", 0, 2, 1) == cell["text"]
