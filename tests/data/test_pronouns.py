"""Sentences with a pronoun: balanced, so that only the whole sentence tells what it stands for."""

from collections import Counter

from glassformer.data.pronouns import FRAMES, minimal_pairs, pronoun_sentences, words_of


def test_pairs_of_nouns_are_held_out_and_nothing_else_tells() -> None:
    train, held_out = pronoun_sentences()
    pairs = [{frozenset((s.words[s.antecedent], s.words[s.other])) for s in part} for part in (train, held_out)]
    assert pairs[0] and pairs[1] and not pairs[0] & pairs[1]
    assert {word for s in (*train, *held_out) for word in s.words} == set(words_of())
    assert {s.answer for s in held_out} <= {s.answer for s in train}
    for s in train[:500]:
        assert s.words[s.pronoun] == "it" and s.antecedent != s.other and s.words[s.antecedent] == s.answer
    firsts = Counter(s.antecedent < s.other for s in train)
    assert firsts[True] == firsts[False]
    for why in {word for frame in FRAMES for word in (*frame.first, *frame.second)}:
        order = Counter(s.antecedent < s.other for s in (*train, *held_out) if s.words[-1] == why)
        assert order[True] == order[False]  # the deciding word alone does not tell which noun it is


def test_minimal_pairs_differ_in_one_word() -> None:
    for one, other in list(minimal_pairs(pronoun_sentences()[1]))[:50]:
        assert one.words[:-1] == other.words[:-1] and one.antecedent == other.other
