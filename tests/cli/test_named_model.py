"""One way to name a model in every command: a folder, a file, or a preset with random weights."""

import json
from pathlib import Path

import pytest

from glassformer.checkpoints.save import save
from glassformer.cli.main import main
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import PRESETS
from glassformer.models.seq2seq import Seq2SeqConfig
from tests.decoding.tiny_generators import words, writer

SIZES = {"vocab": 300, "context": 64, "dim": 8, "layers": 1, "heads": 2}
RANDOM = "random weights"


@pytest.fixture(autouse=True)
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, a file, and two small presets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(PRESETS, "tiny", GPTConfig(**SIZES))
    monkeypatch.setitem(PRESETS, "tiny-translator", Seq2SeqConfig(**SIZES, ffn_dim=16))
    save(writer("gpt"), tmp_path / "folder", words())


COMMANDS = [
    "generate {} one --max-new-tokens 3",
    "trace {} one --equation softmax",
    "models {}",
    "convert {} copy --format native",
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["folder", "folder/model.safetensors", "tiny"])
def test_a_folder_a_file_and_a_preset(command: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name.endswith("safetensors") and not command.startswith(("models", "convert")):
        pytest.skip("a file has no tokenizer")
    assert main(command.format(name).split()) == 0
    err = capsys.readouterr().err
    assert (RANDOM in err) == (name == "tiny" and not command.startswith("models"))


def test_a_name_that_is_neither_gets_the_nearest_preset(capsys: pytest.CaptureFixture[str]) -> None:
    for command in [*COMMANDS, "parity {}", "evaluate {}", "translate {} one"]:
        assert main(command.format("tinny").split()) == 2
        assert "there is no folder, file or preset 'tinny'; did you mean tiny" in capsys.readouterr().err


def test_a_folder_comes_before_a_preset(capsys: pytest.CaptureFixture[str]) -> None:
    save(writer("gpt"), "tiny", words())
    assert main(["generate", "tiny", "one", "--max-new-tokens", "3"]) == 0
    assert RANDOM not in capsys.readouterr().err


@pytest.mark.parametrize("weights", ["stored", "bfloat16", "int8"])
def test_a_preset_writes_bytes(weights: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"generate tiny one --max-new-tokens 5 --weights {weights} --json"
    assert main(line.split()) == 0
    (text,) = json.loads(capsys.readouterr().out)["texts"]
    assert 1 <= len(text["tokens"]) <= 5 and all(token["id"] < 261 for token in text["tokens"])
    assert main(["translate", "tiny-translator", "one"]) == 0


def test_the_tree_of_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "folder"]) == 0
    assert "Block" in capsys.readouterr().out
    assert main(["models", "folder", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["config"]["context"] == 64 and found["parameters"] == writer("gpt").parameter_count()
