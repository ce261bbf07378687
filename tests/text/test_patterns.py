"""Patterns of public tokenizers pass; patterns that can take forever do not."""

import json

import pytest

from glassformer.errors import TokenizerError
from glassformer.text.patterns import check_patterns

IN_USE = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "cl100k": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "bloom": r" ?[^(\s|[.,!?…])]+",
    "clip": r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    "digits from the right": r"\d{1,3}(?=(?:\d{3})*\b)",
    "smiles": r"(\[[^\]]+]|Br?|Cl?|N|O|\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$|\%[0-9]{2}|[0-9])",
    "classes with brackets": r"[])]+|[^](]+|[[:alpha:]]+|[a&&[^b]]+",
    "spaces": r" {2,}",
}
FOREVER = {
    "repeat in a repeat": r"(a+)+$",
    "choice in a repeat": r"(a|aa)+$",
    "option in a repeat": r"(?:a?){50}a{50}",
    "deeper": r"(?:((x)*))*y",
    "behind an escaped bracket": r"\((a+)+\)",
    "behind a class": r"[^)(]*(\w+)*",
    "in a look ahead": r"(?=(a+)+b)",
    "many repeats": r"a*a*a*a*b",
    "many options": "a?" * 30 + "a" * 30,
    "too long written out": r"((a{1000}){1000}){1000}",
    "counts of counts": r"a{1,5}{1,5}{9}",
    "back reference": r"(\w+)\1",
    "recursion": r"(?<x>a|b\g<x>c)",
    "comments": "(?x)((a+) # )(\n)+$",
    "a bracket too many": r"a)(b+)+$",
    "deep": "(" * 100_000,
}


def refused(pattern: str) -> str | None:
    try:
        check_patterns(json.dumps({"pre_tokenizer": [{"pattern": {"Regex": pattern}}]}), "tokenizer.json")
    except TokenizerError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", IN_USE)
def test_patterns_in_use_pass(name: str) -> None:
    assert refused(IN_USE[name]) is None


@pytest.mark.parametrize("name", FOREVER)
def test_patterns_that_take_forever_are_refused(name: str) -> None:
    message = refused(FOREVER[name])
    assert message is not None
    assert message.startswith("tokenizer.json: the pattern ")
    assert len(message.splitlines()) == 1
    assert len(message) < 250


def test_a_pattern_cannot_hide_behind_another_of_its_name() -> None:
    with pytest.raises(TokenizerError, match="could take forever"):
        check_patterns(r'{"Regex": "(a+)+$", "Regex": "a"}', "here")
    with pytest.raises(TokenizerError, match="could take forever"):
        check_patterns(r'{"\u0052egex": "(a+)+$"}', "here")
