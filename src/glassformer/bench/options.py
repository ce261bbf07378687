"""What a benchmark is asked for, and where it runs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from glassformer.bench.measure import Runner, Say
from glassformer.bench.peers import MissingPeerError
from glassformer.errors import ConfigError
from glassformer.training.device import Device

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What to measure, where and how often; `tiny` shrinks every size, to try a suite out.

    `only` holds names of rows or of peers: where it names rows, only those are measured, and likewise for peers.
    With `until`, whole runs on the text of `data` are timed until their validation loss is that low, each for at most
    `seconds`; the suite `shapes` measures what it can in that time.
    """

    say: Say
    device: Device = field(default_factory=Device)
    peers: Path | None = None
    rounds: int = 5
    only: tuple[str, ...] = ()
    tiny: bool = False
    seed: int = 0
    until: float | None = None
    seconds: float | None = None
    data: Path | None = None
    skipped: list[str] = field(default_factory=list)  # what is left out, and why

    def skip(self, what: str) -> None:
        """Say what is left out, once."""
        if what not in self.skipped:
            self.skipped.append(what)
            self.say(what)

    def row(self, name: str, rows: Iterable[str], default: bool = True) -> bool:
        """Whether a row of a suite is to be measured: one that is named, or where none is, one of the default."""
        named = set(self.only) & set(rows)
        return name in named if named else default

    def runners(self, candidates: dict[str, Callable[[], Runner]]) -> list[Runner]:
        """The first, with which the others are compared, and of those all that are there, or those that are named.

        For a peer that is missing, a line says how to give it; one that is named has to be there.
        """
        first = next(iter(candidates))
        named = set(self.only) & set(candidates)
        found = []
        for name, make in candidates.items():
            if name != first and named and name not in named:
                continue
            try:
                found.append(make())
            except MissingPeerError as error:
                if name in named:
                    raise ConfigError(f"only={name}, but it cannot be measured: {error}") from None
                self.skip(f"{name} is left out: {error}")
        return found


def require_known(only: Iterable[str], known: Iterable[str]) -> None:
    """Raise if something that is asked for is neither a row nor a peer of the suite."""
    if unknown := [name for name in only if name not in set(known)]:
        there = ", ".join(map(repr, dict.fromkeys(known)))
        raise ConfigError(f"only={unknown[0]} is neither a row nor a peer of the suite; there are {there}")
