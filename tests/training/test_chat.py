"""The task chat: loss on the replies only, exact resume, and a folder that transformers answers from."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers

import glassformer as gf
from glassformer.cli.main import main
from glassformer.data.batches import IGNORE
from glassformer.data.dialogues import dialogues
from glassformer.errors import ConfigError, DataError, DecodingError, TokenizerError
from glassformer.interface import LoadedModel
from glassformer.training.evaluate import evaluate
from glassformer.training.run import Run, prepare_task, train_task

TINY = {
    "model.dim": 32, "model.layers": 1, "model.heads": 2, "model.context": 128, "data.max_length": 128,
    "data.batch_size": 8, "tokenizer.kind": "words", "recipe.steps": 8, "recipe.evaluate_every": 4,
    "recipe.save_every": 4, "data.validation_fraction": 0.1,
}  # fmt: skip


def talks(folder: Path, count: int = 60) -> str:
    file = folder / "talks.jsonl"
    file.write_text("".join(json.dumps({"messages": each.messages}) + "\n" for each in dialogues(count)))
    return str(file)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chat")
    train_task("chat", {**TINY, "data.path": talks(folder)}, out=folder / "run", size="tiny")
    return folder / "run"


def prepared(folder: Path, **settings: object) -> Run:
    return prepare_task("chat", {**TINY, "data.path": talks(folder), **settings}, size="tiny")


def test_only_replies_are_targets(tmp_path: Path) -> None:
    run = prepared(tmp_path)
    batch = next(run.data.batches)
    for ids, targets, real in zip(batch["ids"], batch["targets"], batch["attention_mask"], strict=True):
        learned = targets != IGNORE
        assert 0 < learned.sum() < real.sum() and not (learned & ~real).any()
        inside = learned[:-1] & real[1:]
        assert torch.equal(targets[:-1][inside], ids[1:][inside])  # one token further
        text = run.tokenizer.decode(targets[learned].tolist())
        assert "." in text and "user" not in text and "assistant" not in text
        assert run.tokenizer.eos in targets.tolist()


def test_a_run_resumes_exactly(tmp_path: Path) -> None:
    settings = {**TINY, "data.path": talks(tmp_path)}
    whole = train_task("chat", settings, out=tmp_path / "whole", size="tiny")
    begun = prepare_task("chat", settings, out=tmp_path / "parts", size="tiny")
    for log in begun.train():
        if log.step == 4:
            break  # as if it were killed after the checkpoint of step 4
    parts = train_task("chat", settings, out=tmp_path / "parts", resume=True, size="tiny")
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, parts.model.state_dict()[name]), name


def test_metrics_and_records(trained: Path, tmp_path: Path) -> None:
    rows: list = []
    found = evaluate(trained, device="cpu", record=rows.append)
    assert vars(found).keys() >= {"loss", "perplexity", "exact", "commonest"}
    assert found.conversations == len(rows) and 0 < found.commonest <= 1  # pyright: ignore[reportAttributeAccessIssue]
    assert found.exact == sum(row["exact"] for row in rows) / len(rows)  # pyright: ignore[reportAttributeAccessIssue]
    other = evaluate(trained, talks(tmp_path, 6), device="cpu")
    assert other.conversations == 6  # pyright: ignore[reportAttributeAccessIssue]


def test_transformers_gives_the_same_reply(trained: Path, tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Hi, my name is Anna."}]
    reply = gf.load(trained).chat(messages, max_new_tokens=9)
    gf.load(trained).save(tmp_path / "exported")
    assert gf.load(tmp_path / "exported").chat(messages, max_new_tokens=9).ids == reply.ids
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported", local_files_only=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "exported", local_files_only=True)
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=False)
    written = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=9, do_sample=False)
    assert written[0, ids.shape[1] :].tolist() == reply.ids


def test_the_oldest_turns_are_dropped_and_a_message_too_long_is_refused(trained: Path) -> None:
    loaded = gf.load(trained)
    turns = [{"role": "user", "content": "I have five apples."}, {"role": "assistant", "content": "So you have five."}]
    system = [{"role": "system", "content": "Which one?"}]
    dropped, chunks = loaded.stream_chat([*system, *turns * 8, turns[0]], max_new_tokens=4)
    assert 0 < dropped < 16 and dropped % 2 == 0 and "".join(chunk.text for chunk in chunks) is not None
    assert loaded.stream_chat(turns[:1])[0] == 0
    with pytest.raises(
        DecodingError, match="the last message has .* tokens with what the template adds, wanted at most"
    ):
        loaded.chat("I have five apples. " * 40)


def test_bad_conversations_are_refused(trained: Path) -> None:
    loaded = gf.load(trained)
    reply = {"role": "assistant", "content": "Hello."}
    for messages, why in (
        ([], "the conversation is empty"),
        ([{"role": "bot", "content": "x"}], "has the role 'bot'"),
        ([{"role": "user", "content": "Hi"}, reply, reply], "a second reply in a row"),
        (7, "wanted a list of messages"),
    ):
        with pytest.raises(DataError, match=why):
            loaded.chat(messages)
    with pytest.raises(DecodingError, match="ends with a reply"):
        loaded.chat([{"role": "user", "content": "Hi"}, reply])
    with pytest.raises(DecodingError, match="n is 2, wanted 1"):
        loaded.chat("Hi", n=2, temperature=1.0)
    bare = LoadedModel(loaded.model, loaded.required_tokenizer().with_use(chat_template=None))
    with pytest.raises(TokenizerError, match="has no chat template"):
        bare.chat("Hi")


def test_data_that_cannot_be_trained_on_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.context is 64, wanted at least data\.max_length"):
        prepared(tmp_path, **{"model.context": 64})
    with pytest.raises(DataError, match="0 validation conversations"):
        prepared(tmp_path, **{"data.max_length": 5})


def test_a_language_model_becomes_a_chat_model(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("user assistant So you have five apples. " * 50)
    tiny = {key: value for key, value in TINY.items() if key != "data.batch_size" and not key.startswith("data.v")}
    start = {**tiny, "data.path": str(tmp_path / "text.txt"), "data.max_length": 16}
    train_task("gpt", {**start, "tokenizer.kind": "bpe", "tokenizer.vocab_size": 300}, out=tmp_path / "lm", size="tiny")
    chat = {"run.init": str(tmp_path / "lm"), "data.path": talks(tmp_path), "recipe.steps": 2}
    run = train_task("chat", chat, out=tmp_path / "chat", size="tiny")
    assert run.tokenizer.use.chat_template and gf.load(tmp_path / "chat").chat("Hi", max_new_tokens=2).ids
    assert replace(run.tokenizer.use, chat_template=None) == gf.load(tmp_path / "lm").required_tokenizer().use


def test_the_command_reads_lines(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(text: str, *flags: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        status = main(["chat", str(trained), "-m", "4", "--device", "cpu", *flags])
        return status, *capsys.readouterr()

    status, out, _ = said("I have five apples.\n\nI buy two more.\n")
    assert status == 0 and len(out.splitlines()) == 2
    status, out, _ = said("I have five apples.\n/undo\nI have five apples.\n/reset\nI have five apples.\n/quit\nno\n")
    assert len(out.splitlines()) == 3 and len(set(out.splitlines())) == 1
    status, out, err = said("/undo\n/what\n")
    assert not out and "nothing to take back" in err and "there is no command /what" in err and "/reset" in err
    status, out, err = said("I have five apples.\n" * 12, "--json", "--system", "Which one?")
    rows = [json.loads(line) for line in out.splitlines()]
    assert len(rows) == 12 and rows[-1]["dropped"] > 0 and rows[0]["dropped"] == 0
    assert err.count("its oldest turns are left out") == 1
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"five\n\xff\n")))
    assert main(["chat", str(trained), "-m", "4", "--device", "cpu"]) == 1
    assert "error: standard input:2: byte 5 is 0xff, which is not UTF-8" in capsys.readouterr().err
    status, out, err = said("five apples " * 90 + "\nI have five apples.\n")
    assert status == 1 and len(out.splitlines()) == 1 and "the last message has" in err


def test_a_model_that_cannot_chat_says_so_before_a_line_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "mlp-xor"]) != 0
    assert "does not chat" in capsys.readouterr().err
