"""`glassformer check`: recompute every worked example."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, get_args

from glassformer.cli.report import Json, named, write, write_json, write_table, write_text
from glassformer.errors import FAILED

if TYPE_CHECKING:
    from glassformer.course.worked.examples import WorkedExample
    from glassformer.course.worked.verdicts import Result

VALUE_WIDTH = 30  # columns for a value in the table
ENTRIES = 12  # of a list that are shown
SIGNIFICANT = 9


def check(example: str | None = None, /, *, json: Json = False) -> int | None:
    """Recompute every worked example: reproduced, rounded or corrected.

    Exits with 1 if a computed value is wrong.

    Parameters
    ----------
    example
        Name of an example, such as gd-x2-iteration-10; checks all if left out.
    """
    from glassformer.course.worked.examples import examples
    from glassformer.course.worked.verdicts import check_all, check_example

    if example is None:
        results = check_all()
        if json:
            write_json(results)
        else:
            _show_results(results)
    else:
        found = named("example", example, {each.id: each for each in examples()}, "check")
        results = [check_example(found)]
        if json:
            write_json(results[0])
        else:
            _show_result(found, results[0])
    return None if all(result.expected_ok for result in results) else FAILED


def _show_results(results: Sequence["Result"]) -> None:
    from glassformer.course.worked.verdicts import Verdict

    for source in dict.fromkeys(result.source for result in results):
        rows = [_row(result) for result in results if result.source == source]
        write_table(("example", "verdict", "value", "in print", "right"), rows, title=source)
    counts = Counter(result.verdict for result in results)
    write(f"{len(results)} examples: {', '.join(f'{counts[verdict]} {verdict}' for verdict in get_args(Verdict))}")


def _row(result: "Result") -> tuple[str, str, str, str, str]:
    """One line of the table, with the printed value that differs most from the computed one."""
    if result.verdict == "wrong":
        return result.id, "WRONG", ", ".join(result.differing), "", f"glassformer check {result.id}"
    if result.farthest is None:
        name, value = next(iter(result.value.items()))
        return result.id, result.verdict, name, "", _cut(_brief(value))
    entry = result.farthest
    claim = isinstance(entry.value, bool) and not isinstance(entry.printed, bool)
    right = _held(bool(entry.value)) if claim else _brief(entry.value)
    return result.id, result.verdict, entry.name, _cut(_brief(entry.printed)), _cut(right)


def _held(truth: bool) -> str:
    return "holds" if truth else "does not hold"


def _cut(text: str) -> str:
    """Text truncated between words to fit its column."""
    return text if len(text) <= VALUE_WIDTH else text[: text.rfind(" ", 0, VALUE_WIDTH)] + " …"


def _brief(value: object) -> str:
    """A value with few digits, a list with few entries."""
    from glassformer.arithmetic import number

    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value, SIGNIFICANT)
    if isinstance(value, list):
        shown = ", ".join(_brief(item) for item in value[:ENTRIES])
        return f"[{shown}, …]" if len(value) > ENTRIES else f"[{shown}]"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_brief(item)}" for key, item in value.items())
    return str(value)


def _show_result(example: "WorkedExample", result: "Result") -> None:
    from glassformer.views.unicode_math import unicode_math

    write(f"{result.id}: {result.verdict}\n{result.source}, {result.section}\n")
    write_text(f"{result.what}\n\n    {unicode_math(result.equation)}\n")
    write_table(("input", "value"), [(key, _brief(value)) for key, value in example.inputs.items()])
    computed = {**{key: _held(truth) for key, truth in result.claims.items()}, **result.value}
    columns = (computed, result.printed or {}, *([example.expected] if result.differing else []))
    names = ("result", "computed", "in print", "expected")[: 1 + len(columns)]
    rows = [(key, *(_brief(values.get(key, "")) for values in columns)) for key in dict.fromkeys(chain(*columns))]
    write_table(names, rows)
    if example.recipe is not None:
        write_text(f"How the printed value came about: {example.recipe.how}.")
    if result.note:
        write_text(result.note)
