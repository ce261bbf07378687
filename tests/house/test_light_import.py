"""Importing the package and asking for help load no torch: help comes at once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.cli.main import COMMANDS

LIST = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
HELP = "import sys, glassformer.cli.main as cli; cli.main(sys.argv[1:])"


def loaded(program: str, *words: str) -> list[str]:
    """Top-level modules that are loaded at the end of a program."""
    command = [sys.executable, "-c", f"{program}\n{LIST}", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()


CALLS = """
import json, sys
import glassformer.cli.main as cli
for words in json.loads(sys.argv[1]):
    cli.main(words)
    print("CALLED", *words, *{"torch", "numpy", "transformers"} & set(sys.modules), sep="\\t")
"""


def heavy(calls: list[list[str]]) -> list[list[str]]:
    """Which calls of the command line, one after the other in one program, load something that takes long."""
    done = subprocess.run([sys.executable, "-c", CALLS, json.dumps(calls)], capture_output=True, text=True, check=True)
    found = [line.split("\t")[1:] for line in done.stdout.splitlines() if line.startswith("CALLED\t")]
    assert len(found) == len(calls)
    return [one for one, words in zip(found, calls, strict=True) if one != words]


def test_import_loads_nothing_heavy() -> None:
    modules = loaded("import glassformer")
    assert "glassformer" in modules
    assert not {"torch", "numpy", "rich", "cyclopts"} & set(modules)


def test_help_loads_no_torch() -> None:
    calls = [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)]
    assert heavy(calls) == []


LIGHT = [  # what needs no model: text that is there already, and faults that show at once
    "glossary logit",
    "completion bash",
    "nothing",
    "equations --jsn",
    "train --out=",
    "generate",
    "generate model text --num-beams 2 --temperature 1",
    "generate model text --top-k 3",
    "generate model --file nowhere.txt",
    "translate model --file nowhere.txt",
    "trace model text --json steps.txt",
    "evaluate model --batch-size 0",
    "evaluate model --out steps.txt",
    "demo --steps 0",
]


def test_what_needs_no_model_loads_no_torch() -> None:
    assert heavy([words.split() for words in LIGHT]) == []


def test_one_equation_loads_torch_and_no_model_and_then_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
    modules = loaded(HELP, "equations", "softmax")
    assert "torch" in modules and not {"tokenizers", "safetensors", "sacrebleu", "math_core"} & set(modules)
    assert not {"torch", "numpy"} & set(loaded(HELP, "equations", "softmax"))


PACKAGES = ["equations", "models.registry", "checkpoints.load", "decoding.generate", "training.run", "planning.plan"]
COMPILER = """
import importlib, sys
for package in sys.argv[1:]:
    importlib.import_module(f"glassformer.{package}")
    print(package, "torch._dynamo" in sys.modules)
"""


def test_the_compiler_of_torch_is_loaded_when_it_compiles() -> None:
    command = [sys.executable, "-c", COMPILER, *PACKAGES]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert found.splitlines() == [f"{package} False" for package in PACKAGES]
