"""`glassformer parity`: compare every intermediate with Hugging Face transformers, and name the first divergence."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from glassformer.cli.named_model import ModelName, preset_called, random_model
from glassformer.cli.output_files import PARITY_MARK, require_free
from glassformer.cli.report import Json, MaybePath, RunStep, UsageError, talk, write, write_json, write_table
from glassformer.errors import FAILED

if TYPE_CHECKING:
    from glassformer.checkpoints.parity import Parity
    from glassformer.layers.model import Model

Dtype = Literal["float64", "float32", "float16", "bfloat16"]
MOST_ROWS = 12  # intermediates in the table, the largest difference first


def parity(
    model: ModelName | None = None,
    /,
    *,
    dtype: Dtype = "float32",
    step: RunStep = None,
    page: MaybePath = None,
    json: Json = False,
) -> int | None:
    """Compare every intermediate of a model with Hugging Face transformers, and name the first divergence.

    Exits with 1 if a difference exceeds the bound. Needs transformers.

    Parameters
    ----------
    model
        Folder or file of a model, or a preset, which has random weights; if left out, a small model of every family,
        in float64 and float32.
    dtype
        Dtype to compute in.
    page
        Also write the table of every family to this Markdown file.
    """
    try:
        import glassformer.checkpoints.parity  # noqa: F401
    except ModuleNotFoundError as error:
        raise UsageError(f'parity needs the package {error.name}: pip install "glassformer[parity]"') from None
    require_free([(page, PARITY_MARK)])
    if model is None:
        return _every_family(page, json)
    if page is not None:
        raise UsageError("--page is a table of every family: leave the model out")
    return _one(model, dtype, step, json)


def _one(name: str, dtype: Dtype, step: int | None, json: bool) -> int | None:
    import torch

    from glassformer.checkpoints.parity import parity as compare

    config = preset_called(name, step)
    if config is not None:
        talk(f"{name} is a preset: it has random weights")
    model = name if config is None else _shaken(random_model(name, config))
    found = compare(model, getattr(torch, dtype), step=step)
    first = found.first_divergence
    if json:
        write_json({"parity": found, "first_divergence": first})
        return None if first is None else FAILED
    worst = sorted(found.differences, key=lambda row: -row.relative)[:MOST_ROWS]
    rows = [(row.native, row.hf, f"{row.largest:.1e}", f"{row.relative:.1e}") for row in worst]
    title = f"{found.family} in {found.dtype}: the {len(rows)} largest of {len(found.differences)} differences"
    write_table(("module", "in transformers", "difference", "relative"), rows, title=title)
    if first is None:
        write(f"all {len(found.differences)} intermediates agree to {found.bound:.0e}")
        return None
    bound = f"wanted at most {found.bound:.0e}"
    write(f"first divergence: {first.native} ({first.hf}) differs by {first.relative:.1e}, {bound}")
    return FAILED


def _shaken(model: "Model") -> "Model":
    """The model with every parameter random, also those that start at zero or one."""
    import torch

    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model


def _every_family(page: Path | None, json: bool) -> int | None:
    import torch

    from glassformer.checkpoints.parity import parity as compare
    from glassformer.checkpoints.parity_configs import PARITY_CONFIGS
    from glassformer.models.registry import build

    found: dict[str, list[Parity]] = {}
    for name, config in PARITY_CONFIGS.items():
        model = _shaken(build(config).eval()).double()
        found[name] = [compare(model, dtype) for dtype in (torch.float64, torch.float32)]
    if json:
        write_json(found)
    else:
        rows = [(name, *(_cell(one) for one in pair), str(len(pair[0].differences))) for name, pair in found.items()]
        write_table(("model", "float64", "float32", "intermediates"), rows)
    if page is not None:
        page.write_text(_markdown(found), encoding="utf-8")
        talk(f"wrote {page}")
    diverged = [name for name, pair in found.items() if any(one.first_divergence for one in pair)]
    for name in diverged:
        talk(f"{name}: {next(one.first_divergence for one in found[name] if one.first_divergence)}")
    return FAILED if diverged else None


def _cell(found: "Parity") -> str:
    return f"{found.worst.relative:.1e}"


def _markdown(found: "dict[str, list[Parity]]") -> str:
    """The table of every family as a page."""
    head = """# Parity with Hugging Face transformers

Made by `glassformer parity --page docs/parity.md`. A small model of every family with random weights is saved
with `gf.save`, loaded by `transformers` and by `gf.load`, and run by both on the same tokens. The numbers are the
largest difference of any intermediate, relative to its largest value or to one: inputs and outputs of queries,
keys, values, attention, norms, feed-forward layers and the head.

The bound is 1e-9 in float64 and 1e-4 in float32. In float64, the parts that transformers keeps in float32 (norms,
rotary tables, softmax, Marian's sinusoids) are upcast, since they would be the only difference.

| model | family | intermediates | float64 | float32 | largest difference in float32 |
| --- | --- | --- | --- | --- | --- |
"""
    lines = [
        f"| {name} | {one.family} | {len(one.differences)} | {_cell(one)} | {_cell(two)} | `{two.worst.native}` |"
        for name, (one, two) in found.items()
    ]
    return head + "\n".join(lines) + "\n"
