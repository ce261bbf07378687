"""How good a model is on data it did not learn from: one pass, figures as plain data."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor

from glassformer.data.batches import IGNORE, Batch, Batches, LabelledBatches, MaskedBatches, PackedBatches, PairBatches
from glassformer.equation import no_checks
from glassformer.equations.losses import bits_per_byte, cross_entropy, perplexity
from glassformer.equations.metrics import accuracy, f1
from glassformer.equations.sampling import greedy
from glassformer.errors import DataError, MissingExtraError, ModelError
from glassformer.layers.model import Model
from glassformer.training.objective import CLASSES, HIDDEN_TOKENS, NEXT_TARGET_TOKEN, NEXT_TOKEN, Objective

Follow = Callable[[Iterator[Batch]], Iterator[Batch]]  # goes along with a pass over the batches, to show how far it is


@dataclass(frozen=True, kw_only=True)
class LanguageModelMetrics:
    """A language model on running text; the loss is in nats a token."""

    loss: float
    perplexity: float
    bits_per_byte: float
    tokens: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class MaskedMetrics:
    """A masked language model on the tokens that were hidden from it; the loss is in nats a token."""

    loss: float
    perplexity: float
    accuracy: float
    tokens: int


@dataclass(frozen=True, kw_only=True)
class ClassMetrics:
    """One class of a classifier: its F1, and how many texts belong to it."""

    name: str
    f1: float
    texts: int


@dataclass(frozen=True, kw_only=True)
class ClassifierMetrics:
    """A classifier on labelled texts; macro counts classes alike, weighted counts texts alike."""

    loss: float
    accuracy: float
    f1_macro: float
    f1_weighted: float
    classes: tuple[ClassMetrics, ...]
    texts: int


@dataclass(frozen=True, kw_only=True)
class Score:
    """A score from 0 to 100 and the signature that says how it was measured."""

    score: float
    signature: str


@dataclass(frozen=True, kw_only=True)
class TranslationScores:
    """Translations against the right ones; `exact` is the share that is the same to the letter."""

    bleu: Score
    bleu_lowercase: Score
    chrf: Score
    exact: float


@dataclass(frozen=True, kw_only=True)
class TranslationMetrics:
    """A translator on pairs: how it rates the right translations, in nats a token, and how good its own are.

    `num_beams` is the number of translations that were weighed at a time.
    """

    loss: float
    perplexity: float
    tokens: int
    pairs: int
    scores: TranslationScores
    num_beams: int = 1


def evaluate_language(
    model: Model, batches: PackedBatches, text_bytes: int, follow: Follow = iter
) -> LanguageModelMetrics:
    """Loss on every token but the first, and bits per byte of the text behind the first, which has `text_bytes`."""
    if not text_bytes:
        raise DataError("the text is too short to be measured: nothing follows its first token")
    found = _predict(model, batches, NEXT_TOKEN, follow)
    return LanguageModelMetrics(
        loss=found.loss,
        perplexity=found.perplexity,
        bits_per_byte=bits_per_byte(nats=float(found.losses.sum()), bytes=text_bytes),
        tokens=len(found.losses),
        bytes=text_bytes,
    )


def evaluate_masked(model: Model, batches: MaskedBatches, follow: Follow = iter) -> MaskedMetrics:
    """Loss and accuracy on the hidden tokens; which are hidden depends on the seed of the batches alone."""
    found = _predict(model, batches, HIDDEN_TOKENS, follow)
    right = float(accuracy(found.guesses, found.targets))
    return MaskedMetrics(loss=found.loss, perplexity=found.perplexity, accuracy=right, tokens=len(found.losses))


def evaluate_classifier(
    model: Model, batches: LabelledBatches, names: Sequence[str], follow: Follow = iter
) -> ClassifierMetrics:
    """Loss, accuracy and F1; classes that neither came nor were chosen are left out of the macro average."""
    found = _predict(model, batches, CLASSES, follow)
    size = len(names)
    highest = int(max(found.guesses.max(), found.targets.max()))
    if highest >= size:
        raise ModelError(f"class {highest} is among the answers, and names are given for {size} classes")
    confusion = torch.bincount(size * found.targets + found.guesses, minlength=size**2).view(size, size)
    came, each = confusion.sum(1), f1(confusion).double()
    return ClassifierMetrics(
        loss=found.loss,
        accuracy=float(accuracy(found.guesses, found.targets)),
        f1_macro=float(each[(came + confusion.sum(0)) > 0].mean()),
        f1_weighted=float((each * came).sum() / came.sum()),
        classes=tuple(
            ClassMetrics(name=name, f1=value, texts=count)
            for name, value, count in zip(names, each.tolist(), came.tolist(), strict=True)
        ),
        texts=len(found.losses),
    )


def evaluate_translator(
    model: Model,
    batches: PairBatches,
    pairs: Sequence[tuple[str, str]],
    translate: Callable[[Sequence[str]], Sequence[str]],
    follow: Follow = iter,
) -> TranslationMetrics:
    """Loss on the right translations of the batches, and scores of what `translate` makes of the pairs' first sides."""
    _metrics("bleu")  # before the work, not after it
    found = _predict(model, batches, NEXT_TARGET_TOKEN, follow)
    scores = score_translations(translate([source for source, _ in pairs]), [right for _, right in pairs])
    tokens = len(found.losses)
    return TranslationMetrics(
        loss=found.loss, perplexity=found.perplexity, tokens=tokens, pairs=len(pairs), scores=scores
    )


def score_translations(answers: Sequence[str], right: Sequence[str]) -> TranslationScores:
    """BLEU, chrF and exact matches.

    `bleu` is cased, as sacreBLEU advises. `bleu_lowercase` is comparable with figures published for Multi30k
    in German, which are over text lower-cased and cut by the Moses tokenizer, without smoothing: 13a cuts 996
    of the 1,000 sentences of its test of 2016 the same way.
    """
    bleu, chrf = _metrics("bleu").BLEU, _metrics("chrf").CHRF

    def score(metric: Callable[..., object], **settings: object) -> Score:
        made = metric(**settings)
        value = made.corpus_score(list(answers), [list(right)]).score  # pyright: ignore - sacrebleu is not always there
        return Score(score=float(value), signature=str(made.get_signature()))  # pyright: ignore

    same = sum(answer == wanted for answer, wanted in zip(answers, right, strict=True))
    return TranslationScores(
        bleu=score(bleu),
        bleu_lowercase=score(bleu, lowercase=True, tokenize="13a", smooth_method="none", force=True),
        chrf=score(chrf),
        exact=same / max(len(right), 1),
    )


def _metrics(name: str) -> ModuleType:
    try:
        return importlib.import_module(f"sacrebleu.metrics.{name}")
    except ModuleNotFoundError:
        raise MissingExtraError("scoring translations needs sacrebleu: pip install glassformer[metrics]") from None


@dataclass(frozen=True)
class _Predictions:
    """Every target that counts: the loss on it, in nats and double precision, and the likeliest guess."""

    losses: Tensor
    guesses: Tensor
    targets: Tensor

    @property
    def loss(self) -> float:
        return float(self.losses.mean())

    @property
    def perplexity(self) -> float:
        return float(perplexity(-self.losses))


@torch.no_grad()
def _predict(model: Model, batches: Batches, objective: Objective, follow: Follow) -> _Predictions:
    """One pass over the data in order; numbers stay on the model's device until the end, so that it never waits."""
    device = next(model.parameters()).device
    before = model.training
    model.eval()
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    try:
        for batch in follow(batches.once()):
            objective.check(model, batch)
            here = {name: part.to(device, non_blocking=True) for name, part in batch.items()}
            answers = here[objective.targets]
            with no_checks():
                scores = model(*(here[name] for name in objective.inputs))
                losses = cross_entropy(scores.float(), answers, ignore=IGNORE, reduction="none")
                found.append((losses.flatten(), greedy(scores).flatten(), answers.flatten()))
    finally:
        model.train(before)
    losses, guesses, targets = (torch.cat(parts).cpu() for parts in zip(*found, strict=True))
    keep = targets != IGNORE
    losses = losses[keep].double().clamp_min(0)  # rounding may put a certain token a hair below
    if not losses.numel():
        raise ModelError("no token of the data counts, so there is no loss")
    if not losses.isfinite().all():
        raise ModelError(f"the loss is not finite on {int((~losses.isfinite()).sum())} of {len(losses):,} targets")
    return _Predictions(losses, guesses[keep], targets[keep])
