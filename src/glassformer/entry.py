"""What the quick reference says of an equation, as plain data."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Symbol:
    """A letter of an equation: its role, its shape, what it stands for, and its LaTeX if the formula has it."""

    name: str
    role: str
    shape: str
    meaning: str
    written: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One equation of the quick reference."""

    name: str
    theme: str
    latex: str
    meaning: str
    intuition: str
    summary: str
    symbols: tuple[Symbol, ...]
    axes: tuple[str, ...]
    gradient: str | None
    flops: str | None
    fused: bool
    file: str
    line: int
