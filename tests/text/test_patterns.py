"""Patterns of public tokenizers pass; patterns that can take forever do not."""

import json
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

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
    "llama 3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    "ends of a text": r"^[ ▁]+|[ ▁]+$",
    "repeats that nothing follows": r"a*b*c*d*e*",
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
    "repeats of unlike letters": r"[ab]*[ac]*[ad]*x",
    "two repeats before a letter": r"[ab]*[ac]*x",
    "a repeat in a look ahead behind a repeat": r"\s+(?=\S*x)",
    "long counts": r"a{0,1000}a{0,1000}x",
    "options before a repeat": "a?" * 11 + "a*x",
    "repeats in an option": r"(?:a*a*x)?",
    "counted repeats": r"(?:a*b){8}",
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


ATOMS = st.sampled_from(["a", "b", "[ab]", ".", "a|b", "(?=a)a", "(?!b).", "ab?$"])
COUNTS = st.sampled_from(["", "*", "+", "?", "{2}", "{0,3}", "{1,40}", "{2,}"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.lists(st.tuples(inner, COUNTS), min_size=1, max_size=5).map(
        lambda parts: "".join(f"(?:{part}){count}" for part, count in parts)
    ),
    max_leaves=8,
)


@given(pattern=PATTERNS, text=st.sampled_from(["a" * 300, "ab" * 150, "a" * 299 + "c"]))
def test_what_passes_is_quick(pattern: str, text: str) -> None:
    assume(refused(pattern) is None)
    splitter = pre_tokenizers.Split(Regex(pattern), "isolated")
    before = time.process_time()
    splitter.pre_tokenize_str(text)
    assert time.process_time() - before < 2
