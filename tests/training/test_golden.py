"""Loss curves of two hundred steps that never change; in double precision, so that processors agree on them."""

import json
from pathlib import Path

import pytest
import torch

from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.training.loop import train
from glassformer.training.objective import NEXT_TOKEN
from glassformer.training.text_pairs import NEXT_TARGET_TOKEN
from tests.training.tiny_run import PAIR_CONFIG, batches, pair_batches, recipe

FILE = Path(__file__).parent / "golden_curves.json"
GPT = GPTConfig(vocab=11, context=6, dim=8, layers=2, heads=2)
HOW = recipe(
    steps=200, learning_rate=5e-3, warmup_steps=10, ema_decay=0.0, gradient_accumulation=1, label_smoothing=0.05,
    evaluate_every=50,
)  # fmt: skip


def curve(name: str) -> list[float]:
    """The loss at each step; no dropout, whose draws differ from build to build."""
    model = build(GPT if name == "gpt" else PAIR_CONFIG).double()
    if name == "gpt":
        return [log.loss for log in train(model, batches(), NEXT_TOKEN, HOW)]
    return [log.loss for log in train(model, pair_batches(), NEXT_TARGET_TOKEN, HOW)]


@pytest.mark.parametrize("name", ["gpt", "seq2seq"])
def test_the_curve_is_what_it_was(name: str) -> None:
    kept = json.loads(FILE.read_text())
    found = curve(name)
    assert found == pytest.approx(kept[name], rel=1e-6), (
        f"the curve of {name} is not that of torch {kept['torch']} (this is {torch.__version__}); "
        "if the change is wanted, renew it by: python -m tests.training.test_golden"
    )
    assert found[-1] < 0.9 * found[0] and len(found) == 200


if __name__ == "__main__":
    FILE.write_text(
        json.dumps({"torch": torch.__version__, **{name: curve(name) for name in ("gpt", "seq2seq")}}) + "\n"
    )
