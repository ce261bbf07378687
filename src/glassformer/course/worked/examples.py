"""The worked examples as data: inputs, printed values and right values."""

from importlib.resources import files

import msgspec


class PrintedRecipe(msgspec.Struct, frozen=True):
    """How a wrong printed number came about."""

    how: str
    equation: str
    values: dict[str, object]


class WorkedExample(msgspec.Struct, frozen=True, kw_only=True):
    """One example: `expected` is right, `printed` is what its document shows, if anything."""

    id: str
    source: str
    section: str
    what: str
    equation: str
    inputs: dict[str, object]
    expected: dict[str, object]
    printed: dict[str, object] | None
    verdict: str
    note: str
    printed_decimals: dict[str, int] | None = None
    recipe: PrintedRecipe | None = None


def examples() -> list[WorkedExample]:
    """Every example, in the order of the documents."""
    data = files("glassformer.course.worked").joinpath("examples.json").read_bytes()
    return msgspec.json.decode(data, type=list[WorkedExample])
