"""`glassformer trace`, on models from a monkeypatched loader and on a preset."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from glassformer.checkpoints.load import Loaded
from glassformer.checkpoints.save import save
from glassformer.cli.main import main
from glassformer.layers.config import Config
from glassformer.models.encoder import EncoderConfig
from glassformer.models.gpt import GPTConfig
from glassformer.models.mlp import MLPConfig
from glassformer.models.registry import PRESETS, build
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.text.learn_tokenizer import learn_tokenizer

SIZES = {"context": 32, "dim": 8, "layers": 2, "heads": 2}
TEXTS = ["the cat sat on the mat", "a dog ran", "el gato"] * 4


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A folder that loads as the configuration a test asks for."""
    tokenizer = learn_tokenizer(TEXTS, "bpe", 300)
    config: Config = getattr(request, "param", GPTConfig(**SIZES, vocab=tokenizer.vocab_size))
    loaded = Loaded(build(config), tokenizer)
    monkeypatch.setattr("glassformer.interface.load_checkpoint", lambda *_: loaded)
    return str(tmp_path)


VOCAB = learn_tokenizer(TEXTS, "bpe", 300).vocab_size
TRANSLATOR = Seq2SeqConfig(**SIZES, vocab=VOCAB, ffn_dim=16)
READER = EncoderConfig(**SIZES, vocab=VOCAB, ffn_dim=16, head="sentence")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["trace", *words])
    told = capsys.readouterr()
    return status, told.out, told.err


def test_all_steps_in_a_table(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, folder, "the cat sat", "--backward", "next")
    assert status == 0 and err == ""
    for word in ("layers.1.attention.weights", "attention_scores", "cross_entropy", "largest gradient", "loss "):
        assert word in out
    assert "shown by the plain equations; the run itself is within" in out or "came out within" in out


def test_few_steps_whole(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, folder, "the cat sat", "--layer", "1", "--head", "1", "--equation", "*.weights")
    assert status == 0 and "pᵢ = e^(zᵢ − max z) / Σⱼ" in out and "layers.1.attention.weights" in out and "head 1" in out
    assert "head 0" not in out


def test_a_cell_and_its_way_back(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--cell", "layers.1.attention.scores", "0", "2", "1")
    status, out, _ = run(capsys, folder, "the cat sat", *asked)
    assert status == 0 and out.startswith("layers.1.attention.scores[0, 0, 2, 1] = (") and out.count("\n") == 1
    status, deep, _ = run(capsys, folder, "the cat sat", *asked, "--deep")
    assert status == 0 and deep.startswith(out) and ".weight[" in deep.splitlines()[-1]


def test_files(folder: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page, data = tmp_path / "t.html", tmp_path / "t.json"
    status, out, err = run(capsys, folder, "the cat", "--html", str(page), "--json", str(data))
    assert (status, out) == (0, "") and str(page) in err and "t.numbers.safetensors" in err
    assert page.read_text().startswith("<!doctype html>")
    names = [step["name"] for step in json.loads(data.read_text())["steps"]]
    assert set(names) == set(load_file(tmp_path / "t.numbers.safetensors"))
    assert json.loads(data.read_text())["tokens"]["ids"]


@pytest.mark.parametrize("folder", [TRANSLATOR], indirect=True)
def test_a_translator_is_shown_with_its_own_translation_or_a_given_one(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--equation", "decoder.layers.1.cross_attention.weights", "--backward", "pair")
    assert run(capsys, folder, "the cat", "el gato", *asked)[0] == 0
    status, out, _ = run(capsys, folder, "the cat", "--equation", "decoder.layers.1.cross_attention.weights")
    assert status == 0 and "decoder.layers.1.cross_attention.weights" in out


@pytest.mark.parametrize("folder", [READER], indirect=True)
def test_two_sentences_are_compared(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(
        capsys, folder, "the cat sat on the mat", "a dog", "--backward", "pair", "--equation", "cosine*"
    )
    assert status == 0 and "cosine_similarity" in out


def test_a_preset_has_random_weights(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRESETS, "small", GPTConfig(**SIZES, vocab=50))
    status, out, err = run(capsys, "small", "hello", "--equation", "softmax")
    assert status == 0 and "random weights" in err and "softmax" in out


@pytest.mark.parametrize("second", [[], ["wide"]])
def test_a_preset_that_translates_reads_bytes(
    second: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(PRESETS, "small", Seq2SeqConfig(**SIZES, vocab=256, ffn_dim=16))
    assert run(capsys, "small", "hi", *second, "--json", str(tmp_path / "t.json"))[0] == 0
    tokens = json.loads((tmp_path / "t.json").read_text())["tokens"]
    assert tokens == {"source": ["h", "i"], "target": ["0", *(second or ["hi"])[0]]}


BAD = [
    (("nowhere", "hi"), "there is no folder, file or preset 'nowhere'"),
    (("gpt2x", "hi"), "did you mean gpt2"),
    (("gpt3", "hi"), "gpt3 has 698 GB of weights"),
    (("FOLDER", "the cat", "--layer", "7"), "there is no layer 7; the model has layers 0 to 1"),
    (("FOLDER", "the cat", "--head", "7"), "there is no head 7; there are heads 0 to 1"),
    (("FOLDER", "the cat", "--token", "70"), "there is no token 70"),
    (("FOLDER", "the cat", "--equation", "softmx"), "did you mean softmax"),
    (("FOLDER", "the cat", "--backward", "nothing"), "'nothing' is not a loss"),
    (("FOLDER", "the cat", "--cell", "layers.0.attention.weigths", "0", "0", "0"), "layers.0.attention.weights"),
    (("FOLDER", "the cat", "--cell", "embedding", "x"), "--cell takes a step name and integers, not x"),
    (("FOLDER", "the cat", "--cell", "embedding", "99", "0"), "99 is not on axis 1"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_use_ends_with_two_and_one_line(
    folder: str, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    status, out, err = run(capsys, *(folder if word == "FOLDER" else word for word in words))
    assert status == 2 and out == "" and message in err and "Traceback" not in err


def test_numbers_are_no_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("glassformer.interface.load_checkpoint", lambda *_: Loaded(build(MLPConfig()), None))
    status, _, err = run(capsys, str(tmp_path), "hi")
    assert status == 2 and "MLP does not read text" in err


def test_a_real_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    stories = Path(__file__).parents[2] / "../shared/data/stories260k/stories260K.bin"
    if not stories.exists():
        pytest.skip("the real checkpoint is not here")
    status, out, _ = run(
        capsys, str(stories), "Once upon a time", "--layer", "0", "--equation", "*.weights", "--head", "0"
    )
    assert status == 0 and "▁Once" in out
    assert torch.get_default_dtype() == torch.float32


def test_a_trace_is_not_written_over_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "model"
    save(
        build(GPTConfig(vocab=VOCAB, dim=8, layers=1, heads=2, context=16)), folder, learn_tokenizer(TEXTS, "bpe", 300)
    )
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main(["trace", str(folder), "a dog", "--json", str(folder / "model.json")]) == 0
    assert main(["trace", str(folder), "a dog", "--json", str(folder / "model.json")]) == 0, "its own may be replaced"
    assert main(["trace", str(folder), "a dog", "--json", str(folder / "config.json")]) == 2
    assert main(["trace", str(folder), "a dog", "--json", str(folder / "model.safetensors")]) == 2
    assert main(["trace", str(folder), "a dog", "--html", str(folder / "model.safetensors")]) == 2
    assert "was not written by this command" in capsys.readouterr().err
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_a_page_that_cannot_be_written_is_said_in_a_line(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    for path, why in (("none/x.html", "No such file or directory"), (".", "Is a directory")):
        assert main(["trace", folder, "a dog", "--html", f"{folder}/{path}"]) == 2
        assert capsys.readouterr().err.endswith(f": {why}\n")
