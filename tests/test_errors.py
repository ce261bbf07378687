"""Suggestions for mistyped names."""

import pytest

from glassformer.suggestions import did_you_mean, nearest_names

KEYS = [
    "recipe.steps",
    "recipe.warmup_steps",
    "model.dim",
    "model.layers",
    "recipe.learning_rate",
    "tokenizer.file",
    "tokenizer.vocab_size",
    "layers.0.attention.qkv.weight",
]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("recipe.stepz", ["recipe.steps"]),
        ("steps", ["recipe.steps", "recipe.warmup_steps"]),
        ("model.dims", ["model.dim"]),
        ("layrs", ["model.layers"]),
        ("qkv.weight", ["layers.0.attention.qkv.weight"]),
        ("recipe.lr", ["recipe.learning_rate"]),
        ("tokenizer.size", ["tokenizer.vocab_size"]),
        ("", []),
        ("qqqq", []),
    ],
)
def test_the_nearest_names_come_first(name: str, wanted: list[str]) -> None:
    assert nearest_names(name, KEYS) == wanted


def test_an_error_ends_with_the_nearest_or_with_what_there_is() -> None:
    assert did_you_mean("gpt2x", ["gpt2", "llama"]) == "did you mean gpt2?"
    assert did_you_mean("qqqq", ["gpt2", "llama"]) == "wanted one of gpt2, llama"
    assert did_you_mean("qqqq", map(str, range(20))).endswith("10, 11, …")
    assert did_you_mean("qqqq", ["gpt2"], "`glassformer models` lists them") == "`glassformer models` lists them"
