"""Generate the pages of the equation catalog and of the settings, or with --check name those that are out of date."""

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path

from glassformer.training.explain import explain
from glassformer.training.registry import TASKS, families, keys
from glassformer.views.concepts import Concept, concepts
from glassformer.views.reference import AXES, Entry, entries, themes

DOCS = Path(__file__).parent
SHARED = {  # sections that are alike in all tasks
    "recipe": "How a model is trained.",
    "tokenizer": "A tokenizer to train on the data, or the file of one that exists.",
    "run": "The model to start from, and how a run computes.",
}
NOTICE = "<!-- Written by `make docs` from the source; do not edit. -->"


def main() -> None:
    """Write every page, or only compare."""
    pages = {"equations.md": equations_page(), "glossary.md": glossary_page(), "settings.md": settings_page()}
    if "--check" not in sys.argv[1:]:
        for name, text in pages.items():
            (DOCS / name).write_text(text, encoding="utf-8")
        return
    stale = [name for name, text in pages.items() if not _same(DOCS / name, text)]
    if stale:
        sys.exit(f"out of date: {', '.join(stale)}; run `make docs`")


def equations_page() -> str:
    """Every formula by theme, in the order of the files."""
    lines = [NOTICE, "", "# Equations", ""]
    for theme, members in themes().items():
        lines.append(f"- [{theme}](#theme-{theme}): {', '.join(map(_link_here, members))}")
    for theme, members in themes().items():
        lines += ["", f"## Theme: {theme}", "", _first_line(import_module(f"glassformer.equations.{theme}").__doc__)]
        for entry in members:
            lines += ["", *_section(entry)]
    return "\n".join(lines) + "\n"


def glossary_page() -> str:
    """The terms of the field, then equations, symbols and axes, each in alphabetical order."""
    lines = [NOTICE, "", "# Glossary", ""]
    lines += ["How shapes, positions, masks and dtypes are written: [conventions](conventions.md).", ""]
    lines += ["## Concepts", "", "`glassformer glossary WORD` shows one of them.", "", *map(_concept, concepts())]
    lines += ["", "## Equations", ""]
    for entry in sorted(entries(), key=lambda entry: entry.name):
        words = entry.name.replace("_", " ")
        lines.append(f"- **[{words}](equations.md#{entry.name})**: {entry.meaning} {entry.intuition}".rstrip())
    lines += ["", "## Symbols", "", "The letters of the formulas, as the functions name them.", ""]
    lines += _table(("symbol", "meaning", "where"), _symbols())
    lines += ["", "## Axes", "", "The words in shapes; a star before one stands for any number of such axes.", ""]
    lines += _table(("axis", "what it counts"), _axes())
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    """Every setting: those that all tasks share, then the data of each task, then the model families."""
    lines = [NOTICE, "", "# Settings", ""]
    lines += [
        "`glassformer config TASK` prints those of a task as TOML for `--config`; with a key, it explains that one."
    ]
    lines += ["They are given as `key=value`; a list may be written `0.9,0.95`, and text needs no quotes.", ""]
    for section, meaning in SHARED.items():
        lines += [f"## {section}", "", meaning, "", *_settings("gpt", "gpt", section), ""]
    for task in TASKS:
        lines += [f"## data of {task}", "", f"Without `data.path`, the built-in {TASKS[task].built_in} is used.", ""]
        lines += [*_settings(task, families(task)[0], "data"), ""]
    seen: dict[str, list[str]] = {}
    for task in TASKS:
        for family in families(task):
            seen.setdefault(family, []).append(task)
    for family, tasks in seen.items():
        lines += [f"## model of the family {family}", "", f"For {', '.join(tasks)}.", ""]
        lines += [*_settings(tasks[0], family, "model"), ""]
    return "\n".join(lines)


def _settings(task: str, family: str, section: str) -> list[str]:
    found = [explain(task, family, key) for key in keys(task, family) if key.startswith(f"{section}.")]
    rows = [(f"`{each.key}`", each.meaning, f"`{each.default}`", each.accepts, f"`{each.word}`") for each in found]
    return _table(("key", "meaning", "default", "accepts", "example"), rows)


def _concept(concept: Concept) -> str:
    lessons = [f"`glassformer walk {name}`" for name in concept.lessons]
    equations = [f"[{name}](equations.md#{name})" for name in concept.equations]
    see = f" See {', '.join([*lessons, *equations])}." if lessons or equations else ""
    return f"- **{concept.name}**: {concept.meaning}{see}"


def _section(entry: Entry) -> list[str]:
    lines = [f"### {entry.name}", "", f"$$ {entry.latex} $$", "", entry.meaning]
    if entry.intuition:
        lines += ["", f"*{entry.intuition}*"]
    lines += ["", entry.summary, ""]
    symbols = [
        (f"`{s.name}`", f"${s.written}$" if s.written else "", s.role, f"`{s.shape}`" if s.shape else "", s.meaning)
        for s in entry.symbols
    ]
    lines += _table(("symbol", "written", "role", "shape", "meaning"), symbols)
    if entry.gradient:
        lines += ["", "Gradient:", "", f"$$ {entry.gradient} $$"]
    operations = f"`{entry.flops}`" if entry.flops else "the sum of its parts"
    file = f"src/glassformer/equations/{entry.theme}.py"
    return [*lines, "", f"Operations: {operations}. Written in [{file}](../{file})."]


def _symbols() -> list[tuple[str, str, str]]:
    links: dict[tuple[str, str], list[str]] = {}
    for entry in entries():
        for symbol in entry.symbols:
            links.setdefault((symbol.name, symbol.meaning), []).append(_link(entry))
    ordered = sorted(links, key=lambda key: (key[0].casefold(), key))
    return [(f"`{name}`", meaning, ", ".join(links[name, meaning])) for name, meaning in ordered]


def _axes() -> list[tuple[str, str]]:
    used = sorted({axis for entry in entries() for axis in entry.axes})
    unknown = [axis for axis in used if axis not in AXES]
    if unknown:
        sys.exit(f"no explanation of the axes {', '.join(unknown)}; add them to AXES in glassformer/views/reference.py")
    return [(f"`{axis}`", AXES[axis]) for axis in used]


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_row(columns), _row(["---"] * len(columns)), *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _link(entry: Entry) -> str:
    return f"[{entry.name}](equations.md#{entry.name})"


def _link_here(entry: Entry) -> str:
    return f"[{entry.name}](#{entry.name})"


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]


def _same(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    main()
