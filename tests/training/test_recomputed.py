"""Activation checkpointing: the same losses, gradients and runs as without, in less memory."""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from glassformer.data.packed_pairs import PackedPairBatches
from glassformer.equation import Equation, no_checks
from glassformer.equations.attention import dropout_attention
from glassformer.equations.regularization import dropout
from glassformer.errors import ConfigError
from glassformer.kernel_calls import MemoryMeter
from glassformer.layers.block import Block
from glassformer.layers.lora import add_lora
from glassformer.layers.model import Model
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.recording import Tape
from glassformer.training import recomputed
from glassformer.training.device import Device
from glassformer.training.loop import train
from glassformer.training.objective import NEXT_TOKEN, LossModule
from glassformer.training.recomputed import RecomputedBlock, blocks_of, keep_activations, recompute_blocks
from glassformer.training.run_folder import RunFolder
from glassformer.training.step import Log
from glassformer.training.text_pairs import NEXT_TARGET_TOKEN
from tests.cases import cases
from tests.models.zoo import ZOO, specimen
from tests.training.tiny_run import CONFIG, PAIR_CONFIG, assert_same_run, batches, held_out, pair_batches, pairs, recipe

AGAIN = Device(activation_checkpointing=True)
WITH_BLOCKS = [name for name in ZOO if blocks_of(build(ZOO[name]))]
DEEP = GPTConfig(vocab=11, context=32, dim=32, layers=12, heads=2, dropout=0.1)
Learned = tuple[Tensor, dict[str, Tensor]]


def with_dropout(model: Model, p: float = 0.3) -> Model:
    """The model with dropout wherever it can have some."""
    for part in model.modules():
        if isinstance(getattr(part, "dropout", None), float):
            part.dropout = p  # pyright: ignore[reportArgumentType]
    return model.train()


def learned(model: Model, run: Callable[[], Tensor], seed: int = 0) -> Learned:
    """A number made of the output, and the gradient of every weight."""
    model.zero_grad()
    torch.manual_seed(seed)
    with no_checks():
        out = run()
        loss = (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum()
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_same(one: Learned, other: Learned) -> None:
    assert torch.equal(one[0], other[0])
    assert one[1].keys() == other[1].keys()
    assert [name for name, value in one[1].items() if not torch.equal(value, other[1][name])] == []


@pytest.mark.parametrize("name", WITH_BLOCKS)
def test_every_model_learns_the_same_to_the_bit(name: str) -> None:
    found = specimen(name, torch.float32)
    model = with_dropout(found.model)
    plain = learned(model, found)
    recompute_blocks(model)
    assert_same(learned(model, found), plain)
    keep_activations(model)
    assert {type(block) for block in blocks_of(model)} == {Block}


@given(
    seed=st.integers(0, 2**20), p=st.floats(0, 0.9), layers=st.integers(1, 3), rows=st.integers(1, 3),
    length=st.integers(1, 6), label_smoothing=st.floats(0, 0.5), rank=st.integers(0, 2),
)  # fmt: skip
@cases(25)
def test_losses_and_gradients_are_the_same_with_any_dropout_and_lora(
    seed: int, p: float, layers: int, rows: int, length: int, label_smoothing: float, rank: int
) -> None:
    model = build(replace(CONFIG, layers=layers, dropout=p), seed)
    if rank:
        add_lora(model, "*attention", rank, 4.0, p)
    ids = torch.randint(11, (rows, length + 1), generator=torch.Generator().manual_seed(seed))
    batch = {"ids": ids[:, :-1], "targets": ids[:, 1:]}
    loss_module = LossModule(model, NEXT_TOKEN).train()
    plain = learned(model, lambda: loss_module(batch, label_smoothing)[0], seed)
    recompute_blocks(model)
    assert_same(learned(model, lambda: loss_module(batch, label_smoothing)[0], seed), plain)


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_packed_texts_learn_the_same(r_drop: float) -> None:
    packed = PackedPairBatches(pairs(), 60, 0, 1, 2, 5)
    how = replace(NEXT_TARGET_TOKEN, longest=packed.longest)
    model = build(replace(PAIR_CONFIG, layers=2, dropout=0.2, attention_dropout=0.3))
    loss_module, batch = LossModule(model, how, r_drop).train(), next(packed)
    plain = learned(model, lambda: loss_module(batch, 0.1)[0])
    recompute_blocks(model)
    assert_same(learned(model, lambda: loss_module(batch, 0.1)[0]), plain)


def test_other_random_numbers_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the tests above can fail."""
    found = specimen("gpt", torch.float32)
    model = with_dropout(found.model)
    plain = learned(model, found)
    checkpoint = recomputed.checkpoint
    monkeypatch.setattr(recomputed, "checkpoint", partial(checkpoint, preserve_rng_state=False))
    recompute_blocks(model)
    with pytest.raises(AssertionError):
        assert_same(learned(model, found), plain)


def drawing_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks as on a GPU, whose random kernels are single calls, and whose generator cannot be asked for its state."""

    def drawn(x: Tensor, p: float, generator: torch.Generator | None = None) -> Tensor:
        return torch.native_dropout(x, p, True)[0]

    def attended(*inputs: Tensor | float | bool | None) -> Tensor:
        *others, p = inputs
        assert isinstance(p, float)
        return drawn(dropout_attention.fn(*others, 0.0), p)  # pyright: ignore[reportArgumentType]

    def refused() -> Tensor:
        raise RuntimeError("the state of the generator cannot be read while a graph is captured")

    monkeypatch.setattr(dropout, "kernel", drawn)
    monkeypatch.setattr(dropout_attention, "kernel", attended)
    monkeypatch.setattr(recomputed, "on_gpu", lambda x: True)
    monkeypatch.setattr(torch, "get_rng_state", refused)


@pytest.mark.parametrize("name", WITH_BLOCKS)
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_what_is_drawn_is_kept_where_the_state_of_the_generator_cannot_be_read(
    name: str, p: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawing_once(monkeypatch)
    found = specimen(name, torch.float32)
    model = with_dropout(found.model, p)
    plain = learned(model, found)
    recompute_blocks(model)
    assert_same(learned(model, found), plain)


def test_blocks_are_computed_twice_and_checked_in_neither_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU's backward pass has a thread of its own, in which the checks of equations are on, and would wait for it."""
    found = specimen("gpt", torch.float32)
    recompute_blocks(found.model.train())
    calls = []
    compute = RecomputedBlock._compute
    monkeypatch.setattr(RecomputedBlock, "_compute", lambda self, *inputs: calls.append(1) or compute(self, *inputs))
    with no_checks():
        loss = found().sum()
    assert len(calls) == 2
    monkeypatch.setattr(Equation, "check", lambda *_args, **_named: pytest.fail("checked"))
    failed: list[BaseException] = []

    def backward() -> None:
        try:
            loss.backward()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=backward)
    thread.start()
    thread.join()
    assert failed == [] and len(calls) == 4


def test_what_is_not_differentiated_and_what_a_tape_records_is_computed_once() -> None:
    found = specimen("gpt", torch.float32)
    with Tape() as plain:
        found()
    recompute_blocks(found.model)
    with Tape() as tape:
        found()
    assert [step.path for step in tape.steps] == [step.path for step in plain.steps]
    with torch.no_grad(), no_checks():
        assert found().grad_fn is None


def peak(again: bool, config: GPTConfig = DEEP) -> int:
    """The most bytes of tensors at once in a forward and a backward pass, beside weights and gradients."""
    model = build(config)
    if again:
        recompute_blocks(model)
    ids = torch.zeros(4, config.context, dtype=torch.long)
    with MemoryMeter() as meter, no_checks():
        loss, _ = LossModule(model, NEXT_TOKEN).train()({"ids": ids, "targets": ids})
        loss.backward()
    return meter.peak - 8 * model.parameter_count()


def test_a_deep_model_takes_a_third_of_the_memory_of_activations() -> None:
    assert peak(again=True) < peak(again=False) / 3
    shallow = replace(DEEP, layers=6)
    slope, less = (peak(again) - peak(again, shallow) for again in (False, True))
    hidden = 4 * 4 * DEEP.context * DEEP.dim  # bytes: what a block keeps is its input
    assert less < 6 * 1.5 * hidden < slope / 5


def go(path: Path | None, device: Device, stop: int | None = None) -> list[Log]:
    folder = None if path is None else RunFolder(path, 2, report=pytest.fail)
    logs = []
    for log in train(build(CONFIG), batches(), NEXT_TOKEN, recipe(), folder, held_out(), device):
        logs.append(log)
        if log.step == stop:
            break
    return logs


def test_a_run_is_the_same_and_goes_on_exactly_with_the_other_setting_too(tmp_path: Path) -> None:
    plain = go(tmp_path / "plain", Device())
    assert go(tmp_path / "again", AGAIN) == plain
    assert_same_run(tmp_path / "again", tmp_path / "plain")
    for name, begun, resumed in (("same", AGAIN, AGAIN), ("on", Device(), AGAIN), ("off", AGAIN, Device())):
        go(tmp_path / name, begun, stop=7)
        torch.manual_seed(5)
        go(tmp_path / name, resumed)
        assert_same_run(tmp_path / name, tmp_path / "plain")


def test_uneven_batches_learn_the_same() -> None:
    losses = []
    for device in (Device(), AGAIN):
        model = build(replace(PAIR_CONFIG, dropout=0.2))
        losses.append([log.loss for log in train(model, pair_batches(), NEXT_TARGET_TOKEN, recipe(), device=device)])
        assert all(type(part) is not RecomputedBlock for part in model.modules())
    assert losses[0] == losses[1]


def test_a_kv_cache_is_used_where_gradients_are_recorded_too() -> None:
    model, ids = build(CONFIG).eval(), torch.arange(6)[None]
    whole = model(ids)
    recompute_blocks(model)
    cache = model.new_cache(1, 6)
    model(ids[:, :4], cache=cache)
    torch.testing.assert_close(model(ids[:, 4:], cache=cache)[:, -1], whole[:, -1])


@pytest.mark.parametrize("name", ["rnn", "mlp", "cnn", "skip-gram"])
def test_a_model_without_blocks_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"run.activation_checkpointing is true, but .* has no Transformer blocks"):
        recompute_blocks(build(ZOO[name]))


def test_every_kind_of_part_that_draws_says_so() -> None:
    """A block asks its parts for `dropout`; one that draws under another name would draw again in the backward pass."""
    for name in WITH_BLOCKS:
        model = build(ZOO[name])
        add_lora(model, "*", 1, 1.0, 0.1)
        for part in model.modules():
            fields = [field for field, value in vars(part).items() if "drop" in field and isinstance(value, float)]
            assert fields in ([], ["dropout"]), f"{name}: {type(part).__name__} has {fields}"
            assert not isinstance(part, nn.Dropout)
