"""`glassformer equations`: the quick reference in the terminal."""

from glassformer.cli.report import Json, UsageError, did_you_mean, write, write_json, write_table


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

    if json:
        write_json(entries())
        return
    for theme, members in themes().items():
        rows = [(entry.name, entry.latex, entry.meaning) for entry in members]
        write_table(("name", "formula", "meaning"), rows, title=theme)


def _one_equation(name: str, json: bool) -> None:
    from glassformer.views.reference import entries

    found = {entry.name: entry for entry in entries()}
    if name not in found:
        raise UsageError(f"there is no equation {name!r}; {did_you_mean(name, found, 'glassformer equations')}")
    entry = found[name]
    if json:
        write_json(entry)
        return
    write(f"{entry.name}: {entry.meaning}\n\n    {entry.latex}\n\n{entry.summary}\n{entry.intuition}\n")
    rows = [(symbol.name, symbol.role, symbol.shape, symbol.meaning) for symbol in entry.symbols]
    write_table(("symbol", "role", "shape", "meaning"), rows)
    write(f"gradient    {entry.gradient or 'none'}")
    write(f"operations  {entry.flops or 'the sum of its parts'}")
    write(f"fused       {'yes' if entry.fused else 'no'}")
    write(f"written at  {entry.file}:{entry.line}")
