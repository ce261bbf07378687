"""`glassformer bench`: every suite in its smallest sizes, what it compares, and its messages."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from torch import Tensor, nn

from glassformer.bench import memory, nanogpt, translators
from glassformer.bench.measure import BenchError
from glassformer.bench.options import BenchOptions
from glassformer.bench.suites import SUITES
from glassformer.bench.whole_runs import RUNS
from glassformer.cli.bench import SUITES as DESCRIBED
from glassformer.cli.main import main
from glassformer.models.gpt import GPTConfig
from glassformer.training.config import resolve
from tests.bench.stand_ins import peers
from tests.house.source import ROOT

TINY = "--tiny --rounds 2 --device cpu --precision float32 --seed 1".split()
FIELDS = {"suite", "row", "runner", "unit", "rate", "milliseconds", "spread", "ratio", "apart", "rounds", "note"}


def measured(tmp_path: Path, *words: str) -> dict[str, dict[str, object]]:
    """The rows that a suite writes, by row and runner."""
    path = tmp_path / "found.json"
    assert main(["bench", *words, *TINY, "--json", str(path)]) == 0
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["suite"] == words[0] and report["seed"] == 1 and report["device"] and report["torch"]
    assert all(set(row) >= FIELDS and row["rate"] > 0 for row in report["rows"])
    return {f"{row['row']} {row['runner']}": row for row in report["rows"]} | {"skipped": report["skipped"]}


@pytest.mark.parametrize(
    ("suite", "rows"), [("train", ["124M"]), ("small", ["characters", "modern"]), ("cpu", ["10M", "0.8M"])]
)
def test_language_models_are_trained_beside_nanogpt(suite: str, rows: list[str], tmp_path: Path) -> None:
    found = measured(tmp_path, suite, "--peers", str(peers(tmp_path)), "--only", "nanoGPT")
    del found["skipped"]
    assert list(found) == [f"{row} {runner}" for row in rows for runner in ("glassformer", "nanoGPT")]
    for row in rows:
        ours, theirs = found[f"{row} glassformer"], found[f"{row} nanoGPT"]
        assert ours["ratio"] is None and theirs["ratio"] == pytest.approx(ours["rate"] / theirs["rate"])  # pyright: ignore
        assert len(ours["rounds"]) == 2  # pyright: ignore[reportArgumentType]
        assert (theirs["apart"] is None) == (row == "modern")


def test_nanogpt_has_biases_where_its_name_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("nanoGPT", "nanoGPT with biases")
    words = [word for name in names for word in ("--only", name)]
    found = measured(tmp_path, "train", "--peers", str(peers(tmp_path)), *words)
    assert all(0 < found[f"124M {name}"]["apart"] < 1e-5 for name in names)  # pyright: ignore[reportOperatorIssue]
    made = nanogpt.nanogpt_model
    monkeypatch.setattr(nanogpt, "nanogpt_model", lambda file, config, bias: made(file, config))
    options = BenchOptions(say=print, peers=tmp_path)
    config = GPTConfig(vocab=65, context=16, dim=32, layers=2, heads=2)
    assert nanogpt.nanogpt_apart(config, options) < 1e-5
    with pytest.raises(BenchError, match="has nothing for"):
        nanogpt.nanogpt_apart(config, options, bias=True)


def test_a_model_that_is_not_ours_is_not_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = peers(tmp_path, scale=1.01)
    assert main(["bench", "small", "--only", "characters", "--peers", str(folder), *TINY]) == 1
    said = capsys.readouterr()
    assert "nanoGPT: its logits are" in said.err and "from ours with the same weights, wanted 0.0001" in said.err
    assert not said.out


def test_hugging_face_is_compared_with_ours_too(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    found = measured(tmp_path, "train", "--only", "Hugging Face")
    assert 0 < found["124M Hugging Face"]["apart"] < 1e-5  # pyright: ignore[reportOperatorIssue]


def test_x_transformers_is_trained_where_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Wrapper(nn.Module):
        def __init__(self, *, num_tokens: int, attn_layers: dict[str, int], **more: object) -> None:
            super().__init__()
            asked.append(attn_layers | more)
            self.embedding, self.output = (nn.Embedding(num_tokens, 8), nn.Linear(8, num_tokens))

        def forward(self, ids: Tensor) -> Tensor:
            return self.output(self.embedding(ids))

    package = ModuleType("x_transformers")
    vars(package).update(Decoder=dict, TransformerWrapper=Wrapper)
    monkeypatch.setitem(sys.modules, "x_transformers", package)
    found = measured(tmp_path, "train", "--only", "x-transformers")
    assert found["124M x-transformers"]["apart"] is None
    assert {"dim": 32, "depth": 2, "heads": 2, "attn_dim_head": 16, "max_seq_len": 16}.items() <= asked[0].items()


def test_translators_are_trained_on_equal_and_on_real_lengths(tmp_path: Path) -> None:
    found = measured(tmp_path, "translate")
    runners, rows = ("glassformer", "torch.nn.Transformer"), ("equal", "packed", "real")
    assert {f"{row} {runner}" for row in rows for runner in runners} == found.keys() - {"skipped"}
    assert "of the tokens per second of equal lengths" in str(found["real glassformer"]["note"])
    assert "of the rate of padded rows" in str(found["packed glassformer"]["note"])
    assert all(found[f"{row} torch.nn.Transformer"]["apart"] < 1e-5 for row in rows)  # pyright: ignore
    alone = measured(tmp_path, "translate", "--only", "equal", "--only", "glassformer")
    assert alone.keys() - {"skipped"} == {"equal glassformer"}


def test_a_file_of_something_else_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("hello", encoding="utf-8")
    for option in ("--json", "--svg"):
        assert main(["bench", "shapes", *TINY, option, str(notes)]) == 2
        assert "already exists and was not written by this command" in capsys.readouterr().err
    assert notes.read_text(encoding="utf-8") == "hello"


def test_exchanged_norms_are_seen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    copy = translators.copy_to_torch

    def exchanged(ours: dict[str, Tensor], theirs: nn.Module) -> None:
        copy(ours, theirs)  # pyright: ignore[reportArgumentType]
        layer = next(part for part in theirs.modules() if isinstance(part, nn.TransformerDecoderLayer))
        layer.norm1, layer.norm2 = layer.norm2, layer.norm1

    monkeypatch.setattr(translators, "copy_to_torch", exchanged)
    assert main(["bench", "translate", *TINY]) == 1
    assert "torch.nn.Transformer: its logits are" in capsys.readouterr().err


def test_torchs_transformer_with_other_weights_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.bench.translators.copy_to_torch", lambda ours, theirs: None)
    assert main(["bench", "translate", *TINY]) == 1


def test_decoding_runs_in_processes_of_its_own_on_a_cpu(tmp_path: Path) -> None:
    found = measured(tmp_path, "decode", "--only", "gpt2-cpu", "--only", "glassformer int8")
    assert found.keys() == {"gpt2-cpu glassformer", "gpt2-cpu glassformer int8", "skipped"}


def test_start_up_calls_and_sparse_attention(tmp_path: Path) -> None:
    assert "import Python" in measured(tmp_path, "start-up", "--only", "import", "--only", "Python")
    found = measured(tmp_path, "calls")
    assert {"relu kernel", "relu equation with checks", "trace plain run", "trace trace of one layer"} <= found.keys()
    found = measured(tmp_path, "sparse", "--only", "step-2048")
    assert len(found) == 5 and found["step-2048 causal"]["ratio"] is None


def test_memory_of_a_run_stands_beside_its_estimate(tmp_path: Path) -> None:
    found = measured(tmp_path, "memory", "--only", "lora")
    assert "estimated" in str(found["lora gpt"]["note"])
    with pytest.raises(BenchError, match="a run of gpt failed: .*model.dim"):
        memory._in_process("gpt", "model.dim=7")  # pyright: ignore[reportPrivateUsage]


def test_whole_runs_are_timed_until_a_loss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, folder = tmp_path / "text.txt", peers(tmp_path)
    text.write_text("To be, or not to be, that is the question.\n" * 100, encoding="utf-8")
    words = ("small", "--peers", str(folder), "--data", str(text), "--only", "nanoGPT")
    found = measured(tmp_path, *words, "--until", "3")
    assert "to 2.5000 on the validation text, at step 250" in str(found["until nanoGPT"]["note"])
    assert measured(tmp_path, *words, "--until", "1")["skipped"][-1].startswith("nanoGPT did not reach 1.0")  # pyright: ignore
    (folder / "nanoGPT/train.py").write_text("import time\ntime.sleep(600)\n", encoding="utf-8")
    short = measured(tmp_path, *words, "--until", "3", "--seconds", "0.5")
    assert short.keys() == {"skipped"} and "nanoGPT did not reach 3.0" in str(short["skipped"])
    capsys.readouterr()
    ours = measured(tmp_path, *words[:5], "--only", "glassformer", "--until", "100")
    assert "at step 2" in str(ours["until glassformer"]["note"])


def test_a_whole_run_is_that_of_the_recipe() -> None:
    recipe = resolve(file=ROOT / "recipes/shakespeare.toml").settings
    shorter = {"steps": 1800, "evaluate_every": 100, "patience": 0}  # the loss asked for comes long before step 5,000
    recipe = replace(recipe, recipe=replace(recipe.recipe, **shorter))
    task, *words = RUNS["glassformer"].split()
    ours = resolve(task, words=[*words, "data.path=data/tinyshakespeare/input.txt"]).settings
    assert ours == recipe


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("speed", "there is no suite 'speed'"),
        ("small --rounds 0", "--rounds is 0, wanted 1 or more"),
        (
            "small --only large",
            "--only=large is neither a row nor a peer of the suite; there are 'characters', 'modern'",
        ),
        ("small --only nanoGPT --until 3 --data README.md", "--only=nanoGPT, but it cannot be measured: no folder of"),
        ("small --only nanoGPT", "--only=nanoGPT, but it cannot be measured: no folder of --peers is given"),
        ("small --peers nowhere", "nowhere: no such file or folder"),
        ("small --until 1", "--until and --data go together"),
        ("train --until 1", "--until and --data are for the suite small"),
        ("train --device tpu", "--device is 'tpu', wanted auto, cpu, cuda or cuda:1"),
        ("train --seconds 5", "--seconds is for the suite shapes, and for small with --until"),
        ("shapes --seconds 0", "--seconds is 0, wanted more than 0"),
        ("small --until nan", "--until is nan, wanted more than 0"),
        ("small --seed -1", "--seed is -1, wanted 0 to 2147483647"),
        ("shapes --json x --svg x", "x: two outputs have this path"),
        ("small --svg small.svg", "--svg is for the suite shapes"),
        ("shapes --svg nowhere/shapes.svg", "--svg: nowhere is not a folder"),
        ("start-up --json nowhere/found.json", "--json: nowhere is not a folder"),
    ],
)
def test_faults_are_named(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words.split()]) == 2
    assert said in capsys.readouterr().err


def test_a_missing_peer_is_named_with_the_way_to_give_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = measured(tmp_path, "small", "--only", "characters", "--peers", str(tmp_path))
    assert "characters nanoGPT" not in found
    wanted = f"nanoGPT is left out: {tmp_path / 'nanoGPT/model.py'} does not exist; put a copy of github.com/karpathy/"
    assert wanted in capsys.readouterr().err and wanted in "".join(found["skipped"])


def test_a_peer_that_cannot_be_run_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "nanoGPT").mkdir()
    (tmp_path / "nanoGPT/model.py").write_text("import nothing_of_this_name\n", encoding="utf-8")
    assert main(["bench", "small", "--peers", str(tmp_path), *TINY]) == 1
    assert "cannot be run: ModuleNotFoundError" in capsys.readouterr().err


def test_without_a_suite_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench"]) == 0
    shown = capsys.readouterr().out
    assert DESCRIBED.keys() == SUITES.keys() and all(f" {name} " in shown for name in SUITES)
