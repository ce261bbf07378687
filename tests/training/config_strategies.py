"""Values that are right and values that are wrong for a key, and whole choices of them."""

import math
from functools import cache
from types import NoneType
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from glassformer.layers.rotary import ROPE_SCALINGS, RopeScaling
from glassformer.training.registry import TASKS, families, keys

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
WHOLE = st.one_of(st.integers(-3, 3), st.integers(-(2**63) + 1, 2**63 - 1))
NUMBER = st.one_of(st.sampled_from([-1.0, 0.0, 1.0, math.inf]), st.floats(0, 1), st.floats(allow_nan=False))
LIST = st.lists(st.one_of(WHOLE, NUMBER, TEXT), max_size=3)
TABLE = st.dictionaries(TEXT, WHOLE, max_size=2)
ANYTHING = st.one_of(st.booleans(), WHOLE, NUMBER, st.just(math.nan), TEXT, st.datetimes(), st.dates(), LIST, TABLE)


@cache
def right(key: str, kind: object) -> st.SearchStrategy[object]:
    """Values of a type, as TOML has them."""
    whole, number = (WHOLE.filter(lambda n: allowed(key, n)), NUMBER.filter(lambda x: allowed(key, x)))
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    simple = {bool: st.booleans(), int: whole, float: number, str: TEXT, NoneType: st.just("none")}
    if kind in simple:
        return simple[kind]  # pyright: ignore[reportArgumentType]
    if kind is RopeScaling:
        return st.sampled_from(sorted(ROPE_SCALINGS)).flatmap(scaling_tables)
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if get_origin(kind) is tuple and Ellipsis in get_args(kind):
        return st.lists(right(key, get_args(kind)[0]), max_size=3)
    if get_origin(kind) is tuple:
        return st.tuples(*(right(key, part) for part in get_args(kind))).map(list)
    return st.one_of(*(right(key, part) for part in get_args(kind)))


def scaling_tables(kind: str) -> st.SearchStrategy[object]:
    hints = get_type_hints(ROPE_SCALINGS[kind])
    return st.fixed_dictionaries({name: right(name, hint) for name, hint in hints.items()}).map(
        lambda table: {"kind": kind, **table}
    )


def allowed(key: str, number: float) -> bool:
    """Which numbers each key can mean, said again, key by key."""
    name = key.rpartition(".")[2]
    low, high = RANGES.get(name, ("[1", "∞)") if isinstance(number, int) else ("(0", "∞)"))
    above = number >= float(low[1:]) if low[0] == "[" else number > float(low[1:])
    limit = float(high[:-1].replace("∞", "inf"))
    return above and (number <= limit if high[-1] == "]" else number < limit)


RANGES = {
    "keep_checkpoints": ("[2", "∞)"), "seed": ("[0", "∞)"), "patience": ("[0", "∞)"), "layers": ("[0", "4096]"),
    "decoder_layers": ("[0", "4096]"), "position_offset": ("[0", "∞)"), "token_types": ("[0", "∞)"),
    "dropout": ("[0", "1)"), "attention_dropout": ("[0", "1)"), "label_smoothing": ("[0", "1)"),
    "ema_decay": ("[0", "1)"), "min_lr_ratio": ("[0", "1)"), "betas": ("[0", "1)"), "validation_fraction": ("(0", "1)"),
    "warmup_steps": ("[0", "∞)"), "eps": ("[0", "∞)"), "weight_decay": ("[0", "∞)"), "max_grad_norm": ("[0", "∞]"),
    "r_drop": ("[0", "∞)"), "halvings": ("[0", "8]"), "blocks": ("[0", "4096]"), "levels": ("[2", "256]"),
    "caption_dropout": ("[0", "1)"), "text_weight": ("[0", "∞)"), "shift": ("[0", "∞)"), "erase": ("[0", "1)"),
    "cutmix": ("[0", "1)"), "mixup": ("[0", "1)"),
}  # fmt: skip


def is_right(key: str, value: object, kind: object) -> bool:
    """Whether TOML's value is one of a type: said again, without the library that converts."""
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and allowed(key, float(value))
    if kind is int:
        return type(value) is int and allowed(key, value)
    if kind in (bool, str):
        return type(value) is kind
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        if Ellipsis in parts:
            return isinstance(value, list) and all(is_right(key, item, parts[0]) for item in value)
        if not isinstance(value, list) or len(value) != len(parts):
            return False
        return all(is_right(key, item, part) for item, part in zip(value, parts, strict=True))
    if kind is NoneType:
        return value == "none"
    if kind is RopeScaling:
        return False
    return any(is_right(key, value, part) for part in get_args(kind))


TASKS_AND_FAMILIES = st.sampled_from([(task, family) for task in TASKS for family in families(task)])


@st.composite
def choices(draw: st.DrawFn) -> tuple[str, dict[str, object]]:
    """A task and right values for some of its keys; what the recipe checks itself stays as it is."""
    task, family = draw(TASKS_AND_FAMILIES)
    kinds = {key: kind for key, kind in keys(task, family).items() if not key.startswith(("recipe.", "model.family"))}
    chosen = draw(st.lists(st.sampled_from(sorted(kinds)), unique=True, max_size=8))
    return task, {"model.family": family, **{key: draw(right(key, kinds[key])) for key in chosen}}


def nested(values: dict[str, object]) -> dict[str, object]:
    found: dict[str, dict[str, object]] = {}
    for key, value in values.items():
        section, _, name = key.partition(".")
        found.setdefault(section, {})[name] = value
    return dict(found)
