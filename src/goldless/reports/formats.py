r"""Texts that no format takes for anything else: Markdown, LaTeX, the terminal and spreadsheets.

The LaTeX is in the style of booktabs and compiles with pdfLaTeX and ``\usepackage{booktabs}``. Letters of other scripts
than Latin stay as they are, so those need what such a text needs anyway: XeLaTeX, LuaLaTeX, or a package for them.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

# --- Markdown --------------------------------------------------------------------------------------------------------


def markdown_cell(text: str) -> str:
    """The text on one line, with Markdown and HTML escaped."""
    line = "".join(ch for ch in " ".join(text.split()) if ch.isprintable())
    marked = re.sub(r"[\\|*]", r"\\\g<0>", html.escape(line, quote=False))
    return marked.replace("](", "]\\(")


def code_line(text: str) -> str:
    """The text as code on one line, even if it contains backticks."""
    line = printable(" ".join(text.split()))
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}" if len(fence) > 1 else f"`{line}`"


# --- the terminal ----------------------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """The text without terminal control sequences and bidirectional marks; line breaks stay."""
    if text.isprintable():
        return text
    return "".join(ch for ch in text.expandtabs(1) if ch.isprintable() or ch == "\n")


# --- spreadsheets: a text that would be a formula begins with an apostrophe, which our own readers take off again -----

_FORMULA = "^'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
_NUMBER = r"^[+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?$"
_GUARDED = f"^'+{_FORMULA.removeprefix('^')}"


def guarded(value: object) -> object:
    """A cell; a text that a spreadsheet would compute gets an apostrophe before it."""
    if isinstance(value, str) and re.match(_FORMULA, value) and not re.match(_NUMBER, value):
        return f"'{value}"
    return value


def unguarded(text: str) -> str:
    """The text that was guarded."""
    return text[1:] if re.match(_GUARDED, text) else text


def guarded_frame(frame: pl.DataFrame, change: Callable[[str], object] = guarded) -> pl.DataFrame:
    """The table with all texts guarded for CSV, or by ``unguarded`` as they were; most have none that is."""
    import polars as pl  # noqa: PLC0415 - the helps of verbs load this module, and must be light

    found = [column for column in frame.iter_columns() if column.dtype == pl.String]
    touched = [column.name for column in found if column.str.contains(_FORMULA).any()]
    return frame.with_columns(pl.col(name).map_elements(change, pl.String) for name in touched)


# --- LaTeX -----------------------------------------------------------------------------------------------------------

NEEDS = r"% needs \usepackage{booktabs}"
_SIGNS = r"""
    & \&  % \%  $ \$  # \#  _ \_  { \{  } \}  \ \textbackslash{}  ~ \textasciitilde{}  ^ \textasciicircum{}
    < \textless{}  > \textgreater{}  | \textbar{}  " ''  ` \textasciigrave{}
    → $\rightarrow$  ← $\leftarrow$  ↑ $\uparrow$  ↓ $\downarrow$  ≤ $\leq$  ≥ $\geq$  ≠ $\neq$  ≈ $\approx$
    ± $\pm$  × $\times$  ÷ $\div$  · $\cdot$  ∞ $\infty$  − $-$  … \ldots{}  – --  — ---  ‐ -  ‑ -
    ‘ \textquoteleft{}  ’ \textquoteright{}  “ \textquotedblleft{}  ” \textquotedblright{}  • \textbullet{}
    ° \textdegree{}  § \S{}  ¶ \P{}  © \textcopyright{}  ® \textregistered{}  ™ \texttrademark{}
    € \texteuro{}  £ \pounds{}  µ $\mu$  ¹ \textsuperscript{1}  ² \textsuperscript{2}  ³ \textsuperscript{3}  ⁻ $^{-}$
    α $\alpha$  β $\beta$  γ $\gamma$  δ $\delta$  ε $\epsilon$  κ $\kappa$  λ $\lambda$  μ $\mu$  π $\pi$
    ρ $\rho$  σ $\sigma$  τ $\tau$  χ $\chi$
"""  # noqa: RUF001 - these very characters
SIGNS = dict(zip(_SIGNS.split()[::2], _SIGNS.split()[1::2], strict=True))
"""Characters that LaTeX takes for commands or does not have, and how they are written."""


def latex_text(text: str) -> str:
    """The text on one line with every character taken literally.

    A character for which LaTeX has no sign is written by its number, such as U+1F600; control characters are left out.
    """
    line = "".join(ch for ch in unicodedata.normalize("NFC", " ".join(text.split())) if _is_shown(ch))
    parts = []
    for before, ch in zip(" " + line, line, strict=False):
        known = ch.isascii() or unicodedata.category(ch)[0] in "LM"
        apart = "{}" * (ch == before and ch in "-',")  # two of a kind would be joined to another sign
        parts.append(apart + SIGNS.get(ch, ch if known else f"U+{ord(ch):04X}"))
    return "".join(parts)


def _is_shown(ch: str) -> bool:
    return ch.isprintable() and not unicodedata.name(ch, "").startswith("VARIATION SELECTOR")


def latex_number(text: str) -> str:
    """A figure, with true minus signs and powers of ten."""
    figure = re.sub(r"(?<![\w.])-(?=[\d.])", "$-$", latex_text(text))
    return re.sub(r"(?<=\d)e(?:\+|(-))0*(\d+)", r"$\\times10^{\1\2}$", figure)


def latex_signature(text: str) -> str:
    """A signature in monospace, with line breaks allowed after bars, commas and plus signs."""
    breaking = re.sub(r"\\textbar\{\}|[,+]", r"\g<0>\\allowbreak{}", latex_text(text))
    return rf"\texttt{{{breaking}}}"


def latex_comment(text: str) -> str:
    """The text as a one-line comment."""
    return "% " + "".join(ch for ch in " ".join(text.split()) if _is_shown(ch))


def latex_row(cells: Sequence[str]) -> str:
    """One row; cells are in LaTeX already."""
    line = " & ".join(cells)
    # after the end of a row LaTeX takes a bracket or a star for an argument
    return ("{}" if line.startswith(("[", "*")) else "") + line + r" \\"
