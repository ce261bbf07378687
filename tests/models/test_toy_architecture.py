"""An architecture that this file defines, with one line in the registry, is trained, decoded, traced and saved."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from glassformer.checkpoints.load import load
from glassformer.checkpoints.save import save
from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import generate
from glassformer.equations.activations import relu
from glassformer.equations.initialization import normal
from glassformer.layers.basic import Embedding, FeedForward, PlainRMSNorm
from glassformer.layers.block import Attention, AttentionShape, Block, Causal, Stack
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.config import Config, Layers, Size
from glassformer.models.registry import ARCHITECTURES, build
from glassformer.probes.trace import trace
from glassformer.training.config import resolve
from glassformer.training.evaluate import evaluate
from glassformer.training.registry import families
from glassformer.training.run import prepare, train_task
from glassformer.training.run_folder import LOG, RunFolder
from tests.training.fake_snapshots import same, same_tensors

TEXT = "a rose is a rose is a rose; so it is. " * 12


@dataclass(frozen=True, kw_only=True)
class NoPositionsConfig(Config):
    """Sizes of a decoder without positions."""

    vocab: Size = 100
    context: Size = 16
    dim: Size = 16
    layers: Layers = 2
    heads: Size = 2


class NoPositions(CausalLM):
    """A decoder that knows the order of tokens only by its causal mask."""

    config: NoPositionsConfig

    def __init__(self, config: NoPositionsConfig) -> None:
        super().__init__(config)
        self.embedding = Embedding(config.vocab, config.dim)
        self.stack = Stack([self._block() for _ in range(config.layers)], norm=PlainRMSNorm())
        self.output = None

    def _block(self) -> Block:
        shape = AttentionShape.of(dim=self.config.dim, heads=self.config.heads)
        feed_forward = FeedForward(self.config.dim, 2 * self.config.dim, relu)
        return Block(Attention(shape, Causal()), feed_forward, norm=PlainRMSNorm)

    @torch.no_grad()
    def init_weights(self, generator: torch.Generator | None = None) -> None:
        for weight in self.parameters():
            if weight.dim() > 1:
                weight.copy_(normal(tuple(weight.shape), 0.1, generator))


@pytest.fixture(autouse=True)
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(ARCHITECTURES, "no_positions", NoPositions)


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, object]:
    (tmp_path / "text.txt").write_text(TEXT)
    return {
        "model.family": "no_positions", "data.path": str(tmp_path / "text.txt"), "data.max_length": 16,
        "data.batch_size": 4, "data.validation_fraction": 0.2, "tokenizer.kind": "characters", "recipe.steps": 30,
        "recipe.learning_rate": 0.02, "recipe.save_every": 5, "recipe.log_every": 1, "run.device": "cpu",
        "run.precision": "float32",
    }  # fmt: skip


def test_only_tasks_of_its_kind_train_it() -> None:
    assert "no_positions" in families("gpt")
    assert not any("no_positions" in families(task) for task in ("translate", "masked", "classify"))
    found = resolve("gpt", words=["model.family=no_positions", "model.dim=8"])
    usual = {"layers": 4, "heads": 4, "context": 128}  # of the task's default model
    assert found.settings.model == NoPositionsConfig(dim=8, vocab=found.settings.model.vocab, **usual)  # pyright: ignore


def test_it_is_trained_resumed_decoded_traced_saved_and_loaded(settings: dict[str, object], tmp_path: Path) -> None:
    logs = []
    run = train_task("gpt", settings, out=tmp_path / "whole", watch=logs.append)
    assert logs[-1].loss < 0.6 * logs[0].loss
    words = [f"{key}={value!r}" if isinstance(value, str) else f"{key}={value}" for key, value in settings.items()]
    for log in prepare(resolve("gpt", words=words), tmp_path / "stopped", [].append).train():
        if log.step == 13:
            break
    train_task(out=tmp_path / "stopped", resume=True)
    assert same(RunFolder(tmp_path / "stopped").latest(), RunFolder(tmp_path / "whole").latest())
    assert (tmp_path / "stopped" / LOG).read_bytes() == (tmp_path / "whole" / LOG).read_bytes()

    loaded = load(tmp_path / "whole")
    assert isinstance(loaded.model, NoPositions) and loaded.tokenizer is not None
    assert same_tensors(dict(loaded.model.state_dict()), dict(run.model.state_dict()))
    save(loaded.model, tmp_path / "copy", loaded.tokenizer, format="native")
    again = load(tmp_path / "copy")
    assert again.model.config == loaded.model.config
    assert same_tensors(dict(again.model.state_dict()), dict(loaded.model.state_dict()))
    assert evaluate(tmp_path / "copy", str(settings["data.path"])).loss < logs[0].loss

    greedy, beam = (
        generate(loaded.model, loaded.tokenizer, ["a ro"], GenerationConfig(max_new_tokens=8, num_beams=beams))[0]
        for beams in (1, 3)
    )
    ids = loaded.tokenizer.encode("a ro")
    for token in greedy.ids:
        logits = loaded.model(torch.tensor([ids]))[0, -1]
        assert token == int(logits.argmax())
        ids.append(token)
    assert len(beam.ids) == 8 and beam.score >= greedy.score - 1e-6

    traced = trace(loaded.model, {"ids": torch.tensor([ids])})
    assert any(name.endswith("attention.weights") for name in traced.names)


def test_it_is_built_from_its_configuration() -> None:
    model = build(NoPositionsConfig(layers=1))  # a second layer would know from the mask which token came first
    order = torch.tensor([[1, 2, 3]]), torch.tensor([[2, 1, 3]])
    one, other = (model(ids)[0, -1] for ids in order)
    torch.testing.assert_close(one, other)
