"""The command few-shot: examples of a file in the prompt, and an answer that ends with its line."""

import json
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.cli.main import main
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.text.learn_tokenizer import learn_tokenizer


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("few")
    tokenizer = learn_tokenizer(["Question: a\nAnswer: b\n\n" * 3], "bpe", 300)
    gf.save(build(GPTConfig(vocab=tokenizer.vocab_size, context=64, dim=8, layers=1, heads=2)), folder, tokenizer)
    (folder / "examples.tsv").write_text("question\tanswer\nNorway\tOslo\nChile\tSantiago\n")
    return str(folder)


def test_the_examples_are_in_the_prompt(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["few-shot", model, "--examples", f"{model}/examples.tsv", "Peru", "Cuba", "-m", "3", "--json"]
    assert main([*command, "--shots", "1", "--instruction", "Name it."]) == 0
    one, other = json.loads(capsys.readouterr().out)
    assert one["prompt"] == "Name it.\n\nQuestion: Norway\nAnswer: Oslo\n\nQuestion: Peru\nAnswer:"
    assert other["question"] == "Cuba" and "\n" not in other["answer"]
    assert main(command) == 0
    assert "Santiago" in json.loads(capsys.readouterr().out)[0]["prompt"]


def test_bad_examples_are_named(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.tsv"
    bad.write_text("question\tanswer\nNorway\t\n")
    for words, why in (
        (["-e", f"{model}/examples.tsv", "x", "--shots", "3"], "has 2 examples"),
        (["-e", f"{model}/examples.tsv", "x", "--shots", "-1"], "wanted 0 or more"),
        (["-e", f"{model}/examples.tsv"], "there is no text"),
        (["-e", str(tmp_path / "none.tsv"), "x"], "none.tsv"),
        (["-e", str(bad), "x"], "bad.tsv:2: answer is empty"),
    ):
        assert main(["few-shot", model, *words]) != 0
        assert why in capsys.readouterr().err
