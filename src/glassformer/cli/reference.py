"""`glassformer equations`, `glossary` and `models`: what the library contains."""

from typing import TYPE_CHECKING

from glassformer.cli.report import Json, UsageError, write, write_json, write_table, write_text
from glassformer.suggestions import did_you_mean

if TYPE_CHECKING:
    from glassformer.views.concepts import Concept


def equations(name: str | None = None, /, *, json: Json = False) -> None:
    """List all equations, or show everything about one.

    Parameters
    ----------
    name
        Name of an equation, such as softmax; lists all if left out.
    """
    if name is None:
        _list_equations(json)
    else:
        _show_equation(name, json)


def _list_equations(json: bool) -> None:
    from glassformer.views.reference import entries, themes
    from glassformer.views.unicode_math import unicode_math

    if json:
        write_json(entries())
        return
    for theme, members in themes().items():
        rows = [(entry.name, unicode_math(entry.latex), entry.meaning) for entry in members]
        write_table(("name", "formula", "meaning"), rows, title=theme)


def _show_equation(name: str, json: bool) -> None:
    from glassformer.views.reference import entries
    from glassformer.views.unicode_math import unicode_math

    found = {entry.name: entry for entry in entries()}
    if name not in found:
        raise UsageError(f"there is no equation {name!r}; {did_you_mean(name, found, _listed_by('equations'))}")
    entry = found[name]
    if json:
        write_json(entry)
        return
    formula = unicode_math(entry.latex)
    write_text(f"{entry.name}: {entry.meaning}\n\n    {formula}\n\n{entry.summary}\n{entry.intuition}\n")
    rows = [(symbol.name, symbol.role, symbol.shape, symbol.meaning) for symbol in entry.symbols]
    write_table(("symbol", "role", "shape", "meaning"), rows)
    write_text(f"gradient    {unicode_math(entry.gradient) if entry.gradient else 'none'}")
    write(f"operations  {entry.flops or 'the sum of its parts'}")
    write(f"fused       {'yes' if entry.fused else 'no'}")
    write(f"defined at  {entry.file}:{entry.line}")


def glossary(word: str | None = None, /, *, json: Json = False) -> None:
    """Define the terms of the field, or one of them, with the lessons and equations that show it.

    Parameters
    ----------
    word
        A term, such as logit or "KV cache"; lists all if left out.
    """
    from glassformer.views.concepts import concepts

    if word is not None:
        _show_concept(word, json)
    elif json:
        write_json(concepts())
    else:
        write_table(("term", "meaning"), [(concept.name, concept.meaning) for concept in concepts()])


def _show_concept(word: str, json: bool) -> None:
    concept = _concept(word)
    if json:
        write_json(concept)
        return
    write(f"{concept.name}: {concept.meaning}")
    for lesson in concept.lessons:
        write(f"    glassformer walk {lesson}")
    for equation in concept.equations:
        write(f"    glassformer equations {equation}")


def _concept(word: str) -> "Concept":
    """The entry of a term, whatever its case, hyphens or plural."""
    from glassformer.views.concepts import concepts

    found = {concept.name.casefold().replace("-", " "): concept for concept in concepts()}
    asked = " ".join(word.casefold().replace("_", " ").replace("-", " ").split())
    concept = found.get(asked) or found.get(asked.removesuffix("s"))
    if concept is None:
        raise UsageError(f"there is no entry {word!r}; {did_you_mean(asked, found, _listed_by('glossary'))}")
    return concept


def models(preset: str | None = None, /, *, json: Json = False) -> None:
    """List the model presets, or show one as a tree with shapes and parameter counts.

    Parameters
    ----------
    preset
        Name of a preset, such as gpt2; lists all if left out.
    """
    from glassformer.models.registry import architecture_of, build, presets

    if preset is not None:
        _show_model(preset, json)
        return
    rows = [(name, architecture_of(c), build(c, device="meta").parameter_count()) for name, c in presets().items()]
    if json:
        write_json([{"name": name, "model": kind, "parameters": count} for name, kind, count in rows])
    else:
        write_table(("name", "model", "parameters"), [(name, kind, f"{count:,}") for name, kind, count in rows])


def _show_model(preset: str, json: bool) -> None:
    from glassformer.models.registry import build, presets

    if preset not in presets():
        raise UsageError(f"there is no preset {preset!r}; {did_you_mean(preset, presets(), _listed_by('models'))}")
    model = build(preset, device="meta")
    if json:
        shapes = {name: list(parameter.shape) for name, parameter in model.named_parameters()}
        count = model.parameter_count()
        write_json({"name": preset, "config": presets()[preset], "parameters": count, "shapes": shapes})
    else:
        write(repr(model))


def _listed_by(command: str) -> str:
    return f"`glassformer {command}` lists them all"
