"""`glassformer equations`, `glossary` and `models`: what the library contains."""

from typing import TYPE_CHECKING

from glassformer.cli.named_model import LoadOptions, load_named, preset_called
from glassformer.cli.report import Json, UsageError, named, write, write_json, write_table, write_text
from glassformer.suggestions import did_you_mean

if TYPE_CHECKING:
    from glassformer.entry import Entry


def equations(name: str | None = None, /, *, search: str | None = None, json: Json = False) -> None:
    """List all equations, or show everything about one.

    Parameters
    ----------
    name
        Name of an equation, such as softmax; lists all if left out.
    search
        List only equations whose name, meaning or symbols have all of these words, such as "mask attention".
    """
    from glassformer.cli.cached_reference import cached_entries
    from glassformer.views.unicode_math import unicode_math

    if name is not None and search is not None:
        raise UsageError("a name and --search are both given, wanted one of them")
    if name is not None:
        _show_equation(named("equation", name, {each.name: each for each in cached_entries()}, "equations"), json)
        return
    found = [each for each in cached_entries() if search is None or _has_words(each, search)]
    if search is not None and not found:
        raise UsageError(f"no equation has the words {search!r}; `glassformer equations` lists them all")
    if json:
        write_json(found)
        return
    for theme in dict.fromkeys(each.theme for each in found):
        rows = [(each.name, unicode_math(each.latex), each.meaning) for each in found if each.theme == theme]
        write_table(("name", "formula", "meaning"), rows, title=theme)


def _has_words(entry: "Entry", words: str) -> bool:
    """Whether an equation has all of these words, in any form that contains them."""
    symbols = (f"{symbol.name} {symbol.meaning}" for symbol in entry.symbols)
    text = " ".join((entry.name, entry.theme, entry.summary, entry.meaning, entry.intuition, *symbols)).casefold()
    return all(word in text.replace("_", " ") for word in words.casefold().replace("_", " ").split())


def _show_equation(entry: "Entry", json: bool) -> None:
    from glassformer.views.unicode_math import unicode_math

    if json:
        write_json(entry)
        return
    formula = unicode_math(entry.latex)
    write_text(f"{entry.name}: {entry.meaning}\n\n    {formula}\n\n{entry.summary}\n{entry.intuition}\n")
    rows = [(each.name, unicode_math(each.written), each.role, each.shape, each.meaning) for each in entry.symbols]
    write_table(("symbol", "written", "role", "shape", "meaning"), rows)
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

    if word is None:
        if json:
            write_json(concepts())
        else:
            write_table(("term", "meaning"), [(concept.name, concept.meaning) for concept in concepts()])
        return
    found = {concept.name.casefold().replace("-", " "): concept for concept in concepts()}
    asked = " ".join(word.casefold().replace("_", " ").replace("-", " ").split())
    concept = found.get(asked) or found.get(asked.removesuffix("s"))
    if concept is None:
        hint = did_you_mean(asked, found, "`glassformer glossary` lists them all")
        raise UsageError(f"there is no entry {word!r}; {hint}")
    if json:
        write_json(concept)
        return
    write(f"{concept.name}: {concept.meaning}")
    for lesson in concept.lessons:
        write(f"    glassformer walk {lesson}")
    for equation in concept.equations:
        write(f"    glassformer equations {equation}")


def models(model: str | None = None, /, *, json: Json = False) -> None:
    """List the model presets, or show a model as a tree with shapes and parameter counts.

    Parameters
    ----------
    model
        A preset such as gpt2, or the folder or file of a model; lists all presets if left out.
    """
    from glassformer.models.registry import architecture_of, build, presets

    if model is None:
        rows = [(name, architecture_of(c), build(c, device="meta").parameter_count()) for name, c in presets().items()]
        if json:
            write_json([{"name": name, "model": kind, "parameters": count} for name, kind, count in rows])
        else:
            write_table(("name", "model", "parameters"), [(name, kind, f"{count:,}") for name, kind, count in rows])
        return
    config = preset_called(model)
    built = load_named(model, LoadOptions(device="cpu")).model if config is None else build(config, device="meta")
    if json:
        shapes = {name: list(parameter.shape) for name, parameter in built.named_parameters()}
        write_json({"name": model, "config": built.config, "parameters": built.parameter_count(), "shapes": shapes})
    else:
        write(repr(built))
