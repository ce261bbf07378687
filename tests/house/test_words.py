"""Retired names and phrases stay retired: the vocabulary is that of PyTorch, Hugging Face and the papers."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source import ROOT, trees

# Names no class, function, argument, field or variable may have again, with what the field calls it.
NAMES = {
    "Around": "Residual",
    "Everything": "Bidirectional",
    "Past": "Causal",
    "Heads": "AttentionShape",
    "Moment": "AttentionContext",
    "Slots": "LayerKV",
    "Branches": "BeamCache",
    "Watcher": "Dispatcher",
    "Written": "Completion",
    "Draft": "PartialText",
    "Piece": "TextChunk",
    "Session": "DecodeLoop",
    "Board": "StaticBuffers",
    "Front": "BeamState",
    "Guess": "PromptLookup",
    "Follower": "CachedReader",
    "Shot": "Example",
    "Wording": "PromptTemplate",
    "Lesson": "LossModule, or CourseLesson",
    "Updates": "Optimizers",
    "Subject": "LoadedModel",
    "Figures": "Metrics",
    "Twin": "HFModel",
    "Shown": "TraceStep",
    "Bound": "BoundSymbol",
    "Scaling": "RopeScaling",
    "at_rest": "inference_mode",
    "beginning": "resume",
    "cut_heads": "slice_axis",
    "cut_rows": "slice_axis",
    "diagnosis": "nonfinite",
    "disagreement": "symmetric_kl",
    "effort": "flops",
    "first_place": "position_offset",
    "forbid": "suppress_tokens",
    "in_form": "for_inference",
    "look_up": "embed",
    "nursery": "fork_server",
    "open_cache": "prefill",
    "own_line": "tree_mask",
    "place": "position, path or module",
    "places": "positions",
    "pull_back": "vjp",
    "row_kernels": "triton_kernels",
    "row_model": "triton_decoder",
    "share_heads": "repeat_kv",
    "shares": "probabilities, or fractions",
    "smoothing": "label_smoothing",
    "specimens": "parity_configs",
    "subject": "model",
    "symptoms": "monitor",
    "unchecked": "no_checks",
    "untrusted": "safe_read",
    "wide": "upcast",
}
# Phrases nothing may say again, as regular expressions without regard to capitals.
PHRASES = (
    "number types?",
    "learnt",
    "so many of",
    "somebody",
    "is said to be that",
    "likeliest",
    "row_kernels",
    "row_model",
    r"\w*(behavio|colo|favo|hono|labo|neighbo|rumo)ur\w*",
    r"\w*(labell|modell|travell|cancell)(ed|ing)",
    r"\w*(generali|initiali|maximi|minimi|normali|optimi|organi|quanti|reali|recogni|regulari|seriali|summari|tokeni)s(e|ed|es|ing|ation|er|ers)",
    "analys(e|ed|ing)",
    "artefacts?",
    "catalogues?",
    "centred?",
    "grey",
    "programmes?",
    "whilst",
)
GRAMMAR = {"subject", "place", "places"}  # of sentences, in the phrase book
GIVEN = re.compile(r"airplane-neighbours|(x|rmsnorm|layernorm)_centred")  # ids of the worked examples
TEXTS = (".py", ".md", ".toml", ".cfg", ".txt", ".css", ".js", ".html", ".yml")
ALLOWED = {"CHANGELOG.md", "tests/house/test_words.py"}


def tracked() -> list[Path]:
    """The text files of the repository, without those that may name what is retired."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.splitlines() if name.endswith(TEXTS) and name not in ALLOWED]


def names_in(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every name that is defined or assigned, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def test_no_retired_name_is_defined() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name} -> {NAMES[name]}"
        for path in tracked()
        if path.suffix == ".py"
        for name, line in names_in(ast.parse(path.read_text(encoding="utf-8")))
        if name in NAMES and not (name in GRAMMAR and "phrases" in path.parts)
    ]
    assert not found, "\n".join(found)


def test_no_file_is_named_by_a_retired_word() -> None:
    assert not [str(path) for path in tracked() if path.stem in NAMES]


def test_no_retired_phrase_is_written() -> None:
    pattern = re.compile(rf"\b({'|'.join(PHRASES)})\b", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in tracked()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for match in pattern.finditer(GIVEN.sub("", line))
    ]
    assert not found, "\n".join(found)


def texts_in(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every text that is not a docstring, with its line."""
    standing = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in standing:
            yield node.value, node.lineno


def test_what_python_says_does_not_speak_of_options() -> None:
    """Below the commands no message names an option such as `--init`, unless it is a whole command to type."""
    option = re.compile(r"(?<![\w-])--[a-z]")
    found = [
        f"{name}:{line}: {text}"
        for name, tree in trees().items()
        if not name.startswith(
            ("glassformer.cli", "glassformer.course", "glassformer.views", "glassformer.charts")
        )  # CSS
        for text, line in texts_in(tree)
        if option.search(text) and not text.startswith("glassformer ")
    ]
    assert not found, "\n".join(found)
