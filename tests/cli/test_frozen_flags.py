"""Every flag and every key stands in a list that people review, so that none is added by accident."""

from collections.abc import Iterator
from pathlib import Path

from glassformer.cli.main import COMMANDS, app
from glassformer.training.schema import families, keys
from glassformer.training.settings import TASKS

LIST = Path(__file__).with_name("flags.txt")


def flags() -> Iterator[str]:
    """Every flag, first those of all commands."""
    for command, part in {"": app.meta, **{f"{name} ": app[name] for name in sorted(COMMANDS)}}.items():
        names = (name for argument in part.assemble_argument_collection() if argument.parse for name in argument.names)
        yield from (f"glassformer {command}{name}" for name in sorted(names) if name.startswith("--"))


def settings_keys() -> Iterator[str]:
    """Every key of every task, those of the model with their family."""
    for task in TASKS:
        for family in families(task):
            yield from (f"{task} {family}: {key}" for key in keys(task, family) if key.startswith("model."))
        yield from (f"{task}: {key}" for key in keys(task, families(task)[0]) if not key.startswith("model."))


def test_the_list_is_up_to_date() -> None:
    listed = {line for line in LIST.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")}
    found = {*flags(), *settings_keys()}
    missing = "".join(f"\n+ {line}" for line in sorted(found - listed))
    gone = "".join(f"\n- {line}" for line in sorted(listed - found))
    advice = f"if that is meant, write it into {LIST.name} by hand, where it will be reviewed"
    assert found == listed, f"the command line has changed; {advice}:{missing}{gone}"


def test_the_list_would_notice() -> None:
    found = {*flags(), *settings_keys()}
    assert {"glassformer --debug", "glassformer train --dry-run", "glassformer config --preset"} <= found
    assert {"gpt llama: model.kv_heads", "gpt: recipe.steps", "translate: data.target_path"} <= found
    assert not [line for line in found if line.endswith((": model.vocab", ": model.head", ": model.classes"))]
