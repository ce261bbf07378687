"""`glassformer models`: named models, their sizes and their parts."""

from glassformer.cli.report import Json, UsageError, did_you_mean, write, write_json, write_table


def models(preset: str | None = None, /, *, json: Json = False) -> None:
    """List the named models, or show one as a tree with shapes and parameter counts.

    Parameters
    ----------
    preset
        One named model, such as gpt2; a table of all of them if left out.
    """
    if preset is None:
        _all_models(json)
    else:
        _one_model(preset, json)


def _all_models(json: bool) -> None:
    from glassformer.models.build import build
    from glassformer.models.presets import presets
    from glassformer.models.registry import architecture_of

    rows = [(name, architecture_of(c), build(c, device="meta").parameter_count()) for name, c in presets().items()]
    if json:
        write_json([{"name": name, "model": kind, "parameters": count} for name, kind, count in rows])
    else:
        write_table(("name", "model", "parameters"), [(name, kind, f"{count:,}") for name, kind, count in rows])


def _one_model(preset: str, json: bool) -> None:
    from glassformer.models.build import build
    from glassformer.models.presets import presets

    if preset not in presets():
        raise UsageError(f"there is no model {preset!r}; {did_you_mean(preset, presets(), 'glassformer models')}")
    model = build(preset, device="meta")
    if json:
        shapes = {name: list(parameter.shape) for name, parameter in model.named_parameters()}
        write_json(
            {"name": preset, "config": presets()[preset], "parameters": model.parameter_count(), "shapes": shapes}
        )
    else:
        write(repr(model))
