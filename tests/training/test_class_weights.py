"""Rare classes count as much as common ones where `data.class_weights` is balanced."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from glassformer.data.padded_batches import LabeledBatches
from glassformer.equations.losses import balanced_class_weights
from glassformer.errors import ConfigError
from glassformer.models.encoder import EncoderConfig
from glassformer.models.registry import build
from glassformer.training.device import Device
from glassformer.training.distributed import ALONE
from glassformer.training.held_out import HeldOutLoss
from glassformer.training.objective import LossModule
from glassformer.training.recipe import Recipe
from glassformer.training.run import Run, prepare_task, train_task
from glassformer.training.step import Training
from glassformer.training.tasks.classify import CLASSES, ClassifierMetrics
from tests.training.tiny_run import assert_same_run

CONFIG = EncoderConfig(head="classifier", vocab=12, dim=8, layers=1, heads=2, ffn_dim=8, context=8, classes=3)
TEXTS = [[1 + (row + n) % 11 for n in range(1 + row % 4)] for row in range(8)]
LABELS = [0, 0, 0, 0, 0, 1, 1, 2]
WEIGHTS = torch.tensor([8 / 15, 8 / 6, 8 / 3])
RECIPE = Recipe(steps=2, learning_rate=1e-2, warmup_steps=1, log_every=1)


def batches(size: int = 8, times: float = 1.0) -> LabeledBatches:
    made = LabeledBatches(TEXTS, LABELS, size, 0, seed=0)
    made.class_weights = times * WEIGHTS
    return made


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    """N / (classes · examples of the class): Σ of the weights over all examples is their number."""
    weights = balanced_class_weights(torch.tensor([5, 2, 1]))
    assert_close(weights, WEIGHTS)
    assert_close((weights * torch.tensor([5, 2, 1])).sum(), torch.tensor(8.0))
    assert balanced_class_weights(torch.tensor([4, 0]))[1] == 2, "a class without examples counts as one of one"


@pytest.mark.parametrize("r_drop", [0.0, 4.0])
def test_the_loss_is_the_weighted_mean_of_torch(r_drop: float) -> None:
    model, batch = build(CONFIG).double(), next(batches().once())
    loss, total = LossModule(model, CLASSES, r_drop)(batch)
    logits = model(*(batch[name] for name in CLASSES.inputs))
    wanted = functional.cross_entropy(logits, batch["labels"], weight=WEIGHTS.double())
    assert_close(loss / total, wanted, rtol=1e-6, atol=0)
    assert_close(
        HeldOutLoss(LossModule(model, CLASSES), Device())(batches()), float(wanted.detach()), rtol=1e-6, atol=0
    )


def test_the_size_of_the_weights_and_of_the_parts_does_not_matter() -> None:
    """Weights that sum to less than one are divided by their sum too, and so is a batch in parts."""
    found = []
    for size, times, parts in ((8, 1.0, 1), (8, 1e-3, 1), (4, 1.0, 2)):
        recipe = Recipe(steps=2, warmup_steps=1, gradient_accumulation=parts)
        made = Training(LossModule(build(CONFIG), CLASSES), batches(size, times), recipe, Device(), ALONE)
        made.train_step()
        found.append((made.log(None).loss, float(made.norm)))
    assert_close(found[1], found[0], rtol=1e-5, atol=0)
    assert_close(found[2], found[0], rtol=1e-5, atol=0)


@pytest.fixture
def rows(tmp_path: Path) -> str:
    """Texts of which one in ten is rare, and nothing in them says which."""
    path = tmp_path / "texts.tsv"
    lines = [f"{'rare' if n % 10 == 0 else 'common'}\t{'rose' if n % 3 else 'thorn'} {n}" for n in range(100)]
    path.write_text("\n".join(lines))
    return str(path)


def settings(path: str, weights: str) -> dict[str, object]:
    model = {"model.dim": 8, "model.layers": 1, "model.heads": 2, "model.context": 12, "model.dropout": 0.0}
    recipe = {"recipe.steps": 30, "recipe.learning_rate": 1e-2, "recipe.save_every": 15, "recipe.log_every": 10}
    data = {"data.path": path, "data.class_weights": weights, "data.batch_size": 30, "tokenizer.kind": "characters"}
    return {**model, **recipe, **data, "data.max_length": 12, "run.precision": "float32"}


def predicted_rare(run: Run) -> float:
    """The mean probability of the rare class."""
    (batch,) = run.data.validation.once()
    with torch.no_grad():
        return float(run.model.eval()(batch["ids"], batch["attention_mask"]).softmax(-1)[:, 1].mean())


def test_a_rare_class_is_predicted_as_often_as_a_common_one(rows: str) -> None:
    plain, balanced = (train_task("classify", settings(rows, weights)) for weights in ("none", "balanced"))
    assert predicted_rare(plain) < 0.25
    assert predicted_rare(balanced) > 0.35
    metrics = balanced.evaluate()
    assert isinstance(metrics, ClassifierMetrics)
    (batch,) = balanced.data.validation.once()
    with torch.no_grad():
        logits = balanced.model(batch["ids"], batch["attention_mask"])
    assert metrics.loss == pytest.approx(float(functional.cross_entropy(logits, batch["labels"])), rel=1e-5), (
        "what is reported at the end has no weights"
    )


def test_it_is_resumed_to_the_bit_and_not_with_other_weights(rows: str, tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    train_task("classify", settings(rows, "balanced"), out=whole)
    begun = prepare_task("classify", settings(rows, "balanced"), out=stopped)
    for log in begun.train():
        if log.step == 20:
            break
    train_task(out=stopped, resume=True)
    assert_same_run(stopped, whole)
    with pytest.raises(ConfigError, match="was begun with another data.class_weights"):
        prepare_task(None, {"data.class_weights": "none"}, out=stopped, resume=True)
