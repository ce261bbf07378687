"""The labels of a classifier: in the order of its head, through fine-tuning, resuming, saving and evaluating."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import glassformer as gf
from glassformer.errors import ConfigError
from glassformer.training.begun import read_labels
from glassformer.training.tasks.classify import ClassifierMetrics, class_labels

WORDS = ("apple", "stone", "water")
SETTINGS = {
    "tokenizer.kind": "words", "tokenizer.vocab_size": 60, "model.dim": 16, "model.layers": 1, "model.heads": 2,
    "model.ffn_dim": 16, "model.context": 32, "data.max_length": 8, "data.batch_size": 8, "recipe.warmup_steps": 2,
    "recipe.learning_rate": 0.01, "model.dropout": 0.0, "run.device": "cpu", "run.precision": "float32",
}  # fmt: skip


def labeled(path: Path, names: tuple[str, ...], rows: int = 60) -> str:
    """Texts whose last word, just within the length of training, decides their label."""
    lines = [f"{names[i % 3]}\tthe {'very ' * (i % 4)}{WORDS[i % 3]}\n" for i in range(rows)]
    path.write_text("".join(lines))
    return str(path)


def accuracy(folder: Path, data: str) -> float:
    metrics = gf.evaluate(folder, data)
    assert isinstance(metrics, ClassifierMetrics)
    return metrics.accuracy


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run that learned its three labels, whose order in the head is then turned round, as another library may."""
    root = tmp_path_factory.mktemp("labels")
    data = labeled(root / "data.tsv", ("a", "b", "c"))
    initialized = {"recipe.initialization": "xavier_uniform"}  # the usual one is too small for a model of this width
    gf.train("classify", {**SETTINGS, **initialized, "data.path": data, "recipe.steps": 120}, out=root / "run")
    loaded = gf.load(root / "run")
    with torch.no_grad():
        for parameter in (loaded.model.classifier.weight, loaded.model.classifier.bias):  # pyright: ignore
            parameter.copy_(parameter.flip(-1))
    gf.save(loaded.model, root / "turned", loaded.tokenizer, ("c", "b", "a"))
    assert accuracy(root / "turned", data) == 1
    return root / "turned", data


def test_fine_tuning_keeps_the_order_of_the_labels(classifier: tuple[Path, str], tmp_path: Path) -> None:
    start, data = classifier
    still = {
        "data.path": data,
        "run.init": str(start),
        "recipe.steps": 2,
        "recipe.learning_rate": 1e-9,
        "recipe.warmup_steps": 1,
    }
    run = gf.train("classify", {"data.max_length": 8, "run.device": "cpu", **still}, out=tmp_path / "run")
    assert run.labels == ("c", "b", "a") and accuracy(tmp_path / "run", data) == 1


def test_a_resumed_run_keeps_its_labels_without_the_model_it_started_from(
    classifier: tuple[Path, str], tmp_path: Path
) -> None:
    start, data = classifier
    shutil.copytree(start, tmp_path / "start")
    asked = {"data.path": data, "run.init": str(tmp_path / "start"), "data.max_length": 8, "run.device": "cpu"}
    asked |= {"recipe.steps": 2, "recipe.learning_rate": 1e-9, "recipe.warmup_steps": 1, "recipe.save_every": 1}
    gf.train("classify", asked, out=tmp_path / "run")
    shutil.rmtree(tmp_path / "start")
    assert gf.train(out=tmp_path / "run", resume=True).labels == ("c", "b", "a")
    assert read_labels(tmp_path / "run") == ("c", "b", "a")
    (tmp_path / "run" / "model.json").write_text('{"labels": 1}')
    with pytest.raises(ConfigError, match=r"model\.json: does not hold the labels"):
        gf.train(out=tmp_path / "run", resume=True)


def test_other_labels_get_a_new_head(classifier: tuple[Path, str], tmp_path: Path) -> None:
    start, _ = classifier
    data = labeled(tmp_path / "data.tsv", ("x", "y", "z"))
    asked = {"data.path": data, "run.init": str(start), "data.max_length": 8, "run.device": "cpu"}
    asked |= {"recipe.steps": 2, "recipe.learning_rate": 1e-9, "recipe.warmup_steps": 1}
    run = gf.train("classify", asked, out=tmp_path / "run")
    assert run.labels == ("x", "y", "z")
    before, after = gf.load(start).model.state_dict(), run.model.state_dict()
    assert torch.allclose(before["pooler.weight"], after["pooler.weight"])
    assert not torch.allclose(before["classifier.weight"], after["classifier.weight"])


def test_labels_that_look_numbered_are_remembered(tmp_path: Path) -> None:
    data = labeled(tmp_path / "data.tsv", ("LABEL_2", "LABEL_0", "LABEL_1"), 12)
    gf.train(
        "classify", {**SETTINGS, "data.path": data, "recipe.steps": 2, "recipe.warmup_steps": 1}, out=tmp_path / "run"
    )
    assert gf.load(tmp_path / "run").labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert 0 <= accuracy(tmp_path / "run", data) <= 1
    numbers = labeled(tmp_path / "numbers.tsv", ("2", "0", "1"), 12)
    assert accuracy(tmp_path / "run", numbers) == accuracy(tmp_path / "run", data), "class 1 is LABEL_1"


def test_texts_are_truncated_as_in_training_wherever_the_folder_goes(
    classifier: tuple[Path, str], tmp_path: Path
) -> None:
    """Behind the length of training stands a word that would change the class."""
    start, _ = classifier
    each = [("abc"[i % 3], WORDS[i % 3], WORDS[(i + 1) % 3]) for i in range(9)]
    tricky = "".join(f"{label}\tthe very very very {word} {other} stone water\n" for label, word, other in each)
    (tmp_path / "long.tsv").write_text(tricky)
    (tmp_path / "cut.tsv").write_text("".join(" ".join(line.split(" ")[:6]) + "\n" for line in tricky.splitlines()))
    loaded = gf.load(start)
    assert loaded.tokenizer is not None and loaded.tokenizer.use.max_length == 8 < loaded.model.config.context
    assert len(loaded.tokenizer.encode_inputs([tricky], 8)[0]) == 8
    for format in ("hf", "native"):
        gf.save(loaded.model, tmp_path / format, loaded.tokenizer, loaded.labels, format)
        whole, cut = (gf.evaluate(tmp_path / format, str(tmp_path / name)) for name in ("long.tsv", "cut.tsv"))
        assert vars(whole) == vars(cut), format


def test_a_language_model_is_measured_over_the_length_it_was_trained_on(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the water is on the stone and the apple is in the water\n" * 30)
    asked = {**SETTINGS, "data.path": str(text), "recipe.steps": 40}
    run = gf.train("gpt", asked, out=tmp_path / "run")
    wanted = run.evaluate()
    held = [run.tokenizer.decode(run.data.validation.tokens.tolist())]  # pyright: ignore
    (tmp_path / "held.txt").write_text(held[0])
    for folder in (tmp_path / "run", tmp_path / "copy"):
        found = gf.evaluate(folder, str(tmp_path / "held.txt"))
        assert found.loss == pytest.approx(wanted.loss, rel=0.2), "not over positions that were never trained"
        gf.save(run.model, tmp_path / "copy", run.tokenizer, format="hf")
    assert json.loads((tmp_path / "copy" / "tokenizer_config.json").read_text())["model_max_length"] == 8


@given(st.sets(st.text(max_size=3), min_size=1, max_size=5), st.lists(st.text(max_size=3), unique=True, max_size=5))
def test_every_label_has_a_place(found: set[str], known: list[str]) -> None:
    labels, fresh = class_labels(found, tuple(known))
    assert found <= set(labels)
    assert fresh == (not found <= set(known))
    assert labels == (tuple(sorted(found)) if fresh else tuple(known))
