"""Importing the package and asking for help load no torch: help comes at once."""

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


def test_import_loads_nothing_heavy() -> None:
    modules = loaded("import glassformer")
    assert "glassformer" in modules
    assert not {"torch", "numpy", "rich", "cyclopts"} & set(modules)


@pytest.mark.parametrize("words", [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)], ids=" ".join)
def test_help_loads_no_torch(words: list[str]) -> None:
    modules = loaded(HELP, *words)
    assert "cyclopts" in modules
    assert not {"torch", "numpy", "transformers"} & set(modules)


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


@pytest.mark.parametrize("words", LIGHT)
def test_what_needs_no_model_loads_no_torch(words: str) -> None:
    assert not {"torch", "numpy", "transformers"} & set(loaded(HELP, *words.split()))


def test_one_equation_loads_torch_and_no_model_and_then_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
    modules = loaded(HELP, "equations", "softmax")
    assert "torch" in modules and not {"tokenizers", "safetensors", "sacrebleu", "math_core"} & set(modules)
    assert not {"torch", "numpy"} & set(loaded(HELP, "equations", "softmax"))


COMPILER = "print('torch._dynamo' in sys.modules)"
PACKAGES = ["equations", "models.registry", "checkpoints.load", "decoding.generate", "training.run", "planning.plan"]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_compiler_of_torch_is_loaded_when_it_compiles(package: str) -> None:
    command = [sys.executable, "-c", f"import sys, glassformer.{package}; {COMPILER}"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["False"]
