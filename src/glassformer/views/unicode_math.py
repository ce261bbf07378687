r"""Formulas as plain text for terminals: `\frac{e^{z_i}}{\sum_j e^{z_j}}` becomes `e^zᵢ / Σⱼ e^zⱼ`."""

import functools
import re
import unicodedata

SYMBOLS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "varepsilon": "ε", "zeta": "ζ", "eta": "η",
    "theta": "θ", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ",
    "tau": "τ", "phi": "φ", "varphi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω", "ell": "ℓ", "Gamma": "Γ",
    "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω", "Pi": "Π",
    "odot": "⊙", "cdot": "·", "times": "×", "pm": "±", "bigoplus": "⨁", "sum": "Σ", "prod": "∏", "in": "∈", "cup": "∪",
    "wedge": "∧", "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "ne": "≠", "neq": "≠", "approx": "≈", "sim": "~",
    "to": "→", "leftarrow": "←", "infty": "∞", "partial": "∂", "nabla": "∇", "dots": "…", "ldots": "…", "vdots": "⋮",
    "cdots": "⋯", "varnothing": "∅",
    "top": "⊤", "mid": "|", "langle": "⟨", "rangle": "⟩", "lfloor": "⌊", "rfloor": "⌋", "lVert": "‖", "rVert": "‖",
    "|": "‖", "{": "{", "}": "}", ",": " ", ";": " ", "!": "", "quad": "  ", "textstyle": "", "displaystyle": "",
    "left": "", "right": "",
}  # fmt: skip
FUNCTIONS = {name: name for name in ("arg", "cos", "exp", "lim", "ln", "log", "max", "min", "sin", "tanh")}
FUNCTIONS["bmod"] = "mod"
PLAIN_TEXT = ("text", "operatorname", "mathrm", "mathbf", "mathcal")
DOUBLED = {"1": "𝟙", "E": "𝔼", "R": "ℝ"}
SUPERSCRIPTS = dict(zip("0123456789+−=()intkT⊤*", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁱⁿᵗᵏᵀᵀ*", strict=True))
SUBSCRIPTS = dict(zip("0123456789+−=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True))
SMALL_LETTERS = "".join({*SUPERSCRIPTS.values(), *SUBSCRIPTS.values()}) + "′"
ACCENTS = {"bar": "\u0304", "hat": "\u0302", "tilde": "\u0303", "overline": "\u0305"}
SPACED = tuple("=<>≤≥≠≈~→←∈∪")  # with a space on either side
SIGNS = tuple("+−±")  # likewise between two terms, but not in front of one
LATEX_TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|\s+|.", re.DOTALL)
OPENING, CLOSING = "([⟨⌊", ")]⟩⌋"
SUM = re.compile(r".[+−±]|[=<>≤≥,]")  # what needs brackets above and below a fraction's line
PRODUCT = re.compile(r"[ /·]|\d[^\W\d]|‖‖")  # what needs them below it
FUNCTION_AT_END = re.compile(r"(?:^|[^a-z])(?:arg|cos|erf|exp|lim|ln|log|max|min|sin|tanh)$")
TIDY = (
    (r"(?<=[(\[⟨⌊{]) +| +(?=[)\]⟩⌋},;])", ""),
    (r"‖ ([^‖()=]*?) ‖", r"‖\1‖"),
    (r"(?<!\S)\| ([^|()]*?) \|", r"|\1|"),
    (r"(?<=\S)([·×]) ", r"\1"),
    (r"(?<=[a-z]{3}) − (?=∞)", " −"),  # behind a word it is a sign, not a difference
)


@functools.cache
def unicode_math(latex: str) -> str:
    """A LaTeX formula in Unicode, in one line."""
    text = _Formula(LATEX_TOKEN.findall(latex)).sequence()
    for pattern, tidy in TIDY:
        text = re.sub(pattern, tidy, text)
    return unicodedata.normalize("NFC", text.strip())


class _Formula:
    """A parser that turns the tokens of one formula into text."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.index = tokens, 0
        self.raised = 0  # how many scripts deep; there signs have no spaces

    def sequence(self, *ends: str) -> str:
        """The text up to one of the tokens given, or to the end."""
        text = ""
        while (token := self._peek()) and token not in ends:
            self.index += 1
            piece = self._script(token, text) if token in ("^", "_") else self._piece(token)
            text = _appended(text, piece, spaced=not self.raised)
        return text

    def _piece(self, token: str) -> str:
        if token.isspace():
            return " "
        if token == "{":
            text = self.sequence("}")
            self.index += 1
            return text
        if token.startswith("\\"):
            return self._command(token[1:])
        return {"-": "−", "'": "′"}.get(token, token)

    def _argument(self) -> str:
        """What a command or a script takes: a group, or the next token alone."""
        while self._peek().isspace():
            self.index += 1
        token = self._peek()
        self.index += 1
        return self._piece(token).strip(" ")

    def _command(self, name: str) -> str:
        if name in ("frac", "tfrac"):
            return self._fraction()
        if name == "begin":
            return self._environment()
        if name == "sqrt":
            inside = self._argument()
            return f"√{inside}" if len(_letters(inside)) == 1 else f"√({inside})"
        if name == "mathbb":
            letter = self._argument()
            return DOUBLED.get(letter, letter)
        if name in PLAIN_TEXT and self._peek() != "{":
            return self._argument()
        if name in PLAIN_TEXT:
            start, self.index = self.index + 1, self.tokens.index("}", self.index) + 1
            return "".join(self.tokens[start : self.index - 1])
        if name in ACCENTS:
            plain = (*"⊙‖′ ", *ACCENTS.values())
            return "".join(c if c in plain else c + ACCENTS[name] for c in self._argument())
        return FUNCTIONS.get(name) or SYMBOLS.get(name, name)

    def _fraction(self) -> str:
        over, under = self._argument(), self._argument()
        bare = _outside(under)
        product = PRODUCT.search(bare) and not under.startswith(("Σ", "∂"))
        over = f"({over})" if SUM.search(_outside(over)) else over
        under = f"({under})" if SUM.search(bare) or product else under
        text = f"{over} / {under}" if " " in over + under else f"{over}/{under}"
        if not self._factor_follows():
            return text
        return f"({text}) " if " / " in text else f"{text} "

    def _factor_follows(self) -> bool:
        """Whether a factor follows, which must not look like part of the denominator."""
        rest = [token for token in self.tokens[self.index : self.index + 2] if not token.isspace()]
        following = rest[0] if rest else ""
        signs = ("\\quad", "\\;", "\\right", "\\to", "\\in", "\\le", "\\text", "\\end", "\\odot", "\\\\")
        return following.isalnum() or following == "(" or (following.startswith("\\") and following not in signs)

    def _script(self, mark: str, before: str) -> str:
        self.raised += 1
        text = self._argument()
        self.raised -= 1
        small = SUPERSCRIPTS if mark == "^" else SUBSCRIPTS
        shrinks = all(letter in small for letter in text) and (mark == "_" or len(text) == 1 or not text[-1].isalpha())
        bracketed = len(_letters(text)) > 1 and not text.isalpha() and not re.fullmatch(r"\([^()]*\)", text)
        raised = (
            "".join(small[letter] for letter in text) if shrinks else f"{mark}({text})" if bracketed else mark + text
        )
        apart = FUNCTION_AT_END.search(before) or before.endswith(("Σ", "∏", "⨁"))
        crowded = not shrinks and not raised.endswith(")") and self._peek().isalnum()
        return f"{raised} " if apart or crowded else raised

    def _environment(self) -> str:
        name = self._argument()
        rows: list[list[str]] = [[]]
        while (token := self._peek()) and token != "\\end":
            if token == "\\\\":
                rows.append([])
            if token in ("&", "\\\\"):
                self.index += 1
            rows[-1].append(self.sequence("&", "\\\\", "\\end").strip())
        self.index += 1
        self._argument()
        if name == "cases":
            rows = [[f"{value} {when}" if when == "otherwise" else f"{value} where {when}"] for value, when in rows]
        return f"({'; '.join(', '.join(row) for row in rows)})"

    def _peek(self) -> str:
        return self.tokens[self.index] if self.index < len(self.tokens) else ""


def _appended(text: str, piece: str, spaced: bool) -> str:
    """Put a piece behind a text, with the spaces that belong between the two and no others."""
    last = text[-1:]
    if not piece or (piece == " " and last in ("", *" ∂∇Δ")):
        return text
    if piece.isspace() or (piece[0] == last == " "):
        return text.rstrip(" ") + piece
    between = piece in SIGNS and text.rstrip(" ")[-1:] not in ("", *OPENING, *SPACED, *"{,;−")
    if spaced and (piece in SPACED or between):
        return f"{text.rstrip(' ')}{'' if last in OPENING else ' '}{piece} "
    if FUNCTION_AT_END.search(text.rstrip(" ")) and "/" in _outside(piece):
        return f"{text.rstrip(' ')}({piece.strip()})"
    letter = piece[:1].isalnum() and piece[0] not in SMALL_LETTERS
    if (FUNCTION_AT_END.search(text) and letter) or (piece in FUNCTIONS.values() and last.isalnum()):
        return f"{text} {piece}"
    return text + piece


def _letters(text: str) -> str:
    """A text without its accents, scripts and primes."""
    return "".join(letter for letter in text if not unicodedata.combining(letter) and letter not in SMALL_LETTERS)


def _outside(text: str) -> str:
    """A text without the parts in brackets or between norm bars."""
    depth, kept = 0, ""
    for letter in re.sub(r"‖[^‖]*‖", "‖", text):
        depth += letter in OPENING
        kept += letter if not depth else ""
        depth -= letter in CLOSING
    return kept
