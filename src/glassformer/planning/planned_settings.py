"""What a plan takes of the settings of a run, and what it leaves out."""

from collections.abc import Mapping

from glassformer.training.settings import Settings

BATCH = ("batch_size", "pairs_per_batch")  # settings of data that say how many rows a batch has
LENGTH = ("max_length", "length", "context")  # and how many tokens each has
PLANNED_PRECISIONS = ("float32", "bfloat16")


def usual_of(settings: Settings) -> Mapping[str, int | str]:
    """What a plan takes of settings unless it is told otherwise."""
    data, recipe, run = vars(settings.data), settings.recipe, settings.run
    usual: dict[str, int | str] = {
        "optimizer": recipe.optimizer,
        "strategy": run.strategy,
        "activation_checkpointing": run.activation_checkpointing,
        "gradient_accumulation": recipe.gradient_accumulation,
        "ema": recipe.ema_decay > 0,
    }
    if run.precision in PLANNED_PRECISIONS:
        usual["dtype"] = run.precision
    for key, names in (("batch", BATCH), ("length", LENGTH)):
        if found := [data[name] for name in names if isinstance(data.get(name), int)]:
            usual[key] = found[0]
    if "batch" not in usual and "tokens_per_batch" in data and "length" in usual:
        usual["batch"] = max(data["tokens_per_batch"] // int(usual["length"]), 1)
    return usual


def notes_of(settings: Settings) -> tuple[str, ...]:
    """The settings that a plan leaves out, and what they would change."""
    recipe, run = settings.recipe, settings.run
    found: list[str] = []
    if recipe.r_drop:
        found.append("recipe.r_drop is not planned: its second pass takes about twice the activations and the time")
    if settings.lora.rank:
        found.append("lora.rank is not planned: these are figures of full training")
    if run.freeze:
        found.append("run.freeze is not planned: these are figures of training every parameter")
    if run.precision == "float8":
        found.append("run.precision is float8 and is planned as auto: its products take less time")
    return tuple(found)
