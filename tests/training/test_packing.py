"""Packed batches teach what padded ones of the same pairs do: loss, gradients, tape, R-Drop; and when a run packs."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from glassformer.data.batches import Batch
from glassformer.data.packed_pairs import PackedPairBatches, unpacked
from glassformer.data.padded_batches import PairBatches
from glassformer.errors import ConfigError, ModelError
from glassformer.layers.model import Model
from glassformer.layers.packing import PackedPairs
from glassformer.models.registry import build
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.models.t5 import T5Config
from glassformer.recording import Tape
from glassformer.training.device import Device
from glassformer.training.distributed import ALONE
from glassformer.training.estimate import estimate
from glassformer.training.loop import train
from glassformer.training.monitor import first_nonfinite
from glassformer.training.objective import LossModule, Objective, operations_per_token
from glassformer.training.registry import TASKS
from glassformer.training.run import prepare_task, train_task
from glassformer.training.run_folder import RunFolder
from glassformer.training.step import Training
from glassformer.training.tasks.translate import PairData, TranslateSettings, TranslateTask
from glassformer.training.text_pairs import NEXT_TARGET_TOKEN, PairTask
from tests.training.tiny_run import PAIR_CONFIG, pairs, recipe

VARIANTS = {
    "pre-norm": PAIR_CONFIG,
    "learned positions": replace(PAIR_CONFIG, positions="learned", embedding_norm=True, norm_first=False),
    "offset": replace(PAIR_CONFIG, position_offset=2, layers=2, decoder_layers=1),
}
T5 = T5Config(vocab=13, dim=8, layers=1, heads=2, head_dim=4, ffn_dim=16)
GPU = Device(torch.device("cuda", 0), bf16=True)


def packed_batches(tokens: int = 60, rank: int = 0, world: int = 1) -> PackedPairBatches:
    return PackedPairBatches(pairs(), tokens, 0, 1, 2, 5, rank, world)


def objective(batches: PackedPairBatches) -> Objective:
    return replace(NEXT_TARGET_TOKEN, longest=batches.longest)


def learned(model: Model, batch: Batch, how: Objective, r_drop: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, targets and all gradients."""
    model.zero_grad()
    loss, count = LossModule(model, how, r_drop)(batch, 0.1)
    loss.backward()
    return loss, count, torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("name", VARIANTS)
def test_loss_and_gradients_are_those_of_the_padded_pairs(name: str) -> None:
    model, batches = build(VARIANTS[name]).double(), packed_batches()
    for batch in islice(batches, 8):
        how = objective(batches)
        for r_drop in (0.0, 3.0):
            packed, padded = learned(model, batch, how, r_drop), learned(model, unpacked(batch), how, r_drop)
            for one, other in zip(packed, padded, strict=True):
                assert_close(one, other, rtol=1e-10, atol=1e-10)
        assert how.tokens(model, batch) == how.tokens(model, unpacked(batch))
        assert operations_per_token(LossModule(model, how), batch) > 0


def test_a_tape_over_packed_rows_replays_and_reverses() -> None:
    model, batch = build(PAIR_CONFIG).double(), next(packed_batches())
    inputs = objective(packed_batches()).read(batch)
    with Tape() as tape:
        logits = model(*inputs)
    seed = torch.randn(logits.shape, generator=torch.Generator().manual_seed(1), dtype=logits.dtype)
    wanted = torch.autograd.grad(logits, list(model.parameters()), seed)
    assert "packed_attention" in {step.equation.name for step in tape.steps}
    for deep in (False, True):
        assert_close(tape.replay(deep), logits, rtol=0, atol=0)
        found = tape.reverse(seed, deep=deep)
        for parameter, reference in zip(model.parameters(), wanted, strict=True):
            assert_close(found[parameter], reference, rtol=1e-8, atol=1e-10)
    known = {id(t) for t in (*model.parameters(), *batch.values())}
    assert [leaf for leaf in tape.leaves if leaf.is_floating_point() and id(leaf) not in known] == []
    assert_close(model(*inputs), logits)


def test_dropped_weights_stay_within_a_sentence() -> None:
    """With attention dropout a change of one pair changes no other: draws are the same."""
    model, batch = build(replace(PAIR_CONFIG, dropout=0.2, attention_dropout=0.5)).double(), next(packed_batches())
    how, end = objective(packed_batches()), int(batch["source_bounds"][0, 1])
    other = batch | {"source": batch["source"].clone()}
    other["source"][0, :end] = 3 + (other["source"][0, :end] - 2) % 10
    found = []
    for each in (batch, other):
        torch.manual_seed(3)
        found.append(model.train()(*how.read(each)))
    first = int(batch["target_bounds"][0, 1])
    assert_close(found[0][:, first:], found[1][:, first:], rtol=0, atol=0)
    assert not torch.allclose(found[0][:, :first], found[1][:, :first])
    assert not torch.allclose(found[0][:, first:], model.eval()(*how.read(batch))[:, first:]), "something is dropped"
    with Tape() as tape:
        model.train()(*how.read(batch))
    assert "dropout" in {step.equation.name for step in tape.steps}, "and shown"


def test_parts_of_two_processes_add_up_to_the_batch() -> None:
    model = build(PAIR_CONFIG).double()
    whole, parts = packed_batches(), [packed_batches(rank=rank, world=2) for rank in range(2)]
    for batch in islice(whole, 6):
        wanted = learned(model, batch, objective(whole))
        found = [learned(model, next(part), objective(part)) for part in parts]
        for one, other, total in zip(*found, wanted, strict=True):
            assert_close(one + other, total, rtol=1e-9, atol=1e-9)


def test_a_packed_run_learns_and_goes_on_as_if_never_stopped(tmp_path: Path) -> None:
    how = recipe(steps=12, log_every=1, learning_rate=0.01)
    held = PairBatches(pairs(12, 1), 60, 0, 1, 2, 0)

    def go(path: Path, until: int) -> list[float]:
        batches, found = packed_batches(), []
        folder = RunFolder(path, 2, report=pytest.fail)
        for log in train(build(PAIR_CONFIG).double(), batches, objective(batches), how, folder, held):
            found.append(log.loss)
            if log.step == until:
                break
        return found

    unbroken = go(tmp_path / "one", 12)
    assert len(unbroken) == 12 and unbroken[-1] < unbroken[0]
    begun = go(tmp_path / "two", 7)
    assert [*begun[:6], *go(tmp_path / "two", 12)] == unbroken


def test_shapes_are_even_and_an_estimate_knows_them() -> None:
    batches = packed_batches()
    how = objective(batches)
    assert not how.uneven and NEXT_TARGET_TOKEN.uneven
    found = estimate(build(PAIR_CONFIG), how, batches, batches, recipe(), Device())
    assert found.activations > 0 and found.seconds > 0
    made = Training(LossModule(build(PAIR_CONFIG), how), batches, recipe(), Device(), ALONE)
    made.train_step()
    assert int(made.tokens) > 0


def test_the_first_bad_value_of_a_packed_batch_is_named() -> None:
    model, batches = build(PAIR_CONFIG), packed_batches()
    batch = next(batches)
    assert first_nonfinite(model, batch, objective(batches)) is None
    with torch.no_grad():
        model.get_parameter("decoder.blocks.0.feed_forward.up.weight")[0, 0] = torch.nan
    said = first_nonfinite(model, batch, objective(batches)) or ""
    assert said.startswith("decoder.blocks.0.feed_forward.up")


def test_a_model_refuses_what_it_cannot_read() -> None:
    ids, model = torch.zeros(1, 20, dtype=torch.int64), build(PAIR_CONFIG)
    long = torch.tensor([[0, 20]])
    with pytest.raises(ModelError, match="has a sequence of 20 tokens, wanted at most 12, the model's context"):
        model(ids, ids, None, PackedPairs(long, long))
    short = torch.tensor([[0, 10, 20]])
    assert model(ids, ids, None, PackedPairs(short, short)).shape == (1, 20, 13)
    with pytest.raises(ModelError, match="wanted one in each where positions enter attention"):
        build(T5)(ids, ids, None, PackedPairs(short, short))


@pytest.mark.parametrize(
    ("packing", "model", "device", "wanted", "said"),
    [
        ("auto", PAIR_CONFIG, GPU, "yes", ""),
        ("auto", PAIR_CONFIG, Device(), "auto", ""),
        ("auto", PAIR_CONFIG, Device(bf16=True), "auto", ""),
        ("auto", PAIR_CONFIG, replace(GPU, bf16=False), "auto", "padded, not packed, which is slower: run.precision"),
        ("auto", T5, GPU, "auto", "padded, not packed, which is slower: this model family"),
        ("no", PAIR_CONFIG, GPU, "no", ""),
        ("yes", PAIR_CONFIG, Device(), "yes", ""),
    ],
)
def test_a_run_packs_where_a_kernel_can(
    packing: str, model: Seq2SeqConfig, device: Device, wanted: str, said: str
) -> None:
    heard: list[str] = []
    settings = TranslateSettings(model=model, data=PairData(packing=packing))  # pyright: ignore[reportArgumentType]
    decided = TASKS["translate"].decided(settings, device, heard.append)
    assert decided.data.packing == wanted
    assert said in "".join(heard) and bool(heard) == bool(said)


def test_packing_a_model_that_cannot_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"^data.packing is yes for a model that cannot read packed pairs, wanted no"):
        TASKS["translate"].decided(TranslateSettings(model=T5, data=PairData(packing="yes")), Device(), [].append)


def test_a_run_that_packs_says_so_in_its_settings_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    rows = "".join(f"the {a} {b} {c}\tel {c} {b} {a}\n" for a in "abcd" for b in "efg" for c in "hijk")
    (tmp_path / "pairs.tsv").write_text(rows)
    settings = {
        "data.path": str(tmp_path / "pairs.tsv"), "data.max_length": 16, "data.tokens_per_batch": 64,
        "data.validation_fraction": 0.1, "tokenizer.kind": "words", "model.dim": 8, "model.layers": 1, "model.heads": 2,
        "model.ffn_dim": 8, "recipe.steps": 6, "recipe.save_every": 2, "recipe.warmup_steps": 1, "recipe.log_every": 2,
        "recipe.evaluate_every": 3, "run.device": "cpu",
    }  # fmt: skip
    plain = prepare_task("translate", settings, out=tmp_path / "plain")
    assert type(plain.data.batches) is PairBatches and plain.objective.uneven, "a CPU pads"
    on_a_gpu = lambda task, settings, device, report: PairTask.decided(task, settings, GPU, report)  # noqa: E731
    monkeypatch.setattr(TranslateTask, "decided", on_a_gpu)
    run = prepare_task("translate", settings, out=tmp_path / "run")
    assert isinstance(run.data.batches, PackedPairBatches) and not run.objective.uneven
    assert type(run.data.validation) is PairBatches
    for log in run.train():
        if log.step == 4:
            break
    assert 'packing = "yes"' in (tmp_path / "run" / "config.toml").read_text()
    monkeypatch.undo()
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    again = train_task("translate", settings, out=tmp_path / "run", resume=True)  # as it was asked for: auto
    assert isinstance(again.data.batches, PackedPairBatches) and again.logs[-1].step == 6
