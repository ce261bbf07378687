"""The whole state of a training run to a snapshot and back, bit by bit."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import msgspec
import torch
from torch import Tensor

from glassformer.data.batches import Batches, require_same_data
from glassformer.errors import CheckpointError, ConfigError, RunFolderError
from glassformer.training.checkpoint_files import Snapshot
from glassformer.training.distributed import sharded_like, unsharded
from glassformer.training.monitor import Monitor
from glassformer.training.run_folder import RunFolder
from glassformer.training.step import Training
from glassformer.training.threads import resume_threads

STEPS = "recipe.steps"  # the one setting that may grow when a run is resumed
TEST = "test"  # among what a run was started with: the identity of its test data
NO_SETTINGS: Mapping[str, object] = MappingProxyType({})


class State(msgspec.Struct):
    """The state that is neither a weight nor a moment."""

    tokens: int
    data: dict[str, int]
    random: list[str]
    monitor: Monitor
    torch: str
    threads: int
    device: str
    validation: dict[str, int] | None = None  # the identity of the validation data
    begun: dict[str, object] = {}  # what the run was started with: settings, and the identity of its test data


def take(training: Training, validation: Batches | None = None, begun: Mapping[str, object] = NO_SETTINGS) -> Snapshot:
    """A snapshot of a run between two steps; every process has to take part."""
    training.raise_if_nonfinite()
    training.require_finite()
    device = training.device.device
    state = State(
        tokens=int(training.tokens),
        data=training.batches.state(),
        random=training.process_group.gather(_random_state(device)),
        monitor=training.monitor,
        torch=str(torch.__version__),
        threads=torch.get_num_threads(),
        device=device.type,
        validation=None if validation is None else validation.identity(),
        begun=dict(begun),
    )
    optimizer = training.optimizers.state() | (training.ema.state() if training.ema else {})
    weights = {name: unsharded(value.detach()) for name, value in training.model.state_dict().items()}
    return Snapshot(training.done, weights, optimizer, msgspec.to_builtins(state))


def restore(
    training: Training, snapshot: Snapshot, validation: Batches | None = None, begun: Mapping[str, object] = NO_SETTINGS
) -> str | None:
    """Restore a snapshot; returns a note if the run may continue differently from an uninterrupted one."""
    try:
        state = msgspec.convert(snapshot.state, State)
    except msgspec.ValidationError as error:
        raise CheckpointError(f"the checkpoint is of another version of glassformer: {error}") from None
    _require_same_settings(state, begun)
    training.batches.resume(state.data)
    _require_same_data(state, validation, begun)
    weights = training.model.state_dict()
    _require_same_shapes(weights, snapshot.model)
    training.model.load_state_dict({n: sharded_like(value, weights[n]) for n, value in snapshot.model.items()})
    training.optimizers.resume(snapshot.optimizer)
    if training.ema is not None:
        training.ema.resume(snapshot.optimizer)
    training.monitor = replace(state.monitor, uniform=training.monitor.uniform)
    training.done, training.tokens = snapshot.step, torch.full_like(training.tokens, state.tokens)
    device, group = training.device.device, training.process_group
    if group.rank < len(state.random):
        _set_random_state(state.random[group.rank], device)
    if device.type == state.device == "cpu":
        resume_threads(state.threads)
    here = (str(torch.__version__), torch.get_num_threads(), device.type, group.world_size)
    there = (state.torch, state.threads, state.device, len(state.random))
    if here == there:
        return None
    began = "this run began with torch {}, {} threads, on {}, in {} processes".format(*there)
    return f"{began}: it goes on, not to the last bit"


def _require_same_settings(state: State, begun: Mapping[str, object]) -> None:
    """Raise where a setting differs from when the run was started."""
    for key, value in begun.items():
        if key == STEPS and int(str(value)) >= int(str(state.begun.get(key, value))):
            continue  # a run may be made longer
        if key != TEST and value != (before := state.begun.get(key, value)):
            change = f"{key} is {value}, but the run was started with {before}"
            raise ConfigError(f"{change}: put it back as it was, or begin another run")


def _require_same_data(state: State, validation: Batches | None, begun: Mapping[str, object]) -> None:
    """Raise where the validation or test data has changed."""
    if validation is not None and state.validation is not None:
        require_same_data(validation.identity(), state.validation, "the validation data")
    if TEST in begun and TEST in state.begun:
        now, before = (msgspec.convert(each[TEST], dict[str, int]) for each in (begun, state.begun))
        require_same_data(now, before, "the test data")


def _require_same_shapes(model: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> None:
    for name in sorted(model.keys() | saved.keys()):
        here, there = (list(each[name].shape) if name in each else "none" for each in (model, saved))
        if here != there:
            raise CheckpointError(f"the checkpoint is of another model: its {name} is {there}, the model's is {here}")


def newest(folder: RunFolder) -> Snapshot | None:
    """The newest whole snapshot; None for a folder that never had one, an error if all of them are broken."""
    found = folder.latest()
    if found is None and any(folder.path.glob("broken-step-*")):
        raise RunFolderError(f"{folder.path}: no checkpoint in it is whole; begin again in another folder")
    return found


def _random_state(device: torch.device) -> str:
    """The states of torch's random generators as text: the CPU's, and the device's if it has its own."""
    states = [torch.get_rng_state()] + ([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])
    return " ".join(state.numpy().tobytes().hex() for state in states)


def _set_random_state(text: str, device: torch.device) -> None:
    first, *others = (torch.frombuffer(bytearray.fromhex(part), dtype=torch.uint8) for part in text.split())
    torch.set_rng_state(first)
    if others and device.type == "cuda":
        torch.cuda.set_rng_state(others[0], device)
