"""Word vectors held against people: rank correlation with rated pairs of words, and analogies with known answers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from glassformer.checkpoints.vectors import WordVectors
from glassformer.data.files import read_lines
from glassformer.equation import no_checks
from glassformer.equations.embedding import unembed
from glassformer.equations.metrics import rank_correlation
from glassformer.equations.sampling import greedy
from glassformer.equations.similarity import analogy, cosine_similarity, normalize
from glassformer.errors import DataError
from glassformer.layers.model import Model
from glassformer.text.tokenizer import Tokenizer

AT_ONCE = 1000  # questions
FEWEST = 3  # pairs that a correlation takes


@dataclass(frozen=True, slots=True)
class RatedPair:
    """Two words and how similar or related people find them."""

    first: str
    second: str
    rating: float


@dataclass(frozen=True, slots=True)
class AnalogyQuestion:
    """`first` is to `second` as `third` is to `answer`; `section` is the kind of the relation."""

    first: str
    second: str
    third: str
    answer: str
    section: str


@dataclass(frozen=True, kw_only=True)
class SimilarityScore:
    """Spearman's rank correlation of cosines and ratings over the covered pairs, None where there are too few."""

    correlation: float | None
    covered: int
    pairs: int


@dataclass(frozen=True, kw_only=True)
class AnalogyScore:
    """The accuracy on the questions whose four words all have vectors, all together or of one section."""

    section: str
    accuracy: float | None
    covered: int
    questions: int


def read_rated_pairs(path: Path | str) -> list[RatedPair]:
    """Rated pairs of a similarity set: two words and a number on each line, as in WordSim-353 and SimLex-999."""
    found = []
    for source, line in read_lines(path):
        parts = line.replace(",", " ").split()
        if not parts or line.startswith("#"):
            continue
        try:
            first, second, rating = parts
            found.append(RatedPair(first, second, float(rating)))
        except ValueError:
            raise DataError(f"{source}: is {line[:40]!r}, wanted two words and a number") from None
    if len(found) < FEWEST:
        raise DataError(f"{path}: has {len(found)} rated pairs of words, wanted at least {FEWEST}")
    return found


def is_similarity_set(path: Path | str) -> bool:
    """Whether a file holds nothing but rated pairs of words."""
    try:
        return Path(path).is_file() and bool(read_rated_pairs(path))
    except DataError:
        return False


def read_questions(path: Path | str) -> list[AnalogyQuestion]:
    """Analogy questions in the form of word2vec's questions-words.txt: four words a line, `: name` before a section."""
    found, section = [], ""
    for source, line in read_lines(path):
        words = line.split()
        if words[:1] == [":"]:
            section = " ".join(words[1:])
        elif len(words) == 4:
            first, second, third, answer = words
            found.append(AnalogyQuestion(first, second, third, answer, section))
        elif words:
            raise DataError(f"{source}: is {line[:40]!r}, wanted four words, or a colon and the name of a section")
    if not found:
        raise DataError(f"{path}: has no analogy question")
    return found


def similarity_score(vectors: WordVectors, pairs: Sequence[RatedPair]) -> SimilarityScore:
    """How far cosines of word vectors put pairs of words in the order of their ratings (Spearman, 1904)."""
    covered = [pair for pair in pairs if pair.first in vectors and pair.second in vectors]
    value = None
    if len(covered) >= FEWEST:
        first = torch.stack([vectors[pair.first] for pair in covered]).double()
        second = torch.stack([vectors[pair.second] for pair in covered]).double()
        ratings = torch.tensor([pair.rating for pair in covered], dtype=torch.float64)
        value = float(rank_correlation(cosine_similarity(first, second), ratings))
    return SimilarityScore(correlation=value, covered=len(covered), pairs=len(pairs))


def analogy_scores(
    vectors: WordVectors,
    questions: Sequence[AnalogyQuestion],
    progress: Callable[[Iterator[Tensor], str], Iterator[Tensor]] = lambda parts, what: parts,
) -> list[AnalogyScore]:
    """Accuracy of 3CosAdd on analogy questions: all together first, then each section.

    Questions with a word that has no vector are left out, and counted. `progress` passes parts of the work through.
    """
    covered = [each for each in questions if all(word in vectors for word in _words(each))]
    parts = (covered[at : at + AT_ONCE] for at in range(0, len(covered), AT_ONCE))
    answered = progress((_answered(vectors, part) for part in parts), "thousands of questions answered")
    right = torch.cat([torch.empty(0, dtype=torch.bool), *answered]).tolist()
    sections = dict.fromkeys(each.section for each in questions)

    def score(name: str, of: Callable[[AnalogyQuestion], bool]) -> AnalogyScore:
        hits = [hit for each, hit in zip(covered, right, strict=True) if of(each)]
        accuracy, asked = sum(hits) / len(hits) if hits else None, sum(map(of, questions))
        return AnalogyScore(section=name, accuracy=accuracy, covered=len(hits), questions=asked)

    return [score("all", lambda each: True), *(score(name, lambda e, n=name: e.section == n) for name in sections)]


def _words(question: AnalogyQuestion) -> tuple[str, str, str, str]:
    return question.first, question.second, question.third, question.answer


def _answered(vectors: WordVectors, questions: Iterable[AnalogyQuestion]) -> Tensor:
    """Whether the nearest word that is not in the question is the answer, for each question."""
    rows = torch.tensor([[vectors.row(word) for word in _words(each)] for each in questions])
    first, second, third = vectors.directions[rows[:, :3]].unbind(1)
    with no_checks():
        cosines = unembed(normalize(analogy(first, second, third)), vectors.directions)
        return greedy(cosines.scatter(1, rows[:, :3], -torch.inf)) == rows[:, 3]


def word_vectors(model: Model, tokenizer: Tokenizer) -> WordVectors:
    """The vectors of a model's token embeddings, by word; special tokens are left out."""
    weight = model.get_parameter("embedding.weight").detach().float().cpu()
    unused = {*tokenizer.specials, *tokenizer.unused_ids(len(weight))}
    words: dict[str, int] = {}
    for id in range(len(weight)):
        if id not in unused and (word := tokenizer.token(id).strip()):
            words.setdefault(word, id)
    return WordVectors(tuple(words), weight[list(words.values())])
