"""Written arithmetic, such as `(0.1·1 − 0.2·3) / √(2)`, as LaTeX."""

import re

_WORDS = ("max", "min", "tanh", "sin", "cos", "ln")
_SIGNS = {"·": r" \cdot ", "−": "-", "∞": r"\infty ", "π": r"\pi ", "Φ": r"\Phi "}
_POWER = re.compile(r"(?<=\d)e(-?\d+)")
_IN_WORDS = re.compile(r"\(from ([^)]*)\)|\((\S+) from (\d+) more\)")


def arithmetic_latex(text: str) -> str:
    """LaTeX of a text that the library writes for one number."""
    latex = _braced(_IN_WORDS.sub(_said, text))
    for word in _WORDS:
        latex = re.sub(rf"(?<![\w\\{{]){word}\(", rf"\\{word}(", latex)
    latex = re.sub(r"(?<![\w\\{])(abs|nan)\b", r"\\operatorname{\1}", latex)
    latex = _POWER.sub(r" \\cdot 10^{\1}", latex)
    for sign, command in _SIGNS.items():
        latex = latex.replace(sign, command)
    return latex


def _said(match: re.Match[str]) -> str:
    if match[1] is not None:
        return r"\text{ (from " + match[1].replace("_", r"\_") + ")}"
    return rf"({match[2]} \text{{ from {match[3]} more}})"


def _braced(text: str) -> str:
    """Roots and powers with braces instead of brackets."""
    while found := re.search(r"√\(|\^\(", text):
        start, depth = found.end(), 1
        end = start
        while end < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        command = r"\sqrt{" if found[0][0] == "√" else "^{"
        text = f"{text[: found.start()]}{command}{text[start : end - 1]}}}{text[end:]}"
    return text
