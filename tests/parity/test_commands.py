"""`glassformer parity` and `glassformer convert`, and native models opened by transformers."""

import json
import re
from pathlib import Path

import pytest
import torch

from glassformer.checkpoints.families.family import ACTIVATION_WORDS
from glassformer.checkpoints.load import load
from glassformer.checkpoints.save import save
from glassformer.cli.main import main
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import PRESETS
from glassformer.models.rnn import RNNConfig
from glassformer.text.learn_tokenizer import learn_tokenizer
from tests.checkpoints.parity_configs import NAMES, PARITY_CONFIGS, assert_equal, shaken

transformers = pytest.importorskip("transformers", reason="parity needs transformers")

from glassformer.checkpoints.parity import parity  # noqa: E402 - it imports transformers

transformers.logging.disable_progress_bar()
transformers.logging.set_verbosity_error()


@pytest.mark.parametrize("name", NAMES)
def test_every_intermediate_of_every_family_agrees(name: str) -> None:
    model = shaken(PARITY_CONFIGS[name], dtype=torch.float64)
    for dtype in (torch.float64, torch.float32):
        found = parity(model, dtype)
        assert found.first_divergence is None, found.first_divergence
        assert len(found.differences) > 20


def test_the_page_has_every_specimen() -> None:
    page = (Path(__file__).parents[2] / "docs/parity.md").read_text()
    assert [name for name in NAMES if f"| {name} |" not in page] == []


def test_the_first_divergence_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(shaken(PARITY_CONFIGS["GPT-2"]), tmp_path)
    assert main(["parity", str(tmp_path)]) == 0
    assert "all 28 intermediates agree to 1e-04" in capsys.readouterr().out
    table = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**table, "layer_norm_epsilon": 1e-5}))
    with pytest.MonkeyPatch.context() as patch:  # a model that reads one number wrongly
        patch.setitem(ACTIVATION_WORDS, "gelu_new", "relu")
        assert main(["parity", str(tmp_path)]) == 1
    assert "first divergence: stack.blocks.0.feed_forward.down, input" in capsys.readouterr().out
    assert main(["parity", str(tmp_path), "--dtype", "float64", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["first_divergence"] is None and found["parity"]["dtype"] == "float64"


def test_a_preset_gets_random_weights(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRESETS, "tiny", PARITY_CONFIGS["Mistral"])
    assert main(["parity", "tiny"]) == 0
    assert "mistral in float32" in capsys.readouterr().out
    assert main(["parity", "tinny"]) == 2
    assert "did you mean tiny" in capsys.readouterr().err


@pytest.mark.parametrize("columns", ["50", "80", "160"])
def test_figures_stay_whole_in_a_narrow_terminal(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setitem(PRESETS, "tiny", PARITY_CONFIGS["GPT-2"])
    assert main(["parity", "tiny"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([number for line in lines for number in re.findall(r"\b\d\.\de-\d\d\b", line)]) == 2 * 12
    assert max(map(len, lines)) <= int(columns)


def test_a_model_without_a_family_cannot_be_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    why = "this model cannot be written for Hugging Face: RNNConfig belongs to none of its families; "
    save(shaken(RNNConfig(vocab=11, dim=8)), tmp_path / "rnn")
    assert main(["parity", str(tmp_path / "rnn")]) == 1
    wanted = "parity needs one that can; `glassformer parity` alone compares one of every family"
    assert capsys.readouterr().err == f"glassformer: error: {why}{wanted}\n"
    assert main(["convert", str(tmp_path / "rnn"), str(tmp_path / "x")]) == 1
    assert capsys.readouterr().err == f"glassformer: error: {why}--format native keeps all of it\n"


def test_conversion_there_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = shaken(PARITY_CONFIGS["BART"])
    save(model, tmp_path / "native", format="native")
    assert main(["convert", str(tmp_path / "native"), str(tmp_path / "hf"), "--json"]) == 0
    assert "config.json" in json.loads(capsys.readouterr().out)["files"]
    assert transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "hf").config.model_type == "bart"
    assert main(["convert", str(tmp_path / "hf"), str(tmp_path / "again"), "--format", "native"]) == 0
    assert_equal(load(tmp_path / "again").model, model)
    assert main(["convert", str(tmp_path / "again"), str(tmp_path / "half"), "--dtype", "bfloat16"]) == 0
    assert next(load(tmp_path / "half").model.parameters()).dtype == torch.bfloat16
    assert main(["convert", str(tmp_path / "nowhere"), str(tmp_path / "x")]) == 2
    assert "there is no folder, file or preset" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["config.json", "config.toml", "model.safetensors", "tokenizer.json", "step-00000010"])
def test_conversion_spares_a_model_or_a_run(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    save(shaken(PARITY_CONFIGS["GPT-2"]), source)
    target.mkdir()
    (target / "notes.txt").write_text("mine")
    (target / name).write_text("dear to someone")
    assert main(["convert", str(source), str(target)]) == 2
    assert f"{target}: already holds a model or a run ({name}): name another folder\n" in capsys.readouterr().err
    assert {path.name: path.read_text() for path in target.iterdir()} == {"notes.txt": "mine", name: "dear to someone"}
    (target / name).unlink()
    assert main(["convert", str(source), str(target)]) == 0
    assert main(["convert", str(source), str(source)]) == 2


def test_transformers_writes_what_we_write_from_a_model_of_ours(tmp_path: Path) -> None:
    """Tokenizer, generation settings and shards included: the same greedy text, by AutoModel and AutoTokenizer."""
    words = learn_tokenizer(["the cat sat on the mat", "a dog sat on a log"] * 3, "bpe", 290)
    config = GPTConfig(vocab=words.vocab_size, context=32, dim=16, layers=2, heads=2)
    model = shaken(config)
    train(model, words.encode("the cat sat on the mat a dog sat on a log the cat sat"))
    save(model, tmp_path, words, format="hf", shard_bytes=10_000)
    assert (tmp_path / "generation_config.json").exists() and (tmp_path / "model.safetensors.index.json").exists()
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.eos_token_id == words.eos == theirs.generation_config.eos_token_id
    prompt = tokenizer("the cat", return_tensors="pt", add_special_tokens=False)
    assert prompt["input_ids"][0].tolist() == words.encode("the cat")
    written = theirs.generate(**prompt, max_new_tokens=10, do_sample=False)[0].tolist()
    ids = words.encode("the cat")
    while len(ids) < len(written):
        with torch.no_grad():
            ids.append(int(load(tmp_path).model(torch.tensor([ids]))[0, -1].argmax()))
    assert written == ids
    assert tokenizer.decode(written, skip_special_tokens=True) == words.decode(ids)


def train(model: torch.nn.Module, ids: list[int]) -> None:
    """A few steps on one text."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    rows = torch.tensor([ids])
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(model(rows[:, :-1])[0], rows[0, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("name", [name for name in NAMES if "classes" in name])
def test_labels_travel(name: str, tmp_path: Path) -> None:
    labels = ["bad", "fair", "good"][: vars(PARITY_CONFIGS[name])["classes"]]
    save(shaken(PARITY_CONFIGS[name]), tmp_path, labels=labels, format="hf")
    reads = "Image" if name.startswith("ViT") else "Sequence"
    theirs = getattr(transformers, f"AutoModelFor{reads}Classification").from_pretrained(tmp_path)
    assert theirs.config.id2label == dict(enumerate(labels))
