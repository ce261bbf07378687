"""One rule for the exit status of every command: 2 for bad use, 1 for a check that failed or a run that went wrong."""

from pathlib import Path

import pytest
import torch

from glassformer.checkpoints.save import save
from glassformer.cli.main import COMMANDS, main
from tests.decoding.tiny_generators import words, writer

BAD_USE = [
    "generate nowhere one",
    "generate gpt one --step 3",
    "generate gpt2 one --step 3",
    "generate gpt3 one",
    "generate gtp2 one",
    "generate gpt one --max-new-tokens 0",
    "generate gpt one --num-beams 3 --stream",
    "generate gpt one --num-beams 3 --temperature .5",
    "generate gpt one --temperature 1 --top-k 99",
    "generate gpt one --device tpu",
    "generate gpt.bin one",
    "generate text.txt one",
    "generate empty one",
    "generate bare one",
    "generate encoder one",
    "translate nowhere one",
    "translate gpt one",
    "translate seq2seq --file nowhere.txt",
    "translate seq2seq --file empty/x",
    "classify nowhere one",
    "classify gpt one",
    "classify encoder",
    "fill nowhere one",
    "fill encoder one",
    "embed nowhere one",
    "similar nowhere one",
    "summarize nowhere one",
    "summarize gpt one",
    "answer nowhere who --context one",
    "answer gpt who --context one",
    "chat nowhere",
    "chat encoder",
    "few-shot gpt one --examples nowhere.tsv",
    "trace nowhere one",
    "trace gpt one --layer 9",
    "trace gpt " + "one," * 65,
    "trace gpt one --html nowhere/x.html",
    "trace gpt one --html empty",
    "trace gpt one --json x.txt",
    "trace gpt one --html x.json --json x.json",
    "trace gpt2 one --step 3",
    "evaluate nowhere",
    "evaluate gpt --data nowhere.txt",
    "evaluate gpt --data=",
    "evaluate gpt --data text.html",
    "evaluate gpt --data empty",
    "evaluate gpt --num-beams 2 --data text.txt",
    "evaluate gpt --task classify --data text.txt",
    "evaluate bare --data text.txt",
    "evaluate encoder --data text.txt",
    "classify nowhere one",
    "fill nowhere one",
    "parity nowhere",
    "parity gpt3",
    "parity gpt2 --step 2",
    "parity --page text.txt",
    "bench nothing",
    "bench calls --rounds 0",
    "bench small --peers nowhere",
    "plan nowhere",
    "plan gpt2 --device nothing",
    "convert nowhere copy",
    "convert gpt seq2seq",
    "convert gpt2 copy --step 3",
    "convert gpt text.txt",
    "convert gpt text.txt/copy",
    "train nothing",
    "train gpt --data nowhere.txt",
    "train gpt --data text.txt data.validation=text.html",
    "train gpt --init nowhere",
    "train gpt --config nowhere.toml",
    "train gpt --resume --out nowhere",
    "train gpt --data text.txt --out gpt",
    "train gpt recipe.steps=0",
    "train gpt --data text.txt --out new tokenizer.vocab_size=3",
    "train gpt --data text.txt --out new tokenizer.lowercase=true",
    "config nothing",
    "config gpt --config nowhere.toml",
    "demo --steps 0",
    "demo --seed -1",
    "studio nowhere",
    "studio gpt --port 99999",
    "studio gpt2 --step 3",
    "walk nothing",
    "walk slope --html nowhere/x.html",
    "walk slope --html x --notebook x",
    "walk --quiz",
    "check nothing",
    "equations nothing",
    "equations --search qqqq",
    "completion",
    "completion tcsh",
    "generate gpt --file nowhere.txt",
    "glossary nothing",
    "models nothing",
    "models empty",
]
WENT_WRONG = [
    "generate broken one",
    "generate broken one --num-beams 2",
    "translate broken-translator one",
    "generate cut one",
    "evaluate cut --data text.txt",
    "evaluate gpt --data bytes.txt",
    "classify cut one",
    "fill cut one",
    "trace cut one",
    "convert cut copy",
    "parity cut",
    "models cut",
]
CHEAP = [  # a fault that costs nothing to see, beside one that only shows once the work has begun
    ("generate cut one --num-beams 3 --temperature 1", "--num-beams is 3"),
    ("generate cut one --stream --json", "leave out --json"),
    ("generate cut one --device tpu", "device is 'tpu'"),
    ("generate cut --file nowhere.txt", "nowhere.txt: no such file"),
    ("translate cut --file nowhere.txt", "nowhere.txt: no such file"),
    ("trace cut one --html nowhere/x.html", "nowhere/x.html: No such file"),
    ("trace cut one --json x.txt", "does not end in .json"),
    ("trace cut one --cell layers.0 one", "--cell takes"),
    ("evaluate cut --data nowhere.txt", "nowhere.txt: no such file"),
    ("evaluate cut --out each.txt", "each.txt does not end in .jsonl"),
    ("evaluate cut --out nowhere/each.jsonl", "nowhere/each.jsonl: No such file"),
    ("evaluate cut --batch-size 0", "--batch-size is 0"),
    ("convert cut text.txt", "text.txt: is a file"),
    ("convert cut gpt", "already holds a model"),
    ("walk slope --html nowhere/x.html", "nowhere/x.html: No such file"),
    ("parity --page nowhere/x.md", "nowhere/x.md: No such file"),
    ("demo --seed -1", "--seed is -1"),
    (
        "train gpt --data bytes.txt --out new model.dim=32 model.heads=3",
        "model.heads is 3, which does not divide model.dim 32",
    ),
    ("train gpt --data bytes.txt --out new run.device=tpu", "device is 'tpu'"),
    ("train gpt --data bytes.txt --dry-run run.device=cuda:99", "device is 'cuda:99'"),
    ("train classify --data bytes.txt --out new model.heads=3", "model.heads is 3, which does not divide"),
]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models whole and damaged, and files that are no models."""
    folder = tmp_path_factory.mktemp("shelf")
    for name in ("gpt", "seq2seq", "encoder"):
        save(writer(name), folder / name, words())
    save(writer("gpt"), folder / "bare")
    for name, of in (("broken", "gpt"), ("broken-translator", "seq2seq")):
        broken = type(writer(of))(writer(of).config)
        with torch.no_grad():
            for parameter in broken.parameters():
                parameter.fill_(torch.nan)
        save(broken, folder / name, words())
    save(writer("gpt"), folder / "cut", words())
    (folder / "cut" / "model.safetensors").write_bytes(b"12345")
    (folder / "empty").mkdir()
    (folder / "text.txt").write_text("one two three\n" * 40)
    (folder / "text.html").write_text("one,two\n")
    (folder / "bytes.txt").write_bytes(b"\xff\xfe")
    torch.save({}, folder / "gpt.bin")
    return folder


@pytest.mark.parametrize(("line", "status"), [*((line, 2) for line in BAD_USE), *((line, 1) for line in WENT_WRONG)])
def test_status_and_one_line(
    line: str, status: int, shelf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(shelf)
    before = sorted(shelf.rglob("*"))
    found = main(line.split())
    err = capsys.readouterr().err
    assert (found, err.splitlines()[-1].startswith("glassformer: error: ")) == (status, True), err
    assert sorted(shelf.rglob("*")) == before, "nothing is left behind"


@pytest.mark.parametrize(("line", "fault"), CHEAP)
def test_what_is_cheap_to_check_is_checked_first(
    line: str, fault: str, shelf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(shelf)
    assert main(line.split()) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1 and fault in err


def test_every_command_is_in_the_table() -> None:
    assert {line.split()[0] for line in BAD_USE} == set(COMMANDS)


def test_garbage_is_told_by_its_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, size = tmp_path / "garbage.safetensors", int.from_bytes(b"x" * 8, "little")
    long = f"its header would have {size:,} bytes, wanted at most 91"
    for data, why in ((b"12345", "it has 5 bytes, too few for a header"), (b"x" * 99, long)):
        file.write_bytes(data)
        assert main(["generate", str(file), "one"]) == 1
        assert f"is not a safetensors file: {why}" in capsys.readouterr().err


def test_the_least_vocabulary_is_said(
    shelf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(shelf)
    for kind, least in (("bpe", "261: 5 special tokens and 256 bytes"), ("words", "6: 5 special tokens and 1 words")):
        words = f"train gpt --data text.txt --out new tokenizer.vocab_size=3 tokenizer.kind={kind}"
        assert main(words.split()) == 2
        assert f"error: tokenizer.vocab_size is 3, wanted at least {least}" in capsys.readouterr().err
