"""Recompute every example, and compare with its document: reproduced, rounding, corrected or stated."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec
import torch

from glassformer.course.worked.comparing import (
    STANDINGS,
    Compared,
    Rule,
    Standing,
    as_data,
    below,
    compare,
    near,
    same,
)
from glassformer.course.worked.examples import WorkedExample, examples
from glassformer.course.worked.recomputing import CLAIMS, STATED_EXAMPLES, Given, recomputations
from glassformer.equation import reference_mode

NETWORK, SATURATION = "linear-regression-vs-network-sin", "unscaled-softmax-saturates"

# Values that are not compared digit by digit, and what is asked of them instead.
RULES: dict[tuple[str, str], Rule] = {
    (SATURATION, "mean_max_weight_unscaled"): near,
    (SATURATION, "mean_max_weight_scaled"): near,
    (NETWORK, "network_mse_min_over_20_seeds"): below("mse_linear"),
    (NETWORK, "network_mse_median"): below("mse_linear"),
    (NETWORK, "network_mse_max"): below("mse_linear"),
}
# The verdicts as the examples record them.
RECORDED: dict[str, Standing] = {"reproduced": "reproduced", "rounding": "rounding", "erratum": "corrected"}
# `stated` is a fact that no computation here gives, `wrong` is an error in this library.
Verdict: TypeAlias = Literal["reproduced", "rounding", "corrected", "stated", "wrong"]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one example: the printed values, the right ones, and whether the computed ones are right."""

    id: str
    source: str
    section: str
    what: str
    equation: str
    verdict: Verdict
    printed: dict[str, object] | None
    value: dict[str, object]
    claims: dict[str, bool]
    farthest: Compared | None
    expected_ok: bool
    differing: list[str]
    note: str


def check_all() -> list[Result]:
    """Recompute every example, in the order of the documents."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the tensors are tiny: threads would mostly wait for each other
    try:
        return [check_example(example) for example in examples()]
    finally:
        torch.set_num_threads(threads)


def check_example(example: WorkedExample) -> Result:
    """Recompute one example by the reference equations and compare; an exception is a wrong answer."""
    values, truths, note = _recomputed(example)
    farthest = compare_with_print(example, values, truths)
    verdict = "reproduced" if farthest is None else farthest.standing
    differing = [key for key in example.expected if not _is_right(example, key, values)]
    if verdict != RECORDED[example.verdict]:
        differing.append("verdict")
    return Result(
        id=example.id,
        source=example.source,
        section=example.section,
        what=example.what,
        equation=example.equation,
        verdict="wrong" if differing else "stated" if example.id in STATED_EXAMPLES else verdict,
        printed=example.printed,
        value={key: values[key] for key in example.expected if key in values},
        claims=truths,
        farthest=farthest,
        expected_ok=not differing,
        differing=differing,
        note=note,
    )


def _recomputed(example: WorkedExample) -> tuple[dict[str, object], dict[str, bool], str]:
    """Values by key, whether each claim in words holds, and a note or an error."""
    recompute, given = recomputations()[example.id], Given(example.inputs, example.printed or {})
    try:
        # By the formula as it is written, not by a fused form of it: the formula is what the documents show.
        with reference_mode(), torch.no_grad():
            answer = recompute(given)
    except Exception as error:  # whatever a broken equation raises, the other examples are still checked
        return {}, {}, f"{type(error).__name__}: {error}"
    values = {key: as_data(value) for key, value in answer.items()}
    return values, msgspec.convert(values.pop(CLAIMS, {}), dict[str, bool]), example.note


def _is_right(example: WorkedExample, key: str, values: Mapping[str, object]) -> bool:
    if key not in values:
        return False
    rule = RULES.get((example.id, key))
    computed, right = values[key], example.expected[key]
    return same(computed, right) if rule is None else rule(computed, right, values)


def compare_with_print(
    example: WorkedExample, values: Mapping[str, object], truths: Mapping[str, bool]
) -> Compared | None:
    """The printed value farthest from the computed one, which decides the verdict; None if nothing is printed."""
    found: list[Compared] = []
    for key, printed in (example.printed or {}).items():
        if key in truths:
            found.append(Compared(key, printed, truths[key], "reproduced" if truths[key] else "corrected"))
        else:
            found.append(compare(key, printed, values.get(key), (example.printed_decimals or {}).get(key)))
    return max(found, key=lambda entry: STANDINGS.index(entry.standing), default=None)
