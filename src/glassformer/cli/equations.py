"""`glassformer equations`: the quick reference in the terminal."""

from glassformer.cli.report import Json, UsageError, did_you_mean, write, write_json, write_table, write_text


def equations(name: str | None = None, /, *, json: Json = False) -> None:
    """Show the quick reference, or everything about one equation.

    Parameters
    ----------
    name
        One equation, such as softmax; all of them if left out.
    """
    if name is None:
        _quick_reference(json)
    else:
        _one_equation(name, json)


def _quick_reference(json: bool) -> None:
    from glassformer.views.reference import entries, themes
    from glassformer.views.unicode_math import unicode_math

    if json:
        write_json(entries())
        return
    for theme, members in themes().items():
        rows = [(entry.name, unicode_math(entry.latex), entry.meaning) for entry in members]
        write_table(("name", "formula", "meaning"), rows, title=theme)


def _one_equation(name: str, json: bool) -> None:
    from glassformer.views.reference import entries
    from glassformer.views.unicode_math import unicode_math

    found = {entry.name: entry for entry in entries()}
    if name not in found:
        raise UsageError(f"there is no equation {name!r}; {did_you_mean(name, found, 'glassformer equations')}")
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
    write(f"written at  {entry.file}:{entry.line}")
