"""Older names of settings and of their values, which are answered with the names they have now."""

from collections.abc import Collection, Mapping

from glassformer.checkpoints.native import RENAMED_FIELDS
from glassformer.training.schema import shown

OLD_NAMES = {  # of keys in older settings files, and their names now
    "data": {
        "second": "target_path", "validation_second": "validation_target_path", "test_second": "test_target_path",
        "beam": "num_beams", "share": "validation_fraction", "longest": "max_length", "tokens": "tokens_per_batch",
        "batch": "batch_size", "length": "max_length", "sequence_length": "max_length",
    },
    "tokenizer": {"vocab": "vocab_size"},
    "model": RENAMED_FIELDS,
    "recipe": {
        "rate": "learning_rate", "warmup": "warmup_steps", "floor": "min_lr_ratio", "decay": "weight_decay",
        "clip": "max_grad_norm", "smoothing": "label_smoothing", "agreement": "r_drop",
        "accumulate": "gradient_accumulation", "average": "ema_decay", "average_last": "average_checkpoints",
    },
    "run": {"compiled": "compile", "sharing": "strategy", "keep": "keep_checkpoints"},
}  # fmt: skip
RENAMED = {f"{part}.{old}": f"{part}.{new}" for part, names in OLD_NAMES.items() for old, new in names.items()}
RENAMED_VALUES = {
    "run.precision": {"fp32": "float32", "bf16": "bfloat16"},
    "run.strategy": {"copies": "ddp", "shards": "fsdp"},
}


def renamed(given: Mapping[str, object], known: Collection[str]) -> str | None:
    """What older keys and values are called now, all of them in one sentence; None if there are none.

    `known` are the keys of the task: a key that another task has is not called renamed.
    """
    names = {key: RENAMED[key] for key in given if RENAMED.get(key) in known}
    values: dict[str, str] = {}
    for key, value in given.items():
        now = RENAMED_VALUES.get(RENAMED.get(key, key), {})
        if isinstance(value, str) and value in now:
            values[f"{key}={shown(value)}"] = shown(now[value])
    if len(names) == 1 and not values:
        (key,) = names
        return f"unknown setting {key}: it is now {names[key]}"
    return ", ".join(f"{old} is now {new}" for old, new in (names | values).items()) or None
