"""Scores of texts beside references: ROUGE of summaries, exact match and F1 of answers."""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.equations.overlap import longest_common_subsequence, overlap_f1, shared_ngrams

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WORD = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+")


@dataclass(frozen=True, kw_only=True)
class SummaryScores:
    """Summaries compared with references by ROUGE F1, from 0 to 100; `exact` is the fraction equal to the letter."""

    name: str
    rouge1: float
    rouge2: float
    rougeL: float  # noqa: N815 - its usual name
    exact: float


@dataclass(frozen=True, kw_only=True)
class AnswerScores:
    """Answers compared with references as in SQuAD: the fraction that is equal, and the mean F1 of the words."""

    name: str
    exact: float
    f1: float


def summary_scores(name: str, summaries: Sequence[str], references: Sequence[str]) -> SummaryScores:
    """The mean ROUGE-1, ROUGE-2 and ROUGE-L of summaries, in F1 (Lin, 2004)."""
    pairs = list(zip(map(rouge_words, summaries), map(rouge_words, references), strict=True))
    rouge1, rouge2, rouge_l = (100 * _mean([measure(*pair) for pair in pairs]) for measure in MEASURES)
    same = [float(one == other) for one, other in zip(summaries, references, strict=True)]
    return SummaryScores(name=name, rouge1=rouge1, rouge2=rouge2, rougeL=rouge_l, exact=_mean(same))


def rouge_words(text: str) -> list[str]:
    """The words of a text as ROUGE counts them: runs of letters and digits in lower case, without stemming."""
    return _WORD.findall(text.lower())


def rouge_n(words: Sequence[str], reference: Sequence[str], n: int) -> float:
    """F1 of the n-grams of two texts."""
    one, other = _numbered(words, reference)
    sizes = (max(len(ids) - n + 1, 0) for ids in (one, other))
    return _f1(shared_ngrams(one, other, n), *sizes)


def rouge_l(words: Sequence[str], reference: Sequence[str]) -> float:
    """F1 of the longest common subsequence of two texts."""
    one, other = _numbered(words, reference)
    return _f1(longest_common_subsequence(one, other), len(one), len(other))


MEASURES: tuple[Callable[[Sequence[str], Sequence[str]], float], ...] = (
    lambda words, reference: rouge_n(words, reference, 1),
    lambda words, reference: rouge_n(words, reference, 2),
    rouge_l,
)


def first_sentence(text: str) -> str:
    """The first sentence of a text, which a summary has to be better than."""
    return _SENTENCE_END.split(text.strip(), maxsplit=1)[0]


def answer_scores(name: str, answers: Sequence[str], references: Sequence[Sequence[str]]) -> AnswerScores:
    """Exact match and F1 of answers, each by the reference that it fits best (Rajpurkar et al., 2016)."""
    pairs = list(zip(answers, references, strict=True))
    exact = [max(float(answer_words(answer) == answer_words(right)) for right in rights) for answer, rights in pairs]
    f1 = [max(answer_f1(answer, right) for right in rights) for answer, rights in pairs]
    return AnswerScores(name=name, exact=_mean(exact), f1=_mean(f1))


def commonest_answer(references: Sequence[Sequence[str]]) -> str:
    """The answer that is right most often, which a model has to be better than."""
    words = Counter(tuple(answer_words(rights[0])) for rights in references)
    return " ".join(words.most_common(1)[0][0]) if words else ""


def answer_words(text: str) -> list[str]:
    """The words of an answer as SQuAD compares them: in lower case, without punctuation and articles."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def answer_f1(answer: str, reference: str) -> float:
    """F1 of the words of an answer; of two answers without words it is 1."""
    words, right = answer_words(answer), answer_words(reference)
    return float(words == right) if not words or not right else rouge_n(words, right, 1)


def _numbered(words: Sequence[str], reference: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Two texts as numbers that are the same for the same word."""
    known = {word: number for number, word in enumerate(dict.fromkeys([*words, *reference]))}
    one, other = ([known[word] for word in each] for each in (words, reference))
    return torch.tensor(one, dtype=torch.long), torch.tensor(other, dtype=torch.long)


def _f1(shared: Tensor, predicted: int, reference: int) -> float:
    return float(overlap_f1(shared, torch.tensor(predicted), torch.tensor(reference)))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(len(values), 1)
