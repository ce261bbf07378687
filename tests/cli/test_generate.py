"""`glassformer generate` and `translate`: text, JSON, streams, files, standard input, and what they refuse."""

import copy
import io
import json
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from glassformer.checkpoints.load import Loaded
from glassformer.cli.generate import unknown_parts
from glassformer.cli.main import main
from glassformer.decoding.completion import Completion
from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import generate
from glassformer.text.learn_tokenizer import learn_tokenizer
from tests.cli.test_streams import Terminal
from tests.decoding.tiny_generators import words, writer

LINES = ["one two", "four", "", "six seven eight nine", "two"]


@pytest.fixture(autouse=True)
def shelf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Folders that hold a model of that name."""
    monkeypatch.chdir(tmp_path)
    for name in ("gpt", "gpt-bare", "seq2seq", "encoder", "lstm"):
        Path(name).mkdir()
    monkeypatch.setattr(
        "glassformer.interface.load_checkpoint",
        lambda path, device, dtype, *_: Loaded(
            copy.deepcopy(writer(path.removesuffix("-bare"))).to(device, dtype),
            None if path.endswith("-bare") else words(),
        ),
    )


def text_of(name: str, prompt: str, **config: object) -> str:
    return generate(writer(name), words(), prompt, GenerationConfig(**config))[0].text


def typed(monkeypatch: pytest.MonkeyPatch, data: bytes, encoding: str = "utf-8") -> None:
    """Put bytes on standard input, which the locale takes for text of an encoding."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), encoding))


def test_it_writes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "gpt", "one two", "--max-new-tokens", "5"]) == 0
    out, err = capsys.readouterr()
    assert out == text_of("gpt", "one two", max_new_tokens=5) + "\n"
    assert err == ""
    assert main(["generate", "gpt", "one two", "--max-new-tokens", "5", "--verbose"]) == 0
    assert "text 1 ends because it reached --max-new-tokens" in capsys.readouterr().err
    assert main(["generate", "gpt", "one two", "--max-new-tokens", "5", "--stream"]) == 0
    assert capsys.readouterr().out == out
    assert main(["generate", "gpt", "one two", "--max-new-tokens", "5", "--num-beams", "3"]) == 0
    assert capsys.readouterr().out == text_of("gpt", "one two", max_new_tokens=5, num_beams=3) + "\n"


def test_seeds_numbers_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["generate", "gpt", "one", "--max-new-tokens", "4", "--temperature", "1", "--n", "3", "--json"]
    assert main([*command, "--seed", "5"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert main([*command, "--seed", "5"]) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert main([*command, "--seed", "6"]) == 0
    assert json.loads(capsys.readouterr().out) != first
    assert len(first["texts"]) == 3
    for text in first["texts"]:
        assert text["finish_reason"] in ("stop", "length")
        assert text["score"] == pytest.approx(sum(token["log_probability"] for token in text["tokens"]))
        assert all(token["token"] == words().token(token["id"]) for token in text["tokens"])


def test_a_stop_text_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    whole = text_of("gpt", "one two", max_new_tokens=20)
    stop = whole.split()[1]
    assert main(["generate", "gpt", "one two", "--max-new-tokens", "20", "--stop", stop]) == 0
    assert capsys.readouterr().out.rstrip("\n") == whole[: whole.index(stop)]


def test_it_translates_a_sentence_a_file_and_standard_input(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [text_of("seq2seq", line, max_new_tokens=5) for line in LINES]
    assert main(["translate", "seq2seq", LINES[0], "--max-new-tokens", "5"]) == 0
    assert capsys.readouterr().out.splitlines() == wanted[:1]
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    for more in (["--max-new-tokens", "5"], ["--max-new-tokens", "5", "--stream"]):
        assert main(["translate", "seq2seq", "--file", str(file), *more]) == 0
        assert capsys.readouterr().out.splitlines() == wanted
        typed(monkeypatch, "\r\n".join(LINES).encode() + b"\n")
        assert main(["translate", "seq2seq", *more]) == 0
        assert capsys.readouterr().out.splitlines() == wanted
    assert (
        main(
            [
                "translate",
                "seq2seq",
                "--file",
                str(file),
                "--json",
                "--num-beams",
                "2",
                "--n",
                "2",
                "--max-new-tokens",
                "3",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert [entry["source"] for entry in found] == LINES
    assert all(len(entry["translations"]) == 2 for entry in found)


REFUSED = [
    (["generate", "gpt", "one", "--n", "0"], 2, "n is 0, wanted a whole number, at least 1"),
    (["generate", "gpt", "one", "--temperature", "-1"], 2, "temperature is -1.0"),
    (
        ["generate", "gpt", "one", "--temperature", "1", "--num-beams", "2"],
        2,
        "--num-beams is 2, wanted 1 with a temperature",
    ),
    (["generate", "gpt", "one", "--temperature", "1", "--top-k", "99"], 2, "--top-k is 99, wanted at most 15"),
    (["generate", "gpt", "one " * 65, "--num-beams", "2"], 2, "tokens, wanted at most 64, the model's context"),
    (["generate", "gpt"], 2, "no prompt is given: give a text, - for standard input, or --file"),
    (["generate", "gpt", "one", "--file", "x"], 2, "a prompt and --file are both given"),
    (["generate", "gpt", "--file", "/nonexistent/x"], 2, "/nonexistent/x: no such file"),
    (["generate", "gpt", "--file", "-", "--stream"], 2, "leave out --json, --n and --file"),
    (["generate", "encoder", "one"], 2, "Encoder does not write text"),
    (["generate", "gpt", "one", "--stream", "--json"], 2, "leave out --json"),
    (["generate", "gpt-bare", "one"], 2, "has no tokenizer, so it cannot read or write text"),
    (["translate", "gpt", "one"], 2, "GPT does not translate"),
    (["translate", "seq2seq", "one", "--file", "x"], 2, "both given"),
    (["generate", "gpt", "one", "--device", "tpu"], 2, "device is 'tpu', wanted auto, cpu, cuda or cuda:1"),
    (["generate", "lstm", "one", "--weights", "int8"], 2, "RNN has no blocks to convert for inference"),
    (["translate", "seq2seq", "--file", "/nonexistent/x"], 2, "/nonexistent/x: no such file"),
    (["translate", "seq2seq", "one" + 64 * " one"], 2, "the sentence: has 65 tokens, wanted at most 64"),
    (["translate", "seq2seq", "one", "--stream", "--json"], 2, "leave out --json"),
    (["generate", "gpt", "one", "--stream", "--num-beams", "3"], 2, "--num-beams is 3, wanted 1 with --stream"),
    (["generate", "gpt", "one", "--n", "3"], 2, "--n is 3, wanted a --temperature above 0 or --num-beams with it"),
    (["translate", "seq2seq", "one", "--n", "3"], 2, "--n is 3, wanted a --temperature above 0 or --num-beams with it"),
    (["generate", "gpt", "one", "--top-k", "3"], 2, "--top-k is 3, wanted a --temperature above 0 with it"),
    (["generate", "gpt", "one", "--min-p", ".3"], 2, "--min-p is 0.3, wanted a --temperature above 0 with it"),
    (["generate", "gpt", "one", "--temperature", "1e-40"], 2, "temperature is 1e-40, wanted 0 or at least 1e-06"),
]


@pytest.mark.parametrize(("words_", "status", "message"), REFUSED, ids=[message for _, _, message in REFUSED])
def test_what_is_refused(words_: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words_) == status
    assert message in capsys.readouterr().err


def translated(capsys: pytest.CaptureFixture[str], *words_: str) -> tuple[int, list[str], str]:
    """The status, the translations and the talk of `glassformer translate`, a few tokens each."""
    status = main(["translate", "seq2seq", "--max-new-tokens", "5", *words_])
    out, err = capsys.readouterr()
    return status, out.splitlines(), err


BAD_LINES = [
    (b"\xff\xfe", ":2: byte 8 is 0xff, which is not UTF-8"),
]


@pytest.mark.parametrize(("bad", "message"), BAD_LINES, ids=["not UTF-8"])
@pytest.mark.parametrize("at_once", [1, 2, 3, 512])
def test_the_lines_before_a_bad_one_are_translated(
    bad: bytes,
    message: str,
    at_once: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("glassformer.cli.generate.BATCH", at_once)
    file = tmp_path / "lines"
    file.write_bytes(b"one two\n" + bad + b"\nfour\n")
    first = text_of("seq2seq", "one two", max_new_tokens=5)
    assert translated(capsys, "--file", str(file)) == (1, [first], f"glassformer: error: {file}{message}\n")
    for encoding in ("utf-8", "ascii"):
        typed(monkeypatch, file.read_bytes(), encoding)
        assert translated(capsys) == (1, [first], f"glassformer: error: standard input{message}\n")
    status, out, _ = translated(capsys, "--file", str(file), "--json")
    assert status == 1
    assert [entry["source"] for entry in json.loads("\n".join(out))] == ["one two"]


@pytest.mark.parametrize("at_once", [1, 512])
def test_a_line_that_is_too_long_is_left_out(
    at_once: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are translated, a blank line keeps their places, and the status says that something is missing."""
    monkeypatch.setattr("glassformer.cli.generate.BATCH", at_once)
    file = tmp_path / "lines"
    file.write_text("one two\n" + "one" + 64 * " one" + "\nfour\n")
    first, last = (text_of("seq2seq", line, max_new_tokens=5) for line in ("one two", "four"))
    said = ":2: has 65 tokens, wanted at most 64, the model's context; it is not translated\n"
    assert translated(capsys, "--file", str(file)) == (1, [first, "", last], f"glassformer: error: {file}{said}")
    typed(monkeypatch, file.read_bytes())
    assert translated(capsys) == (1, [first, "", last], f"glassformer: error: standard input{said}")
    status, out, _ = translated(capsys, "--file", str(file), "--json")
    assert status == 1
    assert [len(entry["translations"]) for entry in json.loads("\n".join(out))] == [1, 0, 1]
    several = translated(capsys, "--file", str(file), "--num-beams", "2", "--n", "2")
    assert len(several[1]) == 6 and several[1][2:4] == ["", ""]


def test_a_byte_order_mark_is_no_part_of_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lines"
    file.write_text("one two\n", encoding="utf-8-sig")
    for words_ in (["--file", str(file)], []):
        typed(monkeypatch, file.read_bytes())
        status, out, _ = translated(capsys, *words_, "--json")
        assert status == 0
        assert [entry["source"] for entry in json.loads("\n".join(out))] == ["one two"]


def test_a_translation_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Completion("a\nb\r\nc", [], [], "stop")
    monkeypatch.setattr("glassformer.decoding.generate.write_all", lambda *_: [broken])
    assert translated(capsys, "one") == (0, ["a b  c"], "")
    _, out, _ = translated(capsys, "one", "--json")
    assert json.loads("\n".join(out))[0]["translations"][0]["text"] == broken.text


@pytest.mark.parametrize("weights", ["float32", "bfloat16", "int8", "int4"])
def test_weights_come_in_the_type_asked_for(weights: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "gpt", "one two", "--max-new-tokens", "5", "--weights", weights, "--json"]) == 0
    chosen = json.loads(capsys.readouterr().out)["texts"][0]["tokens"]
    exact = generate(writer("gpt"), words(), "one two", GenerationConfig(max_new_tokens=5))[0]
    assert len(chosen) == 5
    near = chosen[0]["log_probability"] == pytest.approx(exact.log_probabilities[0], abs=1.0)
    same = [token["log_probability"] for token in chosen] == pytest.approx(exact.log_probabilities, abs=1e-5)
    assert near and same == (weights == "float32"), "coarser numbers show, but only just"


def test_a_recurrent_network_is_run_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "lstm", "one two", "--max-new-tokens", "3"]) == 0
    assert capsys.readouterr().out == text_of("lstm", "one two", max_new_tokens=3) + "\n"


def test_blank_lines_stay_blank_and_a_closed_input_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, b"\none two\n  \n")
    assert translated(capsys)[:2] == (0, ["", text_of("seq2seq", "one two", max_new_tokens=5), ""])
    monkeypatch.setattr("sys.stdin", None)
    assert translated(capsys) == (2, [], "glassformer: error: standard input is closed: give the text itself\n")


def test_a_prompt_comes_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for typing in (b"one two", b"one two\n", b"one two\r\n"):
        typed(monkeypatch, typing)
        assert main(["generate", "gpt", "-", "--max-new-tokens", "3", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["prompt"] == "one two"
    typed(monkeypatch, b"one two\nthree\n")
    assert translated(capsys, "-")[:2] == (
        0,
        [text_of("seq2seq", line, max_new_tokens=5) for line in ("one two", "three")],
    )
    typed(monkeypatch, b"one \xff")
    assert main(["generate", "gpt", "-"]) == 2
    assert "standard input: byte 4 is not UTF-8" in capsys.readouterr().err


def test_a_progress_bar_leaves_standard_output_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bar on a terminal, translations into a file: each goes where it belongs, while the bar is shown too."""
    file, terminal = tmp_path / "lines.txt", Terminal()
    file.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    with redirect_stderr(terminal):
        assert main(["translate", "seq2seq", "--file", str(file), "--max-new-tokens", "5", "--stream"]) == 0
    assert capsys.readouterr().out.splitlines() == [text_of("seq2seq", line, max_new_tokens=5) for line in LINES]
    assert "translating" in terminal.text


def test_prompts_come_from_a_file_or_standard_input(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lines.txt").write_text("one two\nfour\n")
    wanted = [text_of("gpt", prompt, max_new_tokens=3) for prompt in ("one two", "four")]
    for file in ("lines.txt", "-"):
        typed(monkeypatch, b"one two\nfour\n")
        assert main(["generate", "gpt", "-f", file, "-m", "3"]) == 0
        assert capsys.readouterr().out == "\n---\n".join(wanted) + "\n"
    monkeypatch.setattr("glassformer.cli.generate.BATCH", 1)
    assert main(["generate", "gpt", "-f", "lines.txt", "-m", "3", "-b", "2", "-n", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["prompt"] for each in found] == ["one two", "four"]
    for each in found:
        best = generate(writer("gpt"), words(), each["prompt"], GenerationConfig(max_new_tokens=3, num_beams=2, n=2))
        assert [text["text"] for text in each["texts"]] == [text.text for text in best]


def test_short_forms(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("generate gpt one -m 4 -t 1 -k 3 -p 0.9 -n 2 -s 5".split()) == 0
    short = capsys.readouterr().out
    assert main("generate gpt one --max-new-tokens 4 --temperature 1 --top-k 3 --top-p .9 --n 2 --seed 5".split()) == 0
    assert capsys.readouterr().out == short


def test_words_that_the_model_does_not_know_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "gpt", "one zebra two zebra", "-m", "3"]) == 0
    assert "not in the model's vocabulary, and read as <unk>: 'zebra'\n" in capsys.readouterr().err
    assert main(["translate", "seq2seq", "one zebra", "-m", "3"]) == 0
    assert "read as <unk>: 'zebra'\n" in capsys.readouterr().err
    assert main(["generate", "gpt", "one zebra", "-m", "3", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    letters = learn_tokenizer(["abc def"], "characters")
    assert unknown_parts(["abz dé", "zz"], letters) == ["z", "é"]
    assert unknown_parts(["abc"], letters) == []


@pytest.mark.filterwarnings("always:a prompt has")
def test_a_long_prompt_is_continued_from_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    prompt = " ".join(["one two"] * 40)
    assert main(["generate", "gpt", prompt, "-m", "3"]) == 0
    out, err = capsys.readouterr()
    assert out == text_of("gpt", " ".join(["one two"] * 32), max_new_tokens=3) + "\n"
    assert "only its last 64 are read" in err and len(err.splitlines()) == 1
