"""The whole of a training step's state to a snapshot and back, to the bit."""

import msgspec
import torch
from torch import Tensor

from glassformer.errors import RunFolderError
from glassformer.training.checkpoint_files import Snapshot
from glassformer.training.processes import parted, unsharded
from glassformer.training.run_folder import RunFolder
from glassformer.training.step import Training
from glassformer.training.symptoms import Symptoms


class State(msgspec.Struct):
    """What is neither weight nor moment."""

    tokens: int
    data: dict[str, int]
    random: list[str]
    symptoms: dict[str, object]
    torch: str
    threads: int
    device: str


def take(training: Training) -> Snapshot:
    """A snapshot of a run between two steps; every process has to take part."""
    training.look()
    state = State(
        tokens=int(training.tokens),
        data=training.batches.state(),
        random=training.processes.gather(_random_state(training.hardware.device)),
        symptoms=training.symptoms.state(),
        torch=str(torch.__version__),
        threads=torch.get_num_threads(),
        device=training.hardware.device.type,
    )
    optimizer = training.updates.state() | (training.average.state() if training.average else {})
    weights = {name: unsharded(value.detach()) for name, value in training.model.state_dict().items()}
    return Snapshot(training.done, weights, optimizer, msgspec.to_builtins(state))


def restore(training: Training, snapshot: Snapshot) -> str | None:
    """Go to where a snapshot was taken; a sentence if what follows may differ from the unbroken run."""
    state = msgspec.convert(snapshot.state, State)
    weights = training.model.state_dict()
    training.model.load_state_dict({name: parted(value, weights[name]) for name, value in snapshot.model.items()})
    training.updates.resume(snapshot.optimizer)
    if training.average is not None:
        training.average.resume(snapshot.optimizer)
    training.batches.resume(state.data)
    training.symptoms = Symptoms.resumed(state.symptoms)
    training.done, training.tokens = snapshot.step, torch.full_like(training.tokens, state.tokens)
    here = (str(torch.__version__), torch.get_num_threads(), training.hardware.device.type, training.processes.world)
    there = (state.torch, state.threads, state.device, len(state.random))
    if training.processes.rank < len(state.random):
        _set_random_state(state.random[training.processes.rank], training.hardware.device)
    if here == there:
        return None
    return "this run began with torch {}, {} threads, on {}, in {} processes: it goes on, not to the last bit".format(
        *there
    )


def newest(folder: RunFolder) -> Snapshot | None:
    """The newest whole snapshot; None for a folder that never had one, an error if all of them are broken."""
    found = folder.latest()
    if found is None and any(folder.path.glob("broken-step-*")):
        raise RunFolderError(f"{folder.path}: no checkpoint in it is whole; begin again in another folder")
    return found


def _random_state(device: torch.device) -> str:
    """Torch's generators as text: the processor's, and the device's if it has its own."""
    states = [torch.get_rng_state()] + ([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])
    return " ".join(state.numpy().tobytes().hex() for state in states)


def _set_random_state(text: str, device: torch.device) -> None:
    first, *others = (_bytes(part) for part in text.split())
    torch.set_rng_state(first)
    if others and device.type == "cuda":
        torch.cuda.set_rng_state(others[0], device)


def _bytes(text: str) -> Tensor:
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
