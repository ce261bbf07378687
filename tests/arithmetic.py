"""Printed arithmetic as Python, for tests that work it out again."""

import re

PYTHON = {"−": "-", "·": "*", "√": "sqrt", "e^": "exp", "∞": "inf", "^": "**", "Φ": "Phi", "π": "pi"}  # in this order


def as_python(text: str) -> str:
    """Printed arithmetic as a Python expression; terms that a long sum does not show are their total."""
    text = re.sub(r"\((\S+) from \d+ more\)", r"(\1)", text)
    for written, python in PYTHON.items():
        text = text.replace(written, python)
    return text
